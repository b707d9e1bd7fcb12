//! What a CA finds when it checks a name: on the plain listener (HTTP-01) and in TLS handshakes (TLS-ALPN-01).

use std::{collections::BTreeMap, sync::Arc};

use arc_swap::ArcSwap;
use http::{HeaderValue, Method, header::CONTENT_TYPE};
use rcgen::{CertificateParams, CustomExtension, KeyPair};
use ron_transport::{Body, Request, Response, tls::AlpnChallenges};
use rustls_pki_types::PrivatePkcs8KeyDer;

/// Where a CA looks for an answer (RFC 8555, section 8.3).
const PLACE: &str = "/.well-known/acme-challenge/";

/// The answers that are to be found now: at most one for each name that is being checked. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Answers {
    /// Answers on the plain listener, by token.
    tokens: Arc<ArcSwap<BTreeMap<String, String>>>,
    /// Answers in handshakes, by name.
    handshakes: AlpnChallenges,
}

/// An answer that is found until this is dropped.
#[derive(Debug)]
pub(super) struct Found {
    answers: Answers,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Token(String),
    Handshake(String),
}

impl Answers {
    /// The answers in handshakes.
    pub(crate) const fn handshakes(&self) -> &AlpnChallenges {
        &self.handshakes
    }

    /// The answer to a request of a CA; `None` if the request is none, or nobody waits for it.
    pub(crate) fn answer(&self, request: &Request) -> Option<Response> {
        let token = request.uri().path().strip_prefix(PLACE)?;
        let content = self.tokens.load().get(token)?.clone();
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            return None;
        }
        let mut response = Response::new(Body::from(content));
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
        Some(response)
    }

    /// Has `content` found under `token` on the plain listener.
    pub(super) fn put_token(&self, token: &str, content: &str) -> Found {
        self.change(|tokens| drop(tokens.insert(token.to_owned(), content.to_owned())));
        Found { answers: self.clone(), kind: Kind::Token(token.to_owned()) }
    }

    /// Has `digest` found in handshakes for `name`, in a certificate that is made for it.
    ///
    /// # Errors
    /// Says why there can be no such certificate.
    pub(super) fn put_handshake(&self, name: &str, digest: &[u8]) -> Result<Found, String> {
        let made = || -> Result<_, rcgen::Error> {
            let mut params = CertificateParams::new(vec![name.to_owned()])?;
            params.custom_extensions = vec![CustomExtension::new_acme_identifier(digest)];
            let key = KeyPair::generate()?;
            Ok((params.self_signed(&key)?, PrivatePkcs8KeyDer::from(key.serialize_der())))
        };
        let (certificate, key) = made().map_err(|error| error.to_string())?;
        let put = self.handshakes.put(name, certificate.der().clone(), key);
        put.map_err(|error| error.to_string())?;
        Ok(Found { answers: self.clone(), kind: Kind::Handshake(name.to_owned()) })
    }

    fn change(&self, change: impl Fn(&mut BTreeMap<String, String>)) {
        self.tokens.rcu(|tokens| {
            let mut tokens = BTreeMap::clone(tokens);
            change(&mut tokens);
            tokens
        });
    }
}

impl Drop for Found {
    fn drop(&mut self) {
        match &self.kind {
            Kind::Token(token) => self.answers.change(|tokens| drop(tokens.remove(token))),
            Kind::Handshake(name) => self.answers.handshakes.remove(name),
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn asked(method: Method, path: &str) -> Request {
        http::Request::builder().method(method).uri(path).body(Body::empty()).unwrap()
    }

    #[test]
    fn an_answer_is_found_under_its_token_as_long_as_it_is_wanted() {
        let answers = Answers::default();
        let find = |method, path: &str| answers.answer(&asked(method, path)).is_some();
        let path = "/.well-known/acme-challenge/abc";
        assert!(!find(Method::GET, path));
        let found = answers.put_token("abc", "abc.thumbprint");
        assert!(find(Method::GET, path) && find(Method::HEAD, path));
        assert!(!find(Method::POST, path) && !find(Method::GET, "/.well-known/acme-challenge/"));
        assert!(!find(Method::GET, "/.well-known/acme-challenge/abcd") && !find(Method::GET, "/abc"));
        drop(found);
        assert!(!find(Method::GET, path));
    }
}
