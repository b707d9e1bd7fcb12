// From totals to rates, shares and percentiles: the last two minutes of a node.
"use strict";

/** Seconds that charts show. */
export const KEPT = 120;
/** Seconds that percentiles and shares look back. */
export const WINDOW = 10;

/** Snapshots of the last few seconds, and what the charts are drawn from. */
export class History {
  constructor() {
    this.raw = [];
    this.points = [];
  }

  /** Takes a snapshot in and returns what is known now. */
  add(snapshot) {
    const last = this.raw.at(-1);
    // Another process, or a clock that was set: what was counted before says nothing.
    if (last && (snapshot.up_s < last.up_s || snapshot.t <= last.t)) [this.raw, this.points] = [[], []];
    this.raw.push(snapshot);
    if (this.raw.length > WINDOW + 1) this.raw.shift();
    const now = derive(this.raw.at(-2), snapshot, this.raw[0]);
    this.points.push({ t: snapshot.t, ...now.point });
    if (this.points.length > KEPT) this.points.shift();
    return { snapshot, ...now, points: this.points };
  }
}

const minus = (now, before) => now.map((n, at) => n - (before?.[at] ?? 0));
const total = (counts) => counts.reduce((sum, n) => sum + n, 0);

/** The value below which `part` of all lie, from counts per bucket; `null` if there are none. */
export function percentile(counts, bounds, part) {
  const all = total(counts);
  if (all === 0) return null;
  let rank = part * all;
  for (let at = 0; at < counts.length; at += 1) {
    if (rank <= counts[at] && counts[at] > 0) {
      const [from, to] = [at === 0 ? 0 : bounds[at - 1], bounds[at] ?? bounds.at(-1)];
      return from + (to - from) * (rank / counts[at]);
    }
    rank -= counts[at];
  }
  return bounds.at(-1);
}

function derive(before, now, old) {
  const seconds = before ? (now.t - before.t) / 1000 : 0;
  const window = now === old ? 0 : (now.t - old.t) / 1000;
  const per = (n, time) => (time > 0 ? n / time : 0);
  const boundsMs = now.latency_bounds_us.map((us) => us / 1000);
  const key = (route) => `${route.service} ${route.route}`;
  const find = (snapshot) => new Map((snapshot?.routes ?? []).map((route) => [key(route), route]));
  const [routesBefore, routesOld] = [find(before), find(old)];

  const routes = now.routes.map((route) => {
    const lately = window ? minus(route.latency, routesOld.get(key(route))?.latency) : route.latency.map(() => 0);
    const status = before ? minus(route.status, routesBefore.get(key(route))?.status) : [0, 0, 0, 0, 0];
    return {
      ...route,
      lately,
      rate: per(total(lately), window),
      status_rate: status.map((n) => per(n, seconds)),
      p50: percentile(lately, boundsMs, 0.5),
      p99: percentile(lately, boundsMs, 0.99),
    };
  });
  // Operators' own requests, this page's among them, are not traffic.
  const traffic = routes.filter((route) => route.service !== "admin");
  const sum = (of) => traffic.reduce((sums, route) => of(route).map((n, at) => n + (sums[at] ?? 0)), []);
  const lately = sum((route) => route.lately);
  const status = sum((route) => route.status_rate);

  const services = Object.fromEntries(Object.entries(now.services).map(([name, service]) => {
    const [then, longAgo] = [before?.services[name], old?.services[name]];
    const dropped = Object.fromEntries(Object.entries(service.queues).map(([queue, [, drops]]) =>
      [queue, per((drops ?? 0) - (longAgo?.queues[queue]?.[1] ?? 0), window)]));
    const refused = rates(service.rejected, longAgo?.rejected, window);
    return [name, {
      ...service,
      dropped,
      refused,
      refused_now: total(Object.values(rates(service.rejected, then?.rejected, seconds))),
      rate: total(routes.filter((route) => route.service === name).map((route) => route.rate)),
    }];
  }));
  const refused = {};
  for (const [name, service] of Object.entries(services)) {
    if (name === "admin") continue;
    for (const [reason, n] of Object.entries(service.refused)) refused[reason] = (refused[reason] ?? 0) + n;
  }
  const tenants = tenantsOf(now, before, old, seconds, window);
  const outside = Object.entries(services).filter(([name]) => name !== "admin");
  const served = servedLately(tenants, now.gateway) ?? { counts: lately, bounds: boundsMs };
  const point = {
    answered: (status[0] ?? 0) + (status[1] ?? 0) + (status[2] ?? 0),
    refused: total(outside.map(([, service]) => service.refused_now)),
    status,
    p50: percentile(served.counts, served.bounds, 0.5),
    p99: percentile(served.counts, served.bounds, 0.99),
    waiting: now.gateway?.slots.waiting ?? 0,
    inside: total((now.gateway?.slots.classes ?? []).map((of) => of.inside)),
    hits: per((now.edge?.hits ?? 0) - (before?.edge?.hits ?? 0), seconds),
    misses: per((now.edge?.misses ?? 0) - (before?.edge?.misses ?? 0), seconds),
    tenants: Object.fromEntries(tenants.map((tenant) => [tenant.id, {
      share: tenant.share_now, p99: tenant.p99, rate: tenant.rate_now, refused: tenant.refused_now,
    }])),
  };
  return { routes, services, refused, tenants, point, boundsMs, window, lately: { p50: point.p50, p99: point.p99, rate: per(total(lately), window) } };
}

function rates(now, before, time) {
  const each = Object.entries(now).map(([reason, n]) => [reason, time > 0 ? (n - (before?.[reason] ?? 0)) / time : 0]);
  return Object.fromEntries(each.filter(([, n]) => n > 0));
}

/** The tenants with what they got of the slots, beside what they were due. */
function tenantsOf(now, before, old, seconds, window) {
  const gateway = now.gateway;
  if (!gateway) return [];
  const id = (tenant) => `${tenant.class} ${tenant.name}`;
  const find = (snapshot) => new Map((snapshot?.gateway?.tenants ?? []).map((tenant) => [id(tenant), tenant]));
  const [then, longAgo] = [find(before), find(old)];
  const capacity = gateway.slots.slots * 1000;
  const all = gateway.tenants.map((tenant) => {
    const [last, first] = [then.get(id(tenant)), longAgo.get(id(tenant))];
    const latency = window && first ? minus(tenant.latency, first.latency) : tenant.latency.map(() => 0);
    const per = (n, from, time) => (time > 0 && from !== undefined ? Math.max(n - from, 0) / time : 0);
    return {
      ...tenant,
      id: id(tenant),
      rate: per(tenant.served, first?.served, window),
      rate_now: per(tenant.served, last?.served, seconds),
      share: per(tenant.slot_ms, first?.slot_ms, window) / capacity,
      share_now: per(tenant.slot_ms, last?.slot_ms, seconds) / capacity,
      refusals: first ? rates(tenant.refused, first.refused, window) : {},
      refused_now: last ? total(Object.values(rates(tenant.refused, last.refused, seconds))) : 0,
      lately: latency,
      p50: percentile(latency, gateway.latency_bounds_ms, 0.5),
      p99: percentile(latency, gateway.latency_bounds_ms, 0.99),
    };
  });
  return withDue(all, gateway.slots.classes);
}

/** How long requests took that were served and not refused; `null` if nobody can tell. */
function servedLately(tenants, gateway) {
  const counts = tenants.reduce((sums, tenant) => tenant.lately.map((n, at) => n + (sums[at] ?? 0)), []);
  return total(counts) > 0 ? { counts, bounds: gateway.latency_bounds_ms } : null;
}

/** Adds what each tenant is due while all of them ask: its weight in its class, of its class's weight among classes. */
function withDue(tenants, classes) {
  const asking = tenants.filter((tenant) => tenant.rate > 0 || tenant.waiting > 0 || Object.keys(tenant.refusals).length > 0);
  const weights = new Map(classes.map((of) => [of.name, of.weight]));
  const present = new Set(asking.map((tenant) => tenant.class));
  const ofClasses = total([...present].map((name) => weights.get(name) ?? 1));
  const inClass = (name) => total(asking.filter((tenant) => tenant.class === name).map((tenant) => tenant.weight));
  return tenants.map((tenant) => ({
    ...tenant,
    due: asking.includes(tenant) ? ((weights.get(tenant.class) ?? 1) / ofClasses) * (tenant.weight / inClass(tenant.class)) : 0,
  }));
}
