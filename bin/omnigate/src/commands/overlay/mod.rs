//! `omnigate pub`, `sub` and `peers`: the overlay of a running node, by way of its admin listener.

pub(super) mod admin_client;
mod objects;
mod pinned_tls;

use std::{
    io::{self, BufRead, Read, Write},
    time::Duration,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use oap::{PUBLICATION_MAX, Topic};
use serde_json::Value;

use crate::{config_file::ConfigSource, failure::Failure};
use admin_client::AdminClient;
pub(crate) use objects::PutObject;
pub(super) use objects::{get as get_object, put as put_object};

/// What `pub` is to do.
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

/// Publishes.
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

/// Shows what is published until there was enough.
pub(super) fn subscribe(
    source: &ConfigSource,
    topic_name: &str,
    count: Option<u64>,
    json: bool,
) -> Result<(), Failure> {
    let topic = topic(topic_name)?;
    let client = AdminClient::of(source)?;
    let mut left = count;
    client.events("GET", &format!("/overlay/sub/{topic}"), |name, data| {
        if left == Some(0) {
            return Ok(false);
        }
        if json {
            let mut line = data.clone();
            line["event"] = name.into();
            super::print(&format!("{line}\n"))?;
        } else {
            show(name, data)?;
        }
        if name == "publication" {
            left = left.map(|left| left - 1);
        }
        Ok(left != Some(0))
    })
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
        _ => {
            eprintln!("lagging: {} were missed, because they were not read in time", data["missed"]);
            Ok(())
        }
    }
}

/// Shows who is connected.
pub(super) fn peers(source: &ConfigSource, json: bool) -> Result<(), Failure> {
    let answer = AdminClient::of(source)?.get("/overlay/peers")?;
    if json {
        return super::print(&super::pretty(&answer));
    }
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    let mut lines = format!("{} listens on {}\n", text(&answer["node"]), text(&answer["listen"]));
    for peer in answer["peers"].as_array().into_iter().flatten() {
        let way = if peer["dialled"].as_bool() == Some(true) { "to" } else { "from" };
        lines.push_str(&format!(
            "{}  {way} {}  up {}s  in {}  out {}  queued {}  {}\n",
            text(&peer["node"]),
            text(&peer["place"]),
            peer["up_secs"],
            peer["frames_in"],
            peer["frames_out"],
            peer["queued"],
            text(&peer["key_exchange"]),
        ));
    }
    super::print(&lines)
}

fn topic(name: &str) -> Result<Topic, Failure> {
    Topic::new(name).map_err(Failure::bad_config)
}

fn unreadable<T>(outcome: io::Result<T>) -> Result<T, Failure> {
    outcome.map_err(|error| Failure::failed(format!("cannot read or write: {error}")))
}
