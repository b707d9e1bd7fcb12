//! Records of the index: written and read, and nothing but what was written is read.

use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use httpcache::{
    answer::Part,
    record::{Change, StoredResponse},
    variant::{RequestFields, Variant},
};
use httprules::freshness::Stored;
use proptest::prelude::*;

fn response(part: Option<Part>, len: u64) -> StoredResponse {
    let mut headers = HeaderMap::new();
    headers.append(header::CACHE_CONTROL, HeaderValue::from_static("max-age=60, stale-if-error=5"));
    headers.append(header::VARY, HeaderValue::from_static("accept"));
    headers.append(header::VARY, HeaderValue::from_static("x-absent"));
    headers.append(header::EXPIRES, HeaderValue::from_static("0"));
    headers.append("x-odd", HeaderValue::from_bytes(b"\xff\xfe").unwrap());
    let mut asked = HeaderMap::new();
    asked.append(header::ACCEPT, HeaderValue::from_static("text/html"));
    let names = [header::ACCEPT, HeaderName::from_static("x-absent")];
    let variant = Variant::of(&names, &RequestFields { headers: &asked, removed: &[] });
    let freshness = Stored::of(StatusCode::OK, &headers, 1_700_000_000, 1_700_000_001);
    StoredResponse {
        key: Arc::from("http://a/b?c"),
        partition: Arc::from(&b"\x00partition"[..]),
        tenant: b"4\x7f\0\0\x01".to_vec(),
        variant,
        status: if part.is_some() { StatusCode::PARTIAL_CONTENT } else { StatusCode::NOT_FOUND },
        headers,
        freshness,
        part,
        body: (len > 0).then_some([7; 32]),
        len,
    }
}

fn changes() -> Vec<Change> {
    let put = |replaces: &[u64], response: StoredResponse| Change::Put {
        id: 9,
        replaces: replaces.to_vec(),
        response: Box::new(response),
    };
    vec![
        Change::Remove(Vec::new()),
        Change::Remove(vec![1, u64::MAX]),
        put(&[], response(None, 0)),
        put(&[1, 2], response(None, 100)),
        put(&[], response(Some(Part { range: 5..25, len: 30 }), 20)),
    ]
}

#[test]
fn what_was_written_is_read() {
    for change in changes() {
        assert_eq!(Change::decode(&change.encode()), Some(change));
    }
}

#[test]
fn nothing_is_read_of_what_was_cut_or_grown() {
    for change in changes() {
        let record = change.encode();
        for len in 0..record.len() {
            assert_eq!(Change::decode(&record[..len]), None, "{len}");
        }
        assert_eq!(Change::decode(&[&record[..], &[0]].concat()), None);
    }
}

#[test]
fn a_record_that_contradicts_itself_is_none() {
    let wrong = [
        StoredResponse { body: None, ..response(None, 100) },
        StoredResponse { body: Some([1; 32]), ..response(None, 0) },
        StoredResponse { len: 19, ..response(Some(Part { range: 5..25, len: 30 }), 20) },
        response(Some(Part { range: 25..45, len: 30 }), 20),
    ];
    for response in wrong {
        let record = Change::Put { id: 1, replaces: Vec::new(), response: Box::new(response) }.encode();
        assert_eq!(Change::decode(&record), None);
    }
}

#[test]
fn a_count_that_promises_more_than_there_is_takes_no_memory() {
    let mut record = Change::Remove(vec![1]).encode();
    record[2..6].copy_from_slice(&u32::MAX.to_le_bytes());
    assert_eq!(Change::decode(&record), None);
    record[2..6].copy_from_slice(&65_000_u32.to_le_bytes());
    assert_eq!(Change::decode(&record), None);
}

proptest! {
    #[test]
    fn every_record_has_one_form(which in 0..5_usize, at in any::<prop::sample::Index>(), byte: u8) {
        let mut record = changes()[which].encode();
        let at = at.index(record.len());
        record[at] = byte;
        if let Some(read) = Change::decode(&record) {
            prop_assert_eq!(read.encode(), record);
        }
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Some(read) = Change::decode(&bytes) {
            prop_assert_eq!(read.encode(), bytes);
        }
    }
}
