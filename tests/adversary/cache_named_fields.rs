//! Servers whose `Connection` names fields: those are removed, and what they said of storing the response counts all the same.

use crate::cache_origin::{Origin, field, get, is_hit, target, unchanged, whole};

/// What a server says, each with a `Connection` that has it removed, of a response that is fresh by what is left.
const HIDDEN: [&str; 5] = [
    "cache-control: no-store\r\nconnection: cache-control\r\nexpires: Fri, 01 Jan 2100 00:00:00 GMT\r\n",
    "cache-control: max-age=60\r\nset-cookie: session=1\r\nconnection: keep-alive, Set-Cookie\r\n",
    "cache-control: max-age=60\r\nvary: accept-language\r\nconnection: vary\r\n",
    "cache-control: max-age=60\r\ncdn-cache-control: no-store\r\nconnection: close, cdn-cache-control\r\n",
    "cache-control: max-age=60\r\ncontent-range: bytes 0-1/9\r\nconnection: content-range\r\n",
];

#[test]
fn what_connection_names_is_not_hidden_from_the_cache() {
    let origin = Origin::start(|request| {
        let nth: usize = target(request).trim_start_matches('/').parse().unwrap();
        whole(200, HIDDEN[nth], &field(request, "accept-language").unwrap_or_default())
    });
    let node = origin.behind_cache("{}", "");
    for (nth, said) in HIDDEN.into_iter().enumerate() {
        for language in ["en", "de"] {
            let answer = get(&node, &format!("/{nth}"), &format!("accept-language: {language}\r\n"));
            assert!(!is_hit(&answer) && answer.body == language, "{said:?}: {answer:?}");
        }
    }
}

#[test]
fn what_connection_names_is_not_hidden_from_an_update() {
    let origin = Origin::start(|request| {
        let validates = field(request, "if-none-match").is_some();
        let hides = "cache-control: no-store\r\nconnection: cache-control\r\netag: \"1\"\r\n";
        if validates {
            return unchanged(hides);
        }
        whole(200, "cache-control: max-age=60\r\nage: 100\r\netag: \"1\"\r\n", "page")
    });
    let node = origin.behind_cache("{}", "");
    get(&node, "/", "");
    assert_eq!(get(&node, "/", "").body, "page", "the server has confirmed it");
    assert_eq!(origin.count(), 2);
    let third = get(&node, "/", "");
    assert_eq!(
        (third.body.as_str(), origin.count()),
        ("page", 3),
        "and has said that it is not stored any more"
    );
    let asked = origin.asked();
    assert!(asked[2].starts_with("GET") && field(&asked[2], "if-none-match").is_none(), "{asked:?}");
}

#[test]
fn named_fields_that_say_nothing_of_storing_are_left_out_and_the_rest_is_stored() {
    let origin = Origin::start(|_| {
        whole(
            200,
            "cache-control: max-age=60\r\nconnection: a, x-hop\r\na: 1\r\nx-hop: 2\r\nc: 3\r\n",
            "page",
        )
    });
    let node = origin.behind_cache("{}", "");
    for is_stored in [false, true] {
        let answer = get(&node, "/", "");
        assert_eq!((answer.body.as_str(), is_hit(&answer)), ("page", is_stored));
        assert_eq!([answer.header("a"), answer.header("x-hop"), answer.header("c")], [None, None, Some("3")]);
    }
}

#[test]
fn fields_of_the_connection_itself_keep_nothing_from_being_stored() {
    let origin = Origin::start(|_| {
        let fields = "cache-control: max-age=60\r\nconnection: keep-alive\r\nkeep-alive: timeout=5\r\n";
        whole(200, fields, "page")
    });
    let node = origin.behind_cache("{}", "");
    get(&node, "/", "");
    assert!(is_hit(&get(&node, "/", "")));
}
