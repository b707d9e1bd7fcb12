//! The readers of the listener for applications as a fuzz target reaches them: anything goes in, and what comes out is checked.

use http::{Method, Uri};
use topics::{FILTER_MAX, Filter};

use super::{
    frames::{self, Op},
    route::{self, Route},
};
use crate::Cursor;

/// Reads a text as a path and a query, as a filter, as a cursor and as what a client says over a WebSocket, and checks what is
/// made of it.
///
/// # Panics
/// If that breaks a rule.
pub fn check_api_input(text: &str) {
    for target in [text.to_owned(), format!("/v1/topics/{text}"), format!("/v1/topics/a/events?{text}")] {
        if let Ok(uri) = target.parse() {
            check_target(&uri);
        }
    }
    if let Ok(filter) = Filter::new(text.split(',')) {
        check_filter(&filter);
    }
    check_cursor(text);
    match Op::read(text) {
        Ok(Op::Publish { topic, .. }) => drop(oap::Topic::new(topic.as_str()).expect("a topic")),
        Ok(Op::Subscribe { number, filter, after }) => {
            check_filter(&filter);
            let told: serde_json::Value =
                serde_json::from_str(&frames::subscribed(number, &filter)).expect("JSON");
            assert_eq!(told["ref"].as_u64(), number);
            after.iter().for_each(|after| check_cursor(&after.to_string()));
        }
        Ok(Op::Auth(_)) => {}
        Err(wrong) => assert!(!wrong.refusal.detail.is_empty()),
    }
}

fn check_target(uri: &Uri) {
    for method in [Method::GET, Method::POST, Method::PUT] {
        match Route::find(&method, uri) {
            Ok(Route::Publish(topic)) => {
                assert!(method == Method::POST && oap::Topic::new(topic.as_str()).is_ok(), "{topic}");
            }
            Ok(Route::Events(filter) | Route::Socket(filter)) => {
                assert_eq!(method, Method::GET);
                check_filter(&filter);
            }
            Err(refusal) => assert!((400..500).contains(&refusal.reason.status()), "{refusal:?}"),
        }
    }
    if let Ok(Some(after)) = route::after(uri.query()) {
        check_cursor(&after);
    }
}

/// A filter has few patterns, and is the same if it is made from their texts again.
fn check_filter(filter: &Filter) {
    let patterns: Vec<String> = filter.patterns().map(|pattern| pattern.as_str().to_owned()).collect();
    assert!((1..=FILTER_MAX).contains(&patterns.len()), "{patterns:?}");
    let again = Filter::new(patterns.iter().map(String::as_str)).expect("what was read once");
    assert_eq!(again, *filter);
    assert_eq!(filter.exact().count() == patterns.len(), !filter.is_wild(), "{patterns:?}");
}

/// A cursor that is read has one text, which reads back the same.
fn check_cursor(text: &str) {
    if let Ok(cursor) = text.parse::<Cursor>() {
        assert_eq!(cursor.to_string().parse().ok(), Some(cursor), "{text}");
    }
}

#[cfg(test)]
mod tests {
    use super::check_api_input;

    #[test]
    fn good_and_bad_inputs_keep_the_rules() {
        for text in [
            "",
            "news",
            "chat.>/events?topic=a.*&after=0:7-1.1:8-2",
            "topic=%2A&after=%30-1&after",
            "a%2",
            "chat.*,metrics.>,news,news",
            "0:1-2.1:3-4",
            "1:1-2.0:3-4",
            "007-1",
            "{\"op\":\"publish\",\"ref\":1,\"topic\":\"a\",\"base64\":\"!\"}",
            "{\"op\":\"publish\",\"topic\":\"a\",\"text\":\"hello\"}",
            "{\"op\":\"subscribe\",\"ref\":2,\"topics\":[\"chat.>\",\"a\"],\"after\":\"0:1-2\"}",
            "{\"op\":\"subscribe\",\"topics\":[]}",
            "{\"op\":\"auth\",\"token\":\"og1.x\"}",
        ] {
            check_api_input(text);
        }
    }
}
