//! A rewarder that is killed at every point of its way, again and again, pays everybody once. Meanwhile epochs are held and
//! released, and small amounts are carried over from one to the next.
//!
//! How many times is `OMNIGATE_CRASHES`, 132 unless it is set; `OMNIGATE_FULL_PROOFS=1` asks for 10,000.

use svc_rewarder::CRASH_POINTS;

use super::{
    ground::{Ground, Place},
    server::Database,
};

/// Fewer than these would leave points out.
const USUAL: usize = 132;
const FULL: usize = 10_000;
/// Deaths on one ground, so that a ledger stays small enough to be read again and again.
const PER_GROUND: usize = 44;

fn crashes() -> usize {
    let asked = std::env::var("OMNIGATE_CRASHES").ok().and_then(|text| text.parse().ok());
    let full = std::env::var_os("OMNIGATE_FULL_PROOFS").is_some();
    asked.unwrap_or(if full { FULL } else { USUAL })
}

/// The point of a death: each in turn, those that are passed more than once at different times.
fn point(number: usize) -> String {
    let name = CRASH_POINTS[number % CRASH_POINTS.len()];
    let round = number / CRASH_POINTS.len();
    if name.starts_with("batch.") { format!("{name}:{}", 1 + round % 2) } else { name.to_owned() }
}

/// Kills a node so many times, on grounds of some deaths each, and looks at the ledger.
fn kill_again_and_again(deaths: std::ops::Range<usize>, place: impl Fn() -> Place) {
    let mut left = deaths;
    while !left.is_empty() {
        let end = left.end.min(left.start + PER_GROUND);
        let mut ground = Ground::new(place(), 1);
        for number in left.start..end {
            ground.book_epoch();
            let point = point(number);
            let node = ground.start(0, Some(&point));
            let what = format!("it dies at {point} (death {number}): {}", ground.log());
            node.wait_for_death(&what, || ground.repair());
        }
        ground.finish();
        ground.check();
        left.start = end;
    }
}

/// Spreads deaths over two threads.
fn on_two_threads(deaths: usize, place: impl Fn() -> Place + Sync) {
    std::thread::scope(|scope| {
        let half = deaths / 2;
        let place = &place;
        scope.spawn(move || kill_again_and_again(0..half, place));
        scope.spawn(move || kill_again_and_again(half..deaths, place));
    });
}

#[test]
fn a_rewarder_killed_at_every_point_pays_once_with_sqlite() {
    on_two_threads(crashes(), || Place::Files);
}

#[test]
fn a_rewarder_killed_at_every_point_pays_once_with_postgresql() {
    on_two_threads(crashes() / 4, || Place::Postgres(Database::new()));
}
