//! One request to an origin: a connection that rests, or a new one to an address that was checked.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use http::{HeaderMap, HeaderValue, header};
use httprules::etag::ETag;
use ron_kernel::{Clock, Scope, metrics::Counter};
use ron_transport::{
    Body, Request, Response,
    addr::{Endpoint, Host},
    client::{self, AnyConn, Drivers, H2Conn, H2Options, Protocol, Security, SendFault},
    dial::{DialError, dial},
    resolve::Resolver,
    stream::Stream,
};

use super::{
    OriginUrl,
    failure::Failure,
    guard,
    pool::{Pool, WayHome},
};

/// What a response of ours may carry on one stream before its reader takes it.
const STREAM_WINDOW: u32 = 1024 * 1024;
/// Requests at once on one connection.
const STREAMS: u32 = 32;

/// The HTTP client for origins.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) pool: Arc<Pool>,
    clock: Clock,
    resolver: Resolver,
    drivers: Drivers,
    options: H2Options,
    connect_timeouts: Counter,
}

/// The validators of what we have, for the origin to compare.
#[derive(Clone, Debug, Default)]
pub(super) struct Validators {
    pub(super) etag: Option<HeaderValue>,
    pub(super) last_modified: Option<HeaderValue>,
}

impl Validators {
    pub(super) fn is_empty(&self) -> bool {
        self.etag.is_none() && self.last_modified.is_none()
    }

    /// Whether an answer that nothing has changed is about what has these validators: it names the same, or none at all (RFC
    /// 9111, 4.3.4).
    pub(super) fn are_confirmed(&self, not_modified: &HeaderMap) -> bool {
        let ours = self.etag.as_ref().and_then(|value| ETag::parse(value.as_bytes()));
        // What is no tag says nothing: some servers send such, and date what they have.
        match not_modified.get(header::ETAG).and_then(|value| ETag::parse(value.as_bytes())) {
            Some(theirs) => ours.map_or(!theirs.is_strong(), |ours| ours.weak_eq(&theirs)),
            None => match (&self.last_modified, not_modified.get(header::LAST_MODIFIED)) {
                (Some(ours), Some(theirs)) => ours == theirs,
                _ => true,
            },
        }
    }
}

impl Client {
    pub(super) fn new(scope: &Scope, resolver: Resolver) -> Self {
        Self {
            pool: Pool::new(scope.clock()),
            clock: scope.clock(),
            resolver,
            drivers: Drivers::new(scope),
            options: H2Options { streams: STREAMS, stream_window: STREAM_WINDOW, ..H2Options::default() },
            connect_timeouts: scope.metrics().io_timeouts("connect"),
        }
    }

    /// Asks for an object and waits for the head of the answer. How long that may take is the caller's to say.
    ///
    /// Cancel safe: dropping the future closes the connection it uses.
    pub(super) async fn get(
        &self,
        url: &OriginUrl,
        validators: &Validators,
        connect_timeout: Duration,
    ) -> Result<(Response, Arc<WayHome>), Failure> {
        let home = self.pool.way_home(url.origin());
        let mut request = request(url, validators)?;
        while let Some(conn) = self.pool.take(url.origin()) {
            match conn.send(&mut request, home.clone()).await {
                // The origin closed it in its sleep.
                Err(SendFault::Unsent(unsent)) => request = *unsent,
                sent => return Ok((sent?, home)),
            }
        }
        if let Some(conn) = self.pool.shared(url.origin()) {
            match conn.send(request, home.clone()).await {
                Err(SendFault::Unsent(unsent)) => request = *unsent,
                sent => return Ok((sent?, home)),
            }
        }
        let response = match self.connect(url, connect_timeout).await? {
            AnyConn::Http1(conn) => conn.send(&mut request, home.clone()).await?,
            AnyConn::Http2(conn) => self.send_shared(url, &conn, request, &home).await?,
        };
        Ok((response, home))
    }

    async fn send_shared(
        &self,
        url: &OriginUrl,
        conn: &H2Conn,
        request: Request,
        home: &Arc<WayHome>,
    ) -> Result<Response, SendFault> {
        self.pool.share(url.origin(), conn);
        conn.send(request, Arc::clone(home) as _).await
    }

    /// A new connection: to an address that an origin may be at, and with a certificate for its name.
    async fn connect(&self, url: &OriginUrl, within: Duration) -> Result<AnyConn, Failure> {
        let opening = async {
            let stream = self.reach(url, within).await?;
            let security = match &url.rule().tls {
                Some(tls) => Security::Tls { tls, server_name: url.host(), limit: within },
                None => Security::Clear,
            };
            let opened = client::connect(stream, security, Protocol::Auto, &self.options, &self.drivers);
            Ok(opened.await?)
        };
        let opened = self.clock.by(self.clock.within(within), opening).await;
        opened.unwrap_or_else(|| {
            self.connect_timeouts.inc();
            Err(Failure::ConnectTimeout)
        })
    }

    /// A socket to the first permitted address that answers; each has an even part of the time.
    async fn reach(&self, url: &OriginUrl, within: Duration) -> Result<Stream, Failure> {
        let addresses = self.resolver.lookup(url.host(), url.port()).await?;
        let addresses = guard::permitted(url.host(), &addresses, url.rule().private)?;
        let part = within / u32::try_from(addresses.len()).unwrap_or(u32::MAX).max(1);
        let mut last = Failure::ConnectTimeout;
        for address in addresses {
            match self.reach_one(url, address, part).await {
                Ok(stream) => return Ok(stream),
                Err(DialError::Timeout { .. }) => last = Failure::ConnectTimeout,
                Err(other) => last = other.into(),
            }
        }
        Err(last)
    }

    /// Dials an address as it is, so that no second lookup can give another one than was checked.
    async fn reach_one(
        &self,
        url: &OriginUrl,
        address: SocketAddr,
        within: Duration,
    ) -> Result<Stream, DialError> {
        let endpoint = Endpoint::tcp(url.rule().scheme, Host::Ip(address.ip()), address.port())
            .expect("a port on the list is not 0");
        dial(&endpoint, &self.resolver, within).await
    }
}

/// Asks for the plain bytes, and says what we have.
fn request(url: &OriginUrl, validators: &Validators) -> Result<Request, Failure> {
    let mut request = http::Request::get(url.path_and_query())
        .header(header::HOST, url.authority())
        .header(header::ACCEPT_ENCODING, "identity")
        .header(header::USER_AGENT, "omnigate");
    for (name, value) in
        [(header::IF_NONE_MATCH, &validators.etag), (header::IF_MODIFIED_SINCE, &validators.last_modified)]
    {
        if let Some(value) = value {
            request = request.header(name, value);
        }
    }
    request.body(Body::empty()).map_err(|error| Failure::Broken(error.to_string()))
}
