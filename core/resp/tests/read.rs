//! Replies are read whole or not at all, whatever the server sends.

use proptest::prelude::*;
use resp::{MAX_BULK, MAX_DEPTH, MAX_ITEMS, MAX_LINE, Malformed, Reply, read, write_command};

#[test]
fn replies_of_each_kind_are_read_and_no_byte_too_many() {
    let table = [
        (&b"+OK\r\n"[..], Reply::Simple("OK".to_owned())),
        (b"-ERR no such key\r\n", Reply::Error("ERR no such key".to_owned())),
        (b":42\r\n", Reply::Integer(42)),
        (b":-7\r\n", Reply::Integer(-7)),
        (b"$5\r\na\r\nbc\r\n", Reply::Bulk(b"a\r\nbc".to_vec())),
        (b"$0\r\n\r\n", Reply::Bulk(Vec::new())),
        (b"$-1\r\n", Reply::Null),
        (b"*-1\r\n", Reply::Null),
        (b"*0\r\n", Reply::Array(Vec::new())),
        (b"*2\r\n:1\r\n*1\r\n+a\r\n", {
            Reply::Array(vec![Reply::Integer(1), Reply::Array(vec![Reply::Simple("a".to_owned())])])
        }),
    ];
    for (bytes, reply) in table {
        assert_eq!(read(bytes), Ok(Some((reply.clone(), bytes.len()))));
        assert_eq!(read(&[bytes, b"+NEXT\r\n"].concat()), Ok(Some((reply, bytes.len()))));
        for cut in 0..bytes.len() {
            assert_eq!(read(&bytes[..cut]), Ok(None), "the first {cut} bytes of {bytes:?}");
        }
    }
}

#[test]
fn what_is_no_reply_is_refused() {
    let table = [
        (&b"HTTP/1.1 400 Bad Request\r\n"[..], Malformed::Kind(b'H')),
        (b"\x15\x03\x01\x00\x02\x02\x16", Malformed::Kind(0x15)),
        (b":\r\n", Malformed::Number),
        (b":+1\r\n", Malformed::Number),
        (b":1 \r\n", Malformed::Number),
        (b":9223372036854775808\r\n", Malformed::Number),
        (b"$-2\r\n", Malformed::Number),
        (b"*-2\r\n", Malformed::Number),
        (b"$1\r\nab\r\n", Malformed::Line),
        (b"+a\rb\r\n", Malformed::Line),
        (b"+\xff\r\n", Malformed::Line),
    ];
    for (bytes, wrong) in table {
        assert_eq!(read(bytes), Err(wrong), "{bytes:?}");
    }
}

#[test]
fn a_reply_of_the_largest_size_is_read_and_one_more_is_refused_before_it_arrives() {
    let line = |length: usize| [b"+", "a".repeat(length).as_bytes(), b"\r\n"].concat();
    assert!(matches!(read(&line(MAX_LINE)), Ok(Some(_))));
    assert_eq!(read(&line(MAX_LINE + 1)), Err(Malformed::TooLarge));
    let bulk = |length: usize| [format!("${length}\r\n").as_bytes(), &vec![0; length], b"\r\n"].concat();
    assert!(matches!(read(&bulk(MAX_BULK)), Ok(Some(_))));
    assert_eq!(read(&bulk(MAX_BULK + 1)[..12]), Err(Malformed::TooLarge));
    let array = |count: usize| [format!("*{count}\r\n").as_bytes(), &b":1\r\n".repeat(count)].concat();
    assert!(matches!(read(&array(MAX_ITEMS)), Ok(Some(_))));
    assert_eq!(read(&array(MAX_ITEMS + 1)[..8]), Err(Malformed::TooLarge));
    let nested = |depth: usize| b"*1\r\n".repeat(depth).into_iter().chain(*b":1\r\n").collect::<Vec<u8>>();
    assert!(matches!(read(&nested(MAX_DEPTH)), Ok(Some(_))));
    assert_eq!(read(&nested(MAX_DEPTH + 1)), Err(Malformed::TooLarge));
}

proptest! {
    #[test]
    fn any_bytes_are_a_reply_none_or_the_start_of_one(bytes: Vec<u8>) {
        if let Ok(Some((_, length))) = read(&bytes) {
            prop_assert!(length <= bytes.len());
            for cut in 0..length {
                prop_assert_eq!(read(&bytes[..cut]), Ok(None));
            }
        }
    }

    #[test]
    fn a_command_is_an_array_of_its_words(words in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 1..9)) {
        let mut written = Vec::new();
        write_command(&mut written, &words.iter().map(Vec::as_slice).collect::<Vec<_>>());
        let expected = Reply::Array(words.into_iter().map(Reply::Bulk).collect());
        prop_assert_eq!(read(&written), Ok(Some((expected, written.len()))));
    }
}
