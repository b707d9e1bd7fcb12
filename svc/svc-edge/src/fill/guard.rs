//! Which addresses an origin may be at: public ones, unless the list says otherwise.
//!
//! A name on the list is resolved by somebody else's name server, which may point it at this machine or its neighbours.
//! What is checked here is the very address that is dialled then.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use types::{Reason, Refusal};

/// Those of the addresses that may be dialled.
///
/// # Errors
/// There is none.
pub(super) fn permitted(
    host: &str,
    addresses: &[SocketAddr],
    private: bool,
) -> Result<Vec<SocketAddr>, Refusal> {
    let may = |address: &&SocketAddr| is_public(address.ip()) || private && is_private(address.ip());
    let permitted: Vec<_> = addresses.iter().filter(may).copied().collect();
    if permitted.is_empty() {
        let what = format!("{host} is at an address where no origin may be");
        return Err(Refusal::new(Reason::NotAllowed, what));
    }
    Ok(permitted)
}

/// Whether the address belongs to one host of the public internet.
fn is_public(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => is_public_v4(ip),
        IpAddr::V6(ip) => is_public_v6(ip),
    }
}

/// Whether it belongs to one host at all, near or far. An IPv4 address in IPv6 clothes is none: who has it has the plain one.
fn is_private(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.octets()[0] != 0 && ip.octets()[0] < 224,
        IpAddr::V6(ip) => !ip.is_unspecified() && !ip.is_multicast() && ip.to_ipv4_mapped().is_none(),
    }
}

/// Without the special blocks of RFC 6890 and its registry.
fn is_public_v4(ip: Ipv4Addr) -> bool {
    let special = match ip.octets() {
        [0 | 10 | 127, ..] => true,
        [100, second, ..] => (64..128).contains(&second),
        [169, 254, ..] => true,
        [172, second, ..] => (16..32).contains(&second),
        [192, 0, 0 | 2, _] | [192, 88, 99, _] | [192, 168, ..] => true,
        [198, 18 | 19, ..] | [198, 51, 100, _] | [203, 0, 113, _] => true,
        [224..=255, ..] => true,
        _ => false,
    };
    !special
}

/// Only the block that is given out to hosts, without what is set aside or wraps an IPv4 address in it.
fn is_public_v6(ip: Ipv6Addr) -> bool {
    let special = match ip.segments() {
        // Protocol assignments, Teredo among them.
        [0x2001, second, ..] if second < 0x200 => true,
        // Documentation.
        [0x2001, 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] => true,
        // 6to4.
        [0x2002, ..] => true,
        _ => false,
    };
    ip.segments()[0] >> 13 == 1 && !special
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(ip: &str, private: bool) -> bool {
        let address = SocketAddr::new(ip.parse().expect("an address"), 443);
        permitted("origin.example", &[address], private).is_ok()
    }

    #[test]
    fn public_addresses_are_permitted_up_to_the_edge_of_each_special_block() {
        for ip in [
            "1.1.1.1",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "126.255.255.255",
            "128.0.0.0",
            "169.253.255.255",
            "169.255.0.0",
            "172.15.255.255",
            "172.32.0.0",
            "192.0.1.0",
            "192.0.3.0",
            "192.88.98.255",
            "192.167.255.255",
            "192.169.0.0",
            "198.17.255.255",
            "198.20.0.0",
            "198.51.99.255",
            "203.0.112.255",
            "223.255.255.255",
            "2000::1",
            "2001:200::1",
            "2001:db7:ffff::1",
            "2001:db9::",
            "2003::1",
            "2606:4700::1111",
            "3ffe::1",
            "3fff:1000::",
        ] {
            assert!(verdict(ip, false), "{ip}");
        }
    }

    #[test]
    fn special_addresses_are_refused_from_their_first_to_their_last() {
        for ip in [
            "0.0.0.0",
            "0.255.255.255",
            "10.0.0.0",
            "10.255.255.255",
            "100.64.0.0",
            "100.127.255.255",
            "127.0.0.1",
            "127.255.255.255",
            "169.254.0.0",
            "169.254.169.254",
            "172.16.0.0",
            "172.31.255.255",
            "192.0.0.1",
            "192.0.2.255",
            "192.88.99.1",
            "192.168.255.255",
            "198.18.0.0",
            "198.19.255.255",
            "198.51.100.7",
            "203.0.113.7",
            "224.0.0.1",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::8.8.8.8",
            "::ffff:8.8.8.8",
            "::ffff:127.0.0.1",
            "64:ff9b::808:808",
            "64:ff9b:1::1",
            "100::1",
            "1fff:ffff::",
            "2001::1",
            "2001:1ff::1",
            "2001:db8::1",
            "2002:808:808::1",
            "3fff::1",
            "3fff:fff::1",
            "4000::1",
            "fc00::1",
            "fdff::1",
            "fe80::1",
            "fec0::1",
            "ff02::1",
        ] {
            assert!(!verdict(ip, false), "{ip}");
        }
    }

    #[test]
    fn a_private_origin_may_be_at_any_host_but_at_no_other_kind_of_address() {
        for ip in
            ["127.0.0.1", "10.0.0.7", "169.254.1.1", "100.64.0.1", "::1", "fd00::1", "fe80::1", "1.1.1.1"]
        {
            assert!(verdict(ip, true), "{ip}");
        }
        for ip in ["0.0.0.0", "224.0.0.1", "255.255.255.255", "::", "ff02::1", "::ffff:127.0.0.1"] {
            assert!(!verdict(ip, true), "{ip}");
        }
    }

    #[test]
    fn of_several_addresses_the_permitted_are_left() {
        let of = |ip: &str| SocketAddr::new(ip.parse().expect("an address"), 443);
        let all = [of("127.0.0.1"), of("1.1.1.1"), of("10.0.0.1"), of("2606:4700::1111")];
        assert_eq!(permitted("a", &all, false), Ok(vec![all[1], all[3]]));
        let refused = permitted("a", &all[..1], false).expect_err("it is private");
        assert_eq!(refused.reason, Reason::NotAllowed);
    }
}
