//! The servers compared. Each answers every request with the number of the core it landed on, prints its port, and
//! ends with its standard input.

use std::{
    convert::Infallible,
    io::{self, Read},
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use bytes::Bytes;
use http_body_util::Full;
use hyper::{server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use ron_transport::{
    Body, Conn, Request, Response, Service,
    addr::ListenAddr,
    listen::{BACKLOG, BindOptions, Listener},
    proxy_protocol::TrustedSources,
    serve::{HttpLimits, HttpServer, ListenPlan, Roles},
};
use socket2::{Domain, Protocol, Socket, Type};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpListener,
    runtime::Handle,
};
use types::Refusal;

use super::Model;
use crate::{
    Failure,
    bench_topology::{CORES, kernel},
    runtimes,
};

/// The argument that makes this program a server.
pub(crate) const SERVE: &str = "serve-for-accept";

/// Serves as `model` until standard input ends.
pub(crate) fn serve(model: &str) -> Result<(), Failure> {
    match Model::ALL.into_iter().find(|known| known.name() == model) {
        Some(Model::Acceptor) => acceptor(),
        Some(Model::HandOver) => runtimes::with_cores(CORES.get() + 1, hand_over)?,
        Some(Model::ReusePort) => runtimes::with_cores(CORES.get(), reuse_port)?,
        None => Err(format!("no such server: {model}").into()),
    }
}

/// The response that every model sends.
fn answer(core: usize) -> Bytes {
    Bytes::from_static(if core == 0 { b"0\n" } else { b"1\n" })
}

/// The product's server with a service that does nothing.
fn acceptor() -> Result<(), Failure> {
    let (kernel, scope) = kernel()?;
    let plan = ListenPlan {
        listener: Some(bind()?),
        tls: None,
        proxy_protocol: TrustedSources::default(),
        limits: HttpLimits { max_conns: 4096, max_conns_per_client: 4096, ..HttpLimits::default() },
    };
    let server = HttpServer::start(&scope, Roles::default(), plan, Fixed);
    print_port(&server.local_addr())?;
    thread::scope(|threads| {
        threads.spawn(|| {
            wait_for_the_end();
            scope.shutdown().request("the benchmark is over");
        });
        kernel.run()
    })?;
    Ok(())
}

struct Fixed(usize);

impl Service for Fixed {
    type PerConn = ();

    async fn call(&self, _: &Arc<Conn<()>>, _: Request) -> Result<Response, Refusal> {
        Ok(Response::new(Body::from(answer(self.0))))
    }
}

/// One socket; the last of `cores` accepts for the others.
fn hand_over(cores: &[Handle]) -> Result<(), Failure> {
    let listener = bind()?;
    print_port(listener.local_addr())?;
    let Some((acceptor, cores)) = cores.split_last() else {
        return Err("there is no core".into());
    };
    let loads: Vec<_> = cores.iter().map(|core| (core.clone(), Arc::new(AtomicUsize::new(0)))).collect();
    acceptor.spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let least = loads.iter().enumerate();
            let least = least.min_by_key(|(_, (_, load))| load.load(Ordering::Relaxed));
            let Some((index, (core, load))) = least else {
                return;
            };
            let load = Arc::clone(load);
            load.fetch_add(1, Ordering::Relaxed);
            core.spawn(async move {
                if let Ok(stream) = stream.register() {
                    connection(stream, index).await;
                }
                load.fetch_sub(1, Ordering::Relaxed);
            });
        }
    });
    wait_for_the_end();
    Ok(())
}

/// A socket per core, all on one port.
fn reuse_port(cores: &[Handle]) -> Result<(), Failure> {
    let mut addr = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    for (index, core) in cores.iter().enumerate() {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))?;
        socket.set_reuse_port(true)?;
        socket.set_tcp_nodelay(true)?;
        socket.set_nonblocking(true)?;
        socket.bind(&addr.into())?;
        socket.listen(BACKLOG.into())?;
        let socket = std::net::TcpListener::from(socket);
        addr = socket.local_addr()?;
        let registered = core.enter();
        let listener = TcpListener::from_std(socket)?;
        drop(registered);
        core.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(connection(stream, index));
            }
        });
    }
    print_port(&ListenAddr::Tcp(addr))?;
    wait_for_the_end();
    Ok(())
}

/// A connection on the bare HTTP library.
async fn connection(stream: impl AsyncRead + AsyncWrite + Unpin, core: usize) {
    let answer =
        service_fn(move |_| async move { Ok::<_, Infallible>(http::Response::new(Full::new(answer(core)))) });
    // A client that breaks its connection off is no news.
    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), answer).await;
}

fn bind() -> Result<Listener, Failure> {
    let addr = ListenAddr::Tcp((Ipv4Addr::LOCALHOST, 0).into());
    Ok(Listener::bind(&addr, BindOptions::default())?)
}

fn print_port(addr: &ListenAddr) -> Result<(), Failure> {
    let ListenAddr::Tcp(addr) = addr else {
        return Err("not a TCP address".into());
    };
    println!("{}", addr.port());
    Ok(())
}

fn wait_for_the_end() {
    let _ = io::stdin().read_to_end(&mut Vec::new());
}
