//! What an object's bytes have to hash to, as far as the head of the origin's answer tells: an object that hashes to something
//! else is not kept.
//!
//! | the origin says | what is compared |
//! |---|---|
//! | `ETag: "b3:…"`, as an edge of this kind does, of an answer without a coding | the content id |
//! | `Repr-Digest` or `Content-Digest` with `sha-256` or `sha-512` (RFC 9530) | the hash of the answer as it came |

use aws_lc_rs::digest::{Context, SHA256, SHA512};
use decode::Coding;
use http::{HeaderMap, HeaderValue, header::ETAG};
use httprules::{
    digest::{Digests, digests},
    etag::ETag,
};
use types::{ObjectId, Reason};

use super::failure::Failure;

/// The fields that tell the hash of an answer. Without ranges and methods that have no body both mean the same bytes.
const FIELDS: [&str; 2] = ["repr-digest", "content-digest"];

/// What an object's bytes have to hash to.
#[derive(Default)]
pub(super) struct Expected {
    id: Option<ObjectId>,
    /// Hashes in progress, and what they have to be.
    hashes: Vec<(Context, Vec<u8>)>,
}

impl Expected {
    /// What the head of an answer in this coding tells.
    pub(super) fn of(headers: &HeaderMap, coding: Coding) -> Self {
        let tag = headers.get(ETAG).and_then(|value| ETag::parse(value.as_bytes()));
        let tag = tag.filter(|tag| tag.is_strong() && coding == Coding::Identity);
        let id = tag.and_then(|tag| std::str::from_utf8(tag.opaque()).ok()?.parse().ok());
        let told = FIELDS.map(|name| {
            let Digests { sha256, sha512 } = digests(headers.get_all(name).iter().map(HeaderValue::as_bytes));
            let sha256 = sha256.map(|hash| (Context::new(&SHA256), hash.to_vec()));
            let sha512 = sha512.map(|hash| (Context::new(&SHA512), hash.to_vec()));
            sha256.into_iter().chain(sha512)
        });
        Self { id, hashes: told.into_iter().flatten().collect() }
    }

    /// The content id that the object will have; `None` if nobody told it.
    pub(super) fn id(&self) -> Option<ObjectId> {
        self.id
    }

    /// Takes the next bytes as they came.
    pub(super) fn take(&mut self, piece: &[u8]) {
        self.hashes.iter_mut().for_each(|(context, _)| context.update(piece));
    }

    /// All bytes have come, and have this content id once they are decoded.
    ///
    /// # Errors
    /// They are not what was told.
    pub(super) fn check(self, id: impl FnOnce() -> ObjectId) -> Result<(), Failure> {
        let named = self.id.is_none_or(|expected| expected == id());
        let hashed = self.hashes.into_iter().all(|(context, hash)| context.finish().as_ref() == hash);
        if named && hashed { Ok(()) } else { Err(mismatch()) }
    }
}

fn mismatch() -> Failure {
    Failure::refused(Reason::BadGateway, "the origin's object does not have the hash that the origin tells")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(name: &'static str, value: &str, coding: Coding) -> bool {
        let mut headers = HeaderMap::new();
        headers.insert(name, HeaderValue::from_str(value).expect("a value"));
        let mut expected = Expected::of(&headers, coding);
        expected.take(b"he");
        expected.take(b"llo");
        expected.check(|| ObjectId::new(*blake3::hash(b"hello").as_bytes())).is_ok()
    }

    #[test]
    fn an_object_is_held_to_every_hash_that_is_told_of_it() {
        let hello = "sha-256=:LPJNul+wow4m6DsqxbninhsWHlwfp0JecwQzYpOLmCQ=:";
        let other = "sha-256=:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=:";
        let id = format!("\"b3:{}\"", blake3::hash(b"hello").to_hex());
        let other_id = format!("\"b3:{}\"", blake3::hash(b"other").to_hex());
        for (name, value, coding, passes) in [
            ("repr-digest", hello, Coding::Identity, true),
            ("content-digest", hello, Coding::Gzip, true),
            ("repr-digest", other, Coding::Identity, false),
            ("content-digest", other, Coding::Identity, false),
            ("repr-digest", "unixsum=:AAA=:", Coding::Identity, true),
            ("etag", &id, Coding::Identity, true),
            ("etag", &other_id, Coding::Identity, false),
            ("etag", &other_id, Coding::Gzip, true),
            ("etag", &format!("W/{other_id}"), Coding::Identity, true),
            ("etag", "\"b3:1234\"", Coding::Identity, true),
        ] {
            assert_eq!(verdict(name, value, coding), passes, "{name}: {value}");
        }
    }
}
