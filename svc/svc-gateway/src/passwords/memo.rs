//! Passwords that were found right a while ago, as keyed hashes: bounded in number and in time.

use std::{
    collections::{HashMap, VecDeque},
    time::Duration,
};

use aws_lc_rs::hmac::{Context, HMAC_SHA256, Key};
use ron_kernel::lock::Ranked;
use types::Moment;

use crate::locks;

/// Passwords that are remembered; the oldest makes room.
const CAPACITY: usize = 4096;
/// For how long.
const KEPT: Duration = Duration::from_secs(300);

/// What stands for a user, the hash in the file and a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Sum([u8; 32]);

impl Sum {
    /// A number that depends on all of it, and that nobody can foresee.
    pub(super) fn chance(&self) -> usize {
        let [a, b, c, d, ..] = self.0;
        u32::from_le_bytes([a, b, c, d]) as usize
    }
}

/// Passwords that were found right.
#[derive(Debug)]
pub(super) struct Memo {
    /// Of this process alone.
    key: Key,
    right: Ranked<Right>,
}

#[derive(Default, Debug)]
struct Right {
    until: HashMap<Sum, Moment>,
    /// The keys of `until`, each once, the oldest first.
    order: VecDeque<Sum>,
}

impl Memo {
    pub(super) fn new() -> Self {
        let rng = aws_lc_rs::rand::SystemRandom::new();
        let key = Key::generate(HMAC_SHA256, &rng).expect("the system has randomness, or TLS would not work");
        Self { key, right: Ranked::new(&locks::PASSWORD_MEMO, Right::default()) }
    }

    /// What stands for these parts, in this order.
    pub(super) fn sum(&self, parts: &[&[u8]]) -> Sum {
        let mut context = Context::with_key(&self.key);
        for part in parts {
            context.update(&(part.len() as u64).to_le_bytes());
            context.update(part);
        }
        let mut bytes = [0; 32];
        bytes.copy_from_slice(context.sign().as_ref());
        Sum(bytes)
    }

    /// Whether it was found right, not too long ago.
    pub(super) fn knows(&self, sum: &Sum, now: Moment) -> bool {
        self.right.lock().until.get(sum).is_some_and(|until| now < *until)
    }

    /// Remembers what was found right.
    pub(super) fn add(&self, sum: Sum, now: Moment) {
        let mut right = self.right.lock();
        if right.until.insert(sum, now.after(KEPT)).is_some() {
            // Its place among the oldest stays, which only makes it go earlier.
            return;
        }
        right.order.push_back(sum);
        while right.order.len() > CAPACITY {
            if let Some(oldest) = right.order.pop_front() {
                right.until.remove(&oldest);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_right_is_known_for_a_while_and_the_oldest_makes_room() {
        let (memo, start) = (Memo::new(), Moment::ORIGIN);
        let sum = |n: usize| memo.sum(&[b"ann", n.to_string().as_bytes()]);
        memo.add(sum(0), start);
        assert!(memo.knows(&sum(0), start) && !memo.knows(&sum(1), start));
        assert!(!memo.knows(&sum(0), start.after(KEPT)));
        for n in 1..=CAPACITY {
            memo.add(sum(n), start);
        }
        assert!(
            !memo.knows(&sum(0), start) && memo.knows(&sum(1), start) && memo.knows(&sum(CAPACITY), start)
        );
        assert_eq!(memo.right.lock().until.len(), CAPACITY);
    }

    #[test]
    fn parts_are_told_apart_and_keys_are_of_their_own() {
        let memo = Memo::new();
        assert_ne!(memo.sum(&[b"ab", b"c"]), memo.sum(&[b"a", b"bc"]));
        assert_ne!(memo.sum(&[b"a"]), Memo::new().sum(&[b"a"]));
    }
}
