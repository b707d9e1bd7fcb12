//! A node's own account of itself, in lines for a terminal.

use std::{fmt::Write as _, time::Duration};

use serde_json::Value;

use crate::commands::overlay::{in_short, list_of, number_of, text_of};

/// Rows of routes and tenants.
const ROWS: usize = 10;
const SECONDS_A_DAY: u64 = 24 * 60 * 60;
/// Within how many days the end of a certificate is pointed out.
const EXPIRES_SOON_DAYS: u64 = 14;
/// Points it out.
const RENEW: &str = ": RENEW";

/// The whole page of `omnigate status`.
pub(super) fn status(seen: &Value) -> String {
    let mut page = heading(seen);
    page.push_str(&conditions(&seen["ready"]));
    page.push_str(&services(seen));
    page.push_str(&upstreams(seen));
    page.push_str(&origins(seen));
    page.push_str(&certificates(seen));
    page.push_str(&acme(seen));
    page.push_str(&routes(seen));
    page.push_str(&tenants(seen));
    page
}

/// The node in one line.
pub(super) fn heading(seen: &Value) -> String {
    let phase = match text_of(seen, "phase") {
        "running" => String::new(),
        other => format!(" ({other})"),
    };
    format!(
        "{}: {}{phase}, omnigate {}, up {}\n",
        text_of(seen, "node"),
        text_of(&seen["ready"], "status"),
        text_of(seen, "version"),
        in_short(number_of(seen, "up_s")),
    )
}

/// Formats the answer of `/readyz`.
pub(super) fn readiness(ready: &Value) -> String {
    format!("{}\n{}", text_of(ready, "status"), conditions(ready))
}

/// The conditions of the node, each with its reason where the node tells it.
fn conditions(ready: &Value) -> String {
    let mut lines = String::new();
    for condition in list_of(ready, "conditions") {
        let (service, name) = (text_of(condition, "service"), text_of(condition, "name"));
        let _ = write!(lines, "  {service}/{name} ({})", text_of(condition, "effect"));
        match condition["reason"].as_str().filter(|reason| !reason.is_empty()) {
            Some(reason) => drop(writeln!(lines, ": {}", plain(reason))),
            None => lines.push('\n'),
        }
    }
    lines
}

fn services(seen: &Value) -> String {
    let mut lines = format!("\n{:<12} {:<10} {}\n", "SERVICE", "STATE", "LISTENS AT");
    for (name, service) in seen["services"].as_object().into_iter().flatten() {
        let listens = seen[name]["listen"].as_str().unwrap_or("-");
        let _ = writeln!(lines, "{name:<12} {:<10} {listens}", text_of(service, "status"));
    }
    lines
}

fn upstreams(seen: &Value) -> String {
    let mut lines = String::new();
    for upstream in list_of(&seen["gateway"], "upstreams") {
        for server in list_of(upstream, "servers") {
            if lines.is_empty() {
                lines = format!(
                    "\n{:<16} {:<36} {:<9} {:>5} {:>5}\n",
                    "UPSTREAM", "SERVER", "STATE", "CONNS", "WAIT"
                );
            }
            let (connections, waiting) = (number_of(server, "connections"), number_of(server, "waiting"));
            let _ = writeln!(
                lines,
                "{:<16} {:<36} {:<9} {connections:>5} {waiting:>5}",
                text_of(upstream, "name"),
                text_of(server, "endpoint"),
                text_of(server, "state"),
            );
            lines.push_str(&last_error(&server["last_error"]));
        }
    }
    lines
}

fn origins(seen: &Value) -> String {
    let mut lines = String::new();
    for origin in list_of(&seen["edge"], "origins") {
        if lines.is_empty() {
            lines = format!("\n{:<40} {}\n", "ORIGIN", "BREAKER");
        }
        let _ = writeln!(lines, "{:<40} {}", text_of(origin, "name"), text_of(origin, "breaker"));
        lines.push_str(&last_error(&origin["last_error"]));
    }
    lines
}

/// The last failure of what stands on the line above.
pub(super) fn last_error(error: &Value) -> String {
    let Some(cause) = error["cause"].as_str() else { return String::new() };
    let ago = in_short(number_of(error, "ago_ms") / 1000);
    format!("  failed {ago} ago, {} in all: {}\n", number_of(error, "count"), plain(cause))
}

fn certificates(seen: &Value) -> String {
    let now = number_of(seen, "t") / 1000;
    let mut lines = String::new();
    for service in ["gateway", "edge"] {
        for certificate in list_of(&seen[service], "certificates") {
            if lines.is_empty() {
                lines = format!("\n{:<28} {:<24} {}\n", "CERTIFICATE FOR", "EXPIRES", "FILE");
            }
            let first = certificate["dns_names"][0].as_str();
            let name = certificate["name"].as_str().or(first).unwrap_or("-");
            let is_renewed = list_of(&seen["gateway"], "acme").any(|renewed| renewed["name"] == name);
            let expiry = if is_renewed { renewed_expiry } else { expiry };
            let expires =
                certificate["expires"].as_u64().map_or_else(|| "-".to_owned(), |at| expiry(at, now));
            let _ = writeln!(lines, "{name:<28} {expires:<24} {}", text_of(certificate, "path"));
        }
    }
    lines
}

/// The names that certificates are obtained for, and what is in the way.
fn acme(seen: &Value) -> String {
    let now = number_of(seen, "t") / 1000;
    let mut lines = String::new();
    for name in list_of(&seen["gateway"], "acme") {
        if lines.is_empty() {
            lines = format!("\n{:<28} {:<24} {}\n", "ACME", "EXPIRES", "NEXT ATTEMPT");
        }
        let expires = name["expires"].as_u64();
        let expires = expires.map_or_else(|| "no certificate".to_owned(), |at| renewed_expiry(at, now));
        let next = match number_of(name, "next_attempt").saturating_sub(now) {
            0 => "now".to_owned(),
            wait => format!("in {}", in_short(wait)),
        };
        let _ = writeln!(lines, "{:<28} {expires:<24} {next}", text_of(name, "name"));
        if let Some(error) = name["last_error"].as_str() {
            let _ = writeln!(lines, "  failed {} times: {}", number_of(name, "failures"), plain(error));
        }
    }
    lines
}

/// The same of a certificate that is renewed without anybody's doing.
fn renewed_expiry(at: u64, now: u64) -> String {
    expiry(at, now).trim_end_matches(RENEW).to_owned()
}

/// The day of a certificate's end, and how far that is.
fn expiry(at: u64, now: u64) -> String {
    let day = humantime::format_rfc3339_seconds(std::time::UNIX_EPOCH + Duration::from_secs(at)).to_string();
    let day = &day[..day.len().min("2026-01-01".len())];
    match at.checked_sub(now).map(|left| left / SECONDS_A_DAY) {
        None => format!("{day} EXPIRED"),
        Some(days) if days < EXPIRES_SOON_DAYS => format!("{day} in {days}d{RENEW}"),
        Some(days) => format!("{day} in {days}d"),
    }
}

fn routes(seen: &Value) -> String {
    let routes: Vec<&Value> =
        list_of(seen, "routes").filter(|route| text_of(route, "service") != "admin").take(ROWS).collect();
    if routes.is_empty() {
        return String::new();
    }
    let mut lines =
        format!("\n{:<28} {:>9} {:>8} {:>8} {:>8} {:>9}\n", "ROUTE", "ANSWERED", "4XX", "5XX", "NOW", "P99");
    for route in routes {
        let class = |class: usize| status_class(route, class);
        let _ = writeln!(
            lines,
            "{:<28} {:>9} {:>8} {:>8} {:>8} {:>9}",
            text_of(route, "route"),
            counts(&route["latency"]).iter().sum::<u64>(),
            class(4),
            class(5),
            number_of(route, "inflight"),
            p99(&counts(&route["latency"]), &counts(&seen["latency_bounds_us"])),
        );
    }
    lines
}

fn tenants(seen: &Value) -> String {
    let mut lines = String::new();
    for tenant in list_of(&seen["gateway"], "tenants").take(ROWS) {
        if lines.is_empty() {
            lines = format!(
                "\n{:<36} {:<8} {:>9} {:>9} {:>8}\n",
                "TENANT", "CLASS", "SERVED", "REFUSED", "WAITING"
            );
        }
        let refused: u64 =
            tenant["refused"].as_object().into_iter().flatten().filter_map(|(_, n)| n.as_u64()).sum();
        let _ = writeln!(
            lines,
            "{:<36} {:<8} {:>9} {refused:>9} {:>8}",
            plain(text_of(tenant, "name")),
            text_of(tenant, "class"),
            number_of(tenant, "served"),
            number_of(tenant, "waiting"),
        );
    }
    lines
}

/// Answers whose status begins with this digit. The list begins with 1xx.
pub(super) fn status_class(route: &Value, class: usize) -> u64 {
    class.checked_sub(1).and_then(|at| route["status"][at].as_u64()).unwrap_or_default()
}

/// A list of numbers.
pub(super) fn counts(list: &Value) -> Vec<u64> {
    list.as_array().into_iter().flatten().map(|count| count.as_u64().unwrap_or_default()).collect()
}

/// The upper bound of what 99 of 100 requests took, by the buckets that they were counted in.
pub(super) fn p99(buckets: &[u64], bounds_us: &[u64]) -> String {
    let all: u64 = buckets.iter().sum();
    let (mut seen, mut slowest) = (0, None);
    for (at, count) in buckets.iter().enumerate() {
        seen += count;
        if all > 0 && seen * 100 >= all * 99 {
            slowest = Some(at);
            break;
        }
    }
    match (slowest, slowest.and_then(|at| bounds_us.get(at)), bounds_us.last()) {
        (None, ..) => "-".to_owned(),
        (_, Some(bound), _) => format!("≤{}", in_millis(*bound)),
        (_, None, Some(last)) => format!(">{}", in_millis(*last)),
        _ => "-".to_owned(),
    }
}

fn in_millis(us: u64) -> String {
    match us {
        1_000_000.. => format!("{}s", us / 1_000_000),
        1_000.. if us.is_multiple_of(1_000) => format!("{}ms", us / 1_000),
        _ => format!("{}ms", us as f64 / 1_000.0),
    }
}

/// A text without what a terminal would act on. Names and reasons come from clients and servers.
pub(super) fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_server_that_fails_is_shown_with_its_cause() {
        let error = json!({ "cause": "it refused the connection", "ago_ms": 12_300, "count": 7 });
        let server = json!({ "endpoint": "http://127.0.0.1:1", "state": "open", "last_error": error });
        let seen = json!({ "gateway": { "upstreams": [{ "name": "app", "servers": [server] }] } });
        let page = upstreams(&seen);
        assert!(page.contains("  failed 12s ago, 7 in all: it refused the connection\n"), "{page}");
    }

    #[test]
    fn a_certificate_near_its_end_or_past_it_is_pointed_out() {
        let now = 1_700_000_000;
        assert_eq!(expiry(now + 90 * SECONDS_A_DAY, now), "2024-02-12 in 90d");
        assert_eq!(expiry(now + 14 * SECONDS_A_DAY - 1, now), "2023-11-28 in 13d: RENEW");
        assert_eq!(expiry(now - 1, now), "2023-11-14 EXPIRED");
    }

    #[test]
    fn a_name_whose_certificate_is_obtained_has_its_next_attempt_and_its_last_error() {
        let now = 1_700_000_000;
        let seen = json!({ "t": now * 1000, "gateway": {
            "certificates": [{ "name": "one.test", "dns_names": ["one.test"], "expires": now + 6 * SECONDS_A_DAY, "path": "f" }],
            "acme": [
                { "name": "one.test", "expires": now + 6 * SECONDS_A_DAY, "next_attempt": now + 7200, "failures": 0 },
                { "name": "two.test", "next_attempt": now, "failures": 2, "last_error": "a\nb" },
            ],
        } });
        assert!(!certificates(&seen).contains("RENEW"), "{}", certificates(&seen));
        let page = acme(&seen);
        let lines: Vec<&str> = page.lines().skip(2).map(str::trim_end).collect();
        assert_eq!(
            lines,
            [
                "one.test                     2023-11-20 in 6d         in 2h",
                "two.test                     no certificate           now",
                "  failed 2 times: a b",
            ]
        );
    }

    #[test]
    fn the_99th_percentile_is_the_bound_of_the_bucket_that_it_falls_in() {
        let bounds = [100, 1_000, 5_000_000];
        assert_eq!(p99(&[0, 0, 0, 0], &bounds), "-");
        assert_eq!(p99(&[99, 1, 0, 0], &bounds), "≤0.1ms");
        assert_eq!(p99(&[98, 2, 0, 0], &bounds), "≤1ms");
        assert_eq!(p99(&[0, 0, 1, 0], &bounds), "≤5s");
        assert_eq!(p99(&[0, 0, 0, 1], &bounds), ">5s");
    }

    #[test]
    fn what_others_have_worded_cannot_move_the_cursor() {
        let ready = json!({ "status": "ready", "conditions": [
            { "service": "gateway", "name": "upstream_down", "effect": "report", "reason": "a\x1b[2J\nb" },
        ] });
        assert_eq!(readiness(&ready), "ready\n  gateway/upstream_down (report): a [2J b\n");
    }
}
