//! Heads as they are written and read, and what is refused.

use proptest::prelude::*;

use super::*;

fn written(request: http::request::Builder, body: impl Into<Body>) -> (String, Option<Announced>) {
    let mut out = Vec::new();
    let announced = write(&request.body(body.into()).expect("it is a request"), &mut out);
    (String::from_utf8(out).expect("heads are text here"), announced)
}

fn answer(head: &str, method: &Method) -> Result<Head, Nonsense> {
    let head = Bytes::copy_from_slice(head.as_bytes());
    assert_eq!(find_end(&head, 0), Some(head.len()));
    read(&head, method)
}

#[test]
fn a_request_is_its_line_its_fields_and_where_its_body_ends() {
    let get = || http::Request::get("/a?b=c").header("host", "t");
    assert_eq!(written(get(), ""), ("GET /a?b=c HTTP/1.1\r\nhost: t\r\n\r\n".to_owned(), None));
    let whole = http::Request::get("http://h:1/a");
    assert_eq!(written(whole, "").0, "GET http://h:1/a HTTP/1.1\r\n\r\n");
    let post = || http::Request::post("/").header("x", "1");
    let (head, announced) = written(post(), "four");
    assert_eq!(head, "POST / HTTP/1.1\r\nx: 1\r\ncontent-length: 4\r\n\r\n");
    assert_eq!(announced, Some(Announced::Length(4)));
    // What the body is counts, not what somebody says about it.
    let (head, _) =
        written(post().header("content-length", "7").header("transfer-encoding", "chunked"), "four");
    assert_eq!(head, "POST / HTTP/1.1\r\nx: 1\r\ncontent-length: 4\r\n\r\n");
    let (head, announced) = written(post(), "");
    assert_eq!((head.as_str(), announced), ("POST / HTTP/1.1\r\nx: 1\r\ncontent-length: 0\r\n\r\n", None));
}

#[test]
fn a_body_of_unknown_length_is_announced_by_its_field_or_comes_in_chunks() {
    let unknown = || Body::streaming(http_body_util::StreamBody::new(futures_util::stream::pending()));
    let (head, announced) = written(http::Request::put("/"), unknown());
    assert_eq!(head, "PUT / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n");
    assert_eq!(announced, Some(Announced::Chunked(None)));
    let (head, announced) = written(http::Request::put("/").header("content-length", "9"), unknown());
    assert_eq!(head, "PUT / HTTP/1.1\r\ncontent-length: 9\r\n\r\n");
    assert_eq!(announced, Some(Announced::Length(9)));
}

#[test]
fn the_end_of_a_head_is_found_wherever_it_was_cut() {
    for head in ["HTTP/1.1 200 OK\r\na: b\r\n\r\n", "HTTP/1.1 200 OK\na: b\n\n"] {
        let all = format!("{head}body\r\n\r\n");
        for cut in 0..head.len() {
            assert_eq!(find_end(&all.as_bytes()[..cut], 0), None);
            assert_eq!(find_end(all.as_bytes(), cut), Some(head.len()), "{cut} seen before");
        }
    }
}

#[test]
fn where_a_body_ends_is_told_by_status_method_and_fields() {
    #[derive(Debug, PartialEq)]
    enum End {
        After(u64),
        Chunks,
        Connection,
    }
    for (head, method, end, stays) in [
        ("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n", Method::GET, End::After(5), true),
        (
            "HTTP/1.1 200 OK\r\ncontent-length: 5, 5\r\ncontent-length: 5\r\n\r\n",
            Method::GET,
            End::After(5),
            true,
        ),
        ("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n", Method::HEAD, End::After(0), true),
        ("HTTP/1.1 204 No Content\r\n\r\n", Method::GET, End::After(0), true),
        ("HTTP/1.1 304 Not Modified\r\ncontent-length: 5\r\n\r\n", Method::GET, End::After(0), true),
        ("HTTP/1.1 100 Continue\r\n\r\n", Method::POST, End::After(0), true),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n", Method::GET, End::Chunks, true),
        (
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ncontent-length: 5\r\n\r\n",
            Method::GET,
            End::Chunks,
            false,
        ),
        ("HTTP/1.1 200 OK\r\n\r\n", Method::GET, End::Connection, false),
        (
            "HTTP/1.1 200 OK\r\ncontent-length: 5\r\nconnection: x, Close\r\n\r\n",
            Method::GET,
            End::After(5),
            false,
        ),
        ("HTTP/1.0 200 OK\r\ncontent-length: 5\r\n\r\n", Method::GET, End::After(5), false),
        (
            "HTTP/1.0 200 OK\r\ncontent-length: 5\r\nconnection: keep-alive\r\n\r\n",
            Method::GET,
            End::After(5),
            true,
        ),
    ] {
        let read = answer(head, &method).unwrap_or_else(|error| panic!("{head:?}: {error}"));
        let found = match read.ends {
            Ends::After(length) => End::After(length),
            Ends::WithChunks(_) => End::Chunks,
            Ends::WithConnection => End::Connection,
        };
        assert_eq!((found, read.stays), (end, stays), "{head:?}");
    }
}

#[test]
fn an_answer_that_ends_twice_is_passed_on_with_one_end() {
    let head = "HTTP/1.1 200 OK\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n";
    let read = answer(head, &Method::GET).expect("it is a response");
    assert!(!read.parts.headers.contains_key(CONTENT_LENGTH));
}

#[test]
fn equal_lengths_are_passed_on_as_one() {
    for fields in
        ["content-length: 5, 5\r\n", "content-length: 5\r\ncontent-length: 5\r\n", "content-length:  5 \r\n"]
    {
        let read =
            answer(&format!("HTTP/1.1 200 OK\r\n{fields}\r\n"), &Method::GET).expect("it is a response");
        let lengths: Vec<_> = read.parts.headers.get_all(CONTENT_LENGTH).iter().collect();
        assert_eq!(lengths, ["5"], "{fields:?}");
    }
}

#[test]
fn an_answer_that_could_be_understood_in_two_ways_is_nonsense() {
    for fields in [
        "content-length: 5\r\ncontent-length: 6\r\n",
        "content-length: 5, 6\r\n",
        "content-length: +5\r\n",
        "content-length: -5\r\n",
        "content-length: 0x5\r\n",
        "content-length: \r\n",
        "content-length: 18446744073709551616\r\n",
        "transfer-encoding: gzip\r\n",
        "transfer-encoding: gzip, chunked\r\n",
        "transfer-encoding: chunked, chunked\r\n",
        "transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n",
    ] {
        let head = format!("HTTP/1.1 200 OK\r\n{fields}\r\n");
        assert!(matches!(answer(&head, &Method::GET), Err(Nonsense::Framing)), "{head:?}");
    }
    for head in [
        "HTTP/1.0 200 OK\r\ntransfer-encoding: chunked\r\n\r\n",
        "HTTP/1.1 20 OK\r\n\r\n",
        "HTTP/2 200 OK\r\n\r\n",
        "nonsense\r\n\r\n",
        "HTTP/1.1 200 OK\r\nno field\r\n\r\n",
        "HTTP/1.1 200 OK\r\na: b\r\n c\r\n\r\n",
        "HTTP/1.1 200 OK\r\na : b\r\n\r\n",
        "HTTP/1.1 200 OK\r\na: b\0\r\n\r\n",
    ] {
        assert!(answer(head, &Method::GET).is_err(), "{head:?}");
    }
}

#[test]
fn an_answer_has_as_many_fields_as_it_may_have() {
    let with = |fields| format!("HTTP/1.1 200 OK\r\n{}\r\n", "a: b\r\n".repeat(fields));
    for fields in [0, USUAL_FIELDS, USUAL_FIELDS + 1, MAX_FIELDS] {
        let head = read(&Bytes::from(with(fields)), &Method::GET).expect("a sound head");
        assert_eq!(head.parts.headers.len(), fields);
    }
    let more = read(&Bytes::from(with(MAX_FIELDS + 1)), &Method::GET);
    assert!(matches!(more, Err(Nonsense::TooManyFields)), "{more:?}");
}

proptest! {
    #[test]
    fn no_head_is_too_strange(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        if let Some(end) = find_end(&bytes, 0) {
            let _ = read(&Bytes::copy_from_slice(&bytes[..end]), &Method::GET);
        }
    }
}
