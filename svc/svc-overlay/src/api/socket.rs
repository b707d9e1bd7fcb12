//! WebSockets: publish and subscribe for browsers, as JSON in text frames.
//!
//! The connection's own task relays bytes to an end of a pipe; at the other end a task of the kernel speaks the protocol.

use std::{sync::Arc, time::Duration};

use aws_lc_rs::digest;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use futures_util::{SinkExt as _, StreamExt as _};
use http::{HeaderMap, HeaderValue, StatusCode, header, request::Parts};
use ron_kernel::topology::Stage;
use ron_transport::{
    Body, ConnInfo, Response,
    caps::ClientKey,
    tunnel::{Tunnel, TunnelLimits},
};
use tokio::io::{AsyncReadExt as _, DuplexStream};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{
        Message,
        protocol::{CloseFrame, Role, WebSocketConfig, frame::coding::CloseCode},
    },
};
use topics::Filter;
use types::{Deadline, Reason, Refusal};

use super::{
    access::{self, Caller, Sender},
    events::KEEP_ALIVE,
    frames::{self, Op, Wrong},
    places::Place,
    state::{State, Who},
};
use crate::{ApiAuth, Cursor, Feed};

/// From the beginning of a WebSocket to its token.
pub(super) const AUTH_WAIT: Duration = Duration::from_secs(5);
/// The name of what is spoken.
const PROTOCOL: &str = "omnigate.v1";
/// What a client's key is hashed with (RFC 6455, section 1.3).
const GUID: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
/// The longest message of a client: a publication in base64, and what is around it.
const MESSAGE_MAX: usize = 128 * 1024;
/// What is held of each direction on its way through the pipe.
const PIPE: usize = 16 * 1024;
/// A client that says nothing for so long, though it was asked, is gone.
const SILENCE: Duration = Duration::from_secs(60);

/// A request to speak the protocol.
#[derive(Debug)]
pub(super) struct Upgrade {
    accept: HeaderValue,
    has_protocol: bool,
}

impl Upgrade {
    /// What a request asks for, if it is for a WebSocket.
    pub(super) fn of(request: &Parts) -> Result<Self, Refusal> {
        let headers = &request.headers;
        let malformed = |detail: &'static str| Refusal::new(Reason::Malformed, detail);
        if !lists(headers, &header::CONNECTION, "upgrade") || !lists(headers, &header::UPGRADE, "websocket") {
            return Err(malformed("this is for WebSockets over HTTP/1.1; /events is for everybody"));
        }
        if headers.get(header::SEC_WEBSOCKET_VERSION).is_none_or(|version| version != "13") {
            return Err(malformed("Sec-WebSocket-Version must be 13"));
        }
        let key = headers.get(header::SEC_WEBSOCKET_KEY).map(HeaderValue::as_bytes);
        let is_key = |key: &&[u8]| STANDARD.decode(key).is_ok_and(|bytes| bytes.len() == 16);
        let key =
            key.filter(is_key).ok_or_else(|| malformed("Sec-WebSocket-Key must be 16 bytes in base64"))?;
        let digest = digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, &[key, GUID].concat());
        let accept = HeaderValue::try_from(STANDARD.encode(digest)).map_err(|_| Reason::Internal)?;
        Ok(Self { accept, has_protocol: lists(headers, &header::SEC_WEBSOCKET_PROTOCOL, PROTOCOL) })
    }

    fn response(self, tunnel: Tunnel) -> Response {
        let mut response = Response::new(Body::tunnel(tunnel));
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        let headers = response.headers_mut();
        headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
        headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
        headers.insert(header::SEC_WEBSOCKET_ACCEPT, self.accept);
        if self.has_protocol {
            headers.insert(header::SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(PROTOCOL));
        }
        response
    }
}

fn elements<'a>(headers: &'a HeaderMap, name: &header::HeaderName) -> impl Iterator<Item = &'a str> {
    let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(str::trim)
}

fn lists(headers: &HeaderMap, name: &header::HeaderName, wanted: &str) -> bool {
    elements(headers, name).any(|element| element.eq_ignore_ascii_case(wanted))
}

/// The client of a WebSocket.
pub(super) struct From {
    conn: ConnInfo,
    client: ClientKey,
    path: String,
    corr_id: String,
    /// A token among the names of protocols, or in `Authorization`.
    shown: Option<Vec<u8>>,
}

impl From {
    pub(super) fn new(conn: &ConnInfo, request: &Parts, corr_id: &HeaderValue) -> Self {
        let headers = &request.headers;
        // Browsers let a page choose these names, and no other field.
        let named = elements(headers, &header::SEC_WEBSOCKET_PROTOCOL).find(|name| name.starts_with("og1."));
        let shown = named.map(str::as_bytes).or_else(|| access::bearer(headers));
        Self {
            client: ClientKey::of(&conn.peer),
            conn: conn.clone(),
            path: request.uri.path().to_owned(),
            corr_id: corr_id.to_str().unwrap_or_default().to_owned(),
            shown: shown.map(<[u8]>::to_vec),
        }
    }

    fn caller(&self, state: &State, token: Option<&[u8]>) -> Result<Caller, Refusal> {
        let (auth, tokens) = (state.settings.load().auth, Arc::clone(&state.overlay.settings.load().tokens));
        access::caller(token, auth, &tokens, self.sender(), state.unix())
    }

    /// The request that the WebSocket began with.
    fn sender(&self) -> Sender<'_> {
        Sender { conn: &self.conn, method: "GET", path: &self.path }
    }
}

/// Begins a WebSocket that hears of `filter`.
///
/// A token in the request is checked before the WebSocket starts; other clients have a short time to send one.
pub(super) fn open(
    state: &Arc<State>,
    upgrade: Upgrade,
    from: From,
    filter: Filter,
    after: Option<Cursor>,
) -> Result<Response, Refusal> {
    let is_known = from.shown.is_some() || state.settings.load().auth == ApiAuth::None;
    let caller = if is_known { Some(from.caller(state, from.shown.as_deref())?) } else { None };
    if let Some(caller) = &caller {
        caller.may_subscribe(&filter, from.sender(), state.unix())?;
    }
    // Of the address alone until it is known whose it is.
    let place = state.place(from.client, caller.as_ref().unwrap_or(&Caller::Anybody))?;
    let (near, far) = tokio::io::duplex(PIPE);
    let limits = TunnelLimits { idle: SILENCE, ..TunnelLimits::default() };
    let session = Session { state: Arc::clone(state), from, place };
    let planes = state.scope.planes();
    let core = Arc::clone(&planes.cores()[session.from.conn.core]);
    state.sockets.spawn_on(&core, session.run(near, caller, filter, after));
    Ok(upgrade.response(Tunnel::new(far, bytes::Bytes::new()).with_limits(limits)))
}

type Socket = WebSocketStream<DuplexStream>;

struct Session {
    state: Arc<State>,
    from: From,
    place: Place,
}

/// The reason why a WebSocket ends.
enum End {
    /// The client has gone, or does not take what it is sent.
    Gone,
    /// The client is told this close code and reason.
    Told(CloseCode, &'static str),
}

impl Session {
    async fn run(
        mut self,
        pipe: DuplexStream,
        caller: Option<Caller>,
        filter: Filter,
        after: Option<Cursor>,
    ) {
        let config = WebSocketConfig::default()
            .read_buffer_size(4 * 1024)
            .write_buffer_size(0)
            .max_write_buffer_size(8 * MESSAGE_MAX)
            .max_message_size(Some(MESSAGE_MAX))
            .max_frame_size(Some(MESSAGE_MAX));
        let mut socket = WebSocketStream::from_raw_socket(pipe, Role::Server, Some(config)).await;
        let ended = self.converse(&mut socket, caller, filter, after).await;
        if let Err(End::Told(code, reason)) = ended {
            let frame = CloseFrame { code, reason: reason.into() };
            let patience = self.state.settings.load().write_timeout;
            let _ = tokio::time::timeout(patience, say_goodbye(socket, frame)).await;
        }
    }

    async fn converse(
        &mut self,
        socket: &mut Socket,
        caller: Option<Caller>,
        filter: Filter,
        after: Option<Cursor>,
    ) -> Result<(), End> {
        let caller = match caller {
            Some(caller) => caller,
            None => self.greet(socket, &filter).await?,
        };
        let mut feed = self.subscribe(socket, &caller, None, &filter, after).await?;
        let clock = self.state.scope.clock();
        let mut heard_at = clock.now();
        loop {
            if let Some(over) = self.state.over(&caller) {
                return Err(End::Told(CloseCode::Policy, over));
            }
            tokio::select! {
                biased;
                () = self.state.scope.shutdown().reached(Stage::Workers) => {
                    return Err(End::Told(CloseCode::Away, "the node is stopping"));
                }
                said = socket.next() => {
                    heard_at = clock.now();
                    let Some(text) = heard(said)? else { continue };
                    if let Some(new) = self.obey(socket, &caller, text.as_str()).await? {
                        feed = new;
                    }
                }
                event = feed.next() => {
                    let Some((cursor, delivery)) = event else {
                        return Err(End::Told(CloseCode::Away, "nothing more is heard"));
                    };
                    self.state.metrics.told(&delivery);
                    self.tell(socket, frames::event(&cursor, &delivery)).await?;
                }
                () = tokio::time::sleep(KEEP_ALIVE) => {
                    // It answers each ping, unless it is gone.
                    if clock.now().since(heard_at) > SILENCE {
                        return Err(End::Gone);
                    }
                    self.send(socket, Message::Ping(bytes::Bytes::new())).await?;
                }
            }
        }
    }

    /// Waits for a token.
    async fn greet(&mut self, socket: &mut Socket, filter: &Filter) -> Result<Caller, End> {
        let first = async {
            loop {
                if let Some(text) = heard(socket.next().await)? {
                    return Ok(text);
                }
            }
        };
        let too_late = || End::Told(CloseCode::Policy, "a token was not shown in time");
        let first = tokio::time::timeout(AUTH_WAIT, first).await.map_err(|_| too_late())??;
        let shown = match Op::read(&first) {
            Ok(Op::Auth(token)) => self.from.caller(&self.state, Some(token.as_bytes())),
            _ => Err(Refusal::new(Reason::Unauth, "say {\"op\": \"auth\", \"token\": …} first")),
        };
        let admitted = shown.and_then(|caller| {
            caller.may_subscribe(filter, self.from.sender(), self.state.unix())?;
            let place = self.state.place(self.from.client, &caller)?;
            Ok((caller, place))
        });
        match admitted {
            Ok((caller, place)) => {
                self.place = place;
                Ok(caller)
            }
            Err(refusal) => {
                self.refuse(socket, None, &refusal).await?;
                Err(End::Told(CloseCode::Policy, "not let in"))
            }
        }
    }

    /// Does what a client says; a new subscription takes the place of the one before.
    async fn obey(&self, socket: &mut Socket, caller: &Caller, text: &str) -> Result<Option<Feed>, End> {
        let done = match Op::read(text) {
            Ok(Op::Publish { number, topic, body }) => {
                let published = self.publish(caller, topic, body).await;
                published
                    .map(|published| frames::published(number, &published))
                    .map_err(|refusal| (number, refusal))
            }
            Ok(Op::Subscribe { number, filter, after }) => {
                if let Err(refusal) = caller.may_subscribe(&filter, self.from.sender(), self.state.unix()) {
                    Err((number, refusal))
                } else {
                    return self.subscribe(socket, caller, number, &filter, after).await.map(Some);
                }
            }
            Ok(Op::Auth(_)) => Err((None, Refusal::new(Reason::Conflict, "a token was already presented"))),
            Err(Wrong { number, refusal }) => Err((number, refusal)),
        };
        match done {
            Ok(answer) => self.tell(socket, answer).await?,
            Err((number, refusal)) => self.refuse(socket, number, &refusal).await?,
        }
        Ok(None)
    }

    async fn publish(
        &self,
        caller: &Caller,
        topic: oap::Topic,
        body: bytes::Bytes,
    ) -> Result<crate::Published, Refusal> {
        caller.may_publish_within(topic.as_str(), self.from.sender(), self.state.unix())?;
        self.state.admit_publication(self.from.client, caller)?;
        self.state.publish(topic, body, Deadline::NEVER, Who::new(self.from.client, caller)).await
    }

    /// Subscribes to what the caller may subscribe to.
    async fn subscribe(
        &self,
        socket: &mut Socket,
        caller: &Caller,
        number: Option<u64>,
        filter: &Filter,
        after: Option<Cursor>,
    ) -> Result<Feed, End> {
        match self.state.subscribe(filter, after, Who::new(self.from.client, caller)).await {
            Ok(feed) => {
                self.tell(socket, frames::subscribed(number, filter)).await?;
                Ok(feed)
            }
            Err(refusal) => {
                self.refuse(socket, number, &refusal).await?;
                Err(End::Told(CloseCode::Again, "the subscription was refused"))
            }
        }
    }

    async fn refuse(&self, socket: &mut Socket, number: Option<u64>, refusal: &Refusal) -> Result<(), End> {
        self.state.scope.metrics().rejected(refusal.reason).inc();
        self.tell(socket, frames::refused(number, refusal, &self.from.corr_id)).await
    }

    async fn tell(&self, socket: &mut Socket, text: String) -> Result<(), End> {
        self.send(socket, Message::text(text)).await
    }

    /// Sends to a client that takes it in time.
    async fn send(&self, socket: &mut Socket, message: Message) -> Result<(), End> {
        let patience = self.state.settings.load().write_timeout;
        match tokio::time::timeout(patience, socket.send(message)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) | Err(_) => Err(End::Gone),
        }
    }
}

/// Tells a client why its socket ends, and reads on until it has closed too: what nobody reads would break the connection
/// before the client has read why.
async fn say_goodbye(mut socket: Socket, why: CloseFrame) {
    let _ = socket.close(Some(why)).await;
    // Below the protocol, which a client that broke it does not speak.
    let mut pipe = socket.into_inner();
    let mut rest = [0; 1024];
    while let Ok(1..) = pipe.read(&mut rest).await {}
}

/// What a client said: a text, or nothing of interest.
fn heard(
    said: Option<Result<Message, tokio_tungstenite::tungstenite::Error>>,
) -> Result<Option<tokio_tungstenite::tungstenite::Utf8Bytes>, End> {
    use tokio_tungstenite::tungstenite::Error;
    match said {
        None | Some(Ok(Message::Close(_))) => Err(End::Gone),
        Some(Ok(Message::Text(text))) => Ok(Some(text)),
        Some(Ok(Message::Binary(_))) => Err(End::Told(CloseCode::Unsupported, "texts are spoken here")),
        Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => Ok(None),
        Some(Err(Error::Capacity(_))) => Err(End::Told(CloseCode::Size, "the message is too long")),
        Some(Err(Error::Utf8(_))) => Err(End::Told(CloseCode::Invalid, "the text is not UTF-8")),
        Some(Err(Error::Protocol(_))) => Err(End::Told(CloseCode::Protocol, "not as the protocol says")),
        Some(Err(_)) => Err(End::Gone),
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn upgrade(fields: &[(&str, &str)]) -> Result<Upgrade, Reason> {
        let mut request = http::Request::builder().uri("/v1/topics/news/ws");
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        Upgrade::of(&request.body(()).unwrap().into_parts().0).map_err(|refusal| refusal.reason)
    }

    #[test]
    fn the_key_is_answered_as_the_standard_says() {
        let good = [
            ("connection", "keep-alive, Upgrade"),
            ("upgrade", "websocket"),
            ("sec-websocket-version", "13"),
            ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
            ("sec-websocket-protocol", "omnigate.v1, og1.abc"),
        ];
        let asked = upgrade(&good).unwrap();
        // The example of RFC 6455, section 1.3.
        assert_eq!(asked.accept, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
        assert!(asked.has_protocol);
        for left_out in 0..4 {
            let fields: Vec<_> = (0..5).filter(|at| *at != left_out).map(|at| good[at]).collect();
            assert_eq!(upgrade(&fields).err(), Some(Reason::Malformed), "without {}", good[left_out].0);
        }
        let mut short = good;
        short[3].1 = "c2hvcnQ=";
        assert_eq!(upgrade(&short).err(), Some(Reason::Malformed));
    }
}
