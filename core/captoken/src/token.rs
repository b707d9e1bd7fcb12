//! Tokens in the hands of those who make, tighten and look at them.

use std::fmt;

use base64::Engine;
use zeroize::Zeroizing;

use crate::{
    Caveat, Class, KeyId, MAX_CAVEATS, NameList, RootKey, TokenError, TokenId, chain,
    wire::{self, BASE64, Claims, MAX_BYTES, Room, TAG_LEN, TEXT_PREFIX},
};

/// A well-formed token. Not known to be good: that is [`verify`](crate::verify)'s to say.
///
/// Any holder can use it, so its bytes are wiped after use and it is printed without its tag.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    bytes: Zeroizing<Vec<u8>>,
}

/// What a token is given at minting, before any caveat takes something away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant<'a> {
    /// The highest class it can have.
    pub class: Class,
    /// The rights it carries, such as `rewarder.run` or `overlay.join`.
    pub scopes: NameList<'a>,
}

impl Default for Grant<'_> {
    /// An ordinary caller without special rights.
    fn default() -> Self {
        Self { class: Class::Authed, scopes: NameList::NONE }
    }
}

impl Token {
    /// Makes a token with these caveats; without any it is good for every tenant, path, method and address, forever.
    /// They are sealed together with the header: however many there are, checking them costs one HMAC, where each one
    /// that is added later costs another.
    ///
    /// # Errors
    /// [`TokenError::Malformed`] if a caveat's value cannot be written, [`TokenError::TooLarge`] or
    /// [`TokenError::TooManyCaveats`] if there is no room for it all; the names of the scopes have 255 bytes.
    pub fn mint(
        key: &RootKey,
        id: TokenId,
        grant: &Grant<'_>,
        caveats: &[Caveat<'_>],
    ) -> Result<Self, TokenError> {
        // Room for all there can be: bytes that move to a larger place leave copies behind.
        let mut bytes = Zeroizing::new(Vec::with_capacity(MAX_BYTES));
        wire::write(key.id(), id, grant.class, grant.scopes, caveats, &mut bytes)?;
        let tag = chain::link(key.mac(), &bytes);
        bytes.extend_from_slice(&tag[..]);
        Ok(Self { bytes })
    }

    /// Reads a token's text and checks its shape.
    ///
    /// # Errors
    /// [`TokenError::Malformed`], [`TokenError::TooLarge`] or [`TokenError::TooManyCaveats`].
    pub fn parse(text: &[u8]) -> Result<Self, TokenError> {
        let mut room: Zeroizing<Room> = Zeroizing::new([0; MAX_BYTES]);
        let decoded = wire::decode(text, &mut room)?;
        wire::split(decoded)?;
        let mut bytes = Zeroizing::new(Vec::with_capacity(MAX_BYTES));
        bytes.extend_from_slice(decoded);
        Ok(Self { bytes })
    }

    /// The same token with one condition more. Needs no key, and cannot be undone.
    ///
    /// # Errors
    /// [`TokenError::Malformed`] if the caveat's value cannot be written, [`TokenError::TooLarge`] or
    /// [`TokenError::TooManyCaveats`] if there is no room for it.
    pub fn attenuate(mut self, caveat: &Caveat<'_>) -> Result<Self, TokenError> {
        let (claims, tag) = self.split();
        if claims.caveats().count() == MAX_CAVEATS {
            return Err(TokenError::TooManyCaveats);
        }
        let mut added = Vec::with_capacity(64);
        caveat.write(&mut added)?;
        if self.bytes.len() + added.len() > MAX_BYTES {
            return Err(TokenError::TooLarge);
        }
        let tag = chain::link(&chain::key(tag), &added);
        let signed = self.bytes.len() - TAG_LEN;
        self.bytes.truncate(signed);
        self.bytes.extend_from_slice(&added);
        self.bytes.extend_from_slice(&tag[..]);
        Ok(self)
    }

    /// The text to hand out.
    #[must_use]
    pub fn encode(&self) -> Zeroizing<String> {
        let mut text = Zeroizing::new(String::with_capacity(crate::MAX_TEXT));
        text.push_str(TEXT_PREFIX);
        BASE64.encode_string(&self.bytes[..], &mut text);
        text
    }

    /// Its name, by which it is revoked.
    #[must_use]
    pub fn id(&self) -> TokenId {
        self.claims().id()
    }

    /// The name of the key it claims to be made with.
    #[must_use]
    pub fn key_id(&self) -> KeyId {
        self.claims().key_id()
    }

    /// What it claims to have been given.
    #[must_use]
    pub fn grant(&self) -> Grant<'_> {
        let claims = self.claims();
        Grant { class: claims.class(), scopes: claims.scopes() }
    }

    /// Its caveats, first to last; an error for one that this version cannot read.
    pub fn caveats(&self) -> impl Iterator<Item = Result<Caveat<'_>, TokenError>> {
        self.claims().caveats().map(|caveat| caveat.read())
    }

    fn claims(&self) -> Claims<'_> {
        self.split().0
    }

    fn split(&self) -> (Claims<'_>, &[u8; TAG_LEN]) {
        wire::split(&self.bytes).expect("checked when it was made")
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Token")
            .field("id", &self.id())
            .field("key", &self.key_id())
            .field("grant", &self.grant())
            .field("caveats", &self.caveats().collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}
