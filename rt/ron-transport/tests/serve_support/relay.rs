//! A small gateway inside the test service: passes requests on to a port of the loopback interface.

use std::sync::{Arc, Mutex};

use ron_transport::{
    Request, Response,
    client::{Drivers, H2Conn, H2Options, Home, HttpConn},
    stream::Stream,
    tunnel::{Traffic, TunnelEnd, TunnelLimits, TunnelWatch},
};
use types::{Reason, Refusal};

/// How tunnels are to be limited, and how they ended.
#[derive(Clone, Default)]
pub(crate) struct Tunnels(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    limits: TunnelLimits,
    ended: Vec<(Traffic, TunnelEnd)>,
}

impl Tunnels {
    pub(crate) fn limit(&self, limits: TunnelLimits) {
        self.0.lock().unwrap().limits = limits;
    }

    pub(crate) fn ended(&self) -> Vec<(Traffic, TunnelEnd)> {
        self.0.lock().unwrap().ended.clone()
    }
}

impl TunnelWatch for Tunnels {
    fn ended(self: Box<Self>, traffic: Traffic, end: TunnelEnd) {
        self.0.lock().unwrap().ended.push((traffic, end));
    }
}

/// A home that nobody comes back to.
pub(crate) struct Nowhere;

impl Home for Nowhere {
    fn put_back(&self, _: HttpConn) {}
}

/// Sends a request to `port` over HTTP/1.1 and passes the answer on, whatever it leads to.
pub(crate) async fn over_http1(
    port: u16,
    mut request: Request,
    tunnels: &Tunnels,
) -> Result<Response, Refusal> {
    let bad = |error: &dyn std::fmt::Display| Refusal::new(Reason::BadGateway, error.to_string());
    let stream = super::connect(([127, 0, 0, 1], port).into()).await.map_err(|e| bad(&e))?;
    let conn = HttpConn::open(Stream::Tcp(stream));
    let mut response = conn.send(&mut request, Arc::new(Nowhere)).await.map_err(|e| bad(&e))?;
    if let Some(tunnel) = response.body_mut().take_tunnel() {
        let limits = tunnels.0.lock().unwrap().limits;
        let tunnel = tunnel.with_limits(limits).with_watch(tunnels.clone());
        *response.body_mut() = ron_transport::Body::tunnel(tunnel);
    }
    Ok(response)
}

/// Sends a request for `/echo` to `port` over HTTP/2 and passes the answer on.
pub(crate) async fn over_http2(
    port: u16,
    mut request: Request,
    drivers: &Drivers,
) -> Result<Response, Refusal> {
    let bad = |error: &dyn std::fmt::Display| Refusal::new(Reason::BadGateway, error.to_string());
    let stream = super::connect(([127, 0, 0, 1], port).into()).await.map_err(|e| bad(&e))?;
    let conn =
        H2Conn::open(Stream::Tcp(stream), &H2Options::default(), drivers).await.map_err(|e| bad(&e))?;
    *request.uri_mut() = http::Uri::from_static("http://t/echo");
    conn.send(request, Arc::new(Nowhere)).await.map_err(|e| bad(&e))
}
