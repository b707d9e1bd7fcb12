//! The library's tasks as children of a service: counted, and stopped with it.

use std::{
    fmt,
    future::{Future, poll_fn},
    io,
    net::UdpSocket,
    pin::{Pin, pin},
    sync::Arc,
    task::Poll,
    time::Instant,
};

use quinn::{AsyncTimer, AsyncUdpSocket, Runtime, TokioRuntime};
use ron_kernel::{
    Scope, Shutdown,
    supervisor::Children,
    topology::{ChildSpec, Stage},
};

/// What the library's tasks become: children of one kind. A connection that is closed waits for packets that are still on
/// their way, for a second or two; that wait ends with the last of what the node writes.
#[derive(Clone)]
pub struct Drivers {
    children: Children,
    shutdown: Shutdown,
}

impl Drivers {
    /// Children of this kind, which stop at [`Stage::Support`].
    #[must_use]
    pub fn new(scope: &Scope, kind: &'static ChildSpec) -> Self {
        Self { children: scope.children(kind), shutdown: scope.shutdown().clone() }
    }
}

impl Runtime for Drivers {
    fn new_timer(&self, at: Instant) -> Pin<Box<dyn AsyncTimer>> {
        TokioRuntime.new_timer(at)
    }

    fn spawn(&self, mut driver: Pin<Box<dyn Future<Output = ()> + Send>>) {
        let shutdown = self.shutdown.clone();
        self.children.spawn(async move {
            let mut stop = pin!(shutdown.reached(Stage::Support));
            poll_fn(|cx| match driver.as_mut().poll(cx) {
                Poll::Ready(()) => Poll::Ready(()),
                Poll::Pending => stop.as_mut().poll(cx),
            })
            .await;
        });
    }

    fn wrap_udp_socket(&self, socket: UdpSocket) -> io::Result<Arc<dyn AsyncUdpSocket>> {
        TokioRuntime.wrap_udp_socket(socket)
    }

    fn now(&self) -> Instant {
        TokioRuntime.now()
    }
}

impl fmt::Debug for Drivers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Drivers").field("live", &self.children.live()).finish_non_exhaustive()
    }
}
