//! What an operator can set, and what makes no sense.

use std::time::Duration;

/// The maximum number of classes.
pub const MAX_CLASSES: usize = 8;
/// The highest weight of a class or tenant; a higher one is lowered to it. The share of a weight is exact to
/// about one part in ten thousand for requests of 10 ms and more.
pub const MAX_WEIGHT: u32 = 1000;

/// How many may run and wait, and who gets how much. All of it can be changed live.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// How many requests run at once. The queue does not enforce it; shares and the limit for slow tenants are
    /// parts of it.
    pub slots: u32,
    /// How many tickets wait, in all.
    pub room: usize,
    /// The most of `room` that is kept for clients that were told to return, in percent, 0 to 100. What they do not come
    /// for is soon not kept.
    pub reserved_percent: u8,
    /// How many tickets of one tenant wait.
    pub tenant_room: usize,
    /// How many tenants are remembered, about 300 bytes each. One more is refused while all of them wait, run or
    /// are in debt.
    pub max_tenants: usize,
    /// A tenant is slow if its requests take longer than this: about a quarter of the slot-time of those that have
    /// ended, or more than a sixteenth of the slots' worth of those that run. Slow tenants together hold at most four fifths of the slots, and one of them at most half.
    pub slow_after: Duration,
    /// A tenant that neither waited nor ran for this long is forgotten, unless it is in debt.
    pub idle_after: Duration,
    /// The classes, by number.
    pub classes: Vec<ClassSettings>,
}

/// One class of tenants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClassSettings {
    /// Its share of slots and room, relative to the other classes that want some.
    pub weight: u32,
    /// How many of its tickets wait.
    pub room: usize,
}

/// The reason why settings are rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// There are no classes, or too many.
    #[error("there must be 1 to {MAX_CLASSES} classes, not {0}")]
    Classes(usize),
    /// A weight of 0 would starve its class, and shares beyond the highest would not be exact.
    #[error("the weight of class {class} must be 1 to {MAX_WEIGHT}, not {weight}")]
    Weight {
        /// The number of the class.
        class: usize,
        /// The rejected weight.
        weight: u32,
    },
    /// Live state belongs to classes by their number.
    #[error("the number of classes cannot change while the queue is in use")]
    ClassesChanged,
}

impl Default for Settings {
    /// 512 slots, a room of 512, one class.
    fn default() -> Self {
        Self {
            slots: 512,
            room: 512,
            reserved_percent: 90,
            tenant_room: usize::MAX,
            max_tenants: 65_536,
            slow_after: Duration::from_millis(100),
            idle_after: Duration::from_secs(60),
            classes: vec![ClassSettings::weighing(1)],
        }
    }
}

impl ClassSettings {
    /// A class of this weight whose tickets may fill the room.
    #[must_use]
    pub fn weighing(weight: u32) -> Self {
        Self { weight, room: usize::MAX }
    }
}

impl Settings {
    /// Checks what the types cannot.
    ///
    /// # Errors
    /// [`SettingsError`] says what makes no sense.
    pub fn check(&self) -> Result<(), SettingsError> {
        if !(1..=MAX_CLASSES).contains(&self.classes.len()) {
            return Err(SettingsError::Classes(self.classes.len()));
        }
        for (class, &ClassSettings { weight, .. }) in self.classes.iter().enumerate() {
            if !(1..=MAX_WEIGHT).contains(&weight) {
                return Err(SettingsError::Weight { class, weight });
            }
        }
        Ok(())
    }

    /// How many slots slow tenants together may hold: four fifths, at least one, and never the last of several.
    #[must_use]
    pub fn slow_slots(&self) -> u32 {
        slow_slots(self.slots)
    }

    /// How many slots one tenant may hold while there are others: all but an eighth, and all if there are less than eight.
    #[must_use]
    pub fn tenant_slots(&self) -> u32 {
        if self.slots < 8 { self.slots } else { self.slots - self.slots.div_ceil(8) }
    }

    /// How many slots one slow tenant may hold: half of them, at least one, and never the last of several.
    #[must_use]
    pub fn slow_tenant_slots(&self) -> u32 {
        self.slots.div_ceil(2).min(self.slow_slots()).max(1)
    }

    /// How many slots a slow tenant may hold while only tickets of an address wait that has more than half of them: an eighth
    /// less, and at least one less if there are several.
    pub(crate) fn slow_address_slots(&self) -> u32 {
        let most = self.slow_tenant_slots();
        (most - most.div_ceil(8)).max(1)
    }

    /// How many slots a tenant may hold for longer than `slow_after` before it counts as slow for it.
    pub(crate) fn tolerated_overdue(&self) -> u32 {
        self.slots / 16
    }

    /// The weights of all classes together.
    pub(crate) fn class_weights(&self) -> u64 {
        self.classes.iter().map(|class| u64::from(class.weight)).sum()
    }
}

/// How many of `slots` slow tenants together may hold, see [`Settings::slow_slots`].
#[must_use]
pub fn slow_slots(slots: u32) -> u32 {
    let most = slots.saturating_sub(1).max(1);
    u32::try_from(u64::from(slots) * 4 / 5).unwrap_or(u32::MAX).clamp(1, most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sides_of_every_limit() {
        let with = |weights: &[u32]| Settings {
            classes: weights.iter().map(|&weight| ClassSettings::weighing(weight)).collect(),
            ..Settings::default()
        };
        assert_eq!(with(&[1, MAX_WEIGHT]).check(), Ok(()));
        assert_eq!(with(&[1; MAX_CLASSES]).check(), Ok(()));
        assert_eq!(with(&[]).check(), Err(SettingsError::Classes(0)));
        assert_eq!(with(&[1; MAX_CLASSES + 1]).check(), Err(SettingsError::Classes(9)));
        assert_eq!(with(&[1, 0]).check(), Err(SettingsError::Weight { class: 1, weight: 0 }));
        assert_eq!(with(&[1001]).check(), Err(SettingsError::Weight { class: 0, weight: 1001 }));
    }

    #[test]
    fn slow_tenants_hold_four_fifths_but_at_least_one_slot_and_never_all_of_several() {
        let slow = |slots| Settings { slots, ..Settings::default() }.slow_slots();
        assert_eq!([0, 1, 2, 3, 4, 5, 20, 512].map(slow), [1, 1, 1, 2, 3, 4, 16, 409]);
        let of_one = |slots| Settings { slots, ..Settings::default() }.slow_tenant_slots();
        assert_eq!([0, 1, 2, 3, 4, 5, 20, 512].map(of_one), [1, 1, 1, 2, 2, 3, 10, 256]);
    }
}
