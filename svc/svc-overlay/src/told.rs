//! What subscribers are told, as names and JSON.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use oap::MessageId;
use serde_json::{Value, json};

use crate::{Delivery, Gap, Published};

/// An event's name and what it says.
#[must_use]
pub fn event_json(delivery: &Delivery) -> (&'static str, Value) {
    match delivery {
        Delivery::Publication { id, body, hops, late } => {
            let mut data = id_json(id);
            data["hops"] = (*hops).into();
            data["late"] = (*late).into();
            // As text where it is text, because people look at it.
            match str::from_utf8(body) {
                Ok(text) => data["text"] = text.into(),
                Err(_) => data["base64"] = STANDARD.encode(body).into(),
            }
            ("publication", data)
        }
        Delivery::Gap(gap) => ("gap", gap_json(gap)),
        Delivery::Lagging(missed) => ("lagging", json!({ "missed": missed })),
        Delivery::NotResumed => ("not_resumed", json!({})),
        Delivery::NoRoom(topic) => ("no_room", json!({ "topic": topic.as_str() })),
    }
}

/// Formats a gap as JSON.
#[must_use]
pub fn gap_json(gap: &Gap) -> Value {
    json!({
        "topic": gap.topic.as_str(),
        "publisher": gap.publisher.to_string(),
        "incarnation": gap.incarnation,
        "from": gap.from,
        "to": gap.to,
        "reason": gap.reason.name(),
    })
}

/// The name of a publication.
#[must_use]
pub fn id_json(id: &MessageId) -> Value {
    json!({
        "topic": id.topic.as_str(),
        "publisher": id.publisher.to_string(),
        "incarnation": id.incarnation,
        "seq": id.seq,
    })
}

/// Formats the result of a publication as JSON.
#[must_use]
pub fn published_json(published: &Published) -> Value {
    let verdict = if published.accepted { "accepted" } else { "local_only" };
    json!({ "verdict": verdict, "id": id_json(&published.id) })
}
