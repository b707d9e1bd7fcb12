//! Tokens that stand for servers in cookies: they tell nothing of the server, and only those who have the key can make one.

use std::fmt;

use aws_lc_rs::{constant_time::verify_slices_are_equal, hmac};

/// The length of a token, in characters.
pub const TOKEN_LEN: usize = 32;

/// What begins all that is authenticated here, so that the same key can be used elsewhere.
const DOMAIN: &[u8] = b"omnigate sticky cookie 1\0";

/// A token: 128 bits of an HMAC, in hexadecimal digits.
#[derive(Clone, Copy)]
pub struct Token([u8; TOKEN_LEN]);

impl Token {
    /// The token as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }

    /// Whether a cookie has this value. Takes the same time wherever they differ.
    #[must_use]
    pub fn is(&self, value: &[u8]) -> bool {
        verify_slices_are_equal(&self.0, value).is_ok()
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

/// Makes the tokens of servers.
#[derive(Clone)]
pub struct Minter(hmac::Key);

impl Minter {
    /// With this key, which is as secret as it is long.
    #[must_use]
    pub fn new(key: &[u8]) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, key))
    }

    /// The token of the server called `server` in the group called `group`: the same for the same key, for ever.
    #[must_use]
    pub fn token(&self, group: &str, server: &str) -> Token {
        let mut context = hmac::Context::with_key(&self.0);
        context.update(DOMAIN);
        // A NUL ends the name: neither of them has one.
        context.update(group.as_bytes());
        context.update(&[0]);
        context.update(server.as_bytes());
        let tag = context.sign();
        let mut token = [0; TOKEN_LEN];
        for (digits, byte) in token.chunks_exact_mut(2).zip(tag.as_ref()) {
            digits[0] = digit(byte >> 4);
            digits[1] = digit(byte & 15);
        }
        Token(token)
    }
}

impl fmt::Debug for Minter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Minter")
    }
}

const fn digit(half: u8) -> u8 {
    if half < 10 { b'0' + half } else { b'a' + half - 10 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_of_one_key_one_group_and_one_server() {
        let of = |key: &[u8], group, server| Minter::new(key).token(group, server).as_str().to_owned();
        let token = of(b"key", "app", "http://10.0.0.7:80");
        assert_eq!(token, of(b"key", "app", "http://10.0.0.7:80"));
        assert_eq!(token.len(), TOKEN_LEN);
        for other in [
            of(b"yek", "app", "http://10.0.0.7:80"),
            of(b"key", "api", "http://10.0.0.7:80"),
            of(b"key", "app", "http://10.0.0.8:80"),
            of(b"key", "apphttp:", "//10.0.0.7:80"),
        ] {
            assert_ne!(token, other);
        }
    }

    #[test]
    fn only_the_whole_token_is_the_token() {
        let token = Minter::new(b"key").token("app", "a");
        let text = token.as_str().to_owned();
        assert!(token.is(text.as_bytes()));
        for wrong in ["", &text[1..], &format!("{text}0"), &text.to_uppercase(), &"0".repeat(TOKEN_LEN)] {
            assert!(!token.is(wrong.as_bytes()), "{wrong}");
        }
        assert_eq!(format!("{token:?}"), "Token");
    }
}
