//! A subscription that goes on by itself.

use std::{fmt, time::Duration};

use bytes::Bytes;
use http::Method;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;

use crate::{Error, Event, Topics, connection::Connection};

/// The first pause before a broken connection is made anew; doubles up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// Silence after which a connection counts as broken: a node shows every 15 s that it is there.
const SILENCE: Duration = Duration::from_secs(45);
/// The longest event that is read: a publication of 64 KiB in JSON, with every byte escaped.
const EVENT_MAX: usize = 512 * 1024;

/// What is published in some topics.
pub struct Subscription {
    topics: Topics,
    path: String,
    after: Option<String>,
    open: Option<(Connection, Incoming)>,
    /// What has come of an event.
    read: Vec<u8>,
    pause: Duration,
}

impl Subscription {
    pub(crate) fn new(topics: Topics, path: String, after: Option<String>) -> Self {
        Self { topics, path, after, open: None, read: Vec::new(), pause: FIRST_PAUSE }
    }

    /// The id of the last event, to begin behind it another time.
    #[must_use]
    pub fn last_id(&self) -> Option<&str> {
        self.after.as_deref()
    }

    /// The next event. A connection that breaks is made anew, for as long as it takes; `None` never comes while the token is
    /// good and the node is there.
    ///
    /// Cancel safe.
    ///
    /// # Errors
    /// [`Error`] that does not pass by itself, such as a token that does not cover a topic or has expired.
    pub async fn next(&mut self) -> Result<Option<Event>, Error> {
        loop {
            match self.try_next().await {
                Ok(Some(event)) if event.kind == "closed" => {
                    let detail =
                        format!("the token is over: {}", event.data["reason"].as_str().unwrap_or_default());
                    let reason = "unauth".to_owned();
                    return Err(Error::Refused {
                        status: 401,
                        reason,
                        detail,
                        retry_after: None,
                        corr_id: None,
                    });
                }
                Ok(Some(event)) => {
                    self.pause = FIRST_PAUSE;
                    if event.id.is_some() {
                        self.after.clone_from(&event.id);
                    }
                    return Ok(Some(event));
                }
                Ok(None) => {}
                Err(error) if !error.passes() => return Err(error),
                Err(error) => self.pause = error.retry_after().unwrap_or(self.pause),
            }
            self.open = None;
            self.read.clear();
            tokio::time::sleep(self.pause).await;
            self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Waits until the node has taken the subscription in: what is published from then on is heard.
    ///
    /// # Errors
    /// [`Error`], also one that passes.
    pub async fn ready(&mut self) -> Result<(), Error> {
        self.open().await.map(drop)
    }

    async fn open(&mut self) -> Result<&mut (Connection, Incoming), Error> {
        if self.open.is_none() {
            let ask = self.topics.ask(Method::GET, &self.path, self.after.as_deref(), Bytes::new());
            let (connection, answer) = ask.await?;
            self.open = Some((connection, answer.into_body()));
        }
        self.open.as_mut().ok_or_else(|| Error::connection("closed"))
    }

    /// The next event of this connection; `None` at its end.
    async fn try_next(&mut self) -> Result<Option<Event>, Error> {
        loop {
            while let Some(end) = self.read.windows(2).position(|pair| pair == b"\n\n") {
                let block: Vec<u8> = self.read.drain(..end + 2).collect();
                if let Some(event) = Event::read(&String::from_utf8_lossy(&block))? {
                    return Ok(Some(event));
                }
            }
            if self.read.len() > EVENT_MAX {
                return Err(Error::connection("an event is too long"));
            }
            let (connection, body) = self.open().await?;
            let frame = tokio::time::timeout(SILENCE, connection.drive(body.frame())).await;
            let Some(frame) = frame.map_err(Error::connection)? else { return Ok(None) };
            if let Ok(data) = frame.map_err(Error::connection)?.into_data() {
                self.read.extend_from_slice(&data);
            }
        }
    }
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription")
            .field("path", &self.path)
            .field("after", &self.after)
            .finish_non_exhaustive()
    }
}
