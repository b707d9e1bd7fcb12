//! What is heard, and what became of what was said.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use serde::Deserialize;
use serde_json::Value;

use crate::Error;

/// The result of a publication.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Published {
    /// `accepted` if a neighbour of the node has it too, else `local_only`.
    pub verdict: String,
    /// The publication's name: its publisher, the publisher's incarnation and a sequence number.
    pub id: PublicationId,
}

/// The name of a publication.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct PublicationId {
    /// The topic that it was published in; for a subscription to a pattern, the topic that matched.
    pub topic: String,
    /// The node it was published at.
    pub publisher: String,
    /// The incarnation of the publisher.
    pub incarnation: u64,
    /// The number, which counts from one.
    pub seq: u64,
}

/// An event of a subscription.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// `publication`, or what is missing: `gap`, `lagging`, `not_resumed`, `no_room`.
    pub kind: String,
    /// With it, a subscription begins behind this event.
    pub id: Option<String>,
    /// The fields of the event as the node sent them.
    pub data: Value,
}

impl Event {
    /// The topic it is about.
    #[must_use]
    pub fn topic(&self) -> Option<&str> {
        self.data["topic"].as_str()
    }

    /// The text of a publication; none if it is no text.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        self.data["text"].as_str()
    }

    /// The bytes of a publication.
    #[must_use]
    pub fn body(&self) -> Option<Bytes> {
        match (self.text(), self.data["base64"].as_str()) {
            (Some(text), _) => Some(Bytes::copy_from_slice(text.as_bytes())),
            (None, Some(base64)) => STANDARD.decode(base64).ok().map(Bytes::from),
            (None, None) => None,
        }
    }

    /// Reads the lines of one event; none if there is none in them, such as a sign of life.
    pub(crate) fn read(block: &str) -> Result<Option<Self>, Error> {
        let field = |name: &str| {
            let mut lines = block.lines().filter_map(|line| line.split_once(':'));
            lines.find(|(key, _)| *key == name).map(|(_, value)| value.strip_prefix(' ').unwrap_or(value))
        };
        let Some(data) = field("data") else { return Ok(None) };
        let kind = field("event").unwrap_or("message").to_owned();
        Ok(Some(Self { kind, id: field("id").map(ToOwned::to_owned), data: serde_json::from_str(data)? }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_read_and_signs_of_life_are_none() {
        let event = Event::read("id: 7-1\nevent: publication\ndata: {\"topic\":\"a\",\"text\":\"b: c\"}");
        let event = event.expect("JSON").expect("an event");
        assert_eq!((event.kind.as_str(), event.id.as_deref()), ("publication", Some("7-1")));
        assert_eq!((event.topic(), event.text()), (Some("a"), Some("b: c")));
        assert_eq!(Event::read(": still here").expect("nothing wrong"), None);
        assert!(Event::read("data: {").is_err());
        let bytes = Event { kind: String::new(), id: None, data: serde_json::json!({ "base64": "/w==" }) };
        assert_eq!(bytes.body().as_deref(), Some(&[255][..]));
    }
}
