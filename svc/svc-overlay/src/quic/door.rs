//! The UDP socket on which connections arrive.

use std::{
    io,
    net::{SocketAddr, UdpSocket},
    sync::Arc,
};

use ron_kernel::{
    Scope,
    lock::Ranked,
    supervisor::{TaskCtx, TaskFault, TaskResult},
};
use ron_transport::{
    addr::ListenAddr,
    listen::BindError,
    quic::{QuicListener, bind},
};

use super::{QUIC_LISTENER, QuicLink};
use crate::{
    IsHeldElsewhere,
    dialer::{HELD_FOR, HELD_LOOK},
    listener::{Arrived, Door},
    locks,
    shared::Shared,
};

/// The socket of a node for QUIC.
pub(crate) struct QuicDoor {
    shared: Arc<Shared>,
    door: Arc<Door>,
    /// Where it listens, with the port the system chose.
    addr: SocketAddr,
    /// The socket that was bound when the node was built, until its task takes it. Nothing else is locked under it.
    bound: Ranked<Option<UdpSocket>>,
    held_elsewhere: Option<IsHeldElsewhere>,
}

impl QuicDoor {
    /// Binds the socket, and accepts from it as soon as it can be had: a process that hands over to this one keeps it until it
    /// has ended.
    pub(crate) fn open(
        scope: &Scope,
        door: &Arc<Door>,
        shared: &Arc<Shared>,
        addr: SocketAddr,
        held_elsewhere: Option<IsHeldElsewhere>,
    ) -> Result<Arc<Self>, BindError> {
        let is_held = held_elsewhere.as_ref().is_some_and(|is_held| is_held());
        let (bound, addr) = match bind(addr).and_then(|socket| Ok((socket.local_addr()?, socket))) {
            Ok((addr, socket)) => (Some(socket), addr),
            Err(error) if is_held && error.kind() == io::ErrorKind::AddrInUse => (None, addr),
            Err(error) => return Err(BindError::from_io(&ListenAddr::Tcp(addr), error)),
        };
        let quic = Arc::new(Self {
            shared: Arc::clone(shared),
            door: Arc::clone(door),
            addr,
            bound: Ranked::new(&locks::QUIC_SOCKET, bound),
            held_elsewhere,
        });
        let accepting = Arc::clone(&quic);
        scope.task(&QUIC_LISTENER, move |ctx| accept(Arc::clone(&accepting), ctx));
        Ok(quic)
    }

    /// Where it listens, with the port the system chose.
    pub(crate) const fn local_addr(&self) -> SocketAddr {
        self.addr
    }

    /// The socket; waited for while another process has it.
    async fn socket(&self) -> io::Result<UdpSocket> {
        if let Some(bound) = self.bound.lock().take() {
            return Ok(bound);
        }
        let clock = self.shared.clock;
        let end = clock.within(HELD_FOR);
        loop {
            match bind(self.addr) {
                Err(error)
                    if error.kind() == io::ErrorKind::AddrInUse
                        && self.held_elsewhere.is_some()
                        && !end.has_passed(clock.now()) => {}
                bound => return bound,
            }
            tokio::time::sleep(HELD_LOOK).await;
        }
    }

    fn listen(&self, socket: UdpSocket) -> io::Result<QuicListener> {
        let settings = self.shared.settings.load();
        let tls = settings.tls.as_ref().ok_or(io::ErrorKind::Unsupported)?;
        QuicListener::open(socket, &tls.quic.server, &self.shared.quic_drivers)
    }
}

async fn accept(quic: Arc<QuicDoor>, ctx: TaskCtx) -> TaskResult {
    let socket = tokio::select! {
        biased;
        () = ctx.stopping() => return Ok(()),
        socket = quic.socket() => socket.map_err(TaskFault::new)?,
    };
    let listener = quic.listen(socket).map_err(TaskFault::new)?;
    loop {
        tokio::select! {
            biased;
            () = ctx.stopping() => {
                listener.close();
                return Ok(());
            }
            incoming = listener.accept() => match incoming {
                Some(incoming) => {
                    let peer = incoming.peer();
                    quic.door.admit(Arrived::Quic(QuicLink::From(Box::new(incoming))), peer);
                }
                None => return Err(TaskFault::new(io::Error::other("the UDP socket has failed"))),
            },
        }
    }
}
