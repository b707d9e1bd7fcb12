//! What is said over a WebSocket, as JSON in text frames.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use oap::Topic;
use serde::Deserialize;
use serde_json::{Value, json};
use topics::Filter;
use types::{Reason, Refusal};

use crate::{Cursor, Delivery, Published, told};

/// A message from a client.
#[derive(PartialEq, Eq)]
pub(super) enum Op {
    /// Presents the token by which all later messages are judged.
    Auth(String),
    /// Publishes a body in a topic; the reply carries the same number.
    Publish { number: Option<u64>, topic: Topic, body: Bytes },
    /// Hears of these from now on, instead of what it heard of before.
    Subscribe { number: Option<u64>, filter: Filter, after: Option<Cursor> },
}

/// The JSON form of a client's message.
#[derive(Deserialize)]
#[serde(tag = "op", rename_all = "snake_case", deny_unknown_fields)]
enum Written {
    Auth {
        token: String,
    },
    Publish {
        #[serde(rename = "ref")]
        number: Option<u64>,
        topic: String,
        text: Option<String>,
        base64: Option<String>,
    },
    Subscribe {
        #[serde(rename = "ref")]
        number: Option<u64>,
        topics: Vec<String>,
        after: Option<String>,
    },
}

/// What is wrong with what a client said, and which it was.
#[derive(Debug)]
pub(super) struct Wrong {
    pub(super) number: Option<u64>,
    pub(super) refusal: Refusal,
}

impl Op {
    /// Reads what a client says.
    pub(super) fn read(text: &str) -> Result<Self, Wrong> {
        let malformed = |number: Option<u64>, detail: String| Wrong {
            number,
            refusal: Refusal::new(Reason::Malformed, detail),
        };
        let unreadable = |_| {
            // Without what the library says, which may repeat a token.
            let detail =
                "say {\"op\": \"auth\"}, {\"op\": \"publish\"} or {\"op\": \"subscribe\"} with its fields";
            malformed(None, detail.to_owned())
        };
        match serde_json::from_str(text).map_err(unreadable)? {
            Written::Auth { token } => Ok(Self::Auth(token)),
            Written::Publish { number, topic, text, base64 } => {
                let topic = Topic::new(&topic).map_err(|error| malformed(number, error.to_string()))?;
                let body = match (text, base64) {
                    (Some(text), None) => Bytes::from(text),
                    (None, Some(base64)) => STANDARD
                        .decode(base64)
                        .map(Bytes::from)
                        .map_err(|_| malformed(number, "`base64` is not base64".to_owned()))?,
                    _ => return Err(malformed(number, "say either `text` or `base64`".to_owned())),
                };
                Ok(Self::Publish { number, topic, body })
            }
            Written::Subscribe { number, topics, after } => {
                let filter = Filter::new(topics.iter().map(String::as_str));
                let filter = filter.map_err(|error| malformed(number, error.to_string()))?;
                let after = after.map(|after| after.parse()).transpose();
                let after =
                    after.map_err(|_| malformed(number, "`after` is not the id of an event".to_owned()))?;
                Ok(Self::Subscribe { number, filter, after })
            }
        }
    }
}

/// Makes the frame for an event.
pub(super) fn event(cursor: &Cursor, delivery: &Delivery) -> String {
    let (kind, mut data) = told::event_json(delivery);
    // The event's own id; a publication's name is in the fields beside it.
    data["type"] = kind.into();
    data["cursor"] = cursor.to_string().into();
    data.to_string()
}

/// A publication was taken on.
pub(super) fn published(number: Option<u64>, published: &Published) -> String {
    let mut data = told::published_json(published);
    data["type"] = "published".into();
    data["ref"] = json!(number);
    data.to_string()
}

/// Makes the frame that confirms a subscription.
pub(super) fn subscribed(number: Option<u64>, filter: &Filter) -> String {
    let topics: Value = filter.patterns().map(|pattern| pattern.as_str().to_owned()).collect();
    json!({ "type": "subscribed", "ref": number, "topics": topics }).to_string()
}

/// Makes the frame for a refusal.
pub(super) fn refused(number: Option<u64>, refusal: &Refusal, corr_id: &str) -> String {
    let wait = refusal.retry_after.map(|wait| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX));
    json!({
        "type": "error",
        "ref": number,
        "status": refusal.reason.status(),
        "reason": refusal.reason.as_str(),
        "detail": refusal.detail,
        "retry_after_ms": wait,
        "corr_id": corr_id,
    })
    .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_client_says_is_read() {
        assert!(
            matches!(Op::read(r#"{"op":"auth","token":"og1.x"}"#), Ok(Op::Auth(token)) if token == "og1.x")
        );
        let Ok(Op::Publish { number, topic, body }) =
            Op::read(r#"{"op":"publish","ref":7,"topic":"chat.a","base64":"aGk="}"#)
        else {
            panic!("a publication")
        };
        assert_eq!((number, topic.as_str(), &body[..]), (Some(7), "chat.a", &b"hi"[..]));
        let Ok(Op::Subscribe { filter, after, .. }) =
            Op::read(r#"{"op":"subscribe","topics":["chat.>","news"],"after":"7-1"}"#)
        else {
            panic!("a subscription")
        };
        assert!(filter.matches("chat.a.b") && filter.matches("news"));
        assert_eq!(after.map(|after| after.to_string()).as_deref(), Some("7-1"));
    }

    #[test]
    fn nonsense_is_refused_by_its_number_and_no_token_is_repeated() {
        for (text, number) in [
            ("", None),
            ("[]", None),
            (r#"{"op":"sing"}"#, None),
            (r#"{"op":"auth","token":"secret","more":1}"#, None),
            (r#"{"op":"publish","ref":3,"topic":"News","text":""}"#, Some(3)),
            (r#"{"op":"publish","ref":4,"topic":"news"}"#, Some(4)),
            (r#"{"op":"publish","ref":5,"topic":"news","text":"","base64":""}"#, Some(5)),
            (r#"{"op":"publish","ref":6,"topic":"news","base64":"!"}"#, Some(6)),
            (r#"{"op":"subscribe","ref":7,"topics":[]}"#, Some(7)),
            (r#"{"op":"subscribe","ref":8,"topics":["a"],"after":"x"}"#, Some(8)),
        ] {
            let Err(wrong) = Op::read(text) else { panic!("{text}") };
            assert_eq!((wrong.number, wrong.refusal.reason), (number, Reason::Malformed), "{text}");
            assert!(!wrong.refusal.detail.contains("secret"));
        }
    }
}
