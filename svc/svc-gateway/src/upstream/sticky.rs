//! Keeps clients at their server, by a cookie or by a hash of something in their requests.

use std::sync::Arc;

use affinity::{MaxLoad, Minter, Token, cookie, hash};
use http::{HeaderValue, header::COOKIE};
use ron_transport::{Request, Response};

use super::{Sent, Upstream, server::Server};
use crate::{
    client_addr::Client,
    config::{HashOf, StickyConfig},
    pool::Pool,
};

/// How clients of an upstream are kept at their server.
#[derive(Debug)]
pub(crate) enum Sticky {
    /// By a cookie that stands for the server.
    Cookie {
        name: String,
        max_age: Option<u64>,
        /// Boxed, because it is large beside the rest.
        minter: Box<Minter>,
        /// The name of the upstream.
        group: String,
    },
    /// By a hash of this.
    Hash { of: HashOf, bound: Option<MaxLoad> },
}

/// What stands for a server.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark {
    /// The hash of its address.
    pub(super) id: u64,
    /// The value of its cookie, if cookies are used.
    token: Option<Token>,
}

/// The server that a request of a sticky upstream should go to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Affinity {
    /// At the server of this hash, unless it is overloaded.
    Key(u64, Option<MaxLoad>),
    /// At this server, by its mark.
    Server(u64),
    /// Anywhere: it shows no cookie of a server of the upstream, and will get one.
    New,
}

impl Sticky {
    /// As configured for the upstream called `group`. `process_secret` lasts as long as the process.
    pub(super) fn new(config: &StickyConfig, group: &str, process_secret: &[u8]) -> Option<Self> {
        if let Ok(of) = config.hash.parse() {
            return Some(Self::Hash { of, bound: config.bound() });
        }
        let secret = config.secret.as_ref().map_or(process_secret, |secret| secret.expose().as_bytes());
        (!config.cookie.is_empty()).then(|| Self::Cookie {
            name: config.cookie.clone(),
            max_age: config.max_age.map(|age| age.as_duration().as_secs()),
            minter: Box::new(Minter::new(secret)),
            group: group.to_owned(),
        })
    }

    /// What stands for a server.
    pub(super) fn mark(&self, server: &Server) -> Mark {
        let address = server.endpoint.to_string();
        let token = match self {
            Self::Cookie { minter, group, .. } => Some(minter.token(group, &address)),
            Self::Hash { .. } => None,
        };
        Mark { id: hash(address.as_bytes()), token }
    }

    fn affinity(&self, request: &Request, client: &Client, marks: &[Mark]) -> Option<Affinity> {
        match self {
            Self::Cookie { name, .. } => {
                let value = shown(request, name);
                let is_shown =
                    |mark: &&Mark| value.is_some_and(|value| mark.token.is_some_and(|token| token.is(value)));
                Some(marks.iter().find(is_shown).map_or(Affinity::New, |mark| Affinity::Server(mark.id)))
            }
            Self::Hash { of, bound } => Some(Affinity::Key(key(of, request, client)?, *bound)),
        }
    }

    /// The field that makes a browser come back to the server of this mark.
    fn set_cookie(&self, mark: &Mark, is_https: bool) -> Option<HeaderValue> {
        let (Self::Cookie { name, max_age, .. }, Some(token)) = (self, mark.token) else { return None };
        let mut field = format!("{name}={}; Path=/; HttpOnly; SameSite=Lax", token.as_str());
        if let Some(seconds) = max_age {
            field.push_str(&format!("; Max-Age={seconds}"));
        }
        if is_https {
            field.push_str("; Secure");
        }
        field.try_into().ok()
    }
}

/// The value of a cookie that a request shows.
fn shown<'r>(request: &'r Request, name: &str) -> Option<&'r [u8]> {
    request.headers().get_all(COOKIE).iter().find_map(|field| cookie(field.as_bytes(), name))
}

/// The hash of what a request is to be hashed by; `None` if it does not have it.
fn key(of: &HashOf, request: &Request, client: &Client) -> Option<u64> {
    match of {
        HashOf::Client => Some(hash(client.key.to_string().as_bytes())),
        HashOf::Path => Some(hash(request.uri().path().as_bytes())),
        HashOf::Header(name) => request.headers().get(name).map(|value| hash(value.as_bytes())),
        HashOf::Cookie(name) => shown(request, name).map(hash),
    }
}

impl Upstream {
    /// A request on its way, as it would be sent, with the server that it belongs at; anywhere on upstreams without `sticky`.
    pub(crate) fn belonging(&self, request: &Request, client: &Client) -> Sent {
        let sticky = self.group.sticky.as_ref();
        let affinity = sticky.and_then(|sticky| sticky.affinity(request, client, self.roster.load().marks()));
        Sent { affinity, ..Sent::default() }
    }

    /// Tells the client of a response which server it has, if that is not the one it came for.
    pub(crate) fn keep(&self, sent: &Sent, is_https: bool, response: &mut Response) {
        let (Some(affinity), Some(sticky)) = (sent.affinity, &self.group.sticky) else { return };
        let Some(pool) = sent.pool.upgrade() else { return };
        let roster = self.roster.load();
        let is_it = |known: &Arc<Pool>| Arc::ptr_eq(known, &pool);
        let Some(index) = roster.pools().iter().position(is_it) else { return };
        let Some(mark) = roster.marks().get(index) else { return };
        let moved = match affinity {
            Affinity::Key(..) => return,
            Affinity::Server(id) if id == mark.id => return self.group.metrics.sticky(Outcome::Kept),
            Affinity::Server(_) => Outcome::Moved,
            Affinity::New => Outcome::New,
        };
        self.group.metrics.sticky(moved);
        if let Some(field) = sticky.set_cookie(mark, is_https) {
            response.headers_mut().append(http::header::SET_COOKIE, field);
        }
    }
}

/// What became of a request to an upstream with sticky cookies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It got the server of its cookie.
    Kept,
    /// It got another one, and a new cookie.
    Moved,
    /// It had no cookie, and got one.
    New,
}

/// The outcomes, by their label.
pub(super) const OUTCOMES: [(Outcome, &str); 3] =
    [(Outcome::Kept, "kept"), (Outcome::Moved, "moved"), (Outcome::New, "new")];
