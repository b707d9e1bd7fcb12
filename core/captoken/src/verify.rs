//! Whether a token is good, and for what: the part that runs with every request.

use core::net::IpAddr;
use std::fmt;

use topics::Pattern;
use types::NodeId;

use crate::{
    CHANNEL_LEN, Caveat, Class, KeyId, KeyRing, RevocationList, TokenError, TokenId, chain, path,
    wire::{self, Claims, MAX_BYTES, Room},
};

/// What somebody wants to do, and the circumstances.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The path without the query. Empty for what has none; no path caveat covers that.
    pub path: &'a str,
    /// The method as sent. Empty for what has none; no method caveat covers that.
    pub method: &'a str,
    /// The client's address; none over a Unix socket, which no address caveat covers.
    pub ip: Option<IpAddr>,
    /// Unix time in seconds.
    pub now: u64,
    /// The tenant whose things are asked for, where that is known apart from the token.
    pub tenant: Option<&'a str>,
    /// The right that is needed, where one is.
    pub scope: Option<&'a str>,
    /// The node that shows the token and its connection. Absent where no node does; no caveat of nodes or a channel covers
    /// that.
    pub session: Option<NodeSession>,
}

/// What somebody wants to do with topics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TopicRight {
    /// Publish in a topic.
    Publish,
    /// Subscribe to a topic, or to all that a pattern matches.
    Subscribe,
}

impl TopicRight {
    /// The scope that has to be granted for it.
    #[must_use]
    pub const fn scope(self) -> &'static str {
        match self {
            Self::Publish => "topics.publish",
            Self::Subscribe => "topics.subscribe",
        }
    }
}

/// A node that shows a token, and the connection over which it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeSession {
    /// The node, which has proven its key.
    pub node: NodeId,
    /// What the two ends of the connection have in common for tokens that this node shows, and nobody else has. Absent if
    /// it is not known.
    pub channel: Option<[u8; CHANNEL_LEN]>,
}

/// The bearer of an authentic token: its identity, but not yet whether this request is covered ([`Bearer::authorize`]).
///
/// Holds what the token says and not its tag, so there is nothing secret in it.
#[derive(Clone, PartialEq, Eq)]
pub struct Bearer {
    /// The encoded header and caveats.
    bytes: Box<[u8]>,
    header_len: usize,
    class: Class,
    expires: Option<u64>,
}

/// Tells who shows this token: it is well-formed, made with a key of the ring, not revoked, and `now`, in Unix seconds,
/// is in its time. Costs one HMAC, another for each caveat added since
/// the minting, and one small allocation.
///
/// # Errors
/// Whatever makes it no valid credential, and [`TokenError::UnknownCaveat`] or [`TokenError::WrongTenant`] for an
/// authentic one that nobody can use.
pub fn authenticate(
    text: &[u8],
    ring: &KeyRing,
    revoked: &RevocationList,
    now: u64,
) -> Result<Bearer, TokenError> {
    // Not wiped: the same token lies in the request's head, and wiping costs as much as an HMAC.
    let mut room: Room = [0; MAX_BYTES];
    let bytes = wire::decode(text, &mut room)?;
    let (claims, tag) = wire::split(bytes)?;
    let key = ring.find(claims.key_id()).ok_or(TokenError::UnknownKey)?;
    chain::check(key.mac(), &claims, tag)?;
    // Only now is anything known to be true, so that a forger learns nothing else.
    if revoked.contains(claims.id()) {
        return Err(TokenError::Revoked);
    }
    let (class, expires) = sum_up(&claims, now)?;
    Ok(Bearer { bytes: claims.bytes().into(), header_len: claims.header_len(), class, expires })
}

/// [`authenticate`] and [`Bearer::authorize`] in one.
///
/// # Errors
/// Whatever either finds.
pub fn verify(
    text: &[u8],
    ring: &KeyRing,
    revoked: &RevocationList,
    request: &Request<'_>,
) -> Result<Bearer, TokenError> {
    let bearer = authenticate(text, ring, revoked, request.now)?;
    bearer.authorize(request)?;
    Ok(bearer)
}

impl Bearer {
    /// The tenant it acts for; none if it may act for any.
    #[must_use]
    pub fn tenant(&self) -> Option<&str> {
        self.caveats().find_map(|caveat| match caveat {
            Ok(Caveat::Tenant(name)) => Some(name),
            _ => None,
        })
    }

    /// Its class: the one granted, or a lower one if a caveat says so.
    #[must_use]
    pub const fn class(&self) -> Class {
        self.class
    }

    /// The token's name, the same in everything attenuated from it.
    #[must_use]
    pub fn id(&self) -> TokenId {
        self.claims().id()
    }

    /// The name of the key it was made with.
    #[must_use]
    pub fn key_id(&self) -> KeyId {
        self.claims().key_id()
    }

    /// The second of Unix time from which it is no longer good; none if it never expires.
    #[must_use]
    pub const fn expires(&self) -> Option<u64> {
        self.expires
    }

    /// The rights that were granted and that no caveat took away.
    pub fn scopes(&self) -> impl Iterator<Item = &str> {
        self.claims().scopes().iter().filter(|scope| self.keeps(scope))
    }

    /// Returns true if the token grants this scope.
    #[must_use]
    pub fn has_scope(&self, scope: &str) -> bool {
        self.claims().scopes().contains(scope) && self.keeps(scope)
    }

    /// Whether it is bound to one connection: another holder cannot use it.
    #[must_use]
    pub fn is_bound(&self) -> bool {
        self.caveats().any(|caveat| matches!(caveat, Ok(Caveat::Channel(_))))
    }

    /// Decides whether the token covers this request: every caveat is met.
    ///
    /// # Errors
    /// The first caveat that is not.
    pub fn authorize(&self, request: &Request<'_>) -> Result<(), TokenError> {
        for caveat in self.caveats() {
            meets(request, &caveat?)?;
        }
        match request.scope {
            Some(scope) if !self.has_scope(scope) => Err(TokenError::WrongScope),
            _ => Ok(()),
        }
    }

    /// Decides whether the token covers this use of a topic, or of all that a pattern means: the right was granted, and every
    /// caveat about it covers them.
    ///
    /// # Errors
    /// [`TokenError::WrongScope`] without the right, [`TokenError::WrongTopic`] if a caveat does not cover the topic.
    pub fn authorize_topic(&self, right: TopicRight, pattern: Pattern<'_>) -> Result<(), TokenError> {
        if !self.has_scope(right.scope()) {
            return Err(TokenError::WrongScope);
        }
        let is_covered = self.caveats().all(|caveat| match (caveat, right) {
            (Ok(Caveat::Publish(listed)), TopicRight::Publish)
            | (Ok(Caveat::Subscribe(listed)), TopicRight::Subscribe) => listed.covers(pattern),
            (caveat, _) => caveat.is_ok(),
        });
        if is_covered { Ok(()) } else { Err(TokenError::WrongTopic) }
    }

    /// Whether no caveat takes this right away.
    fn keeps(&self, scope: &str) -> bool {
        self.caveats().all(|caveat| match caveat {
            Ok(Caveat::Scopes(kept)) => kept.contains(scope),
            other => other.is_ok(),
        })
    }

    fn caveats(&self) -> impl Iterator<Item = Result<Caveat<'_>, TokenError>> {
        self.claims().caveats().map(|caveat| caveat.read())
    }

    fn claims(&self) -> Claims<'_> {
        Claims::at(&self.bytes, self.header_len)
    }
}

impl fmt::Debug for Bearer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bearer")
            .field("id", &self.id())
            .field("tenant", &self.tenant())
            .field("class", &self.class)
            .field("expires", &self.expires)
            .finish_non_exhaustive()
    }
}

/// The class and the end that all caveats together leave. Every caveat must be known, in its time, and name the same
/// tenant as the others.
fn sum_up(claims: &Claims<'_>, now: u64) -> Result<(Class, Option<u64>), TokenError> {
    let (mut class, mut expires, mut tenant) = (claims.class(), None, None);
    for caveat in claims.caveats() {
        match caveat.read()? {
            Caveat::Class(at_most) => class = class.min(at_most),
            Caveat::Expires(at) => {
                not_over(at, now)?;
                expires = Some(expires.map_or(at, |earlier: u64| earlier.min(at)));
            }
            Caveat::NotBefore(at) => begun(at, now)?,
            Caveat::Tenant(name) if *tenant.get_or_insert(name) != name => {
                return Err(TokenError::WrongTenant);
            }
            Caveat::Tenant(_)
            | Caveat::Path(_)
            | Caveat::Methods(_)
            | Caveat::Networks(_)
            | Caveat::Scopes(_)
            | Caveat::Nodes(_)
            | Caveat::Channel(_)
            | Caveat::Publish(_)
            | Caveat::Subscribe(_) => {}
        }
    }
    Ok((class, expires))
}

fn meets(request: &Request<'_>, caveat: &Caveat<'_>) -> Result<(), TokenError> {
    let or = |met: bool, error: TokenError| if met { Ok(()) } else { Err(error) };
    match *caveat {
        Caveat::Tenant(name) => {
            or(request.tenant.is_none_or(|tenant| tenant == name), TokenError::WrongTenant)
        }
        Caveat::Path(prefix) => or(path::covers(prefix, request.path), TokenError::WrongPath),
        Caveat::Methods(methods) => or(methods.contains(request.method), TokenError::WrongMethod),
        Caveat::Networks(networks) => {
            or(request.ip.is_some_and(|ip| networks.contains(ip)), TokenError::WrongAddress)
        }
        Caveat::Expires(at) => not_over(at, request.now),
        Caveat::NotBefore(at) => begun(at, request.now),
        Caveat::Nodes(nodes) => {
            or(request.session.is_some_and(|session| nodes.contains(session.node)), TokenError::WrongNode)
        }
        Caveat::Channel(channel) => {
            let present = request.session.and_then(|session| session.channel);
            or(present == Some(*channel), TokenError::WrongChannel)
        }
        // What these leave is asked for by name, not by request.
        Caveat::Scopes(_) | Caveat::Class(_) | Caveat::Publish(_) | Caveat::Subscribe(_) => Ok(()),
    }
}

fn not_over(end: u64, now: u64) -> Result<(), TokenError> {
    if now < end { Ok(()) } else { Err(TokenError::Expired) }
}

fn begun(start: u64, now: u64) -> Result<(), TokenError> {
    if now >= start { Ok(()) } else { Err(TokenError::NotYet) }
}
