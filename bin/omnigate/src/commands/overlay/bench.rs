//! `omnigate overlay bench`: publishes through one running node, subscribes at the same or another one, and measures. The words
//! are those of `nats bench`.

#![expect(
    clippy::disallowed_methods,
    reason = "a command that measures and ends; no runtime is running that it could block"
)]

mod tally;

use std::{
    fmt::Write as _,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use super::{
    admin_client::{AdminClient, SentEvent},
    list_of, number_of, topic,
};
use crate::{commands, config_file::ConfigSource, failure::Failure};
use tally::Tally;

/// How long nothing may arrive before what is missing is given up.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often it is looked whether everything has arrived.
const LOOK: Duration = Duration::from_millis(5);
/// How long neighbours have to hear of a subscription at another node.
const SPREAD: Duration = Duration::from_secs(1);

/// The parameters of a measurement.
#[derive(Debug)]
pub(crate) struct Bench {
    pub(crate) topic: String,
    pub(crate) msgs: u64,
    pub(crate) size: usize,
    pub(crate) publishers: u16,
    pub(crate) subscribers: u16,
    pub(crate) json: bool,
}

/// What becomes of a subscription; what it hears is in the tally.
enum Subscribed {
    Opened,
    Failed(Failure),
}

/// The result of a measurement.
#[derive(Debug, Default)]
struct Outcome {
    published: u64,
    local_only: u64,
    /// Times that a publisher was told to come back later.
    busy: u64,
    publishing: Duration,
    missing: u64,
    delivering: Duration,
    /// What subscribers heard, and how long that took from the request that published to the event.
    heard: Arc<Tally>,
    /// Frames written by the node that publishes, and received by the one that subscribes.
    frames: [u64; 2],
}

/// Measures, with subscribers at the node of `far` if there is one.
pub(in crate::commands) fn run(
    near: &ConfigSource,
    far: Option<&ConfigSource>,
    plan: &Bench,
) -> Result<(), Failure> {
    topic(&plan.topic)?;
    let publishing = AdminClient::of(near)?;
    let subscribing = AdminClient::of(far.unwrap_or(near))?;
    let outcome = measure(&publishing, subscribing, far.is_some(), plan)?;
    commands::print(&if plan.json { commands::pretty(&outcome.json(plan)) } else { outcome.page(plan) })
}

fn measure(near: &AdminClient, far: AdminClient, is_far: bool, plan: &Bench) -> Result<Outcome, Failure> {
    let (far, heard) = (Arc::new(far), Arc::new(Tally::default()));
    // Each subscriber says twice something at most.
    let (tell, events) = mpsc::sync_channel(usize::from(plan.subscribers) * 2);
    let origin = Instant::now();
    for _ in 0..plan.subscribers {
        let (client, heard, tell) = (Arc::clone(&far), Arc::clone(&heard), tell.clone());
        let path = format!("/overlay/sub/{}", plan.topic);
        thread::spawn(move || listen(&client, &path, origin, &heard, &tell));
    }
    drop(tell);
    for _ in 0..plan.subscribers {
        match events.recv() {
            Ok(Subscribed::Failed(failure)) => return Err(failure),
            Ok(_) => {}
            Err(_) => return Err(Failure::failed("a subscription ended before it began")),
        }
    }
    if is_far {
        thread::sleep(SPREAD);
    }
    let frames = || Ok::<_, Failure>([frames(near, "frames_out")?, frames(&far, "frames_in")?]);
    let before = frames()?;
    let mut outcome = Outcome { heard, ..publish_all(near, plan, origin)? };
    collect(&events, plan, origin, &mut outcome)?;
    let after = frames()?;
    outcome.frames = [after[0].saturating_sub(before[0]), after[1].saturating_sub(before[1])];
    Ok(outcome)
}

/// Frames of all sessions of a node.
fn frames(client: &AdminClient, key: &str) -> Result<u64, Failure> {
    let peers = client.get("/overlay/peers")?;
    Ok(list_of(&peers, "peers").map(|peer| number_of(peer, key)).sum())
}

/// Counts what a subscriber hears, until the subscription ends.
fn listen(
    client: &AdminClient,
    path: &str,
    origin: Instant,
    heard: &Tally,
    tell: &mpsc::SyncSender<Subscribed>,
) {
    let opened = || _ = tell.send(Subscribed::Opened);
    let ended = client.subscribe(path, None, opened, |event| {
        count(event, origin, heard);
        Ok(true)
    });
    let failure = ended.err().unwrap_or_else(|| Failure::failed("the node ended a subscription"));
    let _ = tell.send(Subscribed::Failed(failure));
}

fn count(event: &SentEvent, origin: Instant, heard: &Tally) {
    match event.name.as_str() {
        "publication" => {
            let sent = event.data["text"].as_str().and_then(|text| text.split(' ').next()?.parse().ok());
            let (now, sent) = (origin.elapsed(), Duration::from_nanos(sent.unwrap_or_default()));
            heard.heard(now, now.saturating_sub(sent));
        }
        "gap" => heard.missed(number_of(&event.data, "to") - number_of(&event.data, "from") + 1),
        _ => heard.missed(number_of(&event.data, "missed")),
    }
}

fn publish_all(near: &AdminClient, plan: &Bench, origin: Instant) -> Result<Outcome, Failure> {
    let (next, local_only, busy) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    let path = format!("/overlay/pub/{}", plan.topic);
    let publish = || {
        let mut kept = near.keep_open()?;
        while next.fetch_add(1, Relaxed) < plan.msgs {
            loop {
                match kept.post(&path, &body(origin.elapsed(), plan.size))? {
                    Ok(answer) => {
                        local_only.fetch_add(u64::from(answer["verdict"] == "local_only"), Relaxed);
                        break;
                    }
                    Err(wait) => {
                        busy.fetch_add(1, Relaxed);
                        thread::sleep(wait);
                    }
                }
            }
        }
        Ok(())
    };
    let began = Instant::now();
    let ended: Result<(), Failure> = thread::scope(|scope| {
        // All of them before the first is waited for.
        let mut publishers = Vec::new();
        publishers.resize_with(plan.publishers.into(), || scope.spawn(publish));
        publishers.into_iter().try_for_each(|publisher| {
            publisher.join().unwrap_or_else(|_| Err(Failure::failed("a publisher panicked")))
        })
    });
    ended?;
    Ok(Outcome {
        published: plan.msgs,
        local_only: local_only.into_inner(),
        busy: busy.into_inner(),
        publishing: began.elapsed(),
        ..Outcome::default()
    })
}

/// When it was sent, in nanoseconds since the bench began, and then as many letters as there is room for.
fn body(sent: Duration, size: usize) -> Vec<u8> {
    let mut body = format!("{} ", sent.as_nanos()).into_bytes();
    body.resize(size.max(body.len()), b'x');
    body
}

/// Waits until everything has arrived or is named as missing.
fn collect(
    events: &mpsc::Receiver<Subscribed>,
    plan: &Bench,
    origin: Instant,
    outcome: &mut Outcome,
) -> Result<(), Failure> {
    let wanted = plan.msgs * u64::from(plan.subscribers);
    let began = origin.elapsed();
    let (mut seen, mut since) = (0, began);
    loop {
        if let Ok(Subscribed::Failed(failure)) = events.recv_timeout(LOOK) {
            return Err(failure);
        }
        let (delivered, missing) = (outcome.heard.delivered(), outcome.heard.missing());
        if delivered + missing != seen {
            (seen, since) = (delivered + missing, origin.elapsed());
        }
        if seen >= wanted || origin.elapsed() - since >= PATIENCE {
            outcome.missing = missing.max(wanted.saturating_sub(delivered));
            break;
        }
    }
    // Deliveries begin while publications are still being made.
    outcome.delivering = outcome.publishing + outcome.heard.last().saturating_sub(began);
    Ok(())
}

impl Outcome {
    fn json(&self, plan: &Bench) -> Value {
        let millis = |latency: Duration| latency.as_secs_f64() * 1000.0;
        let side = |count: u64, took: Duration| {
            json!({
                "msgs": count,
                "msgs_per_sec": rate(count, took).round(),
                "mb_per_sec": rate(count, took) * plan.size as f64 / 1e6,
            })
        };
        let [out, into] = self.frames.map(|frames| frames as f64 / self.published.max(1) as f64);
        json!({
            "size": plan.size,
            "pub": side(self.published, self.publishing),
            "sub": side(self.heard.delivered(), self.delivering),
            "latency_ms": {
                "p50": millis(self.heard.percentile(50)),
                "p99": millis(self.heard.percentile(99)),
                "max": millis(self.heard.percentile(100)),
            },
            "frames_per_msg": { "out": out, "in": into },
            "local_only": self.local_only,
            "busy": self.busy,
            "missing": self.missing,
        })
    }

    fn page(&self, plan: &Bench) -> String {
        let shown = self.json(plan);
        let line = |side: &Value| {
            let (rate, mb) = (side["msgs_per_sec"].as_f64(), side["mb_per_sec"].as_f64());
            format!("{:.0} msgs/sec ~ {:.2} MB/sec", rate.unwrap_or_default(), mb.unwrap_or_default())
        };
        let (latency, frames) = (&shown["latency_ms"], &shown["frames_per_msg"]);
        let number = |value: &Value| value.as_f64().unwrap_or_default();
        let mut page = String::new();
        // Writing to a string does not fail.
        let _ = writeln!(
            page,
            "Pub stats: {}, {} msgs of {} bytes",
            line(&shown["pub"]),
            self.published,
            plan.size
        );
        let _ = writeln!(page, "Sub stats: {}, {} msgs", line(&shown["sub"]), self.heard.delivered());
        let _ = writeln!(
            page,
            "Latency: p50 {:.2} ms, p99 {:.2} ms, max {:.2} ms",
            number(&latency["p50"]),
            number(&latency["p99"]),
            number(&latency["max"])
        );
        let _ = writeln!(
            page,
            "Wire: {:.2} frames out and {:.2} frames in per msg",
            number(&frames["out"]),
            number(&frames["in"])
        );
        let _ = writeln!(
            page,
            "Missing: {}; local only: {}; told to come back later: {} times",
            self.missing, self.local_only, self.busy
        );
        page
    }
}

fn rate(count: u64, took: Duration) -> f64 {
    count as f64 / took.as_secs_f64().max(1e-9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_and_percentiles_are_of_what_was_measured() {
        let heard = Tally::default();
        (1..=200).for_each(|ms| heard.heard(Duration::ZERO, Duration::from_millis(ms)));
        let outcome = Outcome {
            published: 100,
            publishing: Duration::from_secs(2),
            delivering: Duration::from_secs(4),
            heard: Arc::new(heard),
            frames: [250, 100],
            ..Outcome::default()
        };
        let plan = Bench {
            topic: "bench".into(),
            msgs: 100,
            size: 1000,
            publishers: 1,
            subscribers: 2,
            json: false,
        };
        let shown = outcome.json(&plan);
        assert_eq!(
            (&shown["pub"]["msgs_per_sec"], &shown["pub"]["mb_per_sec"]),
            (&json!(50.0), &json!(0.05))
        );
        assert_eq!(shown["sub"]["msgs_per_sec"], json!(50.0));
        let latency = |key: &str| shown["latency_ms"][key].as_f64().unwrap_or_default();
        assert!(
            (100.0..=101.6).contains(&latency("p50")) && (198.0..=200.0).contains(&latency("p99")),
            "{shown}"
        );
        assert_eq!(latency("max"), 200.0);
        assert_eq!(shown["frames_per_msg"], json!({ "out": 2.5, "in": 1.0 }));
        assert!(outcome.page(&plan).starts_with("Pub stats: 50 msgs/sec ~ 0.05 MB/sec"));
    }

    #[test]
    fn a_body_begins_with_its_time_and_has_the_size_asked_for_if_that_fits() {
        assert_eq!(body(Duration::from_nanos(42), 8), b"42 xxxxx");
        assert_eq!(body(Duration::from_nanos(123_456), 4), b"123456 ");
    }
}
