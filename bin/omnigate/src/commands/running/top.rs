//! `omnigate top`: the requests of a running node each second, redrawn on a terminal, one line for each look elsewhere.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    io::{self, IsTerminal},
    time::Duration,
};

use serde_json::{Value, json};

use super::page;
use crate::{
    commands::{
        self,
        overlay::{admin_client::AdminClient, list_of, number_of, text_of},
    },
    failure::Failure,
};

/// Puts the cursor into the upper left corner and clears the screen.
const REDRAW: &str = "\x1b[H\x1b[2J";
/// Rows of each table.
const ROWS: usize = 12;

/// Looks until Ctrl-C, or `count` times.
pub(super) fn run(
    client: &AdminClient,
    interval: Duration,
    count: Option<u64>,
    as_json: bool,
) -> Result<(), Failure> {
    let is_terminal = io::stdout().is_terminal();
    let mut before = client.get("/status")?;
    let mut left = count;
    while left != Some(0) {
        super::pause(interval);
        let now = client.get("/status")?;
        let view = View::between(&before, &now);
        commands::print(&match (as_json, is_terminal) {
            (true, _) => format!("{}\n", view.json(&now)),
            (false, true) => format!("{REDRAW}{}", view.page(&now)),
            (false, false) => view.line(&now),
        })?;
        before = now;
        left = left.map(|left| left - 1);
    }
    Ok(())
}

/// What happened between two looks, each second.
struct View {
    routes: Vec<Rate>,
    tenants: Vec<Rate>,
    bounds_us: Vec<u64>,
}

/// What was answered for one route or one tenant.
struct Rate {
    name: String,
    per_sec: f64,
    /// Answers of the server's fault, of a route; refusals, of a tenant.
    bad_per_sec: f64,
    now: u64,
    latency: Vec<u64>,
}

impl View {
    fn between(before: &Value, now: &Value) -> Self {
        let millis = number_of(now, "t").saturating_sub(number_of(before, "t")).max(1);
        let seconds = millis as f64 / 1000.0;
        let key = |route: &Value| format!("{} {}", text_of(route, "service"), text_of(route, "route"));
        let earlier: BTreeMap<String, &Value> =
            list_of(before, "routes").map(|route| (key(route), route)).collect();
        let routes =
            list_of(now, "routes").filter(|route| text_of(route, "service") != "admin").map(|route| {
                let before = earlier.get(&key(route)).copied().unwrap_or(&Value::Null);
                let latency = grown(&page::counts(&before["latency"]), &page::counts(&route["latency"]));
                let failed = |route: &Value| page::status_class(route, 5);
                Rate {
                    name: text_of(route, "route").to_owned(),
                    per_sec: latency.iter().sum::<u64>() as f64 / seconds,
                    bad_per_sec: failed(route).saturating_sub(failed(before)) as f64 / seconds,
                    now: number_of(route, "inflight"),
                    latency,
                }
            });
        let tenants = tenants(before, now, seconds);
        let bounds_us = page::counts(&now["latency_bounds_us"]);
        Self { routes: busiest_first(routes.collect()), tenants: busiest_first(tenants), bounds_us }
    }

    /// All routes together.
    fn total(&self) -> Rate {
        let mut latency = Vec::new();
        for route in &self.routes {
            latency.resize(latency.len().max(route.latency.len()), 0);
            latency.iter_mut().zip(&route.latency).for_each(|(sum, count)| *sum += count);
        }
        let sum = |of: fn(&Rate) -> f64| self.routes.iter().map(of).sum();
        Rate {
            name: "all".to_owned(),
            per_sec: sum(|route| route.per_sec),
            bad_per_sec: sum(|route| route.bad_per_sec),
            now: self.routes.iter().map(|route| route.now).sum(),
            latency,
        }
    }

    /// One line that says the most important.
    fn line(&self, seen: &Value) -> String {
        let at = Duration::from_millis(number_of(seen, "t"));
        let (total, failing) = (self.total(), failing(seen));
        let time = humantime::format_rfc3339_seconds(std::time::UNIX_EPOCH + at);
        let ready = text_of(&seen["ready"], "status");
        let p99 = page::p99(&total.latency, &self.bounds_us);
        let down: Vec<String> = failing.iter().map(|(server, _)| server.clone()).collect();
        let down = if down.is_empty() { String::new() } else { format!("  not used: {}", down.join(", ")) };
        format!(
            "{time}  {ready}  {:.0} req/s  {:.0} 5xx/s  p99 {p99}  {} now{down}\n",
            total.per_sec, total.bad_per_sec, total.now
        )
    }

    fn page(&self, seen: &Value) -> String {
        let mut page = page::heading(seen);
        let total = self.total();
        // Writing to a string does not fail.
        let _ = writeln!(page, "\n{:<40} {:>9} {:>9} {:>6} {:>9}", "ROUTE", "REQ/S", "5XX/S", "NOW", "P99");
        for rate in std::iter::once(&total).chain(self.routes.iter().take(ROWS)) {
            let p99 = page::p99(&rate.latency, &self.bounds_us);
            let name = cut(&rate.name, 40);
            let _ = writeln!(
                page,
                "{name:<40} {:>9.0} {:>9.0} {:>6} {p99:>9}",
                rate.per_sec, rate.bad_per_sec, rate.now
            );
        }
        if !self.tenants.is_empty() {
            let _ = writeln!(page, "\n{:<40} {:>9} {:>9} {:>6}", "TENANT", "SERVED/S", "REFUSED/S", "WAIT");
        }
        for rate in self.tenants.iter().take(ROWS) {
            let name = cut(&rate.name, 40);
            let _ =
                writeln!(page, "{name:<40} {:>9.0} {:>9.0} {:>6}", rate.per_sec, rate.bad_per_sec, rate.now);
        }
        let failing = failing(seen);
        if !failing.is_empty() {
            page.push_str("\nSERVERS THAT ARE NOT USED\n");
        }
        for (server, error) in failing {
            let _ = write!(page, "{server}\n{error}");
        }
        page
    }

    fn json(&self, seen: &Value) -> Value {
        let one = |rate: &Rate| {
            json!({
                "name": rate.name,
                "per_sec": rate.per_sec.round(),
                "bad_per_sec": rate.bad_per_sec.round(),
                "now": rate.now,
            })
        };
        let all = |rates: &[Rate]| rates.iter().map(one).collect::<Vec<_>>();
        let total = self.total();
        json!({
            "t": seen["t"],
            "ready": seen["ready"]["status"],
            "req_per_sec": total.per_sec.round(),
            "routes": all(&self.routes),
            "tenants": all(&self.tenants),
            "not_used": failing(seen).into_iter().map(|(server, _)| server).collect::<Vec<_>>(),
        })
    }
}

fn tenants(before: &Value, now: &Value, seconds: f64) -> Vec<Rate> {
    let refused = |tenant: &Value| -> u64 {
        tenant["refused"].as_object().into_iter().flatten().filter_map(|(_, count)| count.as_u64()).sum()
    };
    let earlier: BTreeMap<&str, &Value> =
        list_of(&before["gateway"], "tenants").map(|tenant| (text_of(tenant, "name"), tenant)).collect();
    let rates = list_of(&now["gateway"], "tenants").map(|tenant| {
        // One that was not listed before may have been served for long: its rate is known with the next look.
        let before = earlier.get(text_of(tenant, "name")).copied().unwrap_or(tenant);
        let served = number_of(tenant, "served").saturating_sub(number_of(before, "served"));
        Rate {
            name: page::plain(text_of(tenant, "name")),
            per_sec: served as f64 / seconds,
            bad_per_sec: refused(tenant).saturating_sub(refused(before)) as f64 / seconds,
            now: number_of(tenant, "waiting"),
            latency: Vec::new(),
        }
    });
    rates.collect()
}

/// Servers that get no requests, each with its last failure.
fn failing(seen: &Value) -> Vec<(String, String)> {
    let upstreams = list_of(&seen["gateway"], "upstreams");
    let servers = upstreams.flat_map(|upstream| {
        let unused = list_of(upstream, "servers").filter(|server| text_of(server, "state") != "usable");
        unused.map(move |server| {
            let name = format!("{} {}", text_of(upstream, "name"), text_of(server, "endpoint"));
            (name, page::last_error(&server["last_error"]))
        })
    });
    servers.collect()
}

fn grown(before: &[u64], now: &[u64]) -> Vec<u64> {
    let before = before.iter().copied().chain(std::iter::repeat(0));
    now.iter().zip(before).map(|(now, before)| now.saturating_sub(before)).collect()
}

fn busiest_first(mut rates: Vec<Rate>) -> Vec<Rate> {
    rates.sort_by(|one, other| other.per_sec.total_cmp(&one.per_sec));
    rates
}

fn cut(name: &str, width: usize) -> String {
    name.chars().take(width).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(t: u64, answered: [u64; 2], failed: u64) -> Value {
        let route = |name: &str, count: u64, failed: u64| {
            json!({ "service": "gateway", "route": name, "status": [0, count, 0, 0, failed],
                    "latency": [count, 0], "inflight": 1 })
        };
        let server = json!({ "endpoint": "http://10.0.0.1:80", "state": "open",
            "last_error": { "cause": "it refused the connection", "ago_ms": 5_000, "count": 3 } });
        json!({ "t": t, "node": "n", "version": "1", "phase": "running", "ready": { "status": "ready" },
            "latency_bounds_us": [1_000],
            "routes": [route("quiet", answered[0], 0), route("busy", answered[1], failed)],
            "gateway": { "upstreams": [{ "name": "app", "servers": [server] }], "tenants": [] } })
    }

    #[test]
    fn rates_are_what_was_answered_between_two_looks_and_the_busiest_comes_first() {
        let (before, now) = (seen(1_000, [10, 100], 0), seen(3_000, [12, 500], 20));
        let view = View::between(&before, &now);
        assert_eq!(view.routes[0].name, "busy");
        assert_eq!((view.routes[0].per_sec, view.routes[0].bad_per_sec), (200.0, 10.0));
        assert_eq!((view.total().per_sec, view.total().now), (201.0, 2));
        let line = view.line(&now);
        assert_eq!(
            line,
            "1970-01-01T00:00:03Z  ready  201 req/s  10 5xx/s  p99 ≤1ms  2 now  not used: app http://10.0.0.1:80\n"
        );
        let page = view.page(&now);
        assert!(page.contains("failed 5s ago, 3 in all: it refused the connection"), "{page}");
    }
}
