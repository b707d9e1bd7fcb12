//! `omnigate pub`, `sub`, `peers`, `losses`, `overlay top` and `overlay bench`: the overlay of a running node, by way of its
//! admin listener.

pub(super) mod admin_client;
mod bench;
mod losses;
mod objects;
mod peers;
mod pinned_tls;
mod top;

use std::{
    io::{self, BufRead, Read, Write},
    time::Duration,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use oap::{PUBLICATION_MAX, Topic};
use serde_json::Value;
use svc_overlay::EventId;

use crate::{config_file::ConfigSource, failure::Failure};
use admin_client::AdminClient;
pub(crate) use bench::Bench;
pub(super) use bench::run as bench;
pub(super) use losses::show as losses;
pub(crate) use objects::PutObject;
pub(super) use objects::{get as get_object, put as put_object};
pub(super) use peers::{show as peers, watch as watch_peers};
pub(super) use top::run as top;

/// The parameters of `pub`.
#[derive(Debug)]
pub(crate) struct Publish {
    pub(crate) topic: String,
    /// Without it, standard input.
    pub(crate) message: Option<String>,
    /// Each line of standard input by itself.
    pub(crate) lines: bool,
    /// How long a node that is busy is asked again, for each publication.
    pub(crate) wait: Duration,
    pub(crate) json: bool,
}

/// Publishes through the running node.
pub(super) fn publish(source: &ConfigSource, what: &Publish) -> Result<(), Failure> {
    let topic = topic(&what.topic)?;
    let client = AdminClient::of(source)?;
    if what.lines {
        for line in io::stdin().lock().lines() {
            publish_one(&client, &topic, unreadable(line)?.as_bytes(), what)?;
        }
        return Ok(());
    }
    match &what.message {
        Some(message) => publish_one(&client, &topic, message.as_bytes(), what),
        None => {
            let mut body = Vec::new();
            // One byte more than allowed, so that the node can say that it is too much.
            let limit = PUBLICATION_MAX as u64 + 1;
            unreadable(io::stdin().lock().take(limit).read_to_end(&mut body))?;
            publish_one(&client, &topic, &body, what)
        }
    }
}

fn publish_one(client: &AdminClient, topic: &Topic, body: &[u8], what: &Publish) -> Result<(), Failure> {
    let answer = client.post_when_free(&format!("/overlay/pub/{topic}"), body, what.wait)?;
    if what.json {
        return super::print(&format!("{answer}\n"));
    }
    let text = |key: &str| answer["id"][key].as_str().unwrap_or_default().to_owned();
    let verdict = answer["verdict"].as_str().unwrap_or_default();
    super::print(&format!(
        "{verdict} {} {} {}\n",
        text("publisher"),
        answer["id"]["incarnation"],
        answer["id"]["seq"]
    ))
}

/// The parameters of `sub`.
#[derive(Debug)]
pub(crate) struct Subscribe {
    pub(crate) topic: String,
    /// Go on after the event with this id.
    pub(crate) resume: Option<String>,
    /// End after so many publications.
    pub(crate) count: Option<u64>,
    pub(crate) json: bool,
}

/// Shows what is published until there was enough.
pub(super) fn subscribe(source: &ConfigSource, what: &Subscribe) -> Result<(), Failure> {
    let topic = topic(&what.topic)?;
    let client = AdminClient::of(source)?;
    let mut left = what.count;
    let after = what.resume.as_deref().map(event_id).transpose()?;
    client.subscribe(
        &format!("/overlay/sub/{topic}"),
        after.as_deref(),
        || (),
        |event| {
            if left == Some(0) {
                return Ok(false);
            }
            if what.json {
                let mut line = event.data.clone();
                line["event"] = event.name.as_str().into();
                line["event_id"] = event.id.as_str().into();
                super::print(&format!("{line}\n"))?;
            } else {
                show(&event.name, &event.data)?;
            }
            if event.name == "publication" {
                left = left.map(|left| left - 1);
            }
            if left == Some(0) && !what.json {
                eprintln!("the last event was {}: go on with --resume {}", event.id, event.id);
            }
            Ok(left != Some(0))
        },
    )
}

/// The id of an event, as `sub` prints it.
fn event_id(text: &str) -> Result<String, Failure> {
    let id: EventId = text.parse().map_err(|error| Failure::bad_config(format!("--resume: {error}")))?;
    Ok(id.to_string())
}

/// One event for people: publications on standard output, what is missing on standard error.
fn show(name: &str, data: &Value) -> Result<(), Failure> {
    match name {
        "publication" => {
            let mut line = match (data["text"].as_str(), data["base64"].as_str()) {
                (Some(text), _) => text.as_bytes().to_vec(),
                (None, Some(encoded)) => STANDARD.decode(encoded).unwrap_or_default(),
                (None, None) => Vec::new(),
            };
            line.push(b'\n');
            let mut out = io::stdout().lock();
            unreadable(out.write_all(&line).and_then(|()| out.flush()))
        }
        "gap" => {
            let publisher = data["publisher"].as_str().unwrap_or_default();
            let reason = data["reason"].as_str().unwrap_or_default();
            eprintln!("gap: {} to {} of {publisher} are missing: {reason}", data["from"], data["to"]);
            Ok(())
        }
        "not_resumed" => {
            eprintln!(
                "not resumed: the node was started again or has left the topic; all events that it keeps follow"
            );
            Ok(())
        }
        "lagging" => {
            eprintln!(
                "lagging: {} were missed: they were not read in time, or are not kept any more",
                data["missed"]
            );
            Ok(())
        }
        other => {
            eprintln!("{other}: {data}");
            Ok(())
        }
    }
}

fn topic(name: &str) -> Result<Topic, Failure> {
    Topic::new(name).map_err(Failure::bad_config)
}

/// The time that something took or happened, in seconds or longer units: `42s`, `3m`, `2h`, `5d`.
pub(super) fn in_short(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7200 => format!("{}m", seconds / 60),
        7200..172_800 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// The text at a key; a dash if there is none.
pub(super) fn text_of<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or("-")
}

/// The number at a key; zero if there is none.
pub(super) fn number_of(value: &Value, key: &str) -> u64 {
    value[key].as_u64().unwrap_or_default()
}

/// The list at a key; empty if there is none.
pub(super) fn list_of<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    value[key].as_array().into_iter().flatten()
}

fn unreadable<T>(outcome: io::Result<T>) -> Result<T, Failure> {
    outcome.map_err(|error| Failure::failed(format!("cannot read or write: {error}")))
}
