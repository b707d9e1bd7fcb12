//! The alerts that people wrote: what is worth one, from when on, and what to do.

use ron_kernel::topology::Topology;

use super::{
    Alert,
    Severity::{self, Critical, Info, Warning},
};

/// Group, name, expression, how long, how urgent, what is the matter, what to do.
type Row = (&'static str, &'static str, &'static str, &'static str, Severity, &'static str, &'static str);

/// Those of every node.
const NODE: &str = "node";

/// Those that apply: of every node, and of the services there are.
pub(super) fn all(topologies: &[&Topology]) -> Vec<Alert> {
    let there = |group: &str| group == NODE || topologies.iter().any(|topology| topology.service == group);
    ROWS.iter().filter(|row| there(row.0)).map(alert).collect()
}

fn alert(&(group, name, expr, wait, severity, summary, action): &Row) -> Alert {
    Alert { group, name, expr: expr.to_owned(), wait, severity, summary: summary.to_owned(), action }
}

const ROWS: &[Row] = &[
    (
        NODE,
        "OmnigateGone",
        r#"up{job="omnigate"} == 0"#,
        "1m",
        Critical,
        "{{ $labels.instance }} does not answer its scrape",
        "is the process there, and does /healthz answer on the admin listener?",
    ),
    (
        NODE,
        "OmnigateNotReady",
        r#"max by (node, service, cause) (readyz_degraded{cause=~"core_silent|task_given_up"}) > 0"#,
        "1m",
        Critical,
        "{{ $labels.service }} on {{ $labels.node }} is not ready: {{ $labels.cause }}",
        "ask /readyz for the message, and read the log around its time",
    ),
    (
        NODE,
        "OmnigateOverloaded",
        r#"max by (node, service) (readyz_degraded{cause="overload"}) > 0"#,
        "1m",
        Critical,
        "{{ $labels.service }} on {{ $labels.node }} refuses tenants that ask for no more than their share",
        "send traffic elsewhere, add nodes, or raise fair_queue.max_inflight if the servers behind idle",
    ),
    (
        NODE,
        "OmnigateDegraded",
        r#"max by (node, service, cause) (readyz_degraded{cause!~"draining|core_silent|task_given_up|overload|bad_reload|restart_needed"}) > 0"#,
        "5m",
        Warning,
        "{{ $labels.service }} on {{ $labels.node }} has stood under {{ $labels.cause }} for minutes",
        "ask /readyz for the message; the table of conditions says what to do",
    ),
    (
        NODE,
        "OmnigateReloadRefused",
        "max by (node) (config_reload_failed) > 0",
        "5m",
        Warning,
        "the configuration file of {{ $labels.node }} is not the one in force",
        "run omnigate check on the file; /readyz has the line that is wrong",
    ),
    (
        NODE,
        "OmnigateRestartNeeded",
        r#"max by (node) (readyz_degraded{cause="restart_needed"}) > 0"#,
        "24h",
        Info,
        "settings of {{ $labels.node }} have waited for a restart for a day",
        "restart it, or hand over with SIGUSR2, when it suits",
    ),
    (
        NODE,
        "OmnigateDrainStuck",
        r#"max by (node) (readyz_degraded{cause="draining"}) > 0"#,
        "5m",
        Warning,
        "{{ $labels.node }} has been draining for minutes",
        "node.drain_deadline bounds it: the log names who does not stop",
    ),
    (
        NODE,
        "OmnigatePanics",
        "sum by (node, service, kind) (increase(tasks_panicked_total[10m])) > 0",
        "0m",
        Warning,
        "{{ $labels.kind }} of {{ $labels.service }} on {{ $labels.node }} panicked; the panic was caught",
        "the log has the place; report it to us",
    ),
    (
        NODE,
        "OmnigateInternalErrors",
        r#"sum by (node, service) (increase(rejected_total{reason="internal"}[10m])) > 0"#,
        "0m",
        Warning,
        "{{ $labels.service }} on {{ $labels.node }} answered 500 for a fault of its own",
        "find the corr_id in the log; report it to us",
    ),
    (
        NODE,
        "OmnigateServerErrors",
        r#"sum by (node, service) (rate(http_requests_total{status=~"5.."}[5m])) / sum by (node, service) (rate(http_requests_total[5m])) > 0.05"#,
        "5m",
        Critical,
        "{{ $value | humanizePercentage }} of what {{ $labels.service }} on {{ $labels.node }} answers is 5xx",
        "rejected_total by reason tells ours from theirs; then upstream_failures_total and edge_quarantined_total",
    ),
    (
        NODE,
        "OmnigateSlow",
        "histogram_quantile(0.99, sum by (node, service, le) (rate(request_latency_seconds_bucket[5m]))) > 1",
        "10m",
        Warning,
        "p99 of {{ $labels.service }} on {{ $labels.node }} is {{ $value | humanizeDuration }}",
        "compare with downstream_latency_seconds: is it us or them?",
    ),
    (
        NODE,
        "OmnigateConnectionsRefused",
        r#"sum by (node, service, listener) (rate(connections_refused_total{cap="total"}[5m])) > 0"#,
        "5m",
        Warning,
        "listener {{ $labels.listener }} on {{ $labels.node }} is at its cap and turns connections away",
        "raise max_conns if there is memory, else add nodes; cap=per_client tells of one client",
    ),
    (
        NODE,
        "OmnigateShortOfSlots",
        r#"sum by (node, service) (rate(rejected_total{reason=~"busy|shed"}[5m])) / sum by (node, service) (rate(http_requests_total[5m])) > 0.1"#,
        "10m",
        Warning,
        "{{ $value | humanizePercentage }} of requests to {{ $labels.service }} on {{ $labels.node }} find no slot",
        "one tenant alone is a flood that stays with its sender; all of them is too little capacity",
    ),
    (
        NODE,
        "OmnigateOverQuota",
        r#"sum by (node, service) (rate(rejected_total{reason="quota"}[5m])) / sum by (node, service) (rate(http_requests_total[5m])) > 0.2"#,
        "15m",
        Info,
        "{{ $value | humanizePercentage }} of requests to {{ $labels.service }} on {{ $labels.node }} exceed a rate",
        "tenant and client in the access log say who; behind a load balancer check trusted_proxies first",
    ),
    (
        NODE,
        "OmnigateProbed",
        r#"sum by (node, service) (rate(rejected_total{reason=~"malformed|body_cap|decoded-cap|decoded-ratio"}[5m])) > 1"#,
        "10m",
        Info,
        "somebody sends {{ $labels.node }} what nobody should, or a client is broken",
        "client in the access log says who",
    ),
    (
        NODE,
        "OmnigateEventsLost",
        "sum by (node, bus) (increase(bus_lagged_total[10m])) > 0",
        "0m",
        Info,
        "a subscriber of {{ $labels.bus }} on {{ $labels.node }} is too slow and lost events",
        "who reads /events must keep up; the state itself is in /readyz and /metrics",
    ),
    (
        "gateway",
        "OmnigateUpstreamDown",
        r#"max by (node, upstream) (upstream_servers{state="usable"}) == 0"#,
        "1m",
        Critical,
        "no server of upstream {{ $labels.upstream }} is usable on {{ $labels.node }}",
        "upstream_failures_total by kind says how they fail",
    ),
    (
        "gateway",
        "OmnigateUpstreamFailing",
        "sum by (node, upstream, kind) (rate(upstream_failures_total[5m])) > 1",
        "10m",
        Warning,
        "upstream {{ $labels.upstream }} fails ({{ $labels.kind }}) {{ $value | humanize }} times a second",
        "connect: is it there? broken: its log. late: its load, and timeout. status: its own 502, 503, 504",
    ),
    (
        "gateway",
        "OmnigateDecodeMemory",
        "sum by (node) (increase(gateway_decode_refused_total[10m])) > 0",
        "0m",
        Warning,
        "compressed bodies are refused on {{ $labels.node }} for want of memory to decode them",
        "raise limits.decode_memory, or look for slow clients that hold decoders open",
    ),
    (
        "edge",
        "OmnigateDamage",
        "sum by (node) (increase(edge_quarantined_total[15m])) > 0",
        "0m",
        Critical,
        "bytes on a disk of {{ $labels.node }} are not what they were; they are not served",
        "/readyz names them under damaged; look at the disk, then put a good file in place",
    ),
    (
        "edge",
        "OmnigatePackRefused",
        r#"max by (node) (edge_packs{state="refused"}) > 0"#,
        "5m",
        Warning,
        "a tile pack is not served on {{ $labels.node }}",
        "/readyz says which and why under packs; rename a good file over it",
    ),
];
