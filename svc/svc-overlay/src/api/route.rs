//! What a request on the listener for applications asks for.

use http::{Method, Uri};
use oap::Topic;
use topics::{Filter, Pattern};
use types::{Reason, Refusal};

/// The prefix of every path.
const PREFIX: &str = "/v1/topics/";

/// The resource that a path names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Route {
    /// Publish the body of the request in this topic.
    Publish(Topic),
    /// Hear of topics as server-sent events.
    Events(Filter),
    /// Hear of topics, and publish, over a WebSocket.
    Socket(Filter),
}

impl Route {
    /// The names of all routes, as in metrics.
    pub(super) const NAMES: [&str; 3] =
        ["/v1/topics/{topic}", "/v1/topics/{pattern}/events", "/v1/topics/{pattern}/ws"];

    /// Returns the index in [`NAMES`](Self::NAMES).
    pub(super) const fn index(&self) -> usize {
        match self {
            Self::Publish(_) => 0,
            Self::Events(_) => 1,
            Self::Socket(_) => 2,
        }
    }

    /// What a method and an address ask for.
    pub(super) fn find(method: &Method, uri: &Uri) -> Result<Self, Refusal> {
        let Some(rest) = uri.path().strip_prefix(PREFIX) else {
            let there_are = Self::NAMES.join(", ");
            return Err(Refusal::new(Reason::NotFound, format!("there are {there_are}")));
        };
        if *method == Method::POST {
            let name = decoded(rest)?;
            let topic =
                Topic::new(&name).map_err(|error| Refusal::new(Reason::Malformed, error.to_string()))?;
            return Ok(Self::Publish(topic));
        }
        if *method != Method::GET {
            return Err(Refusal::new(Reason::MethodNotAllowed, "use GET or POST"));
        }
        let of = |pattern: &str, make: fn(Filter) -> Self| filter(pattern, uri.query()).map(make);
        match rest.rsplit_once('/') {
            Some((pattern, "events")) => of(pattern, Self::Events),
            Some((pattern, "ws")) => of(pattern, Self::Socket),
            _ => Err(Refusal::new(Reason::NotFound, "subscribe to a topic at its /events or /ws")),
        }
    }
}

/// The path at which a topic is published in.
pub(super) fn path_to_publish(topic: &str) -> String {
    format!("{PREFIX}{topic}")
}

/// The path at which a pattern would be heard of in the same way as at `path`; `None` if it is the one that `path` names.
pub(super) fn path_beyond(path: &str, pattern: Pattern<'_>) -> Option<String> {
    let (named, way) = path.strip_prefix(PREFIX).and_then(|rest| rest.rsplit_once('/')).unwrap_or_default();
    if decoded(named).is_ok_and(|named| named == pattern.as_str()) {
        return None;
    }
    // As it is written in addresses.
    let written = pattern.as_str().replace('>', "%3E");
    Some(format!("{PREFIX}{written}/{way}"))
}

/// The topics of a subscription: that of the path, and those of `topic=` in the query.
fn filter(pattern: &str, query: Option<&str>) -> Result<Filter, Refusal> {
    let mut texts = vec![decoded(pattern)?];
    for topic in values(query, "topic") {
        texts.push(decoded(topic)?);
    }
    let filter = Filter::new(texts.iter().map(String::as_str));
    filter.map_err(|error| Refusal::new(Reason::Malformed, error.to_string()))
}

/// What a subscriber that comes back heard last, if the query says so.
pub(super) fn after(query: Option<&str>) -> Result<Option<String>, Refusal> {
    values(query, "after").next().map(decoded).transpose()
}

/// The values of a name in a query.
fn values<'a>(query: Option<&'a str>, name: &'a str) -> impl Iterator<Item = &'a str> {
    let pairs = query.unwrap_or_default().split('&').filter_map(|pair| pair.split_once('='));
    pairs.filter(move |(key, _)| *key == name).map(|(_, value)| value)
}

/// A text without its percent signs.
fn decoded(text: &str) -> Result<String, Refusal> {
    let malformed =
        || Refusal::new(Reason::Malformed, "a percent sign is followed by two hexadecimal digits");
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, more)) = rest.split_first() {
        if *first != b'%' {
            bytes.push(*first);
            rest = more;
            continue;
        }
        let digits = more.get(..2).filter(|digits| digits.iter().all(u8::is_ascii_hexdigit));
        let digits = digits.and_then(|digits| str::from_utf8(digits).ok()).ok_or_else(malformed)?;
        bytes.push(u8::from_str_radix(digits, 16).map_err(|_| malformed())?);
        rest = &more[2..];
    }
    String::from_utf8(bytes).map_err(|_| malformed())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(method: &Method, uri: &str) -> Result<Route, Reason> {
        let uri = uri.parse::<Uri>().expect(uri);
        Route::find(method, &uri).map_err(|refusal| refusal.reason)
    }

    fn of(texts: &[&str]) -> Filter {
        Filter::new(texts.iter().copied()).expect("a filter")
    }

    #[test]
    fn paths_name_topics_and_patterns() {
        let topic = |name: &str| Ok(Route::Publish(Topic::new(name).expect(name)));
        assert_eq!(find(&Method::POST, "/v1/topics/news"), topic("news"));
        assert_eq!(find(&Method::POST, "/v1/topics/a/b"), topic("a/b"));
        assert_eq!(find(&Method::POST, "/v1/topics/a%2Fb"), topic("a/b"));
        assert_eq!(find(&Method::GET, "/v1/topics/news/events"), Ok(Route::Events(of(&["news"]))));
        assert_eq!(find(&Method::GET, "/v1/topics/metrics.%3E/ws"), Ok(Route::Socket(of(&["metrics.>"]))));
        assert_eq!(
            find(&Method::GET, "/v1/topics/a.*/events?topic=b&x=1&topic=c.%2A&after=7-1"),
            Ok(Route::Events(of(&["a.*", "b", "c.*"])))
        );
        assert_eq!(after(Some("topic=b&after=0%3A7-1")).map_err(|r| r.reason), Ok(Some("0:7-1".to_owned())));
    }

    #[test]
    fn what_is_named_beyond_a_path_has_a_path_of_its_own() {
        let beyond = |path: &str, pattern: &str| path_beyond(path, Pattern::new(pattern).expect(pattern));
        assert_eq!(beyond("/v1/topics/a%2Fb/events", "a/b"), None);
        assert_eq!(beyond("/v1/topics/a.%3e/ws", "a.>"), None);
        assert_eq!(beyond("/v1/topics/a/events", "b.>").as_deref(), Some("/v1/topics/b.%3E/events"));
        assert_eq!(beyond("/v1/topics/a/ws", "a/b.*").as_deref(), Some("/v1/topics/a/b.*/ws"));
        assert_eq!(path_to_publish("a/b"), "/v1/topics/a/b");
    }

    #[test]
    fn what_is_no_topic_is_refused() {
        for (method, uri, reason) in [
            (Method::POST, "/v1/topics/News", Reason::Malformed),
            (Method::POST, "/v1/topics/a.*", Reason::Malformed),
            (Method::POST, "/v1/topics/", Reason::Malformed),
            (Method::POST, "/v1/topics/a%2", Reason::Malformed),
            (Method::POST, "/v1/topics/a%zz", Reason::Malformed),
            (Method::POST, "/v1/topics/%ff", Reason::Malformed),
            (Method::GET, "/v1/topics/a*/events", Reason::Malformed),
            (Method::GET, "/v1/topics/news", Reason::NotFound),
            (Method::GET, "/v2/topics/news/events", Reason::NotFound),
            (Method::DELETE, "/v1/topics/news", Reason::MethodNotAllowed),
        ] {
            assert_eq!(find(&method, uri), Err(reason), "{method} {uri}");
        }
        let many: String = (0..16).map(|n| format!("&topic=t{n}")).collect();
        assert_eq!(find(&Method::GET, &format!("/v1/topics/a/events?{many}")), Err(Reason::Malformed));
    }
}
