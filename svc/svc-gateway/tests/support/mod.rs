//! A gateway on a real kernel, and an upstream that tells what it was sent.

#![allow(dead_code, reason = "each test file uses its own part")]

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::Arc,
    thread,
    time::Duration,
};

use ron_kernel::{Exit, Kernel, Scope};
use ron_transport::{addr::ListenAddr, inherit::Inherited};
use svc_gateway::{
    AuthConfig, Gateway, GatewayConfig, GatewaySettings, LocalServices, RouteConfig, TOPOLOGY, UpstreamConfig,
};

/// Longer than anything takes on a busy machine: only what hangs meets it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// An upstream that is given all the time that a busy machine may need.
pub(crate) fn patient_upstream(addr: SocketAddr) -> UpstreamConfig {
    UpstreamConfig {
        endpoints: vec![format!("http://{addr}").parse().unwrap()],
        timeout: PATIENCE.into(),
        connect_timeout: PATIENCE.into(),
        ..UpstreamConfig::default()
    }
}

/// The same for clients.
pub(crate) fn patient(config: GatewayConfig) -> GatewayConfig {
    let (handshake_timeout, read_timeout, write_timeout) =
        (PATIENCE.into(), PATIENCE.into(), PATIENCE.into());
    GatewayConfig { handshake_timeout, read_timeout, write_timeout, ..config }
}

/// A running gateway; it stops when the test drops it.
pub(crate) struct Running {
    pub(crate) scope: Scope,
    pub(crate) gateway: Arc<Gateway>,
    conductor: Option<thread::JoinHandle<Exit>>,
}

impl Running {
    /// Starts a gateway with these settings, and `/` leading to an upstream that echoes unless there are other routes.
    pub(crate) fn start(settings: GatewayConfig) -> Self {
        Self::start_with(settings, LocalServices::default())
    }

    /// The same, with services in the same process.
    pub(crate) fn start_with(settings: GatewayConfig, services: LocalServices) -> Self {
        let kernel = Kernel::builder("test").drain_deadline(PATIENCE).build().unwrap();
        let scope = kernel.scope(&TOPOLOGY);
        let mut config = GatewayConfig { listen: "127.0.0.1:0".parse().unwrap(), ..patient(settings) };
        // All requests of a test come from one address, and how fast is the machine's business.
        (config.quotas.per_ip_rps, config.drr.rate_limit_rps) = (0, 0);
        if config.route.is_empty() {
            config.route.push(route("/"));
        }
        config.upstream.insert("echo".into(), patient_upstream(echo()));
        let mut inherited = Inherited::from_env().unwrap();
        let settings = GatewaySettings { gateway: &config, auth: &AuthConfig::default(), data_dir: None };
        let gateway = kernel.block_on(Gateway::build(&scope, settings, services, &mut inherited)).unwrap();
        let conductor = thread::spawn(move || kernel.run().unwrap());
        Self { scope, gateway, conductor: Some(conductor) }
    }

    /// Sends bytes and reads until the gateway closes the connection.
    #[track_caller]
    pub(crate) fn ask(&self, raw: impl AsRef<[u8]>) -> String {
        let ListenAddr::Tcp(addr) = self.gateway.local_addr() else { panic!("a TCP address") };
        ask(addr, raw)
    }
}

/// Sends bytes and reads until the other end closes the connection.
#[track_caller]
pub(crate) fn ask(addr: SocketAddr, raw: impl AsRef<[u8]>) -> String {
    let mut stream = TcpStream::connect(addr).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(raw.as_ref()).unwrap();
    let mut answer = Vec::new();
    if let Err(error) = stream.read_to_end(&mut answer) {
        let (raw, answer) = (String::from_utf8_lossy(raw.as_ref()), String::from_utf8_lossy(&answer));
        panic!("{raw:?} was answered {answer:?}, then not closed: {error}");
    }
    String::from_utf8_lossy(&answer).into_owned()
}

impl Drop for Running {
    fn drop(&mut self) {
        self.scope.shutdown().request("the test is over");
        self.conductor.take().map(thread::JoinHandle::join);
    }
}

/// A route to the upstream that echoes.
pub(crate) fn route(path: &str) -> RouteConfig {
    RouteConfig { path: path.into(), upstream: "echo".into(), ..RouteConfig::default() }
}

/// An upstream whose answers have the request as their body, head and all.
fn echo() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            thread::spawn(move || {
                let Some(request) = read_request(&mut stream) else { return };
                let head = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length";
                let _ = write!(stream, "{head}: {}\r\n\r\n", request.len());
                let _ = stream.write_all(&request);
            });
        }
    });
    addr
}

/// One request, head and body; `None` if it breaks off.
fn read_request(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let (mut request, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        if let Some(end) = request.windows(4).position(|four| four == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&request[..end]).to_ascii_lowercase();
            let length: Option<usize> =
                head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
            let complete = match length {
                Some(length) => request.len() >= end + 4 + length,
                None if head.contains("transfer-encoding: chunked") => request.ends_with(b"\r\n0\r\n\r\n"),
                None => true,
            };
            if complete {
                return Some(request);
            }
        }
        match stream.read(&mut buffer) {
            Ok(read) if read > 0 => request.extend_from_slice(&buffer[..read]),
            _ => return None,
        }
    }
}
