//! Version 2: a binary header of 16 bytes, then a block of addresses and TLVs.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddrV4, SocketAddrV6};

use super::{Header, Origin, Parsed, ProxyError, Tlv, V2_BLOCK_MAX, Version};

pub(super) const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";
/// Signature, version and command, family and transport, length of the block.
const FIXED_LEN: usize = 16;
const UNIX_NAME_LEN: usize = 108;
const TLV_HEAD_LEN: usize = 3;

const VERSION_2: u8 = 0x20;
const LOCAL: u8 = 0x0;
const PROXY: u8 = 0x1;
const UNSPEC: u8 = 0x00;
const TCP4: u8 = 0x11;
const TCP6: u8 = 0x21;
const UNIX_STREAM: u8 = 0x31;

/// Why a header cannot be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    /// Addresses and TLVs exceed [`V2_BLOCK_MAX`].
    #[error("the PROXY header would be longer than {V2_BLOCK_MAX} bytes")]
    TooLong,
    /// A Unix socket's name is longer than 108 bytes.
    #[error("a Unix socket's name is longer than {UNIX_NAME_LEN} bytes")]
    UnixName,
}

/// Writes a version 2 header. An entry of kind [`Tlv::CRC32C`] is filled in with the right checksum. Entries are
/// left out beside [`Origin::Local`] and [`Origin::Unknown`], where receivers skip them.
///
/// # Errors
/// [`EncodeError`].
pub fn encode(origin: &Origin, tlvs: &[Tlv]) -> Result<Vec<u8>, EncodeError> {
    let (command, family) = match origin {
        Origin::Local => (LOCAL, UNSPEC),
        Origin::Unknown => (PROXY, UNSPEC),
        Origin::Tcp4 { .. } => (PROXY, TCP4),
        Origin::Tcp6 { .. } => (PROXY, TCP6),
        Origin::Unix { .. } => (PROXY, UNIX_STREAM),
    };
    let mut out = SIGNATURE.to_vec();
    out.extend([VERSION_2 | command, family, 0, 0]);
    push_addresses(&mut out, origin)?;
    let mut checksum_at = None;
    for tlv in tlvs.iter().filter(|_| family != UNSPEC) {
        if tlv.kind == Tlv::CRC32C && checksum_at.is_none() {
            checksum_at = Some(out.len() + TLV_HEAD_LEN);
            push_tlv(&mut out, tlv.kind, &[0; 4])?;
        } else {
            push_tlv(&mut out, tlv.kind, &tlv.value)?;
        }
    }
    let block_len = out.len() - FIXED_LEN;
    let len = u16::try_from(block_len).ok().filter(|_| block_len <= V2_BLOCK_MAX);
    out[FIXED_LEN - 2..FIXED_LEN].copy_from_slice(&len.ok_or(EncodeError::TooLong)?.to_be_bytes());
    if let Some(at) = checksum_at {
        let checksum = crc32c(&[&out]);
        out[at..at + 4].copy_from_slice(&checksum.to_be_bytes());
    }
    Ok(out)
}

fn push_addresses(out: &mut Vec<u8>, origin: &Origin) -> Result<(), EncodeError> {
    match origin {
        Origin::Local | Origin::Unknown => {}
        Origin::Tcp4 { source, destination } => {
            out.extend(source.ip().octets());
            out.extend(destination.ip().octets());
            out.extend(source.port().to_be_bytes());
            out.extend(destination.port().to_be_bytes());
        }
        Origin::Tcp6 { source, destination } => {
            out.extend(source.ip().octets());
            out.extend(destination.ip().octets());
            out.extend(source.port().to_be_bytes());
            out.extend(destination.port().to_be_bytes());
        }
        Origin::Unix { source, destination } => {
            for name in [source, destination] {
                let padding = UNIX_NAME_LEN.checked_sub(name.len()).ok_or(EncodeError::UnixName)?;
                out.extend(name);
                out.resize(out.len() + padding, 0);
            }
        }
    }
    Ok(())
}

fn push_tlv(out: &mut Vec<u8>, kind: u8, value: &[u8]) -> Result<(), EncodeError> {
    let len = u16::try_from(value.len()).map_err(|_| EncodeError::TooLong)?;
    out.push(kind);
    out.extend(len.to_be_bytes());
    out.extend(value);
    Ok(())
}

/// Parses input that agrees with [`SIGNATURE`].
pub(super) fn parse(input: &[u8]) -> Result<Parsed, ProxyError> {
    let version_command = input.get(12).copied();
    if let Some(byte) = version_command.filter(|byte| byte & 0xf0 != VERSION_2) {
        return Err(ProxyError::Unsupported { what: "version", byte });
    }
    if let Some(byte) = version_command.filter(|byte| !matches!(byte & 0x0f, LOCAL | PROXY)) {
        return Err(ProxyError::Unsupported { what: "command", byte });
    }
    let Some((fixed, rest)) = input.split_first_chunk::<FIXED_LEN>() else {
        return Ok(Parsed::NeedMore { at_least: FIXED_LEN - input.len() });
    };
    let [.., version_command, family, len_high, len_low] = *fixed;
    let block_len = usize::from(u16::from_be_bytes([len_high, len_low]));
    if block_len > V2_BLOCK_MAX {
        return Err(ProxyError::TooLong { limit: V2_BLOCK_MAX });
    }
    let Some(block) = rest.get(..block_len) else {
        return Ok(Parsed::NeedMore { at_least: block_len - rest.len() });
    };
    let (origin, tlvs) = if version_command & 0x0f == LOCAL {
        // The whole block, family included, is to be skipped.
        (Origin::Local, Vec::new())
    } else {
        parse_block(fixed, family, block)?
    };
    let header = Header { version: Version::V2, origin, tlvs };
    Ok(Parsed::Done { consumed: FIXED_LEN + block_len, header })
}

fn parse_block(fixed: &[u8], family: u8, block: &[u8]) -> Result<(Origin, Vec<Tlv>), ProxyError> {
    let short = ProxyError::Malformed("the block is too short for its addresses");
    let (origin, rest) = match family {
        UNSPEC => return Ok((Origin::Unknown, Vec::new())),
        TCP4 => parse_tcp4(block).ok_or(short)?,
        TCP6 => parse_tcp6(block).ok_or(short)?,
        UNIX_STREAM => parse_unix(block).ok_or(short)?,
        byte => {
            return Err(ProxyError::Unsupported { what: "family and transport", byte });
        }
    };
    let tlvs = parse_tlvs(rest, |before, after| {
        let start = &block[..block.len() - rest.len()];
        crc32c(&[fixed, start, before, &[0; 4], after])
    })?;
    Ok((origin, tlvs))
}

fn parse_tcp4(block: &[u8]) -> Option<(Origin, &[u8])> {
    let (source, rest) = block.split_first_chunk::<4>()?;
    let (destination, rest) = rest.split_first_chunk::<4>()?;
    let (source_port, destination_port, rest) = parse_ports(rest)?;
    let origin = Origin::Tcp4 {
        source: SocketAddrV4::new(Ipv4Addr::from(*source), source_port),
        destination: SocketAddrV4::new(Ipv4Addr::from(*destination), destination_port),
    };
    Some((origin, rest))
}

fn parse_tcp6(block: &[u8]) -> Option<(Origin, &[u8])> {
    let (source, rest) = block.split_first_chunk::<16>()?;
    let (destination, rest) = rest.split_first_chunk::<16>()?;
    let (source_port, destination_port, rest) = parse_ports(rest)?;
    let origin = Origin::Tcp6 {
        source: SocketAddrV6::new(Ipv6Addr::from(*source), source_port, 0, 0),
        destination: SocketAddrV6::new(Ipv6Addr::from(*destination), destination_port, 0, 0),
    };
    Some((origin, rest))
}

fn parse_ports(block: &[u8]) -> Option<(u16, u16, &[u8])> {
    let (source, rest) = block.split_first_chunk::<2>()?;
    let (destination, rest) = rest.split_first_chunk::<2>()?;
    Some((u16::from_be_bytes(*source), u16::from_be_bytes(*destination), rest))
}

fn parse_unix(block: &[u8]) -> Option<(Origin, &[u8])> {
    let (source, rest) = block.split_first_chunk::<UNIX_NAME_LEN>()?;
    let (destination, rest) = rest.split_first_chunk::<UNIX_NAME_LEN>()?;
    let name = |padded: &[u8]| {
        let len = padded.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        padded[..len].to_vec()
    };
    Some((Origin::Unix { source: name(source), destination: name(destination) }, rest))
}

/// Parses the entries; `checksum` computes the header's checksum from the entries before and after the field.
fn parse_tlvs(entries: &[u8], checksum: impl Fn(&[u8], &[u8]) -> u32) -> Result<Vec<Tlv>, ProxyError> {
    let mut tlvs: Vec<Tlv> = Vec::new();
    let mut rest = entries;
    while !rest.is_empty() {
        let cut = ProxyError::Malformed("an entry is longer than the block");
        let (&[kind, len_high, len_low], tail) =
            rest.split_first_chunk::<TLV_HEAD_LEN>().ok_or_else(|| cut.clone())?;
        let len = usize::from(u16::from_be_bytes([len_high, len_low]));
        let (value, tail) = tail.split_at_checked(len).ok_or(cut)?;
        if kind == Tlv::CRC32C {
            let before = &entries[..entries.len() - tail.len() - value.len()];
            let repeated = tlvs.iter().any(|tlv| tlv.kind == Tlv::CRC32C);
            if repeated || value != checksum(before, tail).to_be_bytes() {
                return Err(ProxyError::Checksum);
            }
        }
        tlvs.push(Tlv { kind, value: value.to_vec() });
        rest = tail;
    }
    Ok(tlvs)
}

/// CRC-32C (Castagnoli) bit by bit: headers with a checksum are rare and short.
fn crc32c(parts: &[&[u8]]) -> u32 {
    let mut crc = u32::MAX;
    for byte in parts.iter().copied().flatten() {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ 0x82f6_3b78 } else { crc >> 1 };
        }
    }
    !crc
}
