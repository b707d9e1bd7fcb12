//! What the scenarios share.

use fairq::Settings;
use std::time::Duration;

/// Slots of a sleeping upstream.
pub(crate) const SLOTS: u32 = 20;
/// How long it sleeps.
pub(crate) const SERVICE: Duration = ms(10);
/// Requests per second: 20 slots of 10 ms.
pub(crate) const CAPACITY: f64 = 2000.0;

pub(crate) const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Room for 512 before 20 slots; one class.
pub(crate) fn settings() -> Settings {
    Settings { slots: SLOTS, ..Settings::default() }
}

/// The seeds to try. They are printed with what they lead to.
pub(crate) fn seeds() -> impl Iterator<Item = u64> {
    [1, 0xFA12].into_iter()
}
