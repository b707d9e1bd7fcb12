//! The clients: a load without keep-alive, and long-lived connections that ask where they landed.

use std::{
    io::{Read, Write},
    net::{Ipv4Addr, TcpStream},
    process::Command,
    thread,
    time::Duration,
};

use super::process::Server;
use crate::{Failure, bench_topology::CORES};

/// Connections at once, in both.
const CONNECTIONS: usize = 64;

/// What one run of the load saw.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    pub(super) per_second: f64,
    pub(super) cpu_us: f64,
}

impl Load {
    /// Loads `server` for `secs` seconds, a connection per request.
    pub(super) fn run(server: &Server, secs: u64) -> Result<Self, Failure> {
        let before = server.cpu_us()?;
        let output = Command::new("wrk")
            .args(["-t2", "-H", "Connection: close"])
            .args([format!("-c{CONNECTIONS}"), format!("-d{secs}s")])
            .arg(format!("http://127.0.0.1:{}/", server.port))
            .output()
            .map_err(|error| format!("cannot run wrk: {error}"))?;
        let text = String::from_utf8_lossy(&output.stdout);
        if let Some(errors) = text.lines().find(|line| line.contains("errors")) {
            eprintln!("port {}: {}", server.port, errors.trim());
        }
        let requests = number(&text, |line| line.split_once(" requests in").map(|(n, _)| n))?;
        Ok(Self {
            per_second: number(&text, |line| line.strip_prefix("Requests/sec:"))?,
            cpu_us: (server.cpu_us()? - before) / requests,
        })
    }
}

fn number<'a>(text: &'a str, find: impl Fn(&'a str) -> Option<&'a str>) -> Result<f64, Failure> {
    let found = text.lines().find_map(find);
    let number = found.ok_or_else(|| format!("wrk said something else: {text}"))?;
    Ok(number.trim().parse()?)
}

/// In each trial, the connections on the busiest core by the mean of all.
pub(super) fn balance(server: &Server, trials: usize) -> Result<Vec<f64>, Failure> {
    let mut results = Vec::new();
    for _ in 0..trials {
        let mut on_core = [0.0; CORES.get()];
        let mut open = Vec::new();
        for _ in 0..CONNECTIONS {
            let (stream, core) = connect(server.port)?;
            *on_core.get_mut(core).ok_or("a core that is none")? += 1.0;
            open.push(stream);
        }
        let (busiest, all) = on_core.iter().fold((0.0, 0.0), |(most, all), n: &f64| (n.max(most), all + n));
        results.push(busiest / (all / f64::from(u32::try_from(CORES.get())?)));
        drop(open);
        // The server learns of each end by itself; until then a core still counts it.
        thread::sleep(Duration::from_millis(50));
    }
    Ok(results)
}

/// A connection that stays open, and its core: servers answer with the number of theirs.
fn connect(port: u16) -> Result<(TcpStream, usize), Failure> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    stream.write_all(b"GET / HTTP/1.1\r\nhost: micro\r\n\r\n")?;
    let mut said = Vec::new();
    let mut part = [0; 512];
    loop {
        let n = stream.read(&mut part)?;
        said.extend_from_slice(&part[..n]);
        let text = String::from_utf8_lossy(&said);
        if let Some((_, body)) = text.split_once("\r\n\r\n")
            && !body.is_empty()
        {
            return Ok((stream, body.trim().parse()?));
        }
        if n == 0 {
            return Err("the server closed a connection that was to stay".into());
        }
    }
}
