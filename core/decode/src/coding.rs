//! Which coding a body is in, by its `Content-Encoding` fields.

use types::{Reason, Refusal};

/// The coding of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Coding {
    /// No coding: the body is sent as it is.
    Identity,
    /// RFC 1952, of one or several members.
    Gzip,
    /// RFC 1950; bare RFC 1951 as well, which some clients send under the same name.
    Deflate,
    /// RFC 7932, without the large windows that are not part of it.
    Brotli,
    /// RFC 8878, of one or several frames, with windows of at most 8 MiB (RFC 9659).
    Zstd,
}

/// A coding that is not decoded here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnsupportedCoding {
    /// Not one of ours.
    #[error("the Content-Encoding is none of {accepted}", accepted = Coding::ACCEPTED)]
    Unknown,
    /// One coding inside another: each would multiply what the other expands to.
    #[error("the body is encoded more than once")]
    Stacked,
}

impl From<UnsupportedCoding> for Refusal {
    fn from(error: UnsupportedCoding) -> Self {
        Self::new(Reason::Unsupported, error.to_string())
    }
}

impl Coding {
    /// What is decoded here, as the value of an `Accept-Encoding` field.
    pub const ACCEPTED: &'static str = "gzip, deflate, br, zstd";

    /// Reads the values of all `Content-Encoding` fields of a message; none means [`Coding::Identity`].
    ///
    /// # Errors
    /// [`UnsupportedCoding`] for a coding that is unknown, and for more than one.
    pub fn parse<'a>(values: impl IntoIterator<Item = &'a [u8]>) -> Result<Self, UnsupportedCoding> {
        let mut found = Self::Identity;
        for name in values.into_iter().flat_map(|value| value.split(|byte| *byte == b',')) {
            match (found, Self::named(name.trim_ascii())?) {
                (_, Self::Identity) => {}
                (Self::Identity, coding) => found = coding,
                _ => return Err(UnsupportedCoding::Stacked),
            }
        }
        Ok(found)
    }

    fn named(name: &[u8]) -> Result<Self, UnsupportedCoding> {
        let is = |known: &str| name.eq_ignore_ascii_case(known.as_bytes());
        match () {
            // An empty list element means nothing (RFC 9110, 5.6.1).
            () if is("") || is("identity") => Ok(Self::Identity),
            () if is("gzip") || is("x-gzip") => Ok(Self::Gzip),
            () if is("deflate") => Ok(Self::Deflate),
            () if is("br") => Ok(Self::Brotli),
            () if is("zstd") => Ok(Self::Zstd),
            () => Err(UnsupportedCoding::Unknown),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(values: &[&str]) -> Result<Coding, UnsupportedCoding> {
        Coding::parse(values.iter().map(|value| value.as_bytes()))
    }

    #[test]
    fn each_coding_has_its_names_in_any_case() {
        let table = [
            (&[][..], Coding::Identity),
            (&[""], Coding::Identity),
            (&["identity"], Coding::Identity),
            (&["gzip"], Coding::Gzip),
            (&["X-GZip"], Coding::Gzip),
            (&["deflate"], Coding::Deflate),
            (&["BR"], Coding::Brotli),
            (&["zstd"], Coding::Zstd),
            (&[" , gzip ,\t, identity"], Coding::Gzip),
            (&["identity", "zstd", ""], Coding::Zstd),
        ];
        for (values, coding) in table {
            assert_eq!(parse(values), Ok(coding), "{values:?}");
        }
    }

    #[test]
    fn what_is_unknown_or_stacked_is_unsupported() {
        let table = [
            (&["compress"][..], UnsupportedCoding::Unknown),
            (&["gzip;q=1"], UnsupportedCoding::Unknown),
            (&["g zip"], UnsupportedCoding::Unknown),
            (&["gzip, snappy"], UnsupportedCoding::Unknown),
            (&["gzip, gzip"], UnsupportedCoding::Stacked),
            (&["gzip, br"], UnsupportedCoding::Stacked),
            (&["zstd", "deflate"], UnsupportedCoding::Stacked),
        ];
        for (values, error) in table {
            assert_eq!(parse(values), Err(error), "{values:?}");
            assert_eq!(Refusal::from(error).reason, Reason::Unsupported);
        }
    }

    #[test]
    fn what_is_accepted_is_parsed() {
        let codings: Vec<_> = Coding::ACCEPTED.split(", ").map(|name| parse(&[name])).collect();
        let all = [Coding::Gzip, Coding::Deflate, Coding::Brotli, Coding::Zstd].map(Ok);
        assert_eq!(codings, all);
    }
}
