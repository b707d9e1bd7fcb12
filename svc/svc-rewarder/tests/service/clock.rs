//! A wall clock that is wrong and is set right: usage is booked in the epoch that it belongs to, and the node says so.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use ron_accounting::{Accounts, Journal};
use svc_rewarder::WallClock;

use crate::support::{Running, Wish, eventually};

const HOUR: u64 = 3600;
/// In the middle of epoch 500,000 of an hour each, so that none ends while a test runs.
const NOON: u64 = 500_000 * HOUR + HOUR / 2;

/// A wall clock that a test sets, in seconds since 1970; it goes on from there.
struct Settable(Arc<AtomicU64>);

impl Settable {
    fn at(seconds: u64) -> (Self, WallClock) {
        let (set, began) = (Arc::new(AtomicU64::new(seconds)), Instant::now());
        let read = Arc::clone(&set);
        let wall = move || Duration::from_secs(read.load(Ordering::SeqCst)) + began.elapsed();
        (Self(set), Arc::new(wall))
    }

    fn set(&self, seconds: u64) {
        self.0.store(seconds, Ordering::SeqCst);
    }
}

fn start(wall: WallClock) -> Running {
    let wish = Wish { wall_clock: Some(wall), ..Wish::default() };
    Running::with(wish, |config| config.epoch_duration = Duration::from_secs(HOUR).into())
}

/// The next process of the same node, whose wall clock says so.
fn start_in(dir: tempfile::TempDir, seconds: u64) -> Running {
    let wish = Wish { wall_clock: Some(Settable::at(seconds).1), ..Wish::default() };
    Running::within(dir, wish, |config| config.epoch_duration = Duration::from_secs(HOUR).into())
}

fn booked(running: &Running, units: u64) {
    let before = running.metric("accounting_rows_total");
    running.book("alice", units);
    eventually("it is written down", || running.metric("accounting_rows_total") > before);
}

/// What alice has in an epoch, as it is on the disk.
fn units(dir: &tempfile::TempDir, epoch: u64) -> u128 {
    let path = dir.path().join("data").join(Accounts::JOURNAL);
    let journal = Journal::open(&path, Duration::from_secs(HOUR)).unwrap();
    journal.used(epoch).unwrap().iter().map(|used| used.units).sum()
}

#[test]
fn usage_of_a_node_whose_clock_was_wrong_is_booked_in_the_right_epoch() {
    for (wrong, told) in [(NOON + 48 * HOUR, "s ahead, and"), (NOON - 48 * HOUR, "s behind, and")] {
        let (clock, wall) = Settable::at(wrong);
        let running = start(wall);
        booked(&running, 5);
        assert_eq!(running.metric("accounting_epoch"), (wrong / HOUR) as f64);
        clock.set(NOON);
        eventually("the difference is told", || running.standing().contains("clock: "));
        eventually("the clock is followed", || running.metric("accounting_epoch") == 500_000.0);
        assert!(running.standing().contains(told), "{}", running.standing());
        booked(&running, 2);
        let dir = running.stop();
        assert_eq!((units(&dir, 500_000), units(&dir, wrong / HOUR)), (7, 0));
    }
}

#[test]
fn a_restart_with_a_clock_that_went_back_says_so_and_books_by_it() {
    let (_, wall) = Settable::at(NOON + 48 * HOUR);
    let first = start(wall);
    booked(&first, 5);
    let dir = first.stop();
    let running = start_in(dir, NOON);
    eventually("it is told", || running.standing().contains("usage of epoch 500048 is written down"));
    booked(&running, 3);
    let dir = running.stop();
    assert_eq!((units(&dir, 500_000), units(&dir, 500_048)), (3, 5), "what was written stays");
}

#[test]
fn usage_of_a_sealed_epoch_is_quarantined_and_told() {
    let (_, wall) = Settable::at(NOON);
    let first = start(wall);
    booked(&first, 5);
    let dir = first.stop();
    let later = start_in(dir, NOON + HOUR);
    eventually("the epoch is sealed", || later.get("/rewarder/epochs/500000").status == 200);
    let dir = later.stop();
    let running = start_in(dir, NOON);
    running.book("alice", 3);
    eventually("it is told", || running.standing().contains("late_usage: 1 rows of usage are quarantined"));
    let dir = running.stop();
    let path = dir.path().join("data").join(Accounts::JOURNAL);
    let journal = Journal::open(&path, Duration::from_secs(HOUR)).unwrap();
    let kept: Vec<_> = journal.quarantined(9).unwrap();
    assert_eq!((kept.len(), kept[0].used.units), (1, 3), "{kept:?}");
    assert_eq!(units(&dir, 500_000), 5, "what is sealed stays what it was");
}
