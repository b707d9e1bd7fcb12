//! More than a neighbour takes: the achieved rate is the neighbour's limit, the refusal comes before anything is accepted and
//! says when to come back, and nothing that was accepted is lost.
//!
//! `OMNIGATE_QUOTA_SECONDS` says for how long twice as much as is allowed is offered.

use std::{
    collections::BTreeSet,
    io::Write,
    process::Stdio,
    sync::Mutex,
    thread,
    time::{Duration, Instant},
};

use super::node::{Home, Listening, OverlayNode, command};
use crate::support::Client;

/// What `overlay.peer.max_rps` is by default.
const ALLOWED: u64 = 500;
/// Threads that publish, each so many a second.
const PUBLISHERS: u64 = 20;
const OFFERED_BY_EACH: u64 = 50;

/// Two nodes with the quotas that they have by default and these further settings, and a subscriber at the one that does not
/// publish.
fn pair(more: &str) -> (OverlayNode, OverlayNode, Listening) {
    let lines = format!("security = \"plaintext\"\ntopics = [\"news\"]\n{more}");
    let far = OverlayNode::start(Home::new(), &lines);
    let near = OverlayNode::start(Home::new(), &format!("{lines}peers = [\"{}@{}\"]\n", far.id, far.addr));
    near.wait_for_peers(1);
    let listening = far.subscribe("news");
    (near, far, listening)
}

/// What the node said to what was offered.
#[derive(Debug, Default)]
struct Answers {
    accepted: BTreeSet<u64>,
    /// Publications that nobody acknowledged.
    local_only: u64,
    refused: u64,
    /// Refusals that do not say when to come back.
    unclear: u64,
}

fn offer(near: &OverlayNode, until: Instant, answers: &Mutex<Answers>) {
    let mut client = Client::connect(near.node.admin).unwrap();
    let head = "POST /overlay/pub/news HTTP/1.1\r\nhost: localhost\r\nx-omnigate: 1\r\n";
    let step = Duration::from_secs(1) / u32::try_from(OFFERED_BY_EACH).unwrap();
    let mut next = Instant::now();
    while next < until {
        thread::sleep(next.saturating_duration_since(Instant::now()));
        next += step;
        let answer = client.ask(format!("{head}content-length: 5\r\n\r\nhello")).unwrap();
        let mut answers = answers.lock().unwrap();
        match answer.status {
            200 if answer.json()["verdict"] == "accepted" => {
                answers.accepted.insert(answer.json()["id"]["seq"].as_u64().unwrap());
            }
            200 => answers.local_only += 1,
            429 => {
                answers.refused += 1;
                let is_clear = answer.json()["retry_after_ms"].as_u64().is_some_and(|wait| wait > 0);
                answers.unclear += u64::from(!is_clear);
            }
            other => panic!("{other}: {answer:?}"),
        }
    }
}

/// Offers twice the limit for some seconds. Everything that was accepted arrives, and nothing is published that nobody takes.
fn offer_too_much(near: &OverlayNode, listening: &Listening) -> Answers {
    let seconds = std::env::var("OMNIGATE_QUOTA_SECONDS").map_or(4, |seconds| seconds.parse().unwrap());
    let (answers, begun) = (Mutex::<Answers>::default(), Instant::now());
    let until = begun + Duration::from_secs(seconds);
    thread::scope(|scope| {
        (0..PUBLISHERS).for_each(|_| drop(scope.spawn(|| offer(near, until, &answers))));
    });
    let took = begun.elapsed();
    let answers = answers.into_inner().unwrap();
    let mut missing = answers.accepted.clone();
    while !missing.is_empty() {
        let event = listening.next();
        assert_eq!(event["event"], "publication", "{event}");
        missing.remove(&event["seq"].as_u64().unwrap());
    }
    let accepted = answers.accepted.len() as u64;
    println!(
        "offered {} a second for {took:?}: {accepted} accepted, {} refused, {} local only; all accepted arrived",
        PUBLISHERS * OFFERED_BY_EACH,
        answers.refused,
        answers.local_only,
    );
    assert_eq!((answers.local_only, answers.unclear), (0, 0), "{} refused", answers.refused);
    // As many as a second's may be sent at once at the beginning.
    let most = (took.as_secs() + 2) * ALLOWED;
    assert!(accepted <= most, "{accepted} accepted in {took:?}");
    answers
}

#[test]
fn offered_twice_its_limit_a_neighbour_takes_its_limit_and_what_was_accepted_arrives() {
    let (near, _far, listening) = pair("");
    offer_too_much(&near, &listening);
}

#[test]
fn what_would_wait_for_long_is_refused_before_it_is_published_and_told_when_to_come_back() {
    // Fewer wait for the neighbour than are offered at a time.
    let (near, _far, listening) = pair("gossip = { burst_budget_frames = 4 }\n");
    let answers = offer_too_much(&near, &listening);
    assert!(answers.refused > 0, "{answers:?}");
}

#[test]
fn pub_with_lines_loses_nothing_though_it_is_faster_than_the_neighbour() {
    const LINES: u64 = 2500;
    let (near, _far, listening) = pair("");
    let args = ["pub", "--config", "omnigate.toml", "--lines", "news"];
    let mut publishing =
        command(near.node.path(), &args).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let mut lines = publishing.stdin.take().unwrap();
    thread::scope(|scope| {
        scope.spawn(move || (1..=LINES).for_each(|number| writeln!(lines, "line {number}").unwrap()));
        for number in 1..=LINES {
            let event = listening.next();
            assert_eq!(event["text"], format!("line {number}"), "{event}");
        }
    });
    assert!(publishing.wait().unwrap().success());
}
