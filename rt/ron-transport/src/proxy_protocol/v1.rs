//! Version 1: one line of text, `PROXY TCP4 192.0.2.1 192.0.2.2 4711 80` and a line end.

use std::{
    net::{SocketAddrV4, SocketAddrV6},
    str::{FromStr, Split},
};

use super::{Header, Origin, Parsed, ProxyError, V1_MAX, Version};

pub(super) const SIGNATURE: &[u8] = b"PROXY ";
const LINE_END: &[u8] = b"\r\n";

/// Writes a version 1 header, at most [`V1_MAX`] bytes. What the format cannot tell ([`Origin::Local`] and
/// [`Origin::Unix`]) becomes `UNKNOWN`.
#[must_use]
pub fn encode(origin: &Origin) -> Vec<u8> {
    match origin {
        Origin::Tcp4 { source: s, destination: d } => {
            format!("PROXY TCP4 {} {} {} {}\r\n", s.ip(), d.ip(), s.port(), d.port())
        }
        Origin::Tcp6 { source: s, destination: d } => {
            format!("PROXY TCP6 {} {} {} {}\r\n", s.ip(), d.ip(), s.port(), d.port())
        }
        Origin::Local | Origin::Unknown | Origin::Unix { .. } => "PROXY UNKNOWN\r\n".to_owned(),
    }
    .into_bytes()
}

/// Parses input that agrees with [`SIGNATURE`].
pub(super) fn parse(input: &[u8]) -> Result<Parsed, ProxyError> {
    let longest_text = V1_MAX - LINE_END.len();
    let Some(end) = input.iter().take(longest_text + 1).position(|byte| *byte == b'\r') else {
        return if input.len() > longest_text {
            Err(ProxyError::TooLong { limit: V1_MAX })
        } else {
            Ok(Parsed::NeedMore { at_least: LINE_END.len() })
        };
    };
    match input.get(end + 1) {
        None => return Ok(Parsed::NeedMore { at_least: 1 }),
        Some(b'\n') => {}
        Some(_) => return Err(ProxyError::Malformed("a carriage return inside the line")),
    }
    let fields = input.get(SIGNATURE.len()..end).unwrap_or_default();
    let fields = str::from_utf8(fields).map_err(|_| ProxyError::Malformed("the line is not text"))?;
    let header = Header { version: Version::V1, origin: parse_fields(fields)?, tlvs: Vec::new() };
    Ok(Parsed::Done { consumed: end + LINE_END.len(), header })
}

fn parse_fields(text: &str) -> Result<Origin, ProxyError> {
    let mut fields = text.split(' ');
    let origin = match fields.next() {
        // Whatever follows is to be ignored.
        Some("UNKNOWN") => return Ok(Origin::Unknown),
        Some("TCP4") => {
            let (source, destination, source_port, destination_port) = addresses(&mut fields)?;
            Origin::Tcp4 {
                source: SocketAddrV4::new(source, source_port),
                destination: SocketAddrV4::new(destination, destination_port),
            }
        }
        Some("TCP6") => {
            let (source, destination, source_port, destination_port) = addresses(&mut fields)?;
            Origin::Tcp6 {
                source: SocketAddrV6::new(source, source_port, 0, 0),
                destination: SocketAddrV6::new(destination, destination_port, 0, 0),
            }
        }
        _ => return Err(ProxyError::Malformed("the protocol is not TCP4, TCP6 or UNKNOWN")),
    };
    match fields.next() {
        None => Ok(origin),
        Some(_) => Err(ProxyError::Malformed("more than four address fields")),
    }
}

fn addresses<A: FromStr>(fields: &mut Split<'_, char>) -> Result<(A, A, u16, u16), ProxyError> {
    let source = address(fields.next())?;
    let destination = address(fields.next())?;
    Ok((source, destination, port(fields.next())?, port(fields.next())?))
}

fn address<A: FromStr>(field: Option<&str>) -> Result<A, ProxyError> {
    field
        .and_then(|field| field.parse().ok())
        .ok_or(ProxyError::Malformed("an address is missing or of another family"))
}

/// Decimal without sign or leading zeros, as the specification writes it.
fn port(field: Option<&str>) -> Result<u16, ProxyError> {
    field
        .filter(|field| field.bytes().all(|byte| byte.is_ascii_digit()))
        .filter(|field| *field == "0" || !field.starts_with('0'))
        .and_then(|field| field.parse().ok())
        .ok_or(ProxyError::Malformed("a port is missing or not a number from 0 to 65535"))
}
