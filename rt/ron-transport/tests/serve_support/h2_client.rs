//! An honest HTTP/2 client.

use bytes::Bytes;
use h2::client::SendRequest;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    task::JoinHandle,
    time::timeout,
};

use super::PATIENCE;

/// One connection; it ends when this and all requests are gone.
pub(crate) struct H2Client {
    sender: SendRequest<Bytes>,
    driver: JoinHandle<Result<(), h2::Error>>,
}

/// A response.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct H2Answer {
    pub(crate) status: u16,
    pub(crate) length: Option<String>,
    pub(crate) body: Vec<u8>,
}

impl H2Client {
    #[expect(clippy::disallowed_methods, reason = "a test's client runs beside it")]
    pub(crate) async fn new<S>(stream: S) -> Self
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (sender, connection) = h2::client::handshake(stream).await.unwrap();
        Self { sender, driver: tokio::spawn(connection) }
    }

    pub(crate) async fn get(&self, path: &str) -> H2Answer {
        self.ask("GET", path, Vec::new()).await.unwrap()
    }

    pub(crate) async fn post(&self, path: &str, body: Vec<u8>) -> H2Answer {
        self.ask("POST", path, body).await.unwrap()
    }

    pub(crate) async fn ask(&self, method: &str, path: &str, body: Vec<u8>) -> Result<H2Answer, h2::Error> {
        let request =
            http::Request::builder().method(method).uri(format!("http://t{path}")).body(()).unwrap();
        let mut ready = self.sender.clone().ready().await?;
        let (response, upload) = ready.send_request(request, body.is_empty())?;
        let both = async { tokio::join!(send(upload, body.into()), receive(response)) };
        let (sent, received) = timeout(PATIENCE, both).await.expect("an answer");
        sent.and(received)
    }

    /// Ends the connection, and says how it ended.
    pub(crate) async fn end(self) -> Result<(), h2::Error> {
        drop(self.sender);
        timeout(PATIENCE, self.driver).await.expect("an end").unwrap()
    }

    /// Waits for the server to end the connection.
    pub(crate) async fn ended(self) -> Result<(), h2::Error> {
        timeout(PATIENCE, self.driver).await.expect("an end").unwrap()
    }
}

async fn send(mut upload: h2::SendStream<Bytes>, mut body: Bytes) -> Result<(), h2::Error> {
    while !body.is_empty() {
        upload.reserve_capacity(body.len().min(60_000));
        let Some(room) = std::future::poll_fn(|cx| upload.poll_capacity(cx)).await else {
            return Ok(());
        };
        let piece = body.split_to(room?.min(body.len()));
        upload.send_data(piece, body.is_empty())?;
    }
    Ok(())
}

async fn receive(response: h2::client::ResponseFuture) -> Result<H2Answer, h2::Error> {
    let response = response.await?;
    let length = response.headers().get("content-length");
    let mut answer = H2Answer {
        status: response.status().as_u16(),
        length: length.map(|length| length.to_str().unwrap().to_owned()),
        body: Vec::new(),
    };
    let mut stream = response.into_body();
    while let Some(data) = stream.data().await {
        let data = data?;
        stream.flow_control().release_capacity(data.len())?;
        answer.body.extend(data);
    }
    Ok(answer)
}
