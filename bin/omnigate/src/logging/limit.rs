//! How many lines one place in the code may write, so that nobody can fill the log from outside.
//!
//! Clients and servers cause lines, some of them in libraries whose wording and level are not ours. Each place in the code
//! that writes at level `info` or above has a number of lines for each window of time. What is beyond is suppressed and
//! counted, and the first line of a later window says how many there were. Lower levels are not limited: whoever asks for
//! them wants all of them.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use ron_kernel::{Clock, audit, metrics::Counter};
use tracing::{Event, Level, Metadata, Subscriber, callsite::Identifier};
use tracing_subscriber::{Layer, layer::Context};
use types::Moment;

/// Lines of one place in one window.
const LINES: u32 = 50;
/// The length of a window.
const WINDOW: Duration = Duration::from_secs(10);
/// Places that are told apart. There are fewer in the program; what is beyond would be written without a limit.
const MAX_PLACES: usize = 8192;

/// The lines that each place has written.
#[derive(Debug)]
pub(crate) struct LineLimit {
    clock: Clock,
    places: Mutex<HashMap<Identifier, Place>>,
    /// Lines suppressed before there was a metric.
    early: AtomicU64,
    metric: OnceLock<Counter>,
}

/// The number of lines that one call site has written.
#[derive(Debug, Default)]
struct Place {
    window_began: Moment,
    lines: u32,
    /// Lines suppressed since the last one that was written.
    suppressed: u64,
}

/// The decision about a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Write,
    /// The same, once it is said how many lines before it were suppressed.
    WriteAfter(u64),
    Suppress,
}

impl LineLimit {
    pub(super) fn new() -> Self {
        Self {
            clock: Clock::start(),
            places: Mutex::default(),
            early: AtomicU64::new(0),
            metric: OnceLock::new(),
        }
    }

    /// Counts suppressed lines in `metric` from now on, and those before.
    pub(crate) fn count_in(&self, metric: Counter) {
        metric.inc_by(self.early.swap(0, Ordering::Relaxed));
        // Only the first node of a process has the log for itself.
        let _ = self.metric.set(metric);
    }

    fn admit(&self, place: Identifier, now: Moment) -> Verdict {
        let verdict = {
            let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
            if places.len() >= MAX_PLACES && !places.contains_key(&place) {
                return Verdict::Write;
            }
            places.entry(place).or_default().admit(now)
        };
        if verdict == Verdict::Suppress {
            match self.metric.get() {
                Some(metric) => drop(metric.inc()),
                None => drop(self.early.fetch_add(1, Ordering::Relaxed)),
            }
        }
        verdict
    }
}

impl Place {
    fn admit(&mut self, now: Moment) -> Verdict {
        if now.since(self.window_began) >= WINDOW || self.lines == 0 {
            (self.window_began, self.lines) = (now, 0);
        }
        if self.lines >= LINES {
            self.suppressed += 1;
            return Verdict::Suppress;
        }
        self.lines += 1;
        match std::mem::take(&mut self.suppressed) {
            0 => Verdict::Write,
            suppressed => Verdict::WriteAfter(suppressed),
        }
    }
}

/// Applies a [`LineLimit`] to everything that the log would write.
pub(super) struct Limited(pub(super) Arc<LineLimit>);

impl<S: Subscriber> Layer<S> for Limited {
    fn event_enabled(&self, event: &Event<'_>, _: Context<'_, S>) -> bool {
        let metadata = event.metadata();
        // The audit trail has a bound of its own.
        if *metadata.level() > Level::INFO || metadata.target() == audit::TARGET {
            return true;
        }
        match self.0.admit(metadata.callsite(), self.0.clock.now()) {
            Verdict::Write => true,
            Verdict::WriteAfter(suppressed) => {
                let place = place_of(metadata);
                tracing::warn!(suppressed, place, "lines like the next one were suppressed");
                true
            }
            Verdict::Suppress => false,
        }
    }
}

/// Returns the call site of a line.
fn place_of(metadata: &Metadata<'_>) -> String {
    let file = metadata.file().unwrap_or("?");
    // Paths of libraries begin with a folder of the machine that built the program.
    let file = file.rsplit_once("/src/").map_or(file, |(_, within)| within);
    format!("{}: {file}:{}", metadata.target(), metadata.line().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tracing_subscriber::{Registry, layer::SubscriberExt};

    fn at(secs: u64) -> Moment {
        Moment::from_nanos(1).after(Duration::from_secs(secs))
    }

    #[test]
    fn a_place_writes_so_many_lines_in_a_window_and_says_later_what_is_missing() {
        let mut place = Place::default();
        for line in 0..LINES {
            assert_eq!(place.admit(at(u64::from(line % 9))), Verdict::Write);
        }
        for _ in 0..1000 {
            assert_eq!(place.admit(at(9)), Verdict::Suppress);
        }
        assert_eq!(place.admit(at(10)), Verdict::WriteAfter(1000));
        assert_eq!(place.admit(at(10)), Verdict::Write);
    }

    /// Counts what is written, by level.
    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<HashMap<Level, u32>>>);

    impl<S: Subscriber> Layer<S> for Written {
        fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
            *self.0.lock().expect("no test panics here").entry(*event.metadata().level()).or_default() += 1;
        }
    }

    #[test]
    fn every_place_is_limited_by_itself_unless_somebody_asked_for_all() {
        let (limit, written) = (Arc::new(LineLimit::new()), Written::default());
        let metric = Counter::default();
        limit.count_in(metric.clone());
        let subscriber = Registry::default().with(Limited(limit)).with(written.clone());
        tracing::subscriber::with_default(subscriber, || {
            for _ in 0..LINES * 4 {
                tracing::error!("the node's own");
                tracing::warn!("a library's");
                tracing::warn!("another place");
                tracing::info!("for everybody");
                tracing::debug!("for whoever looks");
                tracing::trace!("for whoever looks closely");
            }
        });
        let written = written.0.lock().expect("no test panics here").clone();
        assert_eq!(written[&Level::ERROR], LINES);
        assert_eq!(written[&Level::WARN], LINES * 2);
        assert_eq!(written[&Level::INFO], LINES);
        assert_eq!((written[&Level::DEBUG], written[&Level::TRACE]), (LINES * 4, LINES * 4));
        assert_eq!(metric.get(), u64::from(LINES) * 12);
    }
}
