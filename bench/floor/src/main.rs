//! A relay of bytes on bare epoll: what moving a request and its answer costs when nobody looks at them.
//!
//!     floor LISTEN UPSTREAM
//!
//! Two threads, each with its own listening socket and its own connections. A client's connection gets a connection to
//! the upstream of its own, and both close together. For measuring only: it has no limits and no timeouts.

use std::{
    collections::HashMap,
    io::{self, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    os::fd::AsFd,
    thread,
};

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use socket2::{Domain, Socket, Type};

const THREADS: usize = 2;
const LISTENER: u64 = 0;

fn main() -> io::Result<()> {
    let mut addresses = std::env::args().skip(1).map(|arg| arg.parse::<SocketAddr>().map_err(io::Error::other));
    let mut next = || addresses.next().unwrap_or_else(|| Err(io::Error::other("usage: floor LISTEN UPSTREAM")));
    let (listen, upstream) = (next()?, next()?);
    let threads: Vec<_> = (0..THREADS).map(|_| thread::spawn(move || relay(listen, upstream))).collect();
    for thread in threads {
        thread.join().map_err(|_| io::Error::other("a thread panicked"))??;
    }
    Ok(())
}

/// Accepts and relays on this thread for ever.
fn relay(listen: SocketAddr, upstream: SocketAddr) -> io::Result<()> {
    let poller = epoll::create(CreateFlags::CLOEXEC)?;
    let listener = bind(listen)?;
    epoll::add(&poller, &listener, EventData::new_u64(LISTENER), EventFlags::IN)?;
    let mut streams: HashMap<u64, TcpStream> = HashMap::new();
    let mut next_pair = 1;
    let mut buffer = vec![0; 64 * 1024];
    let mut events = Vec::with_capacity(256);
    loop {
        events.clear();
        epoll::wait(&poller, rustix::buffer::spare_capacity(&mut events), None)?;
        for event in &events {
            match event.data.u64() {
                LISTENER => {
                    if let Ok((client, _)) = listener.accept() {
                        // Numbers of a pair differ in their lowest bit.
                        for (side, stream) in [(0, client), (1, TcpStream::connect(upstream)?)] {
                            stream.set_nodelay(true)?;
                            stream.set_nonblocking(true)?;
                            let number = next_pair * 2 + side;
                            epoll::add(&poller, stream.as_fd(), EventData::new_u64(number), EventFlags::IN)?;
                            streams.insert(number, stream);
                        }
                        next_pair += 1;
                    }
                }
                number => {
                    if move_bytes(&streams, number, &mut buffer).is_err() {
                        streams.remove(&number);
                        streams.remove(&(number ^ 1));
                    }
                }
            }
        }
    }
}

fn bind(listen: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(listen), Type::STREAM, None)?;
    socket.set_reuse_port(true)?;
    socket.bind(&listen.into())?;
    socket.listen(4096)?;
    Ok(socket.into())
}

/// Moves what one side has sent to the other. Both must be there.
fn move_bytes(streams: &HashMap<u64, TcpStream>, number: u64, buffer: &mut [u8]) -> io::Result<()> {
    let (Some(mut from), Some(mut to)) = (streams.get(&number), streams.get(&(number ^ 1))) else {
        return Err(io::ErrorKind::NotConnected.into());
    };
    let len = match from.read(buffer) {
        Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
        Ok(len) => len,
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
        Err(error) => return Err(error),
    };
    let mut rest = &buffer[..len];
    while !rest.is_empty() {
        match to.write(rest) {
            Ok(written) => rest = &rest[written..],
            // The receiver is behind: wait for it, there is nothing else to measure.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => thread::yield_now(),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
