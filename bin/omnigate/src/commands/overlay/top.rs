//! `omnigate overlay top`: peers and topics of a running node with their rates, redrawn on a terminal, printed once elsewhere.

#![expect(
    clippy::disallowed_methods,
    reason = "a command that asks and waits; no runtime is running that it could block"
)]

use std::{
    fmt::Write as _,
    io::{self, IsTerminal},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use super::{admin_client::AdminClient, in_short, list_of, number_of, text_of};
use crate::{commands, config_file::ConfigSource, failure::Failure};

/// Puts the cursor into the upper left corner and clears the screen.
const REDRAW: &str = "\x1b[H\x1b[2J";
/// Rows of each table on a terminal.
const ROWS: usize = 20;

/// Shows what the overlay does, over and over on a terminal, else once.
pub(in crate::commands) fn run(
    source: &ConfigSource,
    interval: Duration,
    as_json: bool,
) -> Result<(), Failure> {
    let client = AdminClient::of(source)?;
    let mut before = Seen::ask(&client)?;
    loop {
        std::thread::sleep(interval);
        let now = Seen::ask(&client)?;
        let view = view(&before, &now);
        if as_json {
            return commands::print(&commands::pretty(&view));
        }
        if !io::stdout().is_terminal() {
            return commands::print(&page(&view, usize::MAX));
        }
        commands::print(&format!("{REDRAW}{}", page(&view, ROWS)))?;
        before = now;
    }
}

/// What the node says at one moment.
struct Seen {
    at: Instant,
    peers: Value,
    topics: Value,
}

impl Seen {
    fn ask(client: &AdminClient) -> Result<Self, Failure> {
        let (peers, topics) = (client.get("/overlay/peers")?, client.get("/overlay/topics")?);
        Ok(Self { at: Instant::now(), peers, topics })
    }
}

/// Both moments in one, with what happened between them each second.
fn view(before: &Seen, now: &Seen) -> Value {
    let seconds = now.at.duration_since(before.at).as_secs_f64().max(0.001);
    let rate = |earlier: Option<&Value>, later: &Value, key: &str| {
        let grown =
            number_of(later, key).saturating_sub(earlier.map_or(0, |earlier| number_of(earlier, key)));
        (grown as f64 / seconds).round()
    };
    let same = |list: &Value, of: &str, key: &str, wanted: &Value| {
        list_of(list, of).find(|earlier| earlier[key] == *wanted).cloned()
    };
    let mut peers: Vec<Value> = list_of(&now.peers, "peers").cloned().collect();
    for peer in &mut peers {
        let earlier = same(&before.peers, "peers", "node", &peer["node"]);
        let rates = ["frames_in", "frames_out"].map(|key| rate(earlier.as_ref(), peer, key));
        (peer["in_per_sec"], peer["out_per_sec"]) = (rates[0].into(), rates[1].into());
    }
    let mut topics: Vec<Value> = list_of(&now.topics, "topics").cloned().collect();
    for topic in &mut topics {
        let earlier = same(&before.topics, "topics", "topic", &topic["topic"]);
        let rates = ["delivered", "missing"].map(|key| rate(earlier.as_ref(), topic, key));
        (topic["msgs_per_sec"], topic["missing_per_sec"]) = (rates[0].into(), rates[1].into());
    }
    // The busiest first.
    let rate_of = |value: &Value, key: &str| value[key].as_f64().unwrap_or_default();
    peers.sort_by(|one, other| rate_of(other, "in_per_sec").total_cmp(&rate_of(one, "in_per_sec")));
    topics.sort_by(|one, other| rate_of(other, "msgs_per_sec").total_cmp(&rate_of(one, "msgs_per_sec")));
    json!({ "node": now.peers["node"], "listen": now.peers["listen"], "peers": peers, "topics": topics })
}

fn page(view: &Value, rows: usize) -> String {
    let (peers, topics) = (list_of(view, "peers").count(), list_of(view, "topics").count());
    let mut page = String::new();
    // Writing to a string does not fail.
    let _ = writeln!(page, "{}  {}", text_of(view, "node"), text_of(view, "listen"));
    let _ = writeln!(page, "{peers} peers, {topics} topics\n");
    let _ = writeln!(
        page,
        "{:<14} {:<28} {:>6} {:>9} {:>9} {:>7}",
        "PEER", "PLACE", "UP", "IN/S", "OUT/S", "QUEUED"
    );
    for peer in list_of(view, "peers").take(rows) {
        let node: String = text_of(peer, "node").chars().take(13).collect();
        let way = if peer["dialled"].as_bool() == Some(true) { "to" } else { "from" };
        let place = format!("{way} {}", text_of(peer, "place"));
        let up = in_short(number_of(peer, "up_secs"));
        let queued = number_of(peer, "queued");
        let _ = writeln!(
            page,
            "{node:<14} {place:<28} {up:>6} {:>9} {:>9} {queued:>7}",
            peer["in_per_sec"], peer["out_per_sec"]
        );
    }
    let _ = writeln!(page, "\n{:<43} {:>9} {:>12} {:>9}", "TOPIC", "MSGS/S", "DELIVERED", "MISSING");
    for topic in list_of(view, "topics").take(rows) {
        let (name, delivered) = (text_of(topic, "topic"), number_of(topic, "delivered"));
        let missing = number_of(topic, "missing");
        let _ = writeln!(page, "{name:<43} {:>9} {delivered:>12} {missing:>9}", topic["msgs_per_sec"]);
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_what_was_counted_between_two_looks_and_the_busiest_come_first() {
        let at = Instant::now();
        let seen = |at, counted: [u64; 2]| Seen {
            at,
            peers: json!({ "node": "b3:me", "listen": "here", "peers": [
                { "node": "b3:quiet", "place": "a", "frames_in": 3, "frames_out": 3, "up_secs": 150, "queued": 0 },
                { "node": "b3:busy", "place": "b", "frames_in": counted[0], "frames_out": 0, "up_secs": 2, "queued": 7 },
            ] }),
            topics: json!({ "topics": [{ "topic": "news", "delivered": counted[1], "missing": 0 }] }),
        };
        let view = view(&seen(at, [100, 10]), &seen(at + Duration::from_secs(2), [300, 60]));
        assert_eq!(view["peers"][0]["node"], "b3:busy");
        assert_eq!(
            (&view["peers"][0]["in_per_sec"], &view["peers"][1]["in_per_sec"]),
            (&json!(100.0), &json!(0.0))
        );
        assert_eq!(view["topics"][0]["msgs_per_sec"], json!(25.0));
        let page = page(&view, 1);
        assert!(page.contains("2 peers, 1 topics") && page.contains("b3:busy"), "{page}");
        assert!(!page.contains("b3:quiet"), "one row was asked for: {page}");
    }
}
