//! Networks of client addresses, as a caveat lists them.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::{fmt, str::FromStr};

use crate::TokenError;

/// All addresses that begin with the same bits. IPv4-mapped networks are kept as IPv4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    prefix: u8,
}

/// Why a text is not a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NetworkError {
    /// It is not an address with a prefix length.
    #[error("write an address or a network, such as 192.0.2.7, 10.0.0.0/8 or 2001:db8::/32")]
    Unreadable,
    /// Bits behind the prefix are set, so either the address or the prefix is a slip.
    #[error("bits behind the prefix are set: write the network's first address, or the address alone")]
    HostBits,
}

impl Network {
    /// The network of the first `prefix` bits of an address.
    ///
    /// # Errors
    /// [`NetworkError`] if the address has fewer bits, or others set.
    pub fn new(address: IpAddr, prefix: u8) -> Result<Self, NetworkError> {
        let (address, prefix) = match address.to_canonical() {
            IpAddr::V4(v4) if address.is_ipv6() && prefix >= 96 => (v4.into(), prefix - 96),
            _ => (address, prefix),
        };
        let (bits, len) = left_aligned(address);
        if prefix > len {
            return Err(NetworkError::Unreadable);
        }
        if bits & !mask(prefix) == 0 { Ok(Self { address, prefix }) } else { Err(NetworkError::HostBits) }
    }

    /// Whether the address, unmapped if it is IPv4-mapped, is in the network.
    #[must_use]
    pub fn contains(self, ip: IpAddr) -> bool {
        let ip = ip.to_canonical();
        let ((network, _), (address, _)) = (left_aligned(self.address), left_aligned(ip));
        ip.is_ipv4() == self.address.is_ipv4() && address & mask(self.prefix) == network
    }

    /// Appends the form that [`Networks`] reads.
    pub(crate) fn write(self, out: &mut Vec<u8>) {
        match self.address {
            IpAddr::V4(v4) => {
                out.extend_from_slice(&[4, self.prefix]);
                out.extend_from_slice(&v4.octets());
            }
            IpAddr::V6(v6) => {
                out.extend_from_slice(&[6, self.prefix]);
                out.extend_from_slice(&v6.octets());
            }
        }
    }
}

/// The address's bits from the top of a word, and how many there are.
fn left_aligned(address: IpAddr) -> (u128, u8) {
    match address {
        IpAddr::V4(v4) => (u128::from(v4.to_bits()) << 96, 32),
        IpAddr::V6(v6) => (v6.to_bits(), 128),
    }
}

fn mask(prefix: u8) -> u128 {
    u128::MAX.checked_shl(128 - u32::from(prefix)).unwrap_or(0)
}

impl FromStr for Network {
    type Err = NetworkError;

    fn from_str(text: &str) -> Result<Self, NetworkError> {
        let (address, prefix) = text.split_once('/').map_or((text, None), |(a, p)| (a, Some(p)));
        let address: IpAddr = address.parse().map_err(|_| NetworkError::Unreadable)?;
        let prefix = match prefix {
            None => left_aligned(address).1,
            Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                digits.parse().map_err(|_| NetworkError::Unreadable)?
            }
            Some(_) => return Err(NetworkError::Unreadable),
        };
        Self::new(address, prefix)
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

/// A list of networks as it stands in a token; every entry has been checked.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Networks<'a>(&'a [u8]);

impl<'a> Networks<'a> {
    pub(crate) fn read(bytes: &'a [u8]) -> Result<Self, TokenError> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let wrong = TokenError::Malformed("a network is its family (4 or 6), its prefix and its address");
            (_, rest) = first_network(rest).ok_or(wrong)?;
        }
        Ok(Self(bytes))
    }

    pub(crate) const fn as_bytes(self) -> &'a [u8] {
        self.0
    }

    /// The networks, in order.
    pub fn iter(self) -> impl Iterator<Item = Network> + 'a {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            let (network, after) = first_network(rest)?;
            rest = after;
            Some(network)
        })
    }

    /// Whether the address is in one of them.
    #[must_use]
    pub fn contains(self, ip: IpAddr) -> bool {
        self.iter().any(|network| network.contains(ip))
    }
}

fn first_network(bytes: &[u8]) -> Option<(Network, &[u8])> {
    let ([family, prefix], rest) = bytes.split_first_chunk::<2>()?;
    let (address, rest): (IpAddr, _) = match family {
        4 => rest.split_first_chunk::<4>().map(|(octets, rest)| (Ipv4Addr::from(*octets).into(), rest))?,
        6 => rest.split_first_chunk::<16>().map(|(octets, rest)| (Ipv6Addr::from(*octets).into(), rest))?,
        _ => return None,
    };
    // An IPv4 network has one written form, so one in IPv6's is refused rather than translated.
    let network = Network::new(address, *prefix).ok().filter(|network| network.address == address);
    network.map(|network| (network, rest))
}

impl fmt::Debug for Networks<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl fmt::Display for Networks<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, network) in self.iter().enumerate() {
            write!(f, "{}{network}", if at == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contains(network: &str, ip: &str) -> bool {
        network.parse::<Network>().expect(network).contains(ip.parse().expect(ip))
    }

    #[test]
    fn a_network_ends_at_its_first_and_last_address() {
        for (network, inside, outside) in [
            ("10.0.0.0/8", "10.0.0.0", "9.255.255.255"),
            ("10.0.0.0/8", "10.255.255.255", "11.0.0.0"),
            ("192.0.2.7", "192.0.2.7", "192.0.2.6"),
            ("2001:db8::/32", "2001:db8:ffff::1", "2001:db9::"),
            ("::1", "::1", "::2"),
            ("0.0.0.0/0", "255.1.2.3", "::1"),
            ("::/0", "::1", "10.0.0.1"),
        ] {
            assert!(contains(network, inside), "{network} {inside}");
            assert!(!contains(network, outside), "{network} {outside}");
        }
    }

    #[test]
    fn a_mapped_address_is_the_address_it_maps() {
        assert!(contains("10.0.0.0/8", "::ffff:10.1.2.3"));
        assert!(contains("::ffff:10.0.0.0/104", "10.1.2.3"));
        assert!(!contains("::/0", "::ffff:10.1.2.3"));
    }

    #[test]
    fn what_is_no_network_is_refused() {
        for wrong in
            ["", "10.0.0.0/33", "10.0.0.0/", "10.0.0.0/+8", "::/129", "10.0.0/8", "host", "1.2.3.4/300"]
        {
            assert_eq!(wrong.parse::<Network>(), Err(NetworkError::Unreadable), "{wrong}");
        }
        for slip in ["10.0.0.1/8", "2001:db8::1/32"] {
            assert_eq!(slip.parse::<Network>(), Err(NetworkError::HostBits), "{slip}");
        }
    }
}
