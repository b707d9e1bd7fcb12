-- Gives out tokens of the limit KEYS[1] (GCRA): up to ARGV[3] of them, with ARGV[1] microseconds between two at the
-- steady rate, and ARGV[2] microseconds for a used-up burst to come back. The time is the server's, so that the clocks of
-- gateways do not matter. The key holds the theoretical arrival time and expires with it; what is none is replaced.
-- Returns how many were given out, how many are left, and the microseconds until there is one more.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local interval, window, wanted = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local kept = redis.pcall('GET', KEYS[1])
local tat = type(kept) == 'string' and tonumber(kept) or now
local owed = math.min(math.max(tat - now, 0), window)
local tokens = math.min(wanted, math.floor((window - owed) / interval + 0.000001))
if tokens > 0 then
    owed = math.min(owed + tokens * interval, window)
    redis.call('SET', KEYS[1], string.format('%.0f', math.ceil(now + owed)), 'PX', string.format('%.0f', math.ceil(owed / 1000)))
end
local free = window - owed
return { tokens, math.floor(free / interval + 0.000001), math.ceil(math.max(interval - free, 0)) }
