//! What is known of one URL, and how it is kept.

use rusqlite::{Row, Transaction, params};
use types::ObjectId;

use super::IndexError;

/// What is known of a URL: the object it led to, or that it led nowhere, and what a cache has to know of the answer
/// (RFC 9111). Times are in seconds of Unix time; header fields are kept as they came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UrlRow {
    /// The URL of the object.
    pub url: String,
    /// The object; [`None`] for an answer without one, such as 404.
    pub object: Option<ObjectId>,
    /// The object's length in bytes.
    pub len: u64,
    /// The status of the answer.
    pub status: u16,
    /// The origin's `Content-Type`.
    pub media_type: Option<String>,
    /// `ETag`, quotes and weakness included.
    pub etag: Option<String>,
    /// The origin's `Last-Modified`.
    pub last_modified: Option<String>,
    /// The origin's `Vary`.
    pub vary: Option<String>,
    /// The origin's `Cache-Control`.
    pub cache_control: Option<String>,
    /// The origin's `Expires`.
    pub expires: Option<String>,
    /// Other fields of the answer, `name: value` on a line each.
    pub fields: Option<String>,
    /// The origin's `Date`, in Unix seconds.
    pub date: Option<u64>,
    /// `Age` when the answer came, in seconds.
    pub age: u64,
    /// When the request was sent, in Unix seconds.
    pub request_time: u64,
    /// When the response arrived, in Unix seconds.
    pub response_time: u64,
    /// Until when it is fresh.
    pub fresh_until: u64,
    /// When the URL was asked for last.
    pub used: u64,
}

/// The rows used last, at most as many as are asked for.
pub(super) const SELECT: &str = "SELECT * FROM urls ORDER BY used DESC, id DESC LIMIT ?";

const PUT: &str =
    "INSERT OR REPLACE INTO urls (url, object, len, status, media_type, etag, last_modified, vary,
    cache_control, expires, fields, date, age, request_time, response_time, fresh_until, used, seal)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";

const SEAL_LEN: usize = 16;

/// The row is not what was put.
pub(super) struct Unsealed;

impl From<rusqlite::Error> for Unsealed {
    fn from(_: rusqlite::Error) -> Self {
        Self
    }
}

impl UrlRow {
    /// The most bytes of text that are kept of one URL.
    pub const MAX_TEXT: usize = 24 * 1024;

    pub(super) fn put(&self, transaction: &Transaction<'_>) -> Result<(), IndexError> {
        let text: usize = self.texts().iter().map(|text| text.map_or(0, str::len)).sum();
        if text > Self::MAX_TEXT {
            return Err(IndexError::TooLong);
        }
        let values = params![
            self.url,
            self.object.as_ref().map(ObjectId::as_bytes),
            self.len,
            self.status,
            self.media_type,
            self.etag,
            self.last_modified,
            self.vary,
            self.cache_control,
            self.expires,
            self.fields,
            self.date,
            self.age,
            self.request_time,
            self.response_time,
            self.fresh_until,
            self.used,
            self.seal(),
        ];
        transaction.execute(PUT, values)?;
        Ok(())
    }

    pub(super) fn from_sql(sql: &Row<'_>) -> Result<Self, Unsealed> {
        let row = Self {
            url: sql.get("url")?,
            object: sql.get::<_, Option<_>>("object")?.map(ObjectId::new),
            len: sql.get("len")?,
            status: sql.get("status")?,
            media_type: sql.get("media_type")?,
            etag: sql.get("etag")?,
            last_modified: sql.get("last_modified")?,
            vary: sql.get("vary")?,
            cache_control: sql.get("cache_control")?,
            expires: sql.get("expires")?,
            fields: sql.get("fields")?,
            date: sql.get("date")?,
            age: sql.get("age")?,
            request_time: sql.get("request_time")?,
            response_time: sql.get("response_time")?,
            fresh_until: sql.get("fresh_until")?,
            used: sql.get("used")?,
        };
        let seal: [u8; SEAL_LEN] = sql.get("seal")?;
        if seal == row.seal() { Ok(row) } else { Err(Unsealed) }
    }

    fn texts(&self) -> [Option<&str>; 8] {
        [
            Some(&self.url),
            self.media_type.as_deref(),
            self.etag.as_deref(),
            self.last_modified.as_deref(),
            self.vary.as_deref(),
            self.cache_control.as_deref(),
            self.expires.as_deref(),
            self.fields.as_deref(),
        ]
    }

    /// A hash over everything but the last use, which changes often and misleads nobody.
    fn seal(&self) -> [u8; SEAL_LEN] {
        let mut hasher = blake3::Hasher::new();
        let mut add = |bytes: Option<&[u8]>| {
            // With its length, or a sign that there is none, so that no two rows hash the same bytes.
            hasher.update(&bytes.map_or(u64::MAX, |bytes| bytes.len() as u64).to_le_bytes());
            hasher.update(bytes.unwrap_or_default());
        };
        self.texts().into_iter().for_each(|text| add(text.map(str::as_bytes)));
        add(self.object.as_ref().map(|id| &id.as_bytes()[..]));
        add(self.date.map(u64::to_le_bytes).as_ref().map(|date| &date[..]));
        let numbers =
            [self.len, self.status.into(), self.age, self.request_time, self.response_time, self.fresh_until];
        numbers.into_iter().for_each(|number| add(Some(&number.to_le_bytes())));
        let mut seal = [0; SEAL_LEN];
        hasher.finalize_xof().fill(&mut seal);
        seal
    }
}
