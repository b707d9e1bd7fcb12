//! A small WebSocket client that sends what it is told.

use std::{
    io::{BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
};

use serde_json::Value;

use crate::support::PATIENCE;

/// What a server says.
#[derive(Debug)]
pub(super) enum Said {
    Text(Value),
    /// The code, and why.
    Closed(u16, String),
}

pub(super) struct Ws(BufReader<TcpStream>);

impl Ws {
    /// Asks for a WebSocket; the head of the answer if there is none.
    pub(super) fn ask(to: SocketAddr, path: &str, fields: &str) -> Result<(Self, String), String> {
        let mut socket = TcpStream::connect(to).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        let head = format!(
            "GET /v1/topics/{path} HTTP/1.1\r\nhost: localhost\r\nconnection: Upgrade\r\nupgrade: websocket\r\n"
        );
        let key = "sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
        write!(socket, "{head}{key}{fields}\r\n").unwrap();
        let mut reader = BufReader::new(socket);
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            reader.read_exact(&mut byte).unwrap();
            answer.push(byte[0]);
        }
        let answer = String::from_utf8(answer).unwrap();
        if answer.starts_with("HTTP/1.1 101 ") { Ok((Self(reader), answer)) } else { Err(answer) }
    }

    #[track_caller]
    pub(super) fn open(to: SocketAddr, path: &str, fields: &str) -> Self {
        Self::ask(to, path, fields).unwrap_or_else(|head| panic!("{head}")).0
    }

    /// Sends a frame of this kind, masked as a client's are.
    pub(super) fn send(&mut self, opcode: u8, payload: &[u8]) {
        let mut frame = vec![0x80 | opcode];
        match payload.len() {
            len @ 0..126 => frame.push(0x80 | u8::try_from(len).unwrap()),
            len @ 126..65_536 => {
                frame.push(0x80 | 126);
                frame.extend(u16::try_from(len).unwrap().to_be_bytes());
            }
            len => {
                frame.push(0x80 | 127);
                frame.extend((len as u64).to_be_bytes());
            }
        }
        let mask = [1, 2, 3, 4];
        frame.extend(mask);
        frame.extend(payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
        // One that is refused may close before it has read all of it.
        let _ = self.0.get_mut().write_all(&frame);
    }

    pub(super) fn say(&mut self, value: &Value) {
        self.send(1, value.to_string().as_bytes());
    }

    /// What the server says next; signs of life are answered.
    #[track_caller]
    pub(super) fn hear(&mut self) -> Said {
        loop {
            let (opcode, payload) = self.frame();
            match opcode {
                1 => return Said::Text(serde_json::from_slice(&payload).unwrap()),
                8 => {
                    let code = payload.get(..2).map_or(1005, |code| u16::from_be_bytes([code[0], code[1]]));
                    return Said::Closed(
                        code,
                        String::from_utf8_lossy(payload.get(2..).unwrap_or_default()).into_owned(),
                    );
                }
                9 => self.send(10, &payload),
                other => panic!("a frame of kind {other}"),
            }
        }
    }

    #[track_caller]
    pub(super) fn text(&mut self) -> Value {
        match self.hear() {
            Said::Text(value) => value,
            closed @ Said::Closed(..) => panic!("{closed:?}"),
        }
    }

    /// What is said of this kind; everything before it is dropped.
    #[track_caller]
    pub(super) fn text_of(&mut self, kind: &str) -> Value {
        loop {
            let value = self.text();
            if value["type"] == kind {
                return value;
            }
        }
    }

    /// Why the server closes; everything before it is dropped.
    #[track_caller]
    pub(super) fn closed(&mut self) -> (u16, String) {
        loop {
            if let Said::Closed(code, why) = self.hear() {
                return (code, why);
            }
        }
    }

    fn frame(&mut self) -> (u8, Vec<u8>) {
        let mut take = |count: usize| {
            let mut bytes = vec![0; count];
            self.0.read_exact(&mut bytes).unwrap();
            bytes
        };
        let head = take(2);
        assert_eq!(head[1] & 0x80, 0, "a server masks nothing");
        let len = match head[1] {
            126 => u64::from(u16::from_be_bytes(take(2).try_into().unwrap())),
            127 => u64::from_be_bytes(take(8).try_into().unwrap()),
            len => u64::from(len),
        };
        (head[0] & 0x0f, take(usize::try_from(len).unwrap()))
    }
}
