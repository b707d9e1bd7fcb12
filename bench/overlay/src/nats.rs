//! The little of the NATS protocol that is needed here, without a client library that would cost more than the server.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
};

use crate::{
    Outcome,
    fan::{Got, Publish},
};

/// A connection that publishes.
pub(crate) struct Publisher;

impl Publish for Publisher {
    fn put(&mut self, body: &[u8], out: &mut Vec<u8>) {
        write!(out, "PUB bench {}\r\n", body.len()).expect("memory takes it all");
        out.extend_from_slice(body);
        out.extend_from_slice(b"\r\n");
    }
}

/// A session that is ready.
pub(crate) fn connect(addr: SocketAddr) -> Outcome<TcpStream> {
    let mut stream = TcpStream::connect(addr)?;
    stream.set_nodelay(true)?;
    stream.write_all(b"CONNECT {\"verbose\":false,\"pedantic\":false}\r\nPING\r\n")?;
    let mut byte = [0; 1];
    let mut said = Vec::new();
    while !said.ends_with(b"PONG\r\n") {
        stream.read_exact(&mut byte)?;
        said.push(byte[0]);
    }
    Ok(stream)
}

/// Subscribes and counts until the connection ends.
pub(crate) fn listen(mut stream: TcpStream, got: &Got) -> Outcome<()> {
    stream.write_all(b"SUB bench 1\r\n")?;
    let mut reader = BufReader::with_capacity(1 << 18, stream.try_clone()?);
    let (mut line, mut body, mut latencies) = (Vec::new(), Vec::new(), Vec::new());
    loop {
        line.clear();
        if reader.read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        if line.starts_with(b"PING") {
            stream.write_all(b"PONG\r\n")?;
        }
        if line.starts_with(b"MSG ") {
            let len = std::str::from_utf8(&line)?.split_whitespace().last().unwrap_or_default();
            body.resize(len.parse::<usize>()? + 2, 0);
            reader.read_exact(&mut body)?;
            got.add(&body, &mut latencies);
        }
    }
}
