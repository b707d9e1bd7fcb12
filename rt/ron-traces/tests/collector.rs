//! The export on a real kernel, to collectors that take spans, refuse them, come late or hang.

#![expect(clippy::unwrap_used, clippy::disallowed_methods, reason = "tests fail with the reason")]

mod stub;

use std::{
    net::{TcpListener, TcpStream},
    thread,
    time::{Duration, Instant},
};

use ron_kernel::{
    Exit, ExitCode, Kernel, Scope,
    config::{HumanDuration, Secret},
    spans::{Span, SpanIds},
};
use ron_traces::{TOPOLOGY, Traces, TracesConfig};
use stub::{Act, Collector, attribute, spans_of};

/// Longer than anything takes on a busy machine: only what hangs meets it.
const PATIENCE: Duration = Duration::from_secs(60);

/// A node that exports.
struct Exporting {
    scope: Scope,
    conductor: thread::JoinHandle<Exit>,
}

impl Exporting {
    fn start(config: &TracesConfig) -> Self {
        let kernel = Kernel::builder("node-a").drain_deadline(PATIENCE).build().unwrap();
        let scope = kernel.scope(&TOPOLOGY);
        kernel.block_on(Traces::start(&scope, config)).unwrap();
        let conductor = thread::spawn(move || kernel.run().unwrap());
        Self { scope, conductor }
    }

    fn tell(&self, number: usize) {
        self.scope.spans().tell(span(number));
    }

    /// What became of spans, by result.
    fn count(&self, result: &str) -> u64 {
        let text = self.scope.all_metrics().prometheus_text();
        let series = format!("traces_spans_total{{node=\"node-a\",service=\"traces\",result=\"{result}\"}} ");
        let line = text.lines().find_map(|line| line.strip_prefix(series.as_str()));
        line.unwrap_or_else(|| panic!("no {result} in {text}")).parse().unwrap()
    }

    fn wait_for(&self, result: &str, count: u64) {
        let end = Instant::now() + PATIENCE;
        while self.count(result) < count {
            assert!(Instant::now() < end, "{} of {count} {result}", self.count(result));
            thread::park_timeout(Duration::from_millis(5));
        }
        assert_eq!(self.count(result), count);
    }

    fn stop(self) -> Exit {
        self.scope.shutdown().request("the test is over");
        self.conductor.join().unwrap()
    }
}

fn span(number: usize) -> Span {
    let digits = |length: usize| format!("{number:0length$x}").into_bytes();
    Span {
        service: if number.is_multiple_of(2) { "gateway" } else { "edge" },
        name: format!("GET /{number}"),
        ids: SpanIds {
            trace: digits(32).try_into().unwrap(),
            span: digits(16).try_into().unwrap(),
            parent: number.is_multiple_of(2).then_some([b'a'; 16]),
        },
        began: Duration::from_nanos(1_700_000_000_000_000_001),
        took: Duration::from_millis(5),
        attributes: vec![("http.route", "/x".into()), ("http.response.status_code", 200_u64.into())],
        failed: number == 2,
    }
}

/// A slow machine is no collector that does not answer.
fn config(url: String) -> TracesConfig {
    TracesConfig { url, timeout: HumanDuration::from_secs(PATIENCE.as_secs()), ..TracesConfig::default() }
}

#[test]
fn a_collector_gets_every_span_as_otlp_has_it() {
    let collector = Collector::start(|_| Act::Say("200 OK", "{}"));
    let authorization = Some(Secret::new("Bearer secret-of-the-collector"));
    let node = Exporting::start(&TracesConfig { authorization, ..config(collector.url()) });
    (1..=3).for_each(|number| node.tell(number));
    let heard = collector.next();
    assert!(heard.head.starts_with("post /v1/traces http/1.1"), "{}", heard.head);
    assert!(heard.head.contains("content-type: application/json"), "{}", heard.head);
    assert!(heard.head.contains("authorization: bearer secret-of-the-collector"), "{}", heard.head);
    let resource = &heard.body["resourceSpans"][0]["resource"];
    assert_eq!(attribute(resource, "service.name").as_deref(), Some("omnigate"));
    assert_eq!(attribute(resource, "service.instance.id").as_deref(), Some("node-a"));
    let mut spans = spans_of(&heard.body);
    spans.extend(collector.spans(3 - spans.len()));
    spans.sort_by_key(|(_, span)| span["name"].to_string());
    let names: Vec<_> =
        spans.iter().map(|(service, span)| (service.as_str(), span["name"].as_str())).collect();
    assert_eq!(names, [("edge", Some("GET /1")), ("gateway", Some("GET /2")), ("edge", Some("GET /3"))]);
    let span = &spans[1].1;
    assert_eq!(span["traceId"], format!("{:032x}", 2));
    assert_eq!(span["spanId"], format!("{:016x}", 2));
    assert_eq!(span["parentSpanId"], "a".repeat(16));
    assert_eq!((span["kind"].as_u64(), span["status"]["code"].as_u64()), (Some(2), Some(2)));
    assert_eq!(span["startTimeUnixNano"], "1700000000000000001");
    assert_eq!(span["endTimeUnixNano"], "1700000000005000001");
    assert_eq!(attribute(span, "http.route").as_deref(), Some("/x"));
    assert_eq!(attribute(span, "http.response.status_code").as_deref(), Some("200"));
    assert!(spans[0].1.get("parentSpanId").is_none(), "a trace begins here");
    node.wait_for("exported", 3);
    assert_eq!(node.stop().code, ExitCode::Clean);
}

#[test]
fn spans_that_are_not_wanted_and_batches_that_are_wrong_are_counted_and_not_sent_again() {
    let collector = Collector::start(|at| match at {
        0 => Act::Say("200 OK", r#"{"partialSuccess":{"rejectedSpans":"1","errorMessage":"too old"}}"#),
        _ => Act::Say("400 Bad Request", ""),
    });
    let node = Exporting::start(&config(collector.url()));
    node.tell(1);
    collector.next();
    node.wait_for("refused", 1);
    node.tell(2);
    collector.next();
    node.wait_for("lost", 1);
    assert_eq!(node.stop().code, ExitCode::Clean);
}

#[test]
fn a_collector_that_comes_back_gets_what_it_missed_and_readiness_tells_until_then() {
    let collector = Collector::start(|at| match at {
        0 => Act::Say("503 Service Unavailable", ""),
        _ => Act::Say("200 OK", ""),
    });
    let node = Exporting::start(&config(collector.url()));
    node.tell(1);
    collector.next();
    let told = |node: &Exporting| {
        let standing = node.scope.readiness().standing(Some("traces"));
        standing.iter().any(|condition| condition.name == "collector_unreachable")
    };
    assert_eq!(spans_of(&collector.next().body).len(), 1, "the same span again");
    node.wait_for("exported", 1);
    let end = Instant::now() + PATIENCE;
    while told(&node) {
        assert!(Instant::now() < end, "the condition stands");
        thread::park_timeout(Duration::from_millis(5));
    }
    assert_eq!(node.scope.metrics().retries("export").get(), 1);
    node.stop();
}

#[test]
fn a_drain_hands_over_what_is_left() {
    // A drain waits for a second. One that took longer says nothing, and is run again.
    let end = Instant::now() + PATIENCE;
    loop {
        let collector = Collector::start(|_| Act::Say("200 OK", ""));
        let node = Exporting::start(&config(collector.url()));
        (0..700).for_each(|number| node.tell(number));
        let (scope, begun) = (node.scope.clone(), Instant::now());
        assert_eq!(node.stop().code, ExitCode::Clean);
        let took = begun.elapsed();
        if scope.all_metrics().prometheus_text().contains("result=\"lost\"} 0") {
            assert_eq!(collector.spans(700).len(), 700, "more than one batch, and none twice");
            return;
        }
        assert!(took >= Duration::from_secs(1), "spans were lost, and the drain took {took:?}");
        assert!(Instant::now() < end, "no drain was quick enough");
    }
}

#[test]
fn a_collector_that_hangs_or_is_not_there_does_not_spoil_a_drain() {
    let hanging = Collector::start(|_| Act::Hang);
    // A connection that was made before keeps the address taken when nobody listens there any more.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let gone = listener.local_addr().unwrap();
    let _kept = (TcpStream::connect(gone).unwrap(), listener.accept().unwrap());
    drop(listener);
    for url in [hanging.url(), format!("http://{gone}/v1/traces")] {
        let node = Exporting::start(&config(url));
        (0..1200).for_each(|number| node.tell(number));
        let scope = node.scope.clone();
        assert_eq!(node.stop().code, ExitCode::Clean);
        let text = scope.all_metrics().prometheus_text();
        assert!(text.contains("result=\"lost\"} 1200"), "{text}");
    }
}

#[test]
fn more_spans_than_wait_are_dropped_and_counted() {
    let collector = Collector::start(|_| Act::Hang);
    let node = Exporting::start(&config(collector.url()));
    let dropped = || node.scope.metrics().queue("spans", "request").dropped.get();
    let told = 3 * 4096;
    (0..told).for_each(|number| node.tell(number));
    assert!(dropped() >= u64::try_from(told).unwrap() - 2 * 4096, "{}", dropped());
    node.stop();
}
