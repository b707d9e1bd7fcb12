//! A relay between two nodes that delays, throttles, stalls, resets and partitions.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

/// A link in the test's own hands.
pub(super) struct Relay {
    pub(super) addr: SocketAddr,
    link: Arc<Link>,
}

#[derive(Default)]
struct Link {
    /// Milliseconds that each piece is held back.
    delay: AtomicU64,
    /// Bytes a second; zero for as many as there are.
    throttle: AtomicU64,
    /// Nothing moves.
    stalled: AtomicBool,
    /// Nobody gets through.
    parted: AtomicBool,
    over: AtomicBool,
    open: Mutex<Vec<TcpStream>>,
}

impl Relay {
    pub(super) fn to(target: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let link = Arc::<Link>::default();
        let accepting = Arc::clone(&link);
        thread::spawn(move || {
            for inward in listener.incoming().map_while(Result::ok) {
                if accepting.over.load(Relaxed) {
                    return;
                }
                if !accepting.parted.load(Relaxed)
                    && let Ok(outward) = TcpStream::connect(target)
                {
                    accepting.join(inward, outward);
                }
            }
        });
        Self { addr, link }
    }

    pub(super) fn delay(&self, millis: u64) {
        self.link.delay.store(millis, Relaxed);
    }

    pub(super) fn throttle(&self, bytes_a_second: u64) {
        self.link.throttle.store(bytes_a_second, Relaxed);
    }

    pub(super) fn stall(&self, stalled: bool) {
        self.link.stalled.store(stalled, Relaxed);
    }

    /// Lets nobody through, and breaks what is open.
    pub(super) fn part(&self, parted: bool) {
        self.link.parted.store(parted, Relaxed);
        if parted {
            self.reset();
        }
    }

    /// Breaks everything that is open, without a word.
    pub(super) fn reset(&self) {
        for socket in self.link.open.lock().unwrap().drain(..) {
            let socket = socket2::Socket::from(socket);
            let _ = socket.set_linger(Some(Duration::ZERO));
            let _ = socket.shutdown(std::net::Shutdown::Both);
        }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.link.over.store(true, Relaxed);
        self.reset();
        let _ = TcpStream::connect(self.addr);
    }
}

impl Link {
    fn join(self: &Arc<Self>, inward: TcpStream, outward: TcpStream) {
        let mut open = self.open.lock().unwrap();
        // Whoever was accepted before the link parted and comes here after it does not get through either.
        if self.parted.load(Relaxed) {
            return;
        }
        for (from, to) in [(&inward, &outward), (&outward, &inward)] {
            let (from, to, link) = (from.try_clone().unwrap(), to.try_clone().unwrap(), Arc::clone(self));
            thread::spawn(move || link.copy(from, to));
        }
        open.extend([inward, outward]);
    }

    fn copy(&self, mut from: TcpStream, mut to: TcpStream) {
        let mut piece = [0; 4096];
        while let Ok(read @ 1..) = from.read(&mut piece) {
            while self.stalled.load(Relaxed) && !self.over.load(Relaxed) {
                thread::sleep(Duration::from_millis(5));
            }
            thread::sleep(Duration::from_millis(self.delay.load(Relaxed)));
            if let Some(pace) = (read as u64 * 1000).checked_div(self.throttle.load(Relaxed)) {
                thread::sleep(Duration::from_millis(pace));
            }
            if to.write_all(&piece[..read]).is_err() {
                break;
            }
        }
        let _ = to.shutdown(std::net::Shutdown::Write);
    }
}
