//! The beginning of a session: TLS or QUIC, then both HELLOs, all within one deadline.

use std::io;

use bytes::BytesMut;
use oap::{Decoder, ErrorCode, Fault, Frame, Hello, Incoming, Message, Parser, Session, Side};
use ron_transport::{
    stream::{Peer, Stream},
    tls::HandshakeError,
    wire::Wire,
};
use socket2::SockRef;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use types::NodeId;

use super::{
    conn::{Admission, Greeted},
    reader::reject_label,
};
use crate::{
    config::Security,
    shared::{Settings, Shared},
};

/// Bytes that the system may hold unsent: more would only make what is urgent wait behind them.
const NOTSENT_LOWAT: u32 = 128 * 1024;

/// What tokens are bound to: bytes exported from the TLS connection for the node that shows one (docs/oap-1.md).
const CHANNEL_LABEL: &[u8] = b"EXPERIMENTAL OAP/1 token";

/// What a session is made of.
#[derive(Debug)]
pub(crate) enum Link {
    /// A connected socket.
    Socket(Stream),
    /// A connection over QUIC.
    #[cfg(feature = "quic")]
    Quic(crate::quic::QuicLink),
}

/// The side that opened the connection.
#[derive(Clone, Debug)]
pub(crate) enum Began {
    /// This node, which looks for that one, if it looks for any in particular.
    Here {
        /// The id of the dialled node, if it is known.
        expected: Option<NodeId>,
        /// The dialled address, for operators.
        place: String,
    },
    /// The peer dialled from this address.
    There(Peer),
}

/// The reason why no session was established.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoSession {
    /// The connection failed.
    #[error("the connection failed: {0}")]
    Io(#[from] io::Error),
    /// TLS did not come about.
    #[error("{0}")]
    Tls(#[from] HandshakeError),
    /// The peer was refused, and told so.
    #[error("refused with {}: {what}", .code.name())]
    Refused { code: ErrorCode, what: &'static str },
    /// The peer refused this node.
    #[error("the peer refused with {}: {}", .0.code.name(), .0.detail)]
    RefusedThere(Fault),
    /// There were too many handshakes, and this was the oldest of the address that had the most.
    #[error("it was closed to make room for another handshake")]
    Displaced,
    /// The handshake took too long.
    #[error("the handshake took too long")]
    Late,
}

impl NoSession {
    const fn refused(code: ErrorCode, what: &'static str) -> Self {
        Self::Refused { code, what }
    }
}

/// Makes a session of a connection.
///
/// Cancel safe: dropped, it closes the connection.
pub(crate) async fn greet(
    shared: &Shared,
    settings: &Settings,
    link: Link,
    began: Began,
) -> Result<(Wire, Greeted), NoSession> {
    let deadline = shared.clock.within(settings.handshake);
    let greeted = shared.scope.by("handshake", deadline, try_greet(shared, settings, link, began)).await;
    let outcome = greeted.unwrap_or(Err(NoSession::Late));
    match &outcome {
        Err(NoSession::Late | NoSession::Tls(HandshakeError::Timeout { .. })) => {
            shared.metrics.handshake_timeouts.inc();
        }
        Err(NoSession::Tls(_)) => shared.metrics.rejected("tls"),
        Err(NoSession::Refused { code, .. }) => shared.metrics.rejected(reject_label(*code)),
        _ => {}
    }
    outcome
}

async fn try_greet(
    shared: &Shared,
    settings: &Settings,
    link: Link,
    began: Began,
) -> Result<(Wire, Greeted), NoSession> {
    let mut wire = secure(shared, settings, link, &began).await?;
    match introduce(shared, settings, &mut wire, &began).await {
        Ok(greeted) => Ok((wire, greeted)),
        Err(error) => {
            if let NoSession::Refused { code, what } = &error {
                // If it cannot be told, the end of the connection has to do.
                let fault = Frame::connection(Message::Error(Fault::new(*code, what)));
                let _ = say(&mut wire, &fault).await;
            }
            let _ = wire.shutdown().await;
            Err(error)
        }
    }
}

/// Has the system hold little that is not on its way yet. A system that cannot is no reason to refuse a peer.
fn hold_little(stream: &Stream) {
    if let Stream::Tcp(socket) = stream {
        let _ = SockRef::from(socket).set_tcp_notsent_lowat(NOTSENT_LOWAT);
    }
}

#[cfg_attr(not(feature = "quic"), expect(unused_variables, reason = "QUIC's tasks are children of the node"))]
async fn secure(shared: &Shared, settings: &Settings, link: Link, began: &Began) -> Result<Wire, NoSession> {
    let tls = settings.tls.as_ref().filter(|_| settings.security != Security::Plaintext);
    let stream = match link {
        Link::Socket(stream) => stream,
        #[cfg(feature = "quic")]
        Link::Quic(link) => {
            let quic = &tls.ok_or(io::Error::from(io::ErrorKind::Unsupported))?.quic;
            let stream = quic.establish(link, &shared.quic_drivers).await.map_err(HandshakeError::from)?;
            return Ok(Wire::Quic(Box::new(stream)));
        }
    };
    hold_little(&stream);
    let Some(tls) = tls else { return Ok(Wire::Plain(stream)) };
    let secured = match began {
        Began::Here { .. } => tls.client.connect(stream, settings.handshake).await?,
        Began::There(_) => tls.server.accept(stream, settings.handshake).await?,
    };
    Ok(Wire::Tls(Box::new(secured)))
}

/// The dialler sends first, so a node that is not accepted learns nothing about this node.
async fn introduce(
    shared: &Shared,
    settings: &Settings,
    wire: &mut Wire,
    began: &Began,
) -> Result<Greeted, NoSession> {
    let dialled = matches!(began, Began::Here { .. });
    let side = if dialled { Side::Dialer } else { Side::Acceptor };
    let ours = settings.hello(shared.me, channel_of(wire, shared.me));
    let mut session = Session::new(side, ours);
    if dialled {
        // Before it is told anything, the peer has proven that it is whom we look for.
        expect(settings, wire, began)?;
        say(wire, &session.hello()).await?;
    }
    let theirs = hear(wire, &mut session).await?;
    judge(shared, settings, wire, began, &theirs)?;
    if !dialled {
        say(wire, &session.hello()).await?;
    }
    let agreed = session.agreed().cloned();
    let agreed = agreed.ok_or(NoSession::refused(ErrorCode::OutOfOrder, "no HELLO"))?;
    let place = match began {
        Began::Here { place, .. } => place.clone(),
        Began::There(peer) if wire.is_quic() => format!("quic://{peer}"),
        Began::There(peer) => peer.to_string(),
    };
    let (key_exchange, key) = (wire.key_exchange(), wire.peer_key());
    let admitted_by = settings.needs_token(theirs.node).then(|| Admission {
        hello: Hello { topics: Vec::new(), ..theirs.clone() },
        channel: channel_of(wire, theirs.node),
        ip: match began {
            Began::Here { .. } => None,
            Began::There(peer) => peer.addr.map(|addr| addr.ip()),
        },
    });
    let Hello { node: peer, topics, .. } = theirs;
    Ok(Greeted { session, agreed, peer, topics, dialled, place, key_exchange, key, admitted_by })
}

/// What the ends of a connection have in common for tokens that a node shows on it; none without TLS. The node is
/// part of it, so that nobody can show a token back to the node that it came from.
fn channel_of(wire: &Wire, shown_by: NodeId) -> Option<[u8; captoken::CHANNEL_LEN]> {
    wire.export(CHANNEL_LABEL, shown_by.as_bytes())
}

/// Whether the peer whose key is proven is the one we look for.
fn expect(settings: &Settings, wire: &Wire, began: &Began) -> Result<(), NoSession> {
    let proven = wire.peer_key().map(|key| NodeId::of_key(key.ed25519()));
    match began {
        Began::Here { expected: Some(expected), .. }
            if settings.security != Security::Plaintext && proven != Some(*expected) =>
        {
            Err(NoSession::refused(ErrorCode::Unauth, "another node was expected"))
        }
        _ => Ok(()),
    }
}

/// Whether the peer is who it says, whom we look for, and somebody who may come.
fn judge(
    shared: &Shared,
    settings: &Settings,
    wire: &Wire,
    began: &Began,
    theirs: &Hello,
) -> Result<(), NoSession> {
    let unauth = |what| Err(NoSession::refused(ErrorCode::Unauth, what));
    let proven = wire.peer_key().map(|key| NodeId::of_key(key.ed25519()));
    if settings.security != Security::Plaintext && proven != Some(theirs.node) {
        return unauth("the key is not that of the node");
    }
    let ip = match began {
        Began::Here { expected: Some(expected), .. } if *expected != theirs.node => {
            return unauth("another node was expected");
        }
        Began::Here { .. } => None,
        Began::There(peer) => peer.addr.map(|addr| addr.ip()),
    };
    settings.admits(theirs, channel_of(wire, theirs.node), ip, shared.clock.unix()).or_else(unauth)?;
    if matches!(began, Began::There(_)) && !shared.arrivals.admit(theirs.node, shared.clock.now()) {
        return Err(NoSession::refused(ErrorCode::Quota, "the node begins sessions too often"));
    }
    Ok(())
}

/// Writes one frame to the connection.
async fn say(wire: &mut Wire, frame: &Frame) -> io::Result<()> {
    let bytes = frame.to_bytes().map_err(io::Error::other)?;
    wire.write_all(&bytes).await?;
    wire.flush().await
}

/// Reads the peer's HELLO and not a byte more.
async fn hear(wire: &mut Wire, session: &mut Session) -> Result<Hello, NoSession> {
    const MALFORMED: &str = "a frame that is not a HELLO";
    let (decoder, mut received) = (Decoder::default(), BytesMut::new());
    let raw = loop {
        let missing = decoder.missing(&received).map_err(|e| NoSession::refused(e.code(), MALFORMED))?;
        if missing == 0 {
            let next = decoder.next(&mut received);
            match next.map_err(|e| NoSession::refused(e.code(), MALFORMED))? {
                Some(raw) => break raw,
                None => continue,
            }
        }
        let limit = missing as u64;
        if wire.take(limit).read_buf(&mut received).await? == 0 {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
    };
    let frame = Parser::default().parse(raw).map_err(|e| NoSession::refused(e.code(), MALFORMED))?;
    match session.receive(frame) {
        Ok(Incoming::Hello(hello)) => Ok(*hello),
        Ok(Incoming::Fault(fault)) => Err(NoSession::RefusedThere(fault)),
        Ok(_) => Err(NoSession::refused(ErrorCode::OutOfOrder, MALFORMED)),
        Err(violation) => Err(NoSession::refused(violation.code, violation.detail)),
    }
}
