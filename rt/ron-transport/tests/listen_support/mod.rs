//! What the listener tests share: listeners, clients, and a look at the log.

#![allow(dead_code, reason = "each test file uses its own part")]
#![expect(clippy::disallowed_methods, reason = "test clients may block: the backlog answers them")]

use std::{
    fmt,
    net::{SocketAddr, TcpStream},
    sync::{Arc, Mutex},
};

use ron_transport::{
    addr::ListenAddr,
    listen::{BindOptions, Listener},
};
use tracing::{
    Event, Level, Metadata, Subscriber,
    field::{Field, Visit},
    span,
};

pub(crate) fn tcp_listener() -> Listener {
    Listener::bind(&"127.0.0.1:0".parse().unwrap(), BindOptions::default()).unwrap()
}

pub(crate) fn tcp_addr(listener: &Listener) -> SocketAddr {
    match listener.local_addr() {
        ListenAddr::Tcp(addr) => *addr,
        other => panic!("{other} is not TCP"),
    }
}

/// A connection that waits in the listener's backlog.
pub(crate) fn connect(listener: &Listener) -> TcpStream {
    TcpStream::connect(tcp_addr(listener)).unwrap()
}

/// The messages logged at debug level on this thread while `action` runs.
pub(crate) fn debug_messages(action: impl FnOnce()) -> Vec<String> {
    let log = Log::default();
    tracing::subscriber::with_default(log.clone(), action);
    let messages = log.0.lock().unwrap();
    messages.clone()
}

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

struct Message(Option<String>);

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            self.0 = Some(format!("{value:?}"));
        }
    }
}

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::DEBUG && metadata.target().starts_with("ron_transport")
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut message = Message(None);
        event.record(&mut message);
        self.0.lock().unwrap().extend(message.0);
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}
