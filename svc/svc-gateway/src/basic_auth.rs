//! Routes with `basic_auth`: the name and the password that a request shows, and what servers and clients are told.

use std::{fmt, sync::Arc};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::{
    HeaderMap, HeaderName, HeaderValue,
    header::{AUTHORIZATION, WWW_AUTHENTICATE},
};
use zeroize::Zeroizing;

use crate::{config::BasicAuthConfig, passwords::Users};

/// Longest value of `Authorization` that is decoded, in bytes.
const MAX_VALUE: usize = 2048;

/// Who may pass on a route.
#[derive(Debug)]
pub(crate) struct BasicAuth {
    pub(crate) users: Arc<Users>,
    challenge: HeaderValue,
    user_header: Option<HeaderName>,
}

/// The name and the password of a request.
pub(crate) struct Shown {
    pub(crate) user: String,
    pub(crate) password: Zeroizing<Vec<u8>>,
}

impl fmt::Debug for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shown").field("user", &self.user).finish_non_exhaustive()
    }
}

impl BasicAuth {
    /// What a route asks for, with the users in its file. What the configuration's check refuses is left out.
    pub(crate) fn new(config: &BasicAuthConfig, users: Arc<Users>) -> Self {
        let challenge = format!("Basic realm=\"{}\", charset=\"UTF-8\"", config.realm);
        Self {
            users,
            challenge: HeaderValue::try_from(challenge).unwrap_or(HeaderValue::from_static("Basic")),
            user_header: config.user_header.parse().ok(),
        }
    }

    /// The field that a client must not be able to imitate.
    pub(crate) fn guarded(&self) -> impl Iterator<Item = &HeaderName> {
        self.user_header.iter()
    }

    /// Tells a client that was refused what is asked for.
    pub(crate) fn challenge(&self, response: &mut HeaderMap) {
        response.insert(WWW_AUTHENTICATE, self.challenge.clone());
    }

    /// Tells a server who was let pass.
    pub(crate) fn tell(&self, user: &str, request: &mut HeaderMap) {
        let Some(name) = &self.user_header else { return };
        request.remove(name);
        if let Ok(user) = HeaderValue::from_bytes(user.as_bytes()) {
            request.insert(name, user);
        }
    }
}

/// The name and the password that a request shows; `None` for anything else.
pub(crate) fn shown(headers: &HeaderMap) -> Option<Shown> {
    let value = headers.get(AUTHORIZATION)?.as_bytes();
    let (scheme, encoded) = value.split_at_checked("Basic ".len()).filter(|_| value.len() <= MAX_VALUE)?;
    if !scheme.eq_ignore_ascii_case(b"Basic ") {
        return None;
    }
    let pair = Zeroizing::new(STANDARD.decode(encoded.trim_ascii()).ok()?);
    let colon = pair.iter().position(|byte| *byte == b':')?;
    let user = str::from_utf8(&pair[..colon]).ok()?.to_owned();
    let password = Zeroizing::new(pair[colon + 1..].to_vec());
    (!password.contains(&0)).then_some(Shown { user, password })
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn read(value: &str) -> Option<(String, Vec<u8>)> {
        let headers = HeaderMap::from_iter([(AUTHORIZATION, value.parse().unwrap())]);
        shown(&headers).map(|shown| (shown.user, shown.password.to_vec()))
    }

    fn pair(user: &str, password: &str) -> Option<(String, Vec<u8>)> {
        Some((user.to_owned(), password.as_bytes().to_vec()))
    }

    #[test]
    fn a_name_and_a_password_are_read_and_nothing_else_is() {
        assert_eq!(read("Basic YW5uOnNlY3JldA=="), pair("ann", "secret"));
        assert_eq!(read("bAsIc  YW5uOnNlY3JldA== "), pair("ann", "secret"));
        assert_eq!(read("Basic YW5uOmE6Yg=="), pair("ann", "a:b"));
        assert_eq!(read("Basic YW5uOg=="), pair("ann", ""));
        for other in [
            "Basic",
            "Basic ",
            "Basic YW5u",
            "Basic YW5uOnNlY3JldA",
            "Basic YW5uOnNlY3JldA==x",
            "Basic YW5uOgBi",
            "Basic /zpi",
            "Bearer YW5uOnNlY3JldA==",
            "BasicYW5uOnNlY3JldA==",
        ] {
            assert_eq!(read(other), None, "{other}");
        }
        assert_eq!(read(&format!("Basic {}", "YW5u".repeat(1000))), None);
    }
}
