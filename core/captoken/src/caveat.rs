//! The conditions that a token may carry, and how each is written.

use std::fmt;

use topics::PatternList;
use types::{ActorId, NodeId};

use crate::{NameList, Network, Networks, Nodes, TokenError, path};

/// A caller's class: what its share of a busy node is weighed by. The lower one comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// Clients with a valid token.
    Authed,
    /// The operator's own services.
    Internal,
}

/// One condition. All conditions of a token must be met, so each one more can only narrow it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caveat<'a> {
    /// Only for this tenant.
    Tenant(&'a str),
    /// Only under this path, in whole segments: `/api` covers `/api/x`, not `/apix`.
    Path(&'a str),
    /// Only with these methods.
    Methods(NameList<'a>),
    /// Only before this second of Unix time.
    Expires(u64),
    /// Only from this second of Unix time on.
    NotBefore(u64),
    /// Only from these client addresses.
    Networks(Networks<'a>),
    /// None of the scopes granted but these.
    Scopes(NameList<'a>),
    /// No higher class than this.
    Class(Class),
    /// The token may be shown only by these nodes.
    Nodes(Nodes<'a>),
    /// Only on the one connection, and for the one of its ends, that have this value in common.
    Channel(&'a [u8; CHANNEL_LEN]),
    /// Publishing only in these topics.
    Publish(PatternList<'a>),
    /// Subscribing only to these topics.
    Subscribe(PatternList<'a>),
}

/// Length of [`Caveat::Channel`] in bytes.
pub const CHANNEL_LEN: usize = 32;

/// The first byte of each kind's written form.
mod kind {
    pub(super) const TENANT: u8 = 1;
    pub(super) const PATH: u8 = 2;
    pub(super) const METHODS: u8 = 3;
    pub(super) const EXPIRES: u8 = 4;
    pub(super) const NOT_BEFORE: u8 = 5;
    pub(super) const NETWORKS: u8 = 6;
    pub(super) const SCOPES: u8 = 7;
    pub(super) const CLASS: u8 = 8;
    pub(super) const NODES: u8 = 9;
    pub(super) const CHANNEL: u8 = 10;
    pub(super) const PUBLISH: u8 = 11;
    pub(super) const SUBSCRIBE: u8 = 12;
}

impl<'a> Caveat<'a> {
    /// Appends the written form of these networks to `room`, and makes the caveat that lists them.
    ///
    /// # Errors
    /// [`TokenError::Malformed`] if the list is empty.
    pub fn networks(networks: &[Network], room: &'a mut Vec<u8>) -> Result<Self, TokenError> {
        room.clear();
        networks.iter().for_each(|network| network.write(room));
        Self::read(kind::NETWORKS, room)
    }

    /// A caveat that names the nodes that may show the token. Their ids are written to `room`.
    ///
    /// # Errors
    /// [`TokenError::Malformed`] if the list is empty, or longer than a caveat has room for.
    pub fn nodes(nodes: &[NodeId], room: &'a mut Vec<u8>) -> Result<Self, TokenError> {
        room.clear();
        nodes.iter().for_each(|node| room.extend_from_slice(node.as_bytes()));
        Self::read(kind::NODES, room)
    }

    /// Returns the name of the caveat's kind, as `token inspect` prints it.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Tenant(_) => "tenant",
            Self::Path(_) => "path",
            Self::Methods(_) => "methods",
            Self::Expires(_) => "expires",
            Self::NotBefore(_) => "not_before",
            Self::Networks(_) => "networks",
            Self::Scopes(_) => "scopes",
            Self::Class(_) => "class",
            Self::Nodes(_) => "nodes",
            Self::Channel(_) => "channel",
            Self::Publish(_) => "publish",
            Self::Subscribe(_) => "subscribe",
        }
    }

    /// Reads and checks a caveat's value.
    pub(crate) fn read(kind: u8, value: &'a [u8]) -> Result<Self, TokenError> {
        match kind {
            kind::TENANT => tenant(value).map(Self::Tenant),
            kind::PATH => prefix(value).map(Self::Path),
            kind::METHODS => some_names(value).map(Self::Methods),
            kind::EXPIRES => seconds(value).map(Self::Expires),
            kind::NOT_BEFORE => seconds(value).map(Self::NotBefore),
            kind::NETWORKS if value.is_empty() => Err(TokenError::Malformed("a network must be named")),
            kind::NETWORKS => Networks::read(value).map(Self::Networks),
            kind::SCOPES => names(value).map(Self::Scopes),
            kind::CLASS => match value {
                [class] => Class::read(*class).map(Self::Class),
                _ => Err(Class::UNKNOWN),
            },
            kind::NODES => Nodes::read(value).map(Self::Nodes),
            kind::CHANNEL => channel(value).map(Self::Channel),
            kind::PUBLISH => patterns(value).map(Self::Publish),
            kind::SUBSCRIBE => patterns(value).map(Self::Subscribe),
            _ => Err(TokenError::UnknownCaveat),
        }
    }
}

impl Caveat<'_> {
    /// Whether the value can be written.
    ///
    /// # Errors
    /// [`TokenError::Malformed`] with what it should be, or [`TokenError::TooLarge`].
    pub fn check(&self) -> Result<(), TokenError> {
        self.write(&mut Vec::new())
    }

    /// Appends kind, length and value, after the checks that reading makes.
    pub(crate) fn write(&self, out: &mut Vec<u8>) -> Result<(), TokenError> {
        let (time, class);
        let (kind, value) = match self {
            Self::Tenant(name) => (kind::TENANT, name.as_bytes()),
            Self::Path(prefix) => (kind::PATH, prefix.as_bytes()),
            Self::Methods(list) => (kind::METHODS, list.as_str().as_bytes()),
            Self::Expires(at) | Self::NotBefore(at) => {
                time = at.to_be_bytes();
                let expires = matches!(self, Self::Expires(_));
                (if expires { kind::EXPIRES } else { kind::NOT_BEFORE }, &time[..])
            }
            Self::Networks(networks) => (kind::NETWORKS, networks.as_bytes()),
            Self::Scopes(list) => (kind::SCOPES, list.as_str().as_bytes()),
            Self::Class(at_most) => {
                class = [at_most.byte()];
                (kind::CLASS, &class[..])
            }
            Self::Nodes(nodes) => (kind::NODES, nodes.as_bytes()),
            Self::Channel(value) => (kind::CHANNEL, &value[..]),
            Self::Publish(patterns) => (kind::PUBLISH, patterns.as_str().as_bytes()),
            Self::Subscribe(patterns) => (kind::SUBSCRIBE, patterns.as_str().as_bytes()),
        };
        Caveat::read(kind, value)?;
        let len = u8::try_from(value.len()).map_err(|_| TokenError::TooLarge)?;
        out.extend_from_slice(&[kind, len]);
        out.extend_from_slice(value);
        Ok(())
    }
}

impl Class {
    const UNKNOWN: TokenError = TokenError::Malformed("a class is 1 for authed or 2 for internal");

    /// The name used in configuration and metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Authed => "authed",
            Self::Internal => "internal",
        }
    }

    pub(crate) const fn byte(self) -> u8 {
        match self {
            Self::Authed => 1,
            Self::Internal => 2,
        }
    }

    pub(crate) const fn read(byte: u8) -> Result<Self, TokenError> {
        match byte {
            1 => Ok(Self::Authed),
            2 => Ok(Self::Internal),
            _ => Err(Self::UNKNOWN),
        }
    }
}

fn tenant(value: &[u8]) -> Result<&str, TokenError> {
    let fits = (1..=ActorId::MAX_LEN).contains(&value.len());
    visible(value)
        .filter(|_| fits)
        .ok_or(TokenError::Malformed("a tenant is named with 1 to 128 visible ASCII characters"))
}

fn prefix(value: &[u8]) -> Result<&str, TokenError> {
    let fits =
        |path: &&str| path.starts_with('/') && !path.contains(['?', '#']) && !path::resolves_elsewhere(path);
    visible(value).filter(fits).ok_or(TokenError::Malformed(
        "a path begins with `/`, has visible ASCII characters, and no `.` or `..` segment, query or fragment",
    ))
}

fn some_names(value: &[u8]) -> Result<NameList<'_>, TokenError> {
    if value.is_empty() { Err(TokenError::Malformed("a method must be named")) } else { names(value) }
}

pub(crate) fn names(value: &[u8]) -> Result<NameList<'_>, TokenError> {
    let text = str::from_utf8(value).map_err(|_| TokenError::Malformed("names are ASCII"))?;
    NameList::new(text)
}

fn seconds(value: &[u8]) -> Result<u64, TokenError> {
    let bytes = value.try_into().map_err(|_| TokenError::Malformed("a moment has eight bytes"))?;
    Ok(u64::from_be_bytes(bytes))
}

fn channel(value: &[u8]) -> Result<&[u8; CHANNEL_LEN], TokenError> {
    value.try_into().map_err(|_| TokenError::Malformed("a channel has 32 bytes"))
}

fn patterns(value: &[u8]) -> Result<PatternList<'_>, TokenError> {
    let list = str::from_utf8(value).ok().and_then(|text| PatternList::new(text).ok());
    list.ok_or(TokenError::Malformed(
        "1 to 16 topics or patterns are named, with a comma between two: `news`, `metrics.*.cpu`, `chat.>`",
    ))
}

fn visible(value: &[u8]) -> Option<&str> {
    str::from_utf8(value).ok().filter(|_| value.iter().all(u8::is_ascii_graphic))
}

impl fmt::Display for Caveat<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.name())?;
        match self {
            Self::Tenant(text) | Self::Path(text) => f.write_str(text),
            Self::Methods(list) | Self::Scopes(list) => f.write_str(list.as_str()),
            Self::Expires(at) | Self::NotBefore(at) => at.fmt(f),
            Self::Networks(networks) => networks.fmt(f),
            Self::Class(class) => f.write_str(class.as_str()),
            Self::Nodes(nodes) => nodes.fmt(f),
            Self::Publish(patterns) | Self::Subscribe(patterns) => f.write_str(patterns.as_str()),
            Self::Channel(value) => value.iter().try_for_each(|byte| write!(f, "{byte:02x}")),
        }
    }
}
