//! The head of a response as bytes, and how its body is to follow.

use std::time::Duration;

use http::{
    HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Version,
    header::{CONNECTION, CONTENT_LENGTH, DATE, TRAILER, TRANSFER_ENCODING},
};
use http_body::Body as _;

use super::date;
use crate::{
    Response,
    h1::{
        outbox::{Announced, put},
        request::has_token,
    },
};

/// What is known of the request that a response answers.
#[derive(Clone, Debug)]
pub(super) struct Answering {
    pub(super) method: Method,
    pub(super) version: Version,
    /// Whether another request may follow on the connection.
    pub(super) keep_alive: bool,
}

/// How a response goes on after its head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Outcome {
    /// How its body is announced; `None` if none follows.
    pub(super) announced: Option<Announced>,
    /// Whether another request may follow on the connection.
    pub(super) keep_alive: bool,
}

/// Writes the head of a response; `unix` is the time since the Unix epoch.
pub(super) fn write(
    response: &Response,
    answering: &Answering,
    unix: Duration,
    out: &mut Vec<u8>,
) -> Outcome {
    let (status, headers) = (response.status(), response.headers());
    let announced = announced(response, answering);
    let switches = status == StatusCode::SWITCHING_PROTOCOLS;
    write_status(status, answering.version, out);
    let told = write_fields(headers, switches, out);
    let keep_alive = answering.keep_alive && announced != Some(Announced::Connection) && !told.closes;
    write_length(response, answering, announced.as_ref(), out);
    match (keep_alive, answering.version) {
        _ if switches => {}
        (false, _) => put(out, &[b"connection: close\r\n"]),
        (true, Version::HTTP_10) => put(out, &[b"connection: keep-alive\r\n"]),
        (true, _) => {}
    }
    if !told.has_date {
        put(out, &[b"date: ", &date::at(unix), b"\r\n"]);
    }
    put(out, &[b"\r\n"]);
    let follows =
        announced.filter(|_| has_body(&answering.method, status) && !response.body().is_end_stream());
    Outcome { announced: follows, keep_alive }
}

fn write_status(status: StatusCode, version: Version, out: &mut Vec<u8>) {
    if status == StatusCode::OK && version == Version::HTTP_11 {
        return put(out, &[b"HTTP/1.1 200 OK\r\n"]);
    }
    let version: &[u8] = if version == Version::HTTP_10 { b"HTTP/1.0 " } else { b"HTTP/1.1 " };
    let reason = status.canonical_reason().unwrap_or_default();
    put(out, &[version, status.as_str().as_bytes(), b" ", reason.as_bytes(), b"\r\n"]);
}

/// What a response's fields tell beside themselves.
#[derive(Default)]
struct Told {
    has_date: bool,
    closes: bool,
}

/// Writes the fields but for those that say where the body ends, and whether the connection does.
fn write_fields(headers: &HeaderMap, switches: bool, out: &mut Vec<u8>) -> Told {
    let mut told = Told::default();
    for (name, value) in headers {
        if *name == CONTENT_LENGTH || *name == TRANSFER_ENCODING {
            continue;
        }
        if *name == CONNECTION && !switches {
            told.closes |= has_token(value.as_bytes(), b"close");
            continue;
        }
        told.has_date |= *name == DATE;
        put(out, &[name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"]);
    }
    told
}

/// Writes where the body ends, or would end if the request were not HEAD.
fn write_length(
    response: &Response,
    answering: &Answering,
    announced: Option<&Announced>,
    out: &mut Vec<u8>,
) {
    match announced {
        Some(Announced::Length(length)) => write_number(*length, out),
        Some(Announced::Chunked(_)) => put(out, &[b"transfer-encoding: chunked\r\n"]),
        Some(Announced::Connection) => {}
        None if may_tell_length(response.status()) => {
            let length = response.body().size_hint().exact().filter(|length| *length > 0);
            match (response.headers().get(CONTENT_LENGTH), length) {
                (Some(told), _) => put(out, &[b"content-length: ", told.as_bytes(), b"\r\n"]),
                (None, Some(length)) if answering.method == Method::HEAD => write_number(length, out),
                (None, _) => {}
            }
        }
        None => {}
    }
}

fn write_number(mut number: u64, out: &mut Vec<u8>) {
    let mut digits = [b'0'; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + u8::try_from(number % 10).unwrap_or(0);
        number /= 10;
        if number == 0 {
            break;
        }
    }
    put(out, &[b"content-length: ", &digits[at..], b"\r\n"]);
}

/// Whether a response has a body at all, be it an empty one (RFC 9110, 6.4.1).
fn has_body(method: &Method, status: StatusCode) -> bool {
    *method != Method::HEAD && status != StatusCode::NOT_MODIFIED && may_tell_length(status)
}

/// Whether a response may say how long its body is, or would be (RFC 9110, 8.6).
fn may_tell_length(status: StatusCode) -> bool {
    !status.is_informational() && status != StatusCode::NO_CONTENT
}

/// How the body of a response is announced; `None` if it has none.
fn announced(response: &Response, answering: &Answering) -> Option<Announced> {
    if !has_body(&answering.method, response.status()) {
        return None;
    }
    let headers = response.headers();
    let told = || parse(headers.get(CONTENT_LENGTH)?);
    Some(match response.body().size_hint().exact().or_else(told) {
        Some(length) => Announced::Length(length),
        None if answering.version == Version::HTTP_10 => Announced::Connection,
        None => Announced::Chunked(trailer_names(headers)),
    })
}

fn parse(length: &HeaderValue) -> Option<u64> {
    length.to_str().ok().filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))?.parse().ok()
}

/// The names of the trailers that a response announces.
fn trailer_names(headers: &HeaderMap) -> Option<HeaderValue> {
    const NAME: HeaderName = TRAILER;
    let mut values = headers.get_all(NAME).iter();
    let first = values.next()?;
    if values.next().is_none() {
        return Some(first.clone());
    }
    let all: Vec<&[u8]> = headers.get_all(NAME).iter().map(HeaderValue::as_bytes).collect();
    HeaderValue::from_bytes(&all.join(&b", "[..])).ok()
}

#[cfg(test)]
mod tests;
