//! `omnigate peers`: who is connected, once or as it changes.

#![expect(
    clippy::disallowed_methods,
    reason = "a command that asks and waits; no runtime is running that it could block"
)]

use std::{collections::BTreeMap, time::Duration};

use serde_json::Value;

use super::{admin_client::AdminClient, in_short, list_of, number_of, text_of};
use crate::{commands, config_file::ConfigSource, failure::Failure};

/// Shows who is connected.
pub(in crate::commands) fn show(source: &ConfigSource, json: bool) -> Result<(), Failure> {
    let answer = AdminClient::of(source)?.get("/overlay/peers")?;
    if json {
        return commands::print(&commands::pretty(&answer));
    }
    let mut lines = format!("{} listens on {}\n", text_of(&answer, "node"), text_of(&answer, "listen"));
    list_of(&answer, "peers").for_each(|peer| lines += &line(peer));
    commands::print(&lines)
}

/// Shows who is connected, then who comes and who goes, until the node ends or somebody interrupts.
pub(in crate::commands) fn watch(
    source: &ConfigSource,
    interval: Duration,
    json: bool,
) -> Result<(), Failure> {
    let client = AdminClient::of(source)?;
    let mut known = BTreeMap::new();
    loop {
        let answer = client.get("/overlay/peers")?;
        let now = by_session(&answer);
        let gone =
            known.iter().filter(|(session, _)| !now.contains_key(*session)).map(|(_, peer)| ("left", peer));
        let new =
            now.iter().filter(|(session, _)| !known.contains_key(*session)).map(|(_, peer)| ("joined", peer));
        let mut lines = String::new();
        for (event, peer) in gone.chain(new) {
            lines += &match json {
                true => changed_json(event, peer),
                false => format!("{event:<7}{}", line(peer)),
            };
        }
        if !lines.is_empty() {
            commands::print(&lines)?;
        }
        known = now;
        std::thread::sleep(interval);
    }
}

/// The peers by their sessions: a node that comes back at another place, or from another port, has another one.
fn by_session(answer: &Value) -> BTreeMap<(String, String), Value> {
    let session = |peer: &Value| (text_of(peer, "node").to_owned(), text_of(peer, "place").to_owned());
    list_of(answer, "peers").map(|peer| (session(peer), peer.clone())).collect()
}

fn changed_json(event: &str, peer: &Value) -> String {
    let mut line = peer.clone();
    line["event"] = event.into();
    format!("{line}\n")
}

fn line(peer: &Value) -> String {
    let way = if peer["dialled"].as_bool() == Some(true) { "to" } else { "from" };
    format!(
        "{}  {way} {}  up {}  in {}  out {}  queued {}  {}\n",
        text_of(peer, "node"),
        text_of(peer, "place"),
        in_short(number_of(peer, "up_secs")),
        number_of(peer, "frames_in"),
        number_of(peer, "frames_out"),
        number_of(peer, "queued"),
        text_of(peer, "key_exchange"),
    )
}
