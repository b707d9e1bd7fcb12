//! What is known of a URL: the object it leads to, or that there is none, and for how long that holds.

use std::sync::Arc;

use bytes::Bytes;
use http::HeaderValue;
use httprules::freshness::{Stored, Time};
use types::{ObjectId, Reason, Refusal};

use super::{client::Validators, fields::Fields, streaming::StreamingFill};

/// The longest value of a field that is kept.
pub(super) const MAX_VALUE: usize = 1024;

/// An object that an origin gave us, and what it said of it.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The content id of the object.
    pub id: ObjectId,
    /// The length of the object in bytes.
    pub len: u64,
    /// The `Content-Type` of the object.
    pub media_type: Option<HeaderValue>,
    /// Its `Cache-Control`, all lines of it, to be passed on beside [`Entry::age`].
    pub cache_control: Option<HeaderValue>,
    /// What else the origin says of it.
    pub(crate) fields: Fields,
    /// When it was made and received, and how long it is good.
    pub stored: Stored,
    /// The validators of the origin; never ours, which are made of the object's name.
    pub(super) validators: Validators,
    /// Its bytes, if it is not to be stored.
    pub(super) held: Option<Bytes>,
}

impl Entry {
    /// When the origin modified it, in seconds since 1970.
    #[must_use]
    pub fn last_modified(&self) -> Option<u64> {
        self.stored.last_modified
    }

    /// How old it is at `now`, in seconds; the value of `Age`.
    #[must_use]
    pub fn age(&self, now: Time) -> u64 {
        self.stored.age_at(now)
    }

    /// What its fields take, in bytes.
    pub(super) fn text_len(&self) -> usize {
        let fields =
            [&self.media_type, &self.cache_control, &self.validators.etag, &self.validators.last_modified];
        fields.into_iter().flatten().map(HeaderValue::len).sum::<usize>() + self.fields.len()
    }

    /// Whether all that the origin says of it can be kept with it. What is too long or no text is for those who asked alone.
    pub(super) fn can_be_kept(&self) -> bool {
        let is_text = |value: &HeaderValue| value.len() <= MAX_VALUE && value.to_str().is_ok();
        self.cache_control.as_ref().is_none_or(is_text) && self.fields.can_be_kept()
    }

    /// Its bytes, if it is held for those who asked for it and not stored. They have been checked against its name.
    #[must_use]
    pub fn held(&self) -> Option<&Bytes> {
        self.held.as_ref()
    }
}

/// The result of a fill for the requests that wait for it.
#[derive(Clone, Debug)]
pub enum Filled {
    /// An object that is stored, or held.
    Whole(Arc<Entry>),
    /// An object that is sent while it is fetched.
    Streaming(Arc<StreamingFill>),
}

/// What came of a fill, or comes of it.
#[derive(Clone, Debug)]
pub(super) struct Landed {
    /// The result for the requests that wait.
    pub(super) outcome: Result<Filled, Refusal>,
    /// Whether the origin was contacted.
    pub(super) asked: bool,
}

impl Landed {
    /// What the origin was asked for.
    pub(super) fn asked(outcome: Result<Filled, Refusal>) -> Self {
        Self { outcome, asked: true }
    }

    /// Returns true if the fill is still in progress.
    pub(super) fn is_streaming(&self) -> bool {
        matches!(self.outcome, Ok(Filled::Streaming(_)))
    }
}

/// What is known of a URL.
#[derive(Clone, Debug)]
pub(super) enum Known {
    /// The object it leads to.
    Object(Arc<Entry>),
    /// The origin has none.
    Nothing(Arc<Stored>),
}

impl Known {
    pub(super) fn stored(&self) -> &Stored {
        match self {
            Self::Object(entry) => &entry.stored,
            Self::Nothing(stored) => stored,
        }
    }

    pub(super) fn entry(&self) -> Option<&Arc<Entry>> {
        match self {
            Self::Object(entry) => Some(entry),
            Self::Nothing(_) => None,
        }
    }

    /// The object, or what a client is told instead.
    pub(super) fn answer(&self) -> Result<Arc<Entry>, Refusal> {
        match self {
            Self::Object(entry) => Ok(Arc::clone(entry)),
            Self::Nothing(_) => Err(Refusal::new(Reason::NotFound, "the origin does not have this object")),
        }
    }
}
