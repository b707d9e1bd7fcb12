//! `GET /v1/o/b3:…`: objects over HTTP, from a source that may have them, lie about them, or say nothing.

use std::{ops::Range, sync::Arc, time::Duration};

use crate::support::Running;
use bytes::Bytes;
use ron_transport::Body;
use svc_gateway::{
    Finding, FoundObject, GatewayConfig, LocalServices, OBJECTS, ObjectBridge, ObjectSource, RouteConfig,
};
use types::{ObjectId, Reason, Refusal};

const GOOD: ObjectId = ObjectId::new([1; 32]);
const EMPTY: ObjectId = ObjectId::new([2; 32]);
/// Whose bytes are not what its name says.
const WRONG: ObjectId = ObjectId::new([3; 32]);
/// That nobody answers for.
const SILENT: ObjectId = ObjectId::new([4; 32]);
const ABSENT: ObjectId = ObjectId::new([5; 32]);

const CONTENT: &[u8] = b"0123456789abcdef";

struct Shelf;

struct Found(ObjectId);

impl ObjectSource for Shelf {
    fn open(&self, id: ObjectId) -> Finding<'_, Option<Box<dyn FoundObject>>> {
        Box::pin(async move {
            match id {
                SILENT => std::future::pending().await,
                ABSENT => Ok(None),
                _ => Ok(Some(Box::new(Found(id)) as _)),
            }
        })
    }
}

impl FoundObject for Found {
    fn length(&self) -> u64 {
        if self.0 == EMPTY { 0 } else { CONTENT.len() as u64 }
    }

    fn read(self: Box<Self>, range: Range<u64>) -> Finding<'static, Body> {
        Box::pin(async move {
            assert!(!range.is_empty() && range.end <= CONTENT.len() as u64);
            if self.0 == WRONG {
                return Err(Refusal::new(Reason::BadGateway, "the bytes that came are not the object's"));
            }
            let range = usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap();
            Ok(Bytes::from_static(&CONTENT[range]).into())
        })
    }
}

fn start() -> Running {
    let timeout = Some(Duration::from_secs(5).into());
    let route =
        RouteConfig { path: "/v1/o".into(), service: OBJECTS.into(), timeout, ..RouteConfig::default() };
    let config = GatewayConfig { route: vec![route], ..GatewayConfig::default() };
    Running::start_with(config, LocalServices::default().with(OBJECTS, Arc::new(ObjectBridge::new(Shelf))))
}

fn ask(gateway: &Running, method: &str, id: &str, fields: &str) -> String {
    gateway.ask(format!("{method} /v1/o/{id} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n{fields}\r\n"))
}

#[test]
fn an_object_is_sent_whole_or_in_part_under_its_name_as_tag() {
    let gateway = start();
    let id = GOOD.to_string();
    let whole = ask(&gateway, "GET", &id, "");
    assert!(whole.starts_with("HTTP/1.1 200 ") && whole.ends_with("0123456789abcdef"), "{whole}");
    assert!(whole.contains(&format!("etag: \"{id}\"")) && whole.contains("accept-ranges: bytes"), "{whole}");
    assert!(whole.contains("content-length: 16") && whole.contains("immutable"), "{whole}");
    let part = ask(&gateway, "GET", &id, "range: bytes=4-7\r\n");
    assert!(part.starts_with("HTTP/1.1 206 ") && part.ends_with("4567"), "{part}");
    assert!(part.contains("content-range: bytes 4-7/16") && part.contains("content-length: 4"), "{part}");
    assert!(ask(&gateway, "GET", &id, "range: bytes=-2\r\n").ends_with("ef"));
    let beyond = ask(&gateway, "GET", &id, "range: bytes=16-\r\n");
    assert!(beyond.starts_with("HTTP/1.1 416 ") && beyond.contains("content-range: bytes */16"), "{beyond}");
}

#[test]
fn a_head_has_the_length_and_no_bytes() {
    let gateway = start();
    let head = ask(&gateway, "HEAD", &GOOD.to_string(), "");
    assert!(head.starts_with("HTTP/1.1 200 ") && head.contains("content-length: 16"), "{head}");
    assert!(head.ends_with("\r\n\r\n"), "{head}");
    let empty = ask(&gateway, "GET", &EMPTY.to_string(), "");
    assert!(empty.starts_with("HTTP/1.1 200 ") && empty.contains("content-length: 0"), "{empty}");
}

#[test]
fn who_has_it_is_told_so_without_the_bytes() {
    let gateway = start();
    let id = GOOD.to_string();
    let same = ask(&gateway, "GET", &id, &format!("if-none-match: \"{id}\"\r\n"));
    assert!(same.starts_with("HTTP/1.1 304 ") && !same.contains("0123"), "{same}");
    let other = ask(&gateway, "GET", &id, "if-match: \"other\"\r\n");
    assert!(other.starts_with("HTTP/1.1 412 "), "{other}");
    let changed = ask(&gateway, "GET", &id, "range: bytes=0-0\r\nif-range: \"other\"\r\n");
    assert!(changed.starts_with("HTTP/1.1 200 "), "{changed}");
}

#[test]
fn what_cannot_be_had_is_refused_with_the_reason() {
    let gateway = start();
    for (method, id, status, reason) in [
        ("GET", ABSENT.to_string(), 404, "not_found"),
        ("GET", WRONG.to_string(), 502, "bad_gateway"),
        ("GET", SILENT.to_string(), 504, "downstream_timeout"),
        ("GET", "b3:00".to_owned(), 400, "malformed"),
        ("GET", String::new(), 400, "malformed"),
        ("PUT", GOOD.to_string(), 405, "method_not_allowed"),
    ] {
        let answer = ask(&gateway, method, &id, if method == "PUT" { "content-length: 0\r\n" } else { "" });
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status} ")) && answer.contains(reason),
            "{id}: {answer}"
        );
    }
    let escaped = ask(&gateway, "GET", &GOOD.to_string().replace(':', "%3A"), "");
    assert!(escaped.starts_with("HTTP/1.1 200 "), "{escaped}");
}
