//! Chunks in one piece and in many, and what is none.

use proptest::prelude::*;

use super::*;

/// What a whole chunked body gives, if it comes in pieces of these lengths; `None` as its end if more is expected.
fn take(bytes: &[u8], pieces: &[usize]) -> Result<(Vec<u8>, Option<HeaderMap>), Flaw> {
    let (mut chunks, mut inbox) = (Chunks::default(), Inbox::new());
    let (mut data, mut at, mut pieces) = (Vec::new(), 0, pieces.iter().cycle());
    loop {
        match chunks.next(&mut inbox)? {
            Found::Data(piece) => data.extend_from_slice(&piece),
            Found::Trailers(trailers) => return Ok((data, Some(trailers))),
            Found::End => return Ok((data, Some(HeaderMap::new()))),
            Found::Nothing if at == bytes.len() => return Ok((data, None)),
            Found::Nothing => {
                let end = bytes.len().min(at + pieces.next().expect("a cycle has no end"));
                inbox.push(&bytes[at..end]);
                at = end;
            }
        }
    }
}

#[test]
fn chunks_are_joined_and_their_extensions_left_out() {
    let body = b"4\r\nWiki\r\n6;name=value\r\npedia \r\nE \r\nin \r\n\r\nchunks.\r\n0\r\n\r\n";
    for step in 1..body.len() {
        let (data, end) = take(body, &[step]).expect("they are chunks");
        assert_eq!(
            (&data[..], end),
            (&b"Wikipedia in \r\n\r\nchunks."[..], Some(HeaderMap::new())),
            "{step}"
        );
    }
    for cut in 0..body.len() {
        assert!(matches!(take(&body[..cut], &[7]), Ok((_, None))), "{cut} bytes are not all of it");
    }
}

#[test]
fn what_follows_the_last_chunk_are_trailers() {
    let body = b"1\r\nx\r\n0\r\nexpires: never\r\nx-sum: 1\r\n\r\n";
    for step in 1..body.len() {
        let (data, trailers) = take(body, &[step]).expect("they are chunks");
        assert_eq!(data, b"x");
        let trailers = trailers.expect("they are whole");
        assert_eq!((trailers.len(), &trailers["expires"]), (2, &HeaderValue::from_static("never")));
    }
}

#[test]
fn what_is_no_chunk_is_malformed() {
    let long_line = format!("1;{}\r\nx\r\n0\r\n\r\n", "e".repeat(MAX_LINE));
    let long_trailers = format!("0\r\na: {}\r\n\r\n", "e".repeat(MAX_TRAILERS));
    let many_trailers = format!("0\r\n{}\r\n", "a: b\r\n".repeat(MAX_TRAILER_FIELDS + 1));
    for body in [
        "x\r\n",
        "\r\n",
        "-1\r\n",
        "+1\r\nx",
        "0x1\r\nx",
        "1\nx",
        "1 x\r\nx",
        "1\r\nxy\r\n",
        "1\r\nx\n0",
        "1\r\nx0\r\n",
        "10000000000000000\r\n",
        "0\r\nno field\r\n\r\n",
        &long_line,
        &long_trailers,
        &many_trailers,
    ] {
        assert!(take(body.as_bytes(), &[16]).is_err(), "{body:?}");
    }
    let most = "FFFFFFFFFFFFFFFF\r\nx";
    assert!(matches!(take(most.as_bytes(), &[3]), Ok((data, None)) if data == b"x"));
}

proptest! {
    #[test]
    fn any_data_in_any_chunks_and_pieces_is_the_same_data(
        parts in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 1..6000), 0..6),
        pieces in proptest::collection::vec(1_usize..5000, 1..5),
    ) {
        let mut body = Vec::new();
        for part in &parts {
            body.extend_from_slice(format!("{:x}\r\n", part.len()).as_bytes());
            body.extend_from_slice(part);
            body.extend_from_slice(b"\r\n");
        }
        body.extend_from_slice(b"0\r\n\r\n");
        let (data, end) = take(&body, &pieces).expect("they are chunks");
        prop_assert_eq!(data, parts.concat());
        prop_assert!(end.is_some());
    }

    #[test]
    fn no_bytes_are_too_strange(bytes in proptest::collection::vec(any::<u8>(), 0..200), piece in 1_usize..50) {
        let _ = take(&bytes, &[piece]);
    }
}
