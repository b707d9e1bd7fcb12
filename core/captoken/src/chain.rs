//! The chain of HMACs: each link is the key of the next.

use aws_lc_rs::hmac;
use zeroize::Zeroizing;

use crate::{
    TokenError,
    wire::{Claims, TAG_LEN},
};

/// A link. A holder who knows it can add caveats after it, and leave out those that the token has there.
pub(crate) type Link = Zeroizing<[u8; TAG_LEN]>;

/// The HMAC of `message`.
pub(crate) fn link(key: &hmac::Key, message: &[u8]) -> Link {
    let mut out = Link::default();
    hmac::sign_to_buffer(key, message, &mut out[..]).expect("the buffer has the length of a tag");
    out
}

/// A link as the key of the next.
pub(crate) fn key(link: &[u8; TAG_LEN]) -> hmac::Key {
    hmac::Key::new(hmac::HMAC_SHA256, link)
}

/// Whether the tag ends the chain that begins with `root`. Takes the same time wherever a wrong tag differs.
pub(crate) fn check(root: &hmac::Key, claims: &Claims<'_>, tag: &[u8; TAG_LEN]) -> Result<(), TokenError> {
    let (mut message, added) = claims.links();
    let mut own = None;
    for caveat in added {
        own = Some(key(&link(own.as_ref().unwrap_or(root), message)));
        message = caveat.whole;
    }
    hmac::verify(own.as_ref().unwrap_or(root), message, tag).map_err(|_| TokenError::Forged)
}
