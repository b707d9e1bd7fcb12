//! Who may do what: origins of web pages, and capability tokens.

use captoken::{Bearer, TokenError, TokenId, TopicRight};
use http::{HeaderMap, Uri, header, uri::Authority};
use ron_transport::ConnInfo;
use topics::{Filter, Pattern};
use types::{Reason, Refusal};

use super::route;
use crate::{ApiAuth, shared::TokenKeys};

/// Why what was opened without a token ends once tokens are asked for.
const TOKEN_REQUIRED: &str = "token_required";

/// Somebody who may ask.
#[derive(Clone, Debug)]
pub(super) enum Caller {
    /// Nothing has to be shown here.
    Anybody,
    /// A client that presented this token.
    Holder(Box<Bearer>),
}

impl Caller {
    /// The token's name, which everything made from it shares.
    pub(super) fn token(&self) -> Option<TokenId> {
        match self {
            Self::Anybody => None,
            Self::Holder(bearer) => Some(bearer.id()),
        }
    }

    /// Lets a publication in a topic pass.
    pub(super) fn may_publish(&self, topic: &str) -> Result<(), Refusal> {
        let pattern =
            Pattern::new(topic).map_err(|error| Refusal::new(Reason::Malformed, error.to_string()))?;
        self.may(TopicRight::Publish, pattern)
    }

    /// Lets a publication pass that came with the request of `sender` and not as a request of its own: it is judged as if it
    /// were one.
    pub(super) fn may_publish_within(
        &self,
        topic: &str,
        sender: Sender<'_>,
        unix: u64,
    ) -> Result<(), Refusal> {
        self.may_request(Sender { method: "POST", path: &route::path_to_publish(topic), ..sender }, unix)?;
        self.may_publish(topic)
    }

    /// Lets a subscription pass that came with the request of `sender`. What that names beyond its path is judged as if it were
    /// asked for with requests of its own.
    pub(super) fn may_subscribe(
        &self,
        filter: &Filter,
        sender: Sender<'_>,
        unix: u64,
    ) -> Result<(), Refusal> {
        filter.patterns().try_for_each(|pattern| {
            if let Some(path) = route::path_beyond(sender.path, pattern) {
                self.may_request(Sender { path: &path, ..sender }, unix)?;
            }
            self.may(TopicRight::Subscribe, pattern)
        })
    }

    fn may_request(&self, sender: Sender<'_>, unix: u64) -> Result<(), Refusal> {
        let Self::Holder(bearer) = self else { return Ok(()) };
        bearer.authorize(&sender.request(unix)).map_err(Refusal::from)
    }

    fn may(&self, right: TopicRight, pattern: Pattern<'_>) -> Result<(), Refusal> {
        let Self::Holder(bearer) = self else { return Ok(()) };
        bearer.authorize_topic(right, pattern).map_err(|error| {
            let detail = match error {
                TokenError::WrongScope => format!("the token does not carry the right `{}`", right.scope()),
                _ => format!("the token does not cover `{pattern}`"),
            };
            Refusal::new(error.reason(), detail)
        })
    }

    /// Why what was shown is no longer good, if it is not, or that something has to be shown by now.
    pub(super) fn over(&self, auth: ApiAuth, tokens: &TokenKeys, unix: u64) -> Option<&'static str> {
        let Self::Holder(bearer) = self else {
            return (auth != ApiAuth::None).then_some(TOKEN_REQUIRED);
        };
        let error = if bearer.expires().is_some_and(|end| unix >= end) {
            TokenError::Expired
        } else if tokens.revoked.contains(bearer.id()) {
            TokenError::Revoked
        } else if tokens.ring.find(bearer.key_id()).is_none() {
            TokenError::UnknownKey
        } else {
            return None;
        };
        Some(error.as_str())
    }
}

/// What a request says of who sent it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sender<'a> {
    pub(super) conn: &'a ConnInfo,
    pub(super) method: &'a str,
    pub(super) path: &'a str,
}

impl<'a> Sender<'a> {
    fn request(self, unix: u64) -> captoken::Request<'a> {
        captoken::Request {
            path: self.path,
            method: self.method,
            ip: self.conn.client().map(|addr| addr.ip()),
            now: unix,
            tenant: None,
            scope: None,
            session: None,
        }
    }
}

/// Tells who shows a token.
pub(super) fn caller(
    token: Option<&[u8]>,
    auth: ApiAuth,
    tokens: &TokenKeys,
    sender: Sender<'_>,
    unix: u64,
) -> Result<Caller, Refusal> {
    if auth == ApiAuth::None {
        return Ok(Caller::Anybody);
    }
    let missing =
        || Refusal::new(Reason::Unauth, "send `Authorization: Bearer` with a capability for the topic");
    let token = token.ok_or_else(missing)?;
    let shown = captoken::verify(token, &tokens.ring, &tokens.revoked, &sender.request(unix));
    shown.map(|bearer| Caller::Holder(Box::new(bearer))).map_err(Refusal::from)
}

/// The token in `Authorization`.
pub(super) fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    let value = headers.get(header::AUTHORIZATION)?.as_bytes();
    let (scheme, token) = value.split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then(|| token.trim_ascii())
}

/// Origins of web pages that may use the listener.
#[derive(Clone, Debug, Default)]
pub(super) struct Origins {
    any: bool,
    listed: Vec<String>,
}

impl Origins {
    pub(super) fn new(listed: &[String]) -> Self {
        Self { any: listed.iter().any(|origin| origin == "*"), listed: listed.to_vec() }
    }

    /// Lets a request pass that no web page of elsewhere sent. Tells the origin that its answer is for, if a page sent it.
    ///
    /// Where nobody has to show anything, pages whose names were made to lead to this machine are turned away too.
    pub(super) fn admit<'a>(
        &self,
        uri: &Uri,
        headers: &'a HeaderMap,
        auth: ApiAuth,
    ) -> Result<Option<&'a str>, Refusal> {
        let text =
            |name: &header::HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or_default());
        let asked = uri.authority().map(Authority::as_str).or_else(|| text(&header::HOST));
        if auth == ApiAuth::None && !asked.is_none_or(|asked| is_here(asked) || self.has_host(asked)) {
            let detail =
                "without a token ask by address or as localhost, so that no web page can ask in your name";
            return Err(Refusal::new(Reason::Forbidden, detail));
        }
        let Some(origin) = headers.get(header::ORIGIN).map(|value| value.to_str().unwrap_or_default()) else {
            return Ok(None);
        };
        let is_own = origin
            .split_once("://")
            .is_some_and(|(_, host)| asked.is_some_and(|asked| asked.eq_ignore_ascii_case(host)));
        if is_own || self.any || self.listed.iter().any(|listed| listed.eq_ignore_ascii_case(origin)) {
            return Ok(Some(origin));
        }
        Err(Refusal::new(
            Reason::Forbidden,
            "this is not for web pages of that origin: see `overlay.api.allow_origins`",
        ))
    }

    fn has_host(&self, asked: &str) -> bool {
        let host_of = |origin: &String| origin.split_once("://").map(|(_, host)| host.to_owned());
        self.listed.iter().filter_map(host_of).any(|host| host.eq_ignore_ascii_case(asked))
    }
}

/// Whether a request was addressed to this machine by its address or as localhost.
fn is_here(asked: &str) -> bool {
    asked.parse::<Authority>().is_ok_and(|authority| {
        let host = authority.host();
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        bare.parse::<std::net::IpAddr>().is_ok() || host.eq_ignore_ascii_case("localhost")
    })
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn admitted(
        listed: &[&str],
        auth: ApiAuth,
        fields: &[(&'static str, &str)],
    ) -> Result<Option<String>, Reason> {
        let listed: Vec<String> = listed.iter().map(|origin| (*origin).to_owned()).collect();
        let field = |(name, value): &(&'static str, &str)| {
            (http::HeaderName::from_static(name), value.parse().unwrap())
        };
        let headers: HeaderMap = fields.iter().map(field).collect();
        let origin = Origins::new(&listed).admit(&Uri::from_static("/"), &headers, auth);
        origin.map(|origin| origin.map(str::to_owned)).map_err(|refusal| refusal.reason)
    }

    #[test]
    fn pages_of_listed_origins_and_of_our_own_may_ask() {
        let page = ("origin", "https://chat.example");
        let listed = ["https://chat.example"];
        assert_eq!(admitted(&listed, ApiAuth::Token, &[page]), Ok(Some(page.1.to_owned())));
        assert_eq!(admitted(&["*"], ApiAuth::Token, &[page]), Ok(Some(page.1.to_owned())));
        let own = [page, ("host", "chat.example")];
        assert_eq!(admitted(&[], ApiAuth::Token, &own), Ok(Some(page.1.to_owned())));
        assert_eq!(admitted(&[], ApiAuth::Token, &[("host", "any.example")]), Ok(None), "a program");
        for origin in ["https://evil.example", "http://chat.example", "null", "", "https://chat.example.evil"]
        {
            assert_eq!(
                admitted(&listed, ApiAuth::Token, &[("origin", origin)]),
                Err(Reason::Forbidden),
                "{origin}"
            );
        }
    }

    #[test]
    fn without_tokens_no_page_can_lead_to_this_machine_by_a_name_of_its_own() {
        for host in ["127.0.0.1:9510", "localhost:9510", "[::1]:9510"] {
            assert_eq!(admitted(&[], ApiAuth::None, &[("host", host)]), Ok(None), "{host}");
        }
        let rebound = [("host", "evil.example"), ("origin", "http://evil.example")];
        assert_eq!(admitted(&[], ApiAuth::None, &rebound), Err(Reason::Forbidden));
        assert_eq!(admitted(&[], ApiAuth::None, &rebound[..1]), Err(Reason::Forbidden));
        assert!(admitted(&["http://chat.example"], ApiAuth::None, &[("host", "chat.example")]).is_ok());
    }
}
