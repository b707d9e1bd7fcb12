//! Spans: what became of each request, for whoever exports traces. As long as nobody does, they cost a request one load.
//!
//! Services tell ([`crate::Scope::spans`]); one exporter listens, if the node has one. Who begins a trace asks here
//! whether it is to be recorded; a trace that was begun elsewhere has been decided on there.

use std::{
    borrow::Cow,
    fmt,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// All traces: a share of them is a share of the random numbers below this.
const ALL: u64 = 1 << 32;
/// The most characters of a path that are told; a client may send more.
const MAX_PATH: usize = 256;

/// One request as one service saw it. It holds no credential and no query string.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// The service that answered it.
    pub service: &'static str,
    /// The method and the route: few words that many requests share.
    pub name: String,
    /// The trace and the parent that the span belongs to.
    pub ids: SpanIds,
    /// When it began, since the Unix epoch.
    pub began: Duration,
    /// Duration of the span.
    pub took: Duration,
    /// What else is known of it, by the names that OpenTelemetry uses where it has some.
    pub attributes: Vec<(&'static str, Attribute)>,
    /// Whether the fault was on this side of the connection.
    pub failed: bool,
}

/// Where a span belongs, in the hexadecimal digits of a `traceparent`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpanIds {
    /// The trace id, in hexadecimal digits.
    pub trace: [u8; 32],
    /// The span id, in hexadecimal digits.
    pub span: [u8; 16],
    /// The span of the caller; `None` if the trace begins here.
    pub parent: Option<[u8; 16]>,
}

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Attribute {
    /// A string value.
    Text(Cow<'static, str>),
    /// A count or a code.
    Number(u64),
}

type Sink = Box<dyn Fn(Span) + Send + Sync>;

/// Where spans are told. Cheap to clone; all clones are one.
#[derive(Clone, Default)]
pub struct Spans(Arc<Hub>);

#[derive(Default)]
struct Hub {
    sink: OnceLock<Sink>,
    /// How many of [`ALL`] traces that begin here are recorded.
    share: AtomicU64,
}

impl Spans {
    /// Returns true if spans are exported.
    #[inline]
    #[must_use]
    pub fn are_wanted(&self) -> bool {
        self.0.sink.get().is_some()
    }

    /// Whether a trace that begins here is recorded; the same answer for the same random number.
    #[must_use]
    pub fn record(&self, random: u64) -> bool {
        random >> 32 < self.0.share.load(Ordering::Relaxed)
    }

    /// Tells of a span that has ended. Never waits.
    pub fn tell(&self, span: Span) {
        if let Some(sink) = self.0.sink.get() {
            sink(span);
        }
    }

    /// Has `sink` told of every span from now on; it must not wait. Only the first one is.
    pub fn send_to(&self, sink: impl Fn(Span) + Send + Sync + 'static) {
        // A second exporter would be a second configuration of the same node.
        let _ = self.0.sink.set(Box::new(sink));
    }

    /// Records this share of the traces that begin here, from 0 to 1.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to ALL, and clamped")]
    pub fn set_share(&self, share: f64) {
        self.0.share.store((share.clamp(0.0, 1.0) * ALL as f64).ceil() as u64, Ordering::Relaxed);
    }
}

impl fmt::Debug for Spans {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spans").field("wanted", &self.are_wanted()).finish_non_exhaustive()
    }
}

impl Attribute {
    /// As much of a request's path as is told.
    #[must_use]
    pub fn path(path: &str) -> Self {
        path.chars().take(MAX_PATH).collect::<String>().into()
    }
}

impl From<String> for Attribute {
    fn from(text: String) -> Self {
        Self::Text(Cow::Owned(text))
    }
}

impl From<&'static str> for Attribute {
    fn from(text: &'static str) -> Self {
        Self::Text(Cow::Borrowed(text))
    }
}

impl From<u64> for Attribute {
    fn from(number: u64) -> Self {
        Self::Number(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_recorded_until_somebody_says_how_much() {
        let spans = Spans::default();
        assert!(!spans.are_wanted() && !spans.record(0));
        spans.set_share(0.5);
        assert!(spans.record(0) && spans.record(u64::MAX / 2) && !spans.record(u64::MAX / 2 + 1));
        spans.set_share(1.0);
        assert!(spans.record(u64::MAX));
        spans.set_share(1e-12);
        assert!(spans.record(0), "some, however few");
    }

    #[test]
    fn the_first_listener_hears_of_spans_from_all_clones() {
        let (spans, heard) = (Spans::default(), Arc::new(AtomicU64::new(0)));
        let hearing = Arc::clone(&heard);
        spans.send_to(move |span| {
            hearing.fetch_add(span.name.len() as u64, Ordering::Relaxed);
        });
        spans.send_to(|_| panic!("there is one already"));
        let ids = SpanIds { trace: [b'1'; 32], span: [b'2'; 16], parent: None };
        let (began, took) = (Duration::ZERO, Duration::ZERO);
        let span =
            Span { service: "s", name: "GET /".into(), ids, began, took, attributes: vec![], failed: false };
        spans.clone().tell(span);
        assert_eq!(heard.load(Ordering::Relaxed), 5);
    }
}
