//! Debian's `redis-server`, on a port of its own and with nothing on the disk.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    process::{Command, Stdio},
};

use crate::support::{PATIENCE, Running, eventually, free_addr, signal};

/// A Redis server. Ends with its owner.
pub(super) struct Redis {
    running: Option<Running>,
    pub(super) addr: SocketAddr,
    settings: Vec<String>,
    dir: tempfile::TempDir,
}

impl Redis {
    pub(super) fn start() -> Self {
        Self::start_with(&[])
    }

    /// Starts a server there.
    pub(super) fn start_at(addr: SocketAddr) -> Self {
        let mut redis = Self { running: None, addr, settings: Vec::new(), dir: tempfile::tempdir().unwrap() };
        redis.start_again();
        redis
    }

    /// Starts a server with further settings, as its command line takes them.
    pub(super) fn start_with(settings: &[&str]) -> Self {
        let settings = settings.iter().map(|setting| (*setting).to_owned()).collect();
        let mut redis =
            Self { running: None, addr: free_addr(), settings, dir: tempfile::tempdir().unwrap() };
        redis.start_again();
        redis
    }

    /// Starts the server, which has forgotten everything.
    pub(super) fn start_again(&mut self) {
        let mut command = Command::new("redis-server");
        command.args(["--port", &self.addr.port().to_string(), "--bind", "127.0.0.1", "--save", ""]);
        command.args(&self.settings).current_dir(self.dir.path());
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        self.running = Some(Running(child.expect("redis-server comes with Debian's package of that name")));
        eventually("the store listens", || TcpStream::connect(self.addr).ok());
    }

    pub(super) fn kill(&mut self) {
        self.running = None;
    }

    pub(super) fn signal(&self, name: &str) {
        signal(self.running.as_ref().unwrap().0.id(), name);
    }

    pub(super) fn url(&self) -> String {
        format!("redis://{}", self.addr)
    }

    /// Sends a command and returns the line that the server answers with, or the string that follows it.
    pub(super) fn call(&self, words: &[&str]) -> String {
        let mut stream = TcpStream::connect(self.addr).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let words: String = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len())).collect();
        let count = words.matches("\r\n").count() / 2;
        stream.write_all(format!("*{count}\r\n{words}").as_bytes()).unwrap();
        let (mut reader, mut line) = (BufReader::new(stream), String::new());
        reader.read_line(&mut line).unwrap();
        match line.trim_end().strip_prefix('$').map(|length| length.parse::<usize>()) {
            Some(Ok(length)) => {
                let mut value = vec![0; length];
                reader.read_exact(&mut value).unwrap();
                String::from_utf8(value).unwrap()
            }
            _ => line.trim_end().to_owned(),
        }
    }
}
