//! `/cache`: what the gateway has stored, and purging it.

use std::sync::Arc;

use http::StatusCode;
use http_body_util::{BodyExt as _, Limited};
use ron_transport::{Body, BodyError, Response};
use serde::Deserialize;
use serde_json::json;
use svc_gateway::{Gateway, Purge, PurgeError};
use types::{Reason, Refusal};

use super::{audit::Detail, reply};

/// The longest request to purge, in bytes.
const BODY_MAX: usize = 16 * 1024;

/// What is to be purged, as it is written.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Wanted {
    url: Option<String>,
    prefix: Option<String>,
    tag: Option<String>,
    all: bool,
    soft: bool,
}

/// The pages about the gateway's cache.
#[derive(Debug)]
pub(super) struct CachePages(pub(super) Option<Arc<Gateway>>);

impl CachePages {
    /// How the cache is doing; `?url=` for the stored responses of a URL.
    pub(super) fn show(&self, query: Option<&str>) -> Result<Response, Refusal> {
        let url = match query {
            None => None,
            Some(query) => Some(
                query
                    .strip_prefix("url=")
                    .and_then(decoded)
                    .ok_or_else(|| malformed("write ?url= and a URL"))?,
            ),
        };
        let report = self.gateway()?.cache_report(url.as_deref()).ok_or_else(no_cache)?;
        Ok(reply::json(StatusCode::OK, &json!(report)))
    }

    /// Purges what a request's body names.
    pub(super) async fn purge(&self, body: Body) -> Result<Response, Refusal> {
        let gateway = self.gateway()?;
        let body = Limited::new(body, BODY_MAX).collect().await.map_err(|error| {
            let too_large =
                || Refusal::new(Reason::BodyCap, format!("the body has more than {BODY_MAX} bytes"));
            error.downcast_ref::<BodyError>().map_or_else(too_large, BodyError::refusal)
        })?;
        let wanted: Wanted =
            serde_json::from_slice(&body.to_bytes()).map_err(|error| malformed(&error.to_string()))?;
        let (purge, soft) = (purge_of(&wanted)?, wanted.soft);
        let what = shown(&purge);
        let count = gateway.purge(purge, soft).await.map_err(|error| match error {
            PurgeError::NoCache => no_cache(),
            error => Refusal::new(Reason::Busy, error.to_string()),
        })?;
        let mut response = reply::json(StatusCode::OK, &json!({ "purged": count, "soft": soft }));
        let kind = if soft { "soft, " } else { "" };
        response.extensions_mut().insert(Detail(format!("{kind}{what}, {count} responses")));
        Ok(response)
    }

    fn gateway(&self) -> Result<&Arc<Gateway>, Refusal> {
        let missing = || Refusal::new(Reason::NotFound, "the gateway is not enabled: set `gateway.enabled`");
        self.0.as_ref().ok_or_else(missing)
    }
}

/// What is purged: exactly one thing.
fn purge_of(wanted: &Wanted) -> Result<Purge, Refusal> {
    let is_url = |url: &str| url.starts_with("http://") || url.starts_with("https://");
    let named = [wanted.url.is_some(), wanted.prefix.is_some(), wanted.tag.is_some(), wanted.all];
    if named.iter().filter(|is_named| **is_named).count() != 1 {
        return Err(malformed("name one of `url`, `prefix`, `tag` and `all`"));
    }
    match wanted {
        Wanted { url: Some(url), .. } | Wanted { prefix: Some(url), .. } if !is_url(url) => {
            Err(malformed("a URL begins with http:// or https://"))
        }
        Wanted { url: Some(url), .. } => Ok(Purge::Url(url.clone())),
        Wanted { prefix: Some(prefix), .. } => Ok(Purge::Prefix(prefix.clone())),
        Wanted { tag: Some(tag), .. } if tag.trim().is_empty() => Err(malformed("the tag is empty")),
        Wanted { tag: Some(tag), .. } => Ok(Purge::Tag(tag.clone())),
        _ => Ok(Purge::All),
    }
}

/// What is purged, for the audit trail: without queries, which may hold secrets.
fn shown(purge: &Purge) -> String {
    let path = |url: &str| url.split(['?', '#']).next().unwrap_or_default().to_owned();
    match purge {
        Purge::Url(url) => format!("url {}", path(url)),
        Purge::Prefix(prefix) => format!("prefix {}", path(prefix)),
        Purge::Tag(tag) => format!("tag {tag}"),
        Purge::All => "all".to_owned(),
    }
}

/// A text of a query, percent-decoded; `None` if it is none.
fn decoded(text: &str) -> Option<String> {
    let (mut bytes, mut rest) = (Vec::with_capacity(text.len()), text.bytes());
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let digits = [rest.next()?, rest.next()?];
                u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?
            }
            b'&' => return None,
            byte => byte,
        });
    }
    String::from_utf8(bytes).ok()
}

fn malformed(detail: &str) -> Refusal {
    Refusal::new(Reason::Malformed, detail.to_owned())
}

fn no_cache() -> Refusal {
    Refusal::new(Reason::NotFound, PurgeError::NoCache.to_string())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn one_thing_is_purged_at_a_time() {
        let read = |text: &str| purge_of(&serde_json::from_str(text).unwrap());
        assert_eq!(read(r#"{"url":"http://a/b"}"#).unwrap(), Purge::Url("http://a/b".to_owned()));
        assert_eq!(read(r#"{"prefix":"https://a/"}"#).unwrap(), Purge::Prefix("https://a/".to_owned()));
        assert_eq!(read(r#"{"tag":"t","soft":true}"#).unwrap(), Purge::Tag("t".to_owned()));
        assert_eq!(read(r#"{"all":true}"#).unwrap(), Purge::All);
        for wrong in [
            "{}",
            r#"{"all":false}"#,
            r#"{"url":"http://a/","all":true}"#,
            r#"{"url":"/b"}"#,
            r#"{"prefix":""}"#,
            r#"{"tag":" "}"#,
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn queries_stay_out_of_the_trail() {
        assert_eq!(shown(&Purge::Url("http://a/b?token=x".to_owned())), "url http://a/b");
    }

    #[test]
    fn a_query_is_decoded_or_refused() {
        assert_eq!(decoded("http%3A%2f%2Fa/?x").as_deref(), Some("http://a/?x"));
        for wrong in ["%", "%1", "%zz", "%ff", "a&b"] {
            assert_eq!(decoded(wrong), None, "{wrong}");
        }
    }
}
