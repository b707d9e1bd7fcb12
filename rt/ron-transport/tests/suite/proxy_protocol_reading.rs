//! PROXY headers on a stream, and from whom they are believed.

use std::{net::IpAddr, time::Duration};

use ron_transport::{
    proxy_protocol::{
        CidrError, Origin, ProxyError, TrustedSource, TrustedSources, encode_v1, encode_v2, read_header,
    },
    stream::Peer,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

const LIMIT: Duration = Duration::from_secs(60);

fn origin() -> Origin {
    Origin::tcp("192.0.2.1:4711".parse().unwrap(), "192.0.2.2:443".parse().unwrap())
}

#[tokio::test]
async fn the_header_is_taken_and_the_rest_kept() {
    for header in [encode_v1(&origin()), encode_v2(&origin(), &[]).unwrap()] {
        let (mut near, mut far) = duplex(1024);
        far.write_all(&[&header[..], b"GET /"].concat()).await.unwrap();
        far.write_all(b" HTTP/1.1").await.unwrap();
        drop(far);
        let (read, leftover) = read_header(&mut near, LIMIT).await.unwrap();
        assert_eq!(read.origin, origin());
        let mut whole = leftover.to_vec();
        near.read_to_end(&mut whole).await.unwrap();
        assert_eq!(whole, b"GET / HTTP/1.1");
    }
}

#[tokio::test]
async fn a_header_in_single_bytes_leaves_nothing_over() {
    for header in [encode_v1(&origin()), encode_v2(&origin(), &[]).unwrap()] {
        // A pipe that holds one byte makes every read a read of one byte.
        let (mut near, mut far) = duplex(1);
        let (read, written) = tokio::join!(read_header(&mut near, LIMIT), far.write_all(&header));
        written.unwrap();
        let (read, leftover) = read.unwrap();
        assert_eq!((read.origin, leftover.len()), (origin(), 0));
    }
}

#[tokio::test(start_paused = true)]
async fn a_header_that_does_not_come_is_given_up_at_the_limit() {
    let begun = tokio::time::Instant::now();
    let (mut near, mut far) = duplex(64);
    far.write_all(b"PROXY TC").await.unwrap();
    assert_eq!(read_header(&mut near, LIMIT).await.unwrap_err(), ProxyError::Timeout);
    assert_eq!(begun.elapsed(), LIMIT);
}

#[tokio::test]
async fn a_peer_that_leaves_early_is_told_from_one_that_lies() {
    for sent in [&b""[..], b"PROXY TCP4"] {
        let (mut near, mut far) = duplex(64);
        far.write_all(sent).await.unwrap();
        drop(far);
        let refused = read_header(&mut near, LIMIT).await.unwrap_err();
        assert_eq!(refused, ProxyError::Closed { received: sent.len() });
    }
    let (mut near, mut far) = duplex(64);
    far.write_all(b"GET / HTTP/1.1\r\n").await.unwrap();
    assert_eq!(read_header(&mut near, LIMIT).await.unwrap_err(), ProxyError::NotProxy);
}

fn sources(texts: &[&str]) -> TrustedSources {
    TrustedSources::new(texts.iter().map(|text| text.parse().unwrap()).collect())
}

#[test]
fn networks_end_where_their_prefix_says() {
    for (network, inside, outside) in [
        ("10.0.0.0/8", "10.255.255.255", "11.0.0.0"),
        ("192.0.2.128/25", "192.0.2.128", "192.0.2.127"),
        ("192.0.2.7", "192.0.2.7", "192.0.2.8"),
        ("192.0.2.7/32", "::ffff:192.0.2.7", "192.0.2.6"),
        ("0.0.0.0/0", "255.255.255.255", "::1"),
        ("::/0", "ffff::1", "192.0.2.1"),
        ("::1", "::1", "::2"),
        ("2001:db8::/127", "2001:db8::1", "2001:db8::2"),
        ("::ffff:10.0.0.0/104", "10.1.2.3", "11.0.0.0"),
    ] {
        let trusted = sources(&[network]);
        assert!(trusted.contains(inside.parse::<IpAddr>().unwrap()), "{inside} in {network}");
        assert!(!trusted.contains(outside.parse::<IpAddr>().unwrap()), "{outside} not in {network}");
    }
}

#[test]
fn slips_in_a_network_are_refused_with_advice() {
    for (text, message) in [
        (
            "10.0.0.1/8",
            "`10.0.0.1/8` has bits set behind its prefix: write 10.0.0.0/8 for the network or the address alone",
        ),
        ("10.0.0.0/33", "`33` is not a prefix length: write a number from 0 to 32"),
        ("10.0.0.0/", "`` is not a prefix length: write a number from 0 to 32"),
        ("10.0.0.0/+8", "`+8` is not a prefix length: write a number from 0 to 32"),
        ("::/129", "`129` is not a prefix length: write a number from 0 to 128"),
        (
            "example.org",
            "`example.org` is not an IP address: write one such as 10.0.0.0/8, 192.0.2.7, ::1 or the word unix",
        ),
    ] {
        assert_eq!(text.parse::<TrustedSource>().unwrap_err().to_string(), message);
    }
    assert!(matches!("10.0.0.1/31".parse::<TrustedSource>(), Err(CidrError::HostBits { .. })));
    assert!("10.0.0.1/32".parse::<TrustedSource>().is_ok());
}

#[test]
fn peers_over_unix_sockets_are_trusted_only_by_name() {
    let tcp = Peer::tcp("10.0.0.1:1".parse().unwrap());
    let unnamed = Peer { addr: None, unix: false };
    let everywhere = sources(&["0.0.0.0/0", "::/0"]);
    assert!(everywhere.trusts(&tcp) && !everywhere.trusts(&Peer::unix()));
    let unix = sources(&["unix"]);
    assert!(unix.trusts(&Peer::unix()) && !unix.trusts(&tcp) && !unix.trusts(&unnamed));
    let nobody = TrustedSources::default();
    assert!(nobody.is_empty() && !nobody.trusts(&tcp) && !nobody.trusts(&Peer::unix()));
}

#[test]
fn trusted_sources_travel_as_a_list_of_strings() {
    let text = r#"["10.0.0.0/8","::1/128","unix"]"#;
    let trusted: TrustedSources = serde_json::from_str(text).unwrap();
    assert_eq!(trusted, sources(&["10.0.0.0/8", "::1", "unix"]));
    assert_eq!(serde_json::to_string(&trusted).unwrap(), text);
    assert!(serde_json::from_str::<TrustedSources>(r#"["10.0.0.1/8"]"#).is_err());
    assert_eq!(schemars::schema_for!(TrustedSources).get("type").unwrap(), "array");
}
