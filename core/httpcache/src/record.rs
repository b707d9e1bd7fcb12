//! The records of an index of stored responses, as they are kept on a disk.
//!
//! A record is a change of the index: a response was stored, possibly in the place of others, or responses were removed. The
//! form is strict: every record has exactly one, and what is not that form is no record. Records have no checksum of their
//! own; whoever keeps them seals them.

use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use httprules::{cache_control::ResponseDirectives, freshness::Stored};

use crate::{
    answer::Part,
    variant::{Selector, Variant},
};

/// The form of records. Others are not read.
const VERSION: u8 = 1;
const PUT: u8 = 1;
const REMOVE: u8 = 2;

/// A field that selects a response: absent, by its value, or by a hash of it.
const ABSENT: u8 = 0;
const VALUE: u8 = 1;
const HASH: u8 = 2;

/// Most fields that a response may have in a record.
const MAX_FIELDS: u32 = 4096;
/// Most responses that one record may name.
const MAX_NAMED: u32 = 65_536;

/// A change of the index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A response was stored.
    Put {
        /// Its number, which no other has.
        id: u64,
        /// The numbers of those in whose place it is.
        replaces: Vec<u64>,
        /// The response that is stored, without its body.
        response: Box<StoredResponse>,
    },
    /// The responses with these numbers are no longer stored.
    Remove(Vec<u64>),
}

/// What is known of a stored response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredResponse {
    /// The target as clients name it.
    pub key: Arc<str>,
    /// What else decides for whom it is.
    pub partition: Arc<[u8]>,
    /// For whom it was stored, as the owner of the index names tenants.
    pub tenant: Vec<u8>,
    /// The fields that select it.
    pub variant: Variant,
    /// The status of the stored response.
    pub status: StatusCode,
    /// The header fields of the stored response.
    pub headers: HeaderMap,
    /// The times from which the response's freshness is computed.
    pub freshness: Stored,
    /// Which part of its representation it is; `None` if it is all of it.
    pub part: Option<Part>,
    /// The hash of its body; `None` if that has no bytes.
    pub body: Option<[u8; 32]>,
    /// The length of its body.
    pub len: u64,
}

impl Change {
    /// The record of the change.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Writer(vec![VERSION]);
        match self {
            Self::Put { id, replaces, response } => {
                out.byte(PUT);
                out.u64(*id);
                out.numbers(replaces);
                response.write(&mut out);
            }
            Self::Remove(ids) => {
                out.byte(REMOVE);
                out.numbers(ids);
            }
        }
        out.0
    }

    /// The change that a record tells; `None` if it is no record.
    #[must_use]
    pub fn decode(record: &[u8]) -> Option<Self> {
        let mut rest = Reader(record);
        if rest.byte()? != VERSION {
            return None;
        }
        let change = match rest.byte()? {
            PUT => Self::Put {
                id: rest.u64()?,
                replaces: rest.numbers()?,
                response: Box::new(StoredResponse::read(&mut rest)?),
            },
            REMOVE => Self::Remove(rest.numbers()?),
            _ => return None,
        };
        rest.0.is_empty().then_some(change)
    }
}

impl StoredResponse {
    fn write(&self, out: &mut Writer) {
        out.bytes(self.key.as_bytes());
        out.bytes(&self.partition);
        out.bytes(&self.tenant);
        out.count(self.variant.fields().len());
        for (name, value) in self.variant.fields() {
            out.bytes(name.as_str().as_bytes());
            match value {
                None => out.byte(ABSENT),
                Some(Selector::Value(value)) => {
                    out.byte(VALUE);
                    out.bytes(value);
                }
                Some(Selector::Hash(hash)) => {
                    out.byte(HASH);
                    out.0.extend_from_slice(hash);
                }
            }
        }
        out.u16(self.status.as_u16());
        out.count(self.headers.len());
        for (name, value) in &self.headers {
            out.bytes(name.as_str().as_bytes());
            out.bytes(value.as_bytes());
        }
        write_freshness(out, &self.freshness);
        out.option(self.part.as_ref(), |out, part| {
            for number in [part.range.start, part.range.end, part.len] {
                out.u64(number);
            }
        });
        out.option(self.body.as_ref(), |out, body| out.0.extend_from_slice(body));
        out.u64(self.len);
    }

    fn read(rest: &mut Reader<'_>) -> Option<Self> {
        let key = std::str::from_utf8(rest.bytes()?).ok()?.into();
        let partition = rest.bytes()?.into();
        let tenant = rest.bytes()?.to_vec();
        let selected = |rest: &mut Reader<'_>| Some((rest.name()?, rest.selector()?));
        let fields = rest.many(MAX_FIELDS, selected)?;
        let status = StatusCode::from_u16(rest.u16()?).ok()?;
        let mut headers = HeaderMap::new();
        for (name, value) in rest.many(MAX_FIELDS, |rest| Some((rest.name()?, rest.value()?)))? {
            headers.try_append(name, value).ok()?;
        }
        let freshness = read_freshness(rest)?;
        let part = rest.option(|rest| {
            let (start, end, len) = (rest.u64()?, rest.u64()?, rest.u64()?);
            (start < end && end <= len).then_some(Part { range: start..end, len })
        })?;
        let body = rest.option(|rest| rest.take(32)?.try_into().ok())?;
        let len = rest.u64()?;
        // What has bytes has a hash of them, and a part is as long as it says.
        let is_whole = body.is_some() == (len > 0);
        let fits = part.as_ref().is_none_or(|part: &Part| part.range.end - part.range.start == len);
        let variant = Variant::from_fields(fields);
        (is_whole && fits).then_some(Self {
            key,
            partition,
            tenant,
            variant,
            status,
            headers,
            freshness,
            part,
            body,
            len,
        })
    }
}

fn write_freshness(out: &mut Writer, freshness: &Stored) {
    let said = &freshness.directives;
    let flags = [
        said.no_store,
        said.no_cache,
        said.private,
        said.public,
        said.must_revalidate,
        said.proxy_revalidate,
        said.must_understand,
    ];
    out.u16(freshness.status.as_u16());
    out.byte(flags.iter().enumerate().fold(0, |byte, (at, is_set)| byte | u8::from(*is_set) << at));
    for seconds in [
        said.max_age,
        said.s_maxage,
        said.stale_while_revalidate,
        said.stale_if_error,
        freshness.expires,
        freshness.last_modified,
    ] {
        out.option(seconds.as_ref(), |out, seconds| out.u64(*seconds));
    }
    for number in [
        freshness.date,
        freshness.age,
        freshness.requested_at,
        freshness.received_at.unix,
        freshness.unsaid,
        freshness.at_most,
    ] {
        out.u64(number);
    }
}

fn read_freshness(rest: &mut Reader<'_>) -> Option<Stored> {
    let status = StatusCode::from_u16(rest.u16()?).ok()?;
    let flags = rest.byte()?;
    if flags >> 7 != 0 {
        return None;
    }
    let is_set = |at: u8| flags >> at & 1 == 1;
    let mut seconds = || rest.option(Reader::u64);
    let directives = ResponseDirectives {
        no_store: is_set(0),
        no_cache: is_set(1),
        private: is_set(2),
        public: is_set(3),
        must_revalidate: is_set(4),
        proxy_revalidate: is_set(5),
        must_understand: is_set(6),
        max_age: seconds()?,
        s_maxage: seconds()?,
        stale_while_revalidate: seconds()?,
        stale_if_error: seconds()?,
    };
    let (expires, last_modified) = (seconds()?, seconds()?);
    Some(Stored {
        status,
        directives,
        expires,
        last_modified,
        date: rest.u64()?,
        age: rest.u64()?,
        requested_at: rest.u64()?,
        received_at: rest.u64()?.into(),
        unsaid: rest.u64()?,
        at_most: rest.u64()?,
    })
}

/// A record that is being written. Numbers are little-endian; bytes have their length before them.
struct Writer(Vec<u8>);

impl Writer {
    fn byte(&mut self, byte: u8) {
        self.0.push(byte);
    }

    fn u16(&mut self, number: u16) {
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    fn u64(&mut self, number: u64) {
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    fn count(&mut self, count: usize) {
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        self.0.extend_from_slice(&count.to_le_bytes());
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.count(bytes.len());
        self.0.extend_from_slice(bytes);
    }

    fn numbers(&mut self, numbers: &[u64]) {
        self.count(numbers.len());
        for number in numbers {
            self.u64(*number);
        }
    }

    fn option<T>(&mut self, value: Option<T>, write: impl FnOnce(&mut Self, T)) {
        self.byte(u8::from(value.is_some()));
        if let Some(value) = value {
            write(self, value);
        }
    }
}

/// What is left to be read of a record.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1).map(|byte| byte[0])
    }

    fn u16(&mut self) -> Option<u16> {
        Some(u16::from_le_bytes(self.take(2)?.try_into().ok()?))
    }

    fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }

    fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.u32()?).ok()?;
        self.take(length)
    }

    fn numbers(&mut self) -> Option<Vec<u64>> {
        self.many(MAX_NAMED, Self::u64)
    }

    /// A field name, in lower case as it was written.
    fn name(&mut self) -> Option<HeaderName> {
        let bytes = self.bytes()?;
        HeaderName::from_bytes(bytes).ok().filter(|name| name.as_str().as_bytes() == bytes)
    }

    fn value(&mut self) -> Option<HeaderValue> {
        HeaderValue::from_bytes(self.bytes()?).ok()
    }

    /// What stands for the value of a field that selects a response; nothing if the field was absent.
    fn selector(&mut self) -> Option<Option<Selector>> {
        Some(match self.byte()? {
            ABSENT => None,
            VALUE => Some(Selector::Value(self.bytes()?.into())),
            HASH => Some(Selector::Hash(self.take(32)?.try_into().ok()?)),
            _ => return None,
        })
    }

    fn option<T>(&mut self, read: impl FnOnce(&mut Self) -> Option<T>) -> Option<Option<T>> {
        match self.byte()? {
            0 => Some(None),
            1 => read(self).map(Some),
            _ => None,
        }
    }

    /// A list. Nothing is allocated for items that are not there: each takes a byte at least.
    fn many<T>(&mut self, most: u32, mut read: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let count = self.u32().filter(|count| *count <= most)?;
        let count = usize::try_from(count).ok().filter(|count| *count <= self.0.len())?;
        let mut items = Vec::with_capacity(count.min(64));
        for _ in 0..count {
            items.push(read(self)?);
        }
        Some(items)
    }
}
