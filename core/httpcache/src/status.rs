//! `Cache-Status` (RFC 9211): what the cache did with a request.

use std::fmt::{self, Write as _};

/// The name under which this cache speaks of itself.
pub const NAME: &str = "omnigate";

/// Room for what the cache says of itself.
const USUAL_LEN: usize = 64;

/// The reason why a request was forwarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forwarded {
    /// The cache does not handle such requests.
    Bypass,
    /// The method is not one that is answered from the cache.
    Method,
    /// Nothing is stored for its target.
    UriMiss,
    /// What is stored is for other values of the fields that `Vary` names.
    VaryMiss,
    /// The stored response is stale.
    Stale,
    /// Only another part is stored.
    Partial,
    /// The request wants it so.
    Request,
}

impl Forwarded {
    const fn word(self) -> &'static str {
        match self {
            Self::Bypass => "bypass",
            Self::Method => "method",
            Self::UriMiss => "uri-miss",
            Self::VaryMiss => "vary-miss",
            Self::Stale => "stale",
            Self::Partial => "partial",
            Self::Request => "request",
        }
    }
}

/// How the cache handled a request (RFC 9211).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheStatus {
    /// Whether the answer is a stored one that was not asked for now.
    pub is_hit: bool,
    /// Why the request was forwarded, if it was.
    pub forwarded: Option<Forwarded>,
    /// The status of the server's answer, if it differs from the one that the client gets.
    pub forwarded_status: Option<u16>,
    /// For how many more seconds the answer is fresh; negative if it is stale.
    pub ttl: Option<i64>,
    /// Whether the server's answer is stored now.
    pub is_stored: bool,
    /// Whether the request waited for the answer to another one.
    pub is_collapsed: bool,
    /// A word that says more.
    pub detail: Option<&'static str>,
}

impl fmt::Display for CacheStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(NAME)?;
        if self.is_hit {
            f.write_str("; hit")?;
        }
        if let Some(why) = self.forwarded {
            write!(f, "; fwd={}", why.word())?;
        }
        if let Some(status) = self.forwarded_status {
            write!(f, "; fwd-status={status}")?;
        }
        if let Some(ttl) = self.ttl {
            write!(f, "; ttl={ttl}")?;
        }
        if self.is_stored {
            f.write_str("; stored")?;
        }
        if self.is_collapsed {
            f.write_str("; collapsed")?;
        }
        if let Some(detail) = self.detail {
            write!(f, "; detail={detail}")?;
        }
        Ok(())
    }
}

impl CacheStatus {
    /// The value of the field: behind what caches closer to the origin said, of which there may be nothing.
    #[must_use]
    pub fn behind<'e>(&self, earlier: impl IntoIterator<Item = &'e str>) -> String {
        let mut value = String::with_capacity(USUAL_LEN);
        for said in earlier.into_iter().filter(|said| !said.is_empty()) {
            value.extend([said, ", "]);
        }
        // Writing to a text does not fail.
        let _ = write!(value, "{self}");
        value
    }
}
