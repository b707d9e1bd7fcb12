//! One representation of something: its bytes, wherever they are, and the fields that go with them.

use std::sync::Arc;

use bytes::Bytes;
use cas::Verified;
use http::HeaderValue;
use httprules::{date, etag::ETag, precondition::Current};
use types::ObjectId;

use crate::fill::StreamingFill;

/// One representation. Its header fields are made once, because every response has them.
#[derive(Debug)]
pub(crate) struct Representation {
    pub(crate) source: Source,
    /// `None` while nobody can know it.
    pub(crate) etag: Option<HeaderValue>,
    pub(crate) media_type: HeaderValue,
    /// Its `Content-Encoding`, if it has one.
    pub(crate) coding: Option<HeaderValue>,
    /// Whether the same address has another representation, for clients that take other codings.
    pub(crate) varies: bool,
    modified: Option<(u64, HeaderValue)>,
}

/// The source of a representation's bytes.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    /// Here, checked when they came.
    Ram(Bytes),
    /// On a disk, checked whenever they are read.
    Disk {
        /// The bytes and their tree.
        verified: Arc<Verified>,
        /// The owner, which is told about damage.
        owner: Arc<dyn Owner>,
    },
    /// At an origin, and on their way here.
    Growing(Arc<StreamingFill>),
}

impl Source {
    /// The number of bytes; `None` if an origin has not told it.
    pub(crate) fn len(&self) -> Option<u64> {
        match self {
            Self::Ram(bytes) => Some(bytes.len() as u64),
            Self::Disk { verified, .. } => Some(verified.len()),
            Self::Growing(fill) => fill.len,
        }
    }
}

/// Who answers for bytes on a disk.
pub(crate) trait Owner: Send + Sync + std::fmt::Debug {
    /// They are no longer what they were: whoever keeps them must not offer them again.
    fn damaged(&self, why: &str);

    /// Whether bytes that are not what they were have been changed in a way that is allowed, such as by writing a file over.
    /// Blocking.
    fn has_changed(&self, _verified: &Verified) -> bool {
        false
    }

    /// They have been changed: whoever keeps them must look at them again before offering them.
    fn changed(&self) {}
}

impl Representation {
    /// A representation that has only its bytes, its name and its kind.
    pub(crate) fn new(source: Source, etag: impl Into<Option<HeaderValue>>, media_type: HeaderValue) -> Self {
        Self { source, etag: etag.into(), media_type, coding: None, varies: false, modified: None }
    }

    /// The same, last modified then, in seconds since 1970.
    pub(crate) fn modified_at(mut self, unix: u64) -> Self {
        let text = date::format(unix);
        self.modified = HeaderValue::from_bytes(&text).ok().map(|value| (unix, value));
        self
    }

    /// Its length in bytes; `None` if that is not known.
    pub(crate) fn len(&self) -> Option<u64> {
        self.source.len()
    }

    /// The value of `Last-Modified`, if it is known.
    pub(crate) fn last_modified(&self) -> Option<&HeaderValue> {
        self.modified.as_ref().map(|(_, value)| value)
    }

    /// What conditions are judged by. A date stands for a whole second, within which a file can change: it is never
    /// strong.
    pub(crate) fn current(&self) -> Current<'_> {
        Current {
            etag: self.etag.as_ref().and_then(|etag| ETag::parse(etag.as_bytes())),
            last_modified: self.modified.as_ref().map(|(unix, _)| *unix),
            dates_are_strong: false,
            len: self.len().unwrap_or_default(),
        }
    }
}

/// The strong tag of an object's bytes.
pub(crate) fn tag(id: ObjectId) -> HeaderValue {
    quoted(id, "")
}

/// The strong tag of what an object's bytes decode to: other bytes, so another tag.
pub(crate) fn tag_of_decoded(id: ObjectId) -> HeaderValue {
    quoted(id, "+identity")
}

fn quoted(id: ObjectId, suffix: &str) -> HeaderValue {
    HeaderValue::try_from(format!("\"{id}{suffix}\"")).expect("names of objects are ASCII")
}
