//! Both ends of a connection over QUIC, with the same keys as over TCP.

use std::{io, net::SocketAddr};

use ron_transport::{
    quic::{Drivers, QuicClient, QuicIncoming, QuicServer, QuicStream},
    tls::raw_key::{RawClientTls, RawServerTls},
};

/// A connection over QUIC before its handshake.
#[derive(Debug)]
pub(crate) enum QuicLink {
    /// A connection that is dialled to this address.
    To(SocketAddr),
    /// Has arrived. In a box, because it is large and most connections are not of this kind.
    From(Box<QuicIncoming>),
}

/// Both ends of a handshake between nodes.
#[derive(Debug)]
pub(crate) struct QuicTls {
    pub(crate) server: QuicServer,
    client: QuicClient,
}

impl QuicTls {
    pub(crate) fn new(server: &RawServerTls, client: &RawClientTls) -> Self {
        Self { server: QuicServer::new(server), client: QuicClient::new(client) }
    }

    /// Makes a connection of a link.
    ///
    /// Cancel safe: dropped, it closes the connection.
    pub(crate) async fn establish(&self, link: QuicLink, drivers: &Drivers) -> io::Result<QuicStream> {
        match link {
            QuicLink::To(addr) => self.client.connect(addr, drivers).await,
            QuicLink::From(incoming) => incoming.establish(&self.server).await,
        }
    }
}
