//! Names and numbers with one text each: epochs, metrics, policies.

use std::{fmt, sync::Arc};

use crate::json::Int;

/// The number of an epoch. Epochs are counted from zero and never go backwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(Int);

impl Epoch {
    /// The epoch with this number, unless JSON could not carry it exactly (2⁵³ and above).
    #[must_use]
    pub const fn new(number: u64) -> Option<Self> {
        match Int::new(number) {
            Some(number) => Some(Self(number)),
            None => None,
        }
    }

    /// Returns the epoch's number.
    #[must_use]
    pub const fn number(self) -> u64 {
        self.0.get()
    }

    pub(crate) const fn int(self) -> Int {
        self.0
    }
}

impl From<Int> for Epoch {
    fn from(number: Int) -> Self {
        Self(number)
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.number(), f)
    }
}

/// The text cannot name a metric or a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a name is 1 to 64 of the characters a-z, 0-9, dot, hyphen and underscore")]
pub struct InvalidName;

/// What is counted, such as `served.bytes`. What somebody used, and is not paid for, begins with `used.`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Metric(Arc<str>);

/// The name of a policy, such as `default`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PolicyId(Arc<str>);

impl std::borrow::Borrow<str> for Metric {
    fn borrow(&self) -> &str {
        &self.0
    }
}

/// The longest name of a metric or a policy, in bytes.
const MAX_NAME: usize = 64;

/// Which bytes a name may have. Every row's metric is looked at, and a table takes no branches.
const IN_NAMES: [bool; 256] = {
    let mut allowed = [false; 256];
    let mut byte = 0_u8;
    while byte < 128 {
        allowed[byte as usize] = matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'.' | b'-' | b'_');
        byte += 1;
    }
    allowed
};

pub(crate) fn is_name(text: &str) -> bool {
    (1..=MAX_NAME).contains(&text.len())
        && text.bytes().fold(true, |good, byte| good & IN_NAMES[usize::from(byte)])
}

macro_rules! name {
    ($name:ident) => {
        impl $name {
            /// Checks and takes a name.
            ///
            /// # Errors
            /// [`InvalidName`] if it is empty, too long, or has other characters than those allowed.
            pub fn new(name: &str) -> Result<Self, InvalidName> {
                if is_name(name) { Ok(Self(name.into())) } else { Err(InvalidName) }
            }

            /// Returns the name as a string.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }
    };
}

name!(Metric);
name!(PolicyId);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_lower_case_and_bounded() {
        for good in ["served.bytes", "a", "0", "x-y_z", &"a".repeat(MAX_NAME)] {
            assert_eq!(Metric::new(good).map(|m| m.to_string()), Ok(good.to_owned()));
        }
        for bad in ["", "Served", "a b", "a/b", "é", "a\"", &"a".repeat(MAX_NAME + 1)] {
            assert_eq!(PolicyId::new(bad), Err(InvalidName), "{bad}");
        }
    }

    #[test]
    fn an_epoch_is_a_number_that_json_carries_exactly() {
        assert_eq!(Epoch::new((1 << 53) - 1).map(Epoch::number), Some((1 << 53) - 1));
        assert_eq!(Epoch::new(1 << 53), None);
    }
}
