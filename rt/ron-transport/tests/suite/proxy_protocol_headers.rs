//! PROXY headers: vectors, limits, truncation, mutation, and round trips.

use std::net::{SocketAddr, SocketAddrV4, SocketAddrV6};

use proptest::prelude::*;
use ron_transport::proxy_protocol::{
    EncodeError, Header, Origin, Parsed, ProxyError, Tlv, V1_MAX, V2_BLOCK_MAX, Version, encode_v1,
    encode_v2, parse,
};

const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

fn origin(source: &str, destination: &str) -> Origin {
    Origin::tcp(source.parse().unwrap(), destination.parse().unwrap())
}

fn v1(line: &str) -> Result<Parsed, ProxyError> {
    parse(line.as_bytes())
}

fn v2(version_command: u8, family: u8, block: &[u8]) -> Vec<u8> {
    let len = u16::try_from(block.len()).unwrap().to_be_bytes();
    [SIGNATURE, &[version_command, family], &len, block].concat()
}

/// Valid headers of every kind, with what they mean.
fn vectors() -> Vec<(Vec<u8>, Header)> {
    let header = |version, origin, tlvs: &[Tlv]| Header { version, origin, tlvs: tlvs.to_vec() };
    let tcp4 = origin("192.0.2.1:4711", "192.0.2.2:443");
    let tcp6 = origin("[2001:db8::1]:4711", "[2001:db8::2]:443");
    let authority = Tlv { kind: Tlv::AUTHORITY, value: b"api.example".to_vec() };
    let mut tcp4_block = vec![192, 0, 2, 1, 192, 0, 2, 2, 0x12, 0x67, 0x01, 0xbb];
    let plain4 = v2(0x21, 0x11, &tcp4_block);
    tcp4_block.extend(b"\x02\x00\x0bapi.example");
    let mut unix_block = vec![0; 216];
    unix_block[..2].copy_from_slice(b"/a");
    unix_block[108..110].copy_from_slice(b"\0b");
    let unix = Origin::Unix { source: b"/a".to_vec(), destination: b"\0b".to_vec() };
    let checksummed =
        encode_v2(&tcp6, &[authority.clone(), Tlv { kind: Tlv::CRC32C, value: Vec::new() }]).unwrap();
    let checksum = Tlv { kind: Tlv::CRC32C, value: checksummed[checksummed.len() - 4..].to_vec() };
    vec![
        (b"PROXY TCP4 192.0.2.1 192.0.2.2 4711 443\r\n".to_vec(), header(Version::V1, tcp4.clone(), &[])),
        (b"PROXY TCP6 2001:db8::1 2001:db8::2 4711 443\r\n".to_vec(), header(Version::V1, tcp6.clone(), &[])),
        (b"PROXY UNKNOWN\r\n".to_vec(), header(Version::V1, Origin::Unknown, &[])),
        (b"PROXY UNKNOWN what ever\r\n".to_vec(), header(Version::V1, Origin::Unknown, &[])),
        (plain4, header(Version::V2, tcp4.clone(), &[])),
        (v2(0x21, 0x11, &tcp4_block), header(Version::V2, tcp4, std::slice::from_ref(&authority))),
        (v2(0x21, 0x31, &unix_block), header(Version::V2, unix, &[])),
        (v2(0x20, 0x00, &[]), header(Version::V2, Origin::Local, &[])),
        (v2(0x20, 0xff, b"skipped"), header(Version::V2, Origin::Local, &[])),
        (v2(0x21, 0x00, b"skipped"), header(Version::V2, Origin::Unknown, &[])),
        (checksummed, header(Version::V2, tcp6, &[authority, checksum])),
    ]
}

#[test]
fn vectors_are_understood_and_what_follows_is_left() {
    for (bytes, header) in vectors() {
        for follows in [&b""[..], b"GET / HTTP/1.1\r\n", b"PROXY UNKNOWN\r\n"] {
            let input = [&bytes[..], follows].concat();
            let done = Parsed::Done { consumed: bytes.len(), header: header.clone() };
            assert_eq!(parse(&input), Ok(done), "for {bytes:?}");
        }
    }
}

#[test]
fn every_truncated_prefix_asks_for_more_but_never_too_much() {
    for (bytes, _) in vectors() {
        for len in 0..bytes.len() {
            match parse(&bytes[..len]) {
                Ok(Parsed::NeedMore { at_least }) => assert!(at_least > 0 && len + at_least <= bytes.len()),
                other => panic!("{other:?} after {len} bytes of {bytes:?}"),
            }
        }
    }
}

#[test]
fn no_changed_byte_panics_or_reaches_beyond_the_input() {
    for (bytes, _) in vectors() {
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            for byte in 0..=u8::MAX {
                changed[at] = byte;
                if let Ok(Parsed::Done { consumed, .. }) = parse(&changed) {
                    assert!(consumed <= changed.len());
                }
            }
        }
    }
}

#[test]
fn a_line_of_107_bytes_is_accepted_and_one_of_108_refused() {
    let full = "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff";
    let longest = format!("PROXY UNKNOWN {full} {full} 65535 65535\r\n");
    assert_eq!(longest.len(), V1_MAX);
    assert!(matches!(v1(&longest), Ok(Parsed::Done { consumed: V1_MAX, .. })));

    let longer = longest.replace("\r\n", "x\r\n");
    assert_eq!(v1(&longer), Err(ProxyError::TooLong { limit: V1_MAX }));
    let endless = "PROXY ".to_owned() + &"x".repeat(V1_MAX);
    assert!(matches!(v1(&endless[..V1_MAX - 2]), Ok(Parsed::NeedMore { .. })));
    assert_eq!(v1(&endless[..V1_MAX - 1]), Err(ProxyError::TooLong { limit: V1_MAX }));
}

#[test]
fn lines_are_read_strictly() {
    for line in [
        "PROXY TCP4 192.0.2.1 192.0.2.2 4711\r\n",
        "PROXY TCP4 192.0.2.1 192.0.2.2 4711 443 1\r\n",
        "PROXY TCP4 192.0.2.1 192.0.2.2 4711 443 \r\n",
        "PROXY TCP4  192.0.2.1 192.0.2.2 4711 443\r\n",
        "PROXY TCP4 192.0.2.01 192.0.2.2 4711 443\r\n",
        "PROXY TCP4 192.0.2.1 192.0.2.2 04711 443\r\n",
        "PROXY TCP4 192.0.2.1 192.0.2.2 +4711 443\r\n",
        "PROXY TCP4 192.0.2.1 192.0.2.2 4711 65536\r\n",
        "PROXY TCP4 192.0.2.1 192.0.2.2  443\r\n",
        "PROXY TCP4 ::1 ::1 4711 443\r\n",
        "PROXY TCP6 192.0.2.1 192.0.2.2 4711 443\r\n",
        "PROXY TCP6 fe80::1%1 ::1 4711 443\r\n",
        "PROXY UDP4 192.0.2.1 192.0.2.2 4711 443\r\n",
        "PROXY tcp4 192.0.2.1 192.0.2.2 4711 443\r\n",
        "PROXY UNKNOWNS\r\n",
        "PROXY \r\n",
        "PROXY UNKNOWN\rX",
        "PROXY TCP4 192.0.2.1 192.0.2.2 4711 443\nGET\r\n",
    ] {
        assert!(matches!(v1(line), Err(ProxyError::Malformed(_))), "{line:?}: {:?}", v1(line));
    }
    assert!(matches!(v1("PROXY TCP4 0.0.0.0 255.255.255.255 0 65535\r\n"), Ok(Parsed::Done { .. })));
    assert!(matches!(parse(b"PROXY TCP4 \xff\r\n"), Err(ProxyError::Malformed(_))));
}

#[test]
fn other_protocols_are_told_from_their_first_wrong_byte() {
    for input in [&b"G"[..], b"PROXX", b"proxy ", b"\x16\x03\x01", b"\r\n\r\n\0\r\nQUIX"] {
        assert_eq!(parse(input), Err(ProxyError::NotProxy), "for {input:?}");
    }
}

#[test]
fn a_block_of_4096_bytes_is_accepted_and_one_of_4097_refused_before_it_arrives() {
    let mut block = vec![0; V2_BLOCK_MAX];
    let padding = u16::try_from(V2_BLOCK_MAX - 12 - 3).unwrap().to_be_bytes();
    block[12..15].copy_from_slice(&[0x04, padding[0], padding[1]]);
    assert!(
        matches!(parse(&v2(0x21, 0x11, &block)), Ok(Parsed::Done { consumed, .. }) if consumed == V2_BLOCK_MAX + 16)
    );
    block.push(0);
    for command in [0x20, 0x21] {
        let bytes = v2(command, 0x11, &block);
        assert_eq!(parse(&bytes[..16]), Err(ProxyError::TooLong { limit: V2_BLOCK_MAX }));
    }
}

#[test]
fn binary_headers_are_read_strictly() {
    let unsupported = |what, byte| Err(ProxyError::Unsupported { what, byte });
    assert_eq!(parse(&v2(0x11, 0x11, &[0; 12])), unsupported("version", 0x11));
    assert_eq!(parse(&v2(0x22, 0x11, &[0; 12])), unsupported("command", 0x22));
    for family in [0x01, 0x10, 0x12, 0x13, 0x22, 0x32, 0x41, 0xff] {
        assert_eq!(parse(&v2(0x21, family, &[0; 216])), unsupported("family and transport", family));
    }
    for (family, len) in [(0x11, 12), (0x21, 36), (0x31, 216)] {
        assert!(matches!(parse(&v2(0x21, family, &vec![0; len])), Ok(Parsed::Done { .. })));
        assert!(matches!(parse(&v2(0x21, family, &vec![0; len - 1])), Err(ProxyError::Malformed(_))));
        for cut_entry in [&[5][..], &[5, 0], &[5, 0, 1], &[5, 0, 2, 7]] {
            let block = [&vec![0; len][..], cut_entry].concat();
            assert!(matches!(parse(&v2(0x21, family, &block)), Err(ProxyError::Malformed(_))));
        }
        let whole_entry = [&vec![0; len][..], &[5, 0, 1, 7]].concat();
        let Ok(Parsed::Done { header, .. }) = parse(&v2(0x21, family, &whole_entry)) else {
            panic!("refused")
        };
        assert_eq!(header.tlv(Tlv::UNIQUE_ID), Some(&[7][..]));
        assert_eq!(header.tlv(Tlv::ALPN), None);
    }
}

#[test]
fn a_checksum_is_verified_wherever_it_stands() {
    let origin = origin("192.0.2.1:1", "192.0.2.2:2");
    let checksum = Tlv { kind: Tlv::CRC32C, value: Vec::new() };
    let other = Tlv { kind: Tlv::ALPN, value: b"h2".to_vec() };
    for tlvs in [[checksum.clone(), other.clone()], [other, checksum.clone()]] {
        let good = encode_v2(&origin, &tlvs).unwrap();
        assert!(matches!(parse(&good), Ok(Parsed::Done { .. })));
        for at in 16..28 {
            let mut changed = good.clone();
            changed[at] ^= 1;
            assert_eq!(parse(&changed), Err(ProxyError::Checksum), "byte {at}");
        }
    }
    let twice = encode_v2(&origin, &[checksum, Tlv { kind: Tlv::CRC32C, value: vec![0; 4] }]).unwrap();
    assert_eq!(parse(&twice), Err(ProxyError::Checksum));
}

/// The checksum was computed with another implementation, itself checked with the usual `123456789`.
#[test]
fn the_checksum_is_castagnolis() {
    let bytes = v2(0x21, 0x11, &[1, 2, 3, 4, 5, 6, 7, 8, 0, 80, 1, 187, 3, 0, 4, 0x5c, 0x04, 0x43, 0xc9]);
    assert!(matches!(parse(&bytes), Ok(Parsed::Done { .. })), "{:?}", parse(&bytes));
}

#[test]
fn mixed_pairs_are_written_as_ipv6_and_the_client_is_told() {
    let origin = origin("192.0.2.1:1", "[2001:db8::2]:2");
    let Ok(Parsed::Done { header, .. }) = parse(&encode_v1(&origin)) else { panic!("refused") };
    assert_eq!(header.client(), Some("[::ffff:192.0.2.1]:1".parse::<SocketAddr>().unwrap()));
    let unknown = Header { version: Version::V1, origin: Origin::Unknown, tlvs: Vec::new() };
    assert_eq!(unknown.client(), None);
}

#[test]
fn what_does_not_fit_is_not_written() {
    let origin4 = origin("192.0.2.1:1", "192.0.2.2:2");
    let room = V2_BLOCK_MAX - 12 - 3;
    let padding = |len| [Tlv { kind: 0x04, value: vec![0; len] }];
    assert!(encode_v2(&origin4, &padding(room)).is_ok());
    for len in [room + 1, 65_535, 65_536] {
        assert_eq!(encode_v2(&origin4, &padding(len)), Err(EncodeError::TooLong));
    }
    let unix = |len| Origin::Unix { source: vec![b'a'; len], destination: Vec::new() };
    assert!(encode_v2(&unix(108), &[]).is_ok());
    assert_eq!(encode_v2(&unix(109), &[]), Err(EncodeError::UnixName));
    assert_eq!(encode_v1(&unix(1)), b"PROXY UNKNOWN\r\n");
    assert_eq!(encode_v1(&Origin::Local), b"PROXY UNKNOWN\r\n");
}

fn any_tcp() -> impl Strategy<Value = Origin> {
    let v4 = any::<([u8; 4], u16)>().prop_map(|(ip, port)| SocketAddrV4::new(ip.into(), port));
    let v6 = any::<([u8; 16], u16)>().prop_map(|(ip, port)| SocketAddrV6::new(ip.into(), port, 0, 0));
    prop_oneof![
        (v4.clone(), v4).prop_map(|(source, destination)| Origin::Tcp4 { source, destination }),
        (v6.clone(), v6).prop_map(|(source, destination)| Origin::Tcp6 { source, destination }),
    ]
}

fn any_name() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..=108).prop_map(|mut name| {
        while name.last() == Some(&0) {
            name.pop();
        }
        name
    })
}

fn any_tlvs() -> impl Strategy<Value = Vec<Tlv>> {
    let kind = any::<u8>().prop_filter("filled in by the encoder", |kind| *kind != Tlv::CRC32C);
    let tlv =
        (kind, prop::collection::vec(any::<u8>(), 0..300)).prop_map(|(kind, value)| Tlv { kind, value });
    prop::collection::vec(tlv, 0..8)
}

proptest! {
    #[test]
    fn version_1_survives_the_round_trip(origin in prop_oneof![any_tcp(), Just(Origin::Unknown)]) {
        let bytes = encode_v1(&origin);
        prop_assert!(bytes.len() <= V1_MAX);
        let header = Header { version: Version::V1, origin, tlvs: Vec::new() };
        prop_assert_eq!(parse(&bytes), Ok(Parsed::Done { consumed: bytes.len(), header }));
    }

    #[test]
    fn version_2_survives_the_round_trip(
        origin in prop_oneof![
            any_tcp(),
            (any_name(), any_name()).prop_map(|(source, destination)| Origin::Unix { source, destination }),
        ],
        tlvs in any_tlvs(),
    ) {
        let bytes = encode_v2(&origin, &tlvs).unwrap();
        let header = Header { version: Version::V2, origin, tlvs };
        prop_assert_eq!(parse(&bytes), Ok(Parsed::Done { consumed: bytes.len(), header }));
    }

    #[test]
    fn entries_are_left_out_where_they_would_be_skipped(
        origin in prop_oneof![Just(Origin::Local), Just(Origin::Unknown)],
        tlvs in any_tlvs(),
    ) {
        let bytes = encode_v2(&origin, &tlvs).unwrap();
        let header = Header { version: Version::V2, origin, tlvs: Vec::new() };
        prop_assert_eq!(parse(&bytes), Ok(Parsed::Done { consumed: 16, header }));
    }

    #[test]
    fn arbitrary_bytes_behind_either_signature_never_panic(
        signature in prop_oneof![Just(&b""[..]), Just(&b"PROXY "[..]), Just(SIGNATURE), Just(&b"\r\n\r\n\0\r\nQUIT\n\x21\x11"[..])],
        rest in prop::collection::vec(any::<u8>(), 0..600),
    ) {
        let input = [signature, &rest].concat();
        if let Ok(Parsed::Done { consumed, .. }) = parse(&input) {
            prop_assert!(consumed <= input.len());
        }
    }
}
