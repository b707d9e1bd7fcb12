//! The written form: `og1.` and base64url of header, caveats and tag. docs/capabilities.md has the layout.

use base64::{
    Engine,
    engine::general_purpose::{GeneralPurpose, NO_PAD},
};

use crate::{Caveat, Class, KeyId, NameList, TokenError, TokenId, caveat};

/// The longest token, in characters, `og1.` included.
pub const MAX_TEXT: usize = 1024;
/// The most caveats on a token.
pub const MAX_CAVEATS: usize = 16;

/// What a token's text begins with.
pub(crate) const TEXT_PREFIX: &str = "og1.";
/// The bytes that fit [`MAX_TEXT`]: three in each four characters.
pub(crate) const MAX_BYTES: usize = (MAX_TEXT - TEXT_PREFIX.len()) / 4 * 3;
/// Length of an HMAC-SHA256 tag in bytes.
pub(crate) const TAG_LEN: usize = 32;
/// The version in the first byte.
pub(crate) const VERSION: u8 = 1;
/// The header up to the scopes: version, class, two ids, the number of sealed caveats and the length of the scopes.
const FIXED_LEN: usize = 2 + KeyId::LEN + TokenId::LEN + 2;
const SHORT: TokenError = TokenError::Malformed("it is cut off");

/// Unpadded, and strict about the last character's unused bits: each token has one text.
pub(crate) const BASE64: GeneralPurpose = GeneralPurpose::new(&base64::alphabet::URL_SAFE, NO_PAD);

/// Room for any token's bytes.
pub(crate) type Room = [u8; MAX_BYTES];

/// The bytes of a token's text, in `room`.
pub(crate) fn decode<'r>(text: &[u8], room: &'r mut Room) -> Result<&'r [u8], TokenError> {
    if text.len() > MAX_TEXT {
        return Err(TokenError::TooLarge);
    }
    let encoded = text
        .strip_prefix(TEXT_PREFIX.as_bytes())
        .ok_or(TokenError::Malformed("a token begins with `og1.`"))?;
    let len = BASE64
        .decode_slice(encoded, room)
        .map_err(|_| TokenError::Malformed("it is not base64url without padding"))?;
    Ok(&room[..len])
}

/// What a token says, taken apart. Only the shape is known to be right; nothing is known to be true.
#[derive(Clone, Copy)]
pub(crate) struct Claims<'a> {
    bytes: &'a [u8],
    header_len: usize,
}

/// A token's claims and its tag.
pub(crate) fn split(bytes: &[u8]) -> Result<(Claims<'_>, &[u8; TAG_LEN]), TokenError> {
    let (claims, tag) = bytes.split_last_chunk().ok_or(SHORT)?;
    Ok((Claims::check(claims)?, tag))
}

impl<'a> Claims<'a> {
    fn check(bytes: &'a [u8]) -> Result<Self, TokenError> {
        if bytes.first().is_some_and(|version| *version != VERSION) {
            return Err(TokenError::Malformed("it is of another version"));
        }
        let scopes_len = usize::from(*bytes.get(FIXED_LEN - 1).ok_or(SHORT)?);
        let header_len = FIXED_LEN + scopes_len;
        if bytes.len() < header_len {
            return Err(SHORT);
        }
        let claims = Self::at(bytes, header_len);
        Class::read(bytes[1])?;
        caveat::names(claims.scopes_bytes())?;
        if claims.caveats().check()? < claims.sealed_count() {
            return Err(TokenError::Malformed("a caveat of its minting is missing"));
        }
        Ok(claims)
    }

    /// Claims that were checked before, with a header of this length.
    pub(crate) const fn at(bytes: &'a [u8], header_len: usize) -> Self {
        Self { bytes, header_len }
    }

    pub(crate) const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    pub(crate) const fn header_len(&self) -> usize {
        self.header_len
    }

    pub(crate) fn key_id(&self) -> KeyId {
        KeyId::new(self.array(2))
    }

    pub(crate) fn id(&self) -> TokenId {
        TokenId::new(self.array(2 + KeyId::LEN))
    }

    pub(crate) fn class(&self) -> Class {
        Class::read(self.bytes[1]).expect("checked when the token was taken apart")
    }

    pub(crate) fn scopes(&self) -> NameList<'a> {
        caveat::names(self.scopes_bytes()).expect("checked when the token was taken apart")
    }

    /// All caveats, one after the other.
    pub(crate) fn caveats(&self) -> RawCaveats<'a> {
        RawCaveats(&self.bytes[self.header_len..])
    }

    /// What is under the first HMAC, which is the header and the caveats of the minting; and the caveats added since,
    /// with an HMAC each.
    pub(crate) fn links(&self) -> (&'a [u8], RawCaveats<'a>) {
        let mut added = self.caveats();
        added.by_ref().take(self.sealed_count()).for_each(drop);
        (&self.bytes[..self.bytes.len() - added.0.len()], added)
    }

    fn sealed_count(&self) -> usize {
        usize::from(self.bytes[FIXED_LEN - 2])
    }

    fn scopes_bytes(&self) -> &'a [u8] {
        &self.bytes[FIXED_LEN..self.header_len]
    }

    fn array<const N: usize>(&self, at: usize) -> [u8; N] {
        *self.bytes[at..].first_chunk().expect("a header has its fixed length at least")
    }
}

/// Appends a header and the caveats of the minting.
pub(crate) fn write(
    key: KeyId,
    id: TokenId,
    class: Class,
    scopes: NameList<'_>,
    caveats: &[Caveat<'_>],
    out: &mut Vec<u8>,
) -> Result<(), TokenError> {
    let scopes = scopes.as_str().as_bytes();
    let scopes_len = u8::try_from(scopes.len()).map_err(|_| TokenError::TooLarge)?;
    let count = u8::try_from(caveats.len()).ok().filter(|count| usize::from(*count) <= MAX_CAVEATS);
    out.extend_from_slice(&[VERSION, class.byte()]);
    out.extend_from_slice(key.as_bytes());
    out.extend_from_slice(id.as_bytes());
    out.extend_from_slice(&[count.ok_or(TokenError::TooManyCaveats)?, scopes_len]);
    out.extend_from_slice(scopes);
    caveats.iter().try_for_each(|caveat| caveat.write(out))?;
    if out.len() + TAG_LEN > MAX_BYTES { Err(TokenError::TooLarge) } else { Ok(()) }
}

/// Caveats as they are written; an iterator over those that are whole.
#[derive(Clone, Copy)]
pub(crate) struct RawCaveats<'a>(&'a [u8]);

impl RawCaveats<'_> {
    /// How many there are, if these bytes are whole caveats and no more than a token may have.
    fn check(mut self) -> Result<usize, TokenError> {
        let count = self.by_ref().take(MAX_CAVEATS).count();
        match self.0 {
            [] => Ok(count),
            _ if count == MAX_CAVEATS => Err(TokenError::TooManyCaveats),
            _ => Err(TokenError::Malformed("a caveat is cut off")),
        }
    }
}

/// One caveat as it is written.
pub(crate) struct RawCaveat<'a> {
    /// Kind, length and value: what is under the HMAC.
    pub(crate) whole: &'a [u8],
}

impl<'a> RawCaveat<'a> {
    pub(crate) fn read(&self) -> Result<Caveat<'a>, TokenError> {
        Caveat::read(self.whole[0], &self.whole[2..])
    }
}

impl<'a> Iterator for RawCaveats<'a> {
    type Item = RawCaveat<'a>;

    fn next(&mut self) -> Option<RawCaveat<'a>> {
        let len = usize::from(*self.0.get(1)?);
        let (whole, rest) = self.0.split_at_checked(2 + len)?;
        self.0 = rest;
        Some(RawCaveat { whole })
    }
}
