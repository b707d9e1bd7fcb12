//! What a process has used, and how long things took.

use std::{
    fs,
    sync::LazyLock,
    time::{Duration, Instant},
};

use crate::Outcome;

/// The kernel counts in hundredths of a second.
const TICK_US: u64 = 10_000;

static START: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Nanoseconds since some moment of this process.
pub(crate) fn now() -> u64 {
    u64::try_from(START.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// User and system microseconds of a process.
pub(crate) fn cpu_us(pid: &str) -> Outcome<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<u64>().ok()).ok_or("no such field");
    Ok((ticks(11)? + ticks(12)?) * TICK_US)
}

/// Resident memory of a process.
pub(crate) fn rss_kib(pid: &str) -> Outcome<i64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("no VmRSS")?;
    Ok(line.split_whitespace().next().unwrap_or_default().parse()?)
}

/// Milliseconds that a part of what was measured did not exceed.
pub(crate) fn quantile_ms(sorted: &[u64], part: f64) -> f64 {
    let at = ((sorted.len().saturating_sub(1)) as f64 * part) as usize;
    sorted.get(at).map_or(0.0, |nanos| Duration::from_nanos(*nanos).as_secs_f64() * 1e3)
}
