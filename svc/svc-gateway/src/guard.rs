//! What a request's body has to get past before an upstream sees it: the size cap, and the decode guard.
//!
//! A body that breaks a limit while it streams has already begun to reach the upstream. Its stream then ends with an
//! error, so the upstream's request is broken off without its final chunk, and the reason waits in [`Breach`] for whoever
//! has to answer the client.

mod budget;
mod capped;
mod decoded;
#[cfg(test)]
mod tests;

use std::sync::{Arc, OnceLock};

use decode::{Coding, Decoder, Limits};
use http::{
    HeaderMap, HeaderName,
    header::{CONTENT_ENCODING, CONTENT_LENGTH},
};
use http_body::Body as _;
use ron_transport::{Body, BodyError, Request};
use types::{Reason, Refusal};

pub use budget::{DecodeBudget, Payer};
use capped::Capped;
use decoded::Decoded;

/// Fields that speak of the bytes of a body, and are wrong once those are others.
const OF_THE_ENCODED: [HeaderName; 5] = [
    CONTENT_ENCODING,
    CONTENT_LENGTH,
    HeaderName::from_static("content-digest"),
    HeaderName::from_static("repr-digest"),
    HeaderName::from_static("content-md5"),
];

/// How large a request's body may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BodyLimits {
    /// Bytes of a body as it is sent; `u64::MAX` for any number.
    pub max_body_bytes: u64,
    /// Decoded bytes per byte sent, beyond the first 64 KiB.
    pub decode_ratio_max: u32,
    /// Decoded bytes in all.
    pub decode_abs_cap_bytes: u64,
}

impl Default for BodyLimits {
    fn default() -> Self {
        let Limits { max_ratio, max_bytes, .. } = Limits::default();
        Self { max_body_bytes: 1024 * 1024, decode_ratio_max: max_ratio, decode_abs_cap_bytes: max_bytes }
    }
}

impl BodyLimits {
    fn of_decoding(&self) -> Limits {
        let (max_ratio, max_bytes) = (self.decode_ratio_max, self.decode_abs_cap_bytes);
        Limits { max_ratio, max_bytes, ..Limits::default() }
    }
}

/// Tells, once a body's stream broke, whether that was for a limit.
#[derive(Clone, Debug, Default)]
pub struct Breach(Arc<OnceLock<Refusal>>);

impl Breach {
    /// What the client is to be told instead of the upstream's failure. `None` as long as the body keeps to its limits; a
    /// client that broke off did not break any.
    #[must_use]
    pub fn refusal(&self) -> Option<Refusal> {
        self.0.get().cloned()
    }

    /// Leaves the reason, unless there was one before, and gives the error that ends the stream.
    fn record(&self, refusal: Refusal) -> BodyError {
        BodyError::new(self.0.get_or_init(|| refusal).clone())
    }

    fn is_recorded(&self) -> bool {
        self.0.get().is_some()
    }

    /// The error that ends the stream, if a reason was left.
    fn error(&self) -> Option<BodyError> {
        self.refusal().map(BodyError::new)
    }
}

/// Refuses a body that is declared too large, before anything is spent on it.
///
/// # Errors
/// `body_cap`.
pub fn declared(request: &Request, limits: &BodyLimits) -> Result<(), Refusal> {
    let cap = limits.max_body_bytes;
    if request.body().size_hint().lower() > cap { Err(too_large(cap)) } else { Ok(()) }
}

/// Puts a request's body behind its limits. A compressed one comes out decoded, without the fields that said otherwise, and
/// `payer` pays for the memory that takes.
///
/// A body whose length is declared and small enough, and which is not compressed, stays as it is: the connection it
/// comes from sees to it that it is no longer than declared.
///
/// # Errors
/// `body_cap` for a body declared too large, `unsupported` for one in a coding that is not decoded here, `busy` and
/// `degraded` for one that there is no memory to decode.
pub fn guard(
    request: &mut Request,
    limits: &BodyLimits,
    payer: Payer<'_>,
) -> Result<Option<Breach>, Refusal> {
    if request.body().is_end_stream() {
        return Ok(None);
    }
    declared(request, limits)?;
    let (size, cap) = (request.body().size_hint(), limits.max_body_bytes);
    let coding = coding(request.headers())?;
    if coding == Coding::Identity && (size.exact().is_some() || cap == u64::MAX) {
        return Ok(None);
    }
    let breach = Breach::default();
    if coding != Coding::Identity {
        let headers = request.headers_mut();
        OF_THE_ENCODED.iter().for_each(|name| drop(headers.remove(name)));
    }
    let capped = Capped::new(std::mem::take(request.body_mut()), cap, breach.clone());
    *request.body_mut() = match coding {
        Coding::Identity => Body::streaming(capped),
        _ => {
            let decoder = Decoder::new(coding, limits.of_decoding());
            Body::streaming(Decoded::new(capped, decoder, payer.open(), breach.clone())?)
        }
    };
    Ok(Some(breach))
}

fn coding(headers: &HeaderMap) -> Result<Coding, Refusal> {
    let values = headers.get_all(CONTENT_ENCODING);
    Ok(Coding::parse(values.iter().map(http::HeaderValue::as_bytes))?)
}

fn too_large(cap: u64) -> Refusal {
    Refusal::new(Reason::BodyCap, format!("a body has at most {cap} bytes here"))
}
