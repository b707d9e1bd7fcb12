//! What things are called: accounts, assets, idempotency keys, references. Bounded and printable.

use std::{fmt, sync::Arc};

/// The text cannot be such a name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} is {rule}")]
pub struct InvalidName {
    what: &'static str,
    rule: &'static str,
}

/// The name of an account, such as `pool/epochs` or `actor/b3:1f…`: 1 to 192 printable ASCII characters, no spaces.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AccountId(Arc<str>);

/// What is counted, such as `CREDIT`: 2 to 12 capital letters, so that every plain-text accounting tool reads it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Asset {
    letters: [u8; Asset::MAX_LEN],
    len: u8,
}

/// The idempotency key of a batch, such as `reward/42/0`: 1 to 192 printable ASCII characters, no spaces. Kept forever.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(Arc<str>);

/// What a batch is for, such as the key of the run that asks for it: up to 256 printable ASCII characters or spaces.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Reference(Arc<str>);

const GRAPHIC: &str = "1 to 192 printable ASCII characters without spaces";

impl AccountId {
    /// The longest name, in bytes.
    pub const MAX_LEN: usize = 192;

    /// Checks and takes a name.
    ///
    /// # Errors
    /// [`InvalidName`] if it is empty, too long, or not printable ASCII.
    pub fn new(name: &str) -> Result<Self, InvalidName> {
        let wrong = InvalidName { what: "an account", rule: GRAPHIC };
        if is_graphic(name, Self::MAX_LEN) { Ok(Self(name.into())) } else { Err(wrong) }
    }

    /// Returns the name as a string.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Key {
    /// The longest key, in bytes.
    pub const MAX_LEN: usize = 192;

    /// Checks and takes a key.
    ///
    /// # Errors
    /// [`InvalidName`] if it is empty, too long, or not printable ASCII.
    pub fn new(key: &str) -> Result<Self, InvalidName> {
        let wrong = InvalidName { what: "a key", rule: GRAPHIC };
        if is_graphic(key, Self::MAX_LEN) { Ok(Self(key.into())) } else { Err(wrong) }
    }

    /// Returns the key as a string.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Reference {
    /// The longest reference, in bytes.
    pub const MAX_LEN: usize = 256;

    /// Checks and takes a reference.
    ///
    /// # Errors
    /// [`InvalidName`] if it is too long or not printable ASCII.
    pub fn new(text: &str) -> Result<Self, InvalidName> {
        let fits = text.len() <= Self::MAX_LEN && text.bytes().all(|b| b.is_ascii_graphic() || b == b' ');
        let wrong = InvalidName { what: "a reference", rule: "up to 256 printable ASCII characters" };
        if fits { Ok(Self(text.into())) } else { Err(wrong) }
    }

    /// Returns the text as a string.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Asset {
    /// The longest name, in bytes.
    pub const MAX_LEN: usize = 12;

    /// Checks and takes a name.
    ///
    /// # Errors
    /// [`InvalidName`] unless it is 2 to 12 capital letters.
    pub fn new(name: &str) -> Result<Self, InvalidName> {
        let wrong = InvalidName { what: "an asset", rule: "2 to 12 capital letters" };
        let fits = (2..=Self::MAX_LEN).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_uppercase());
        let (true, Ok(len)) = (fits, u8::try_from(name.len())) else {
            return Err(wrong);
        };
        let mut letters = [0; Self::MAX_LEN];
        letters[..name.len()].copy_from_slice(name.as_bytes());
        Ok(Self { letters, len })
    }

    /// Returns the name as a string.
    #[must_use]
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.letters[..self.len.into()]).expect("capital letters are UTF-8")
    }
}

fn is_graphic(text: &str, max: usize) -> bool {
    !text.is_empty() && text.len() <= max && text.bytes().all(|b| b.is_ascii_graphic())
}

macro_rules! shown {
    ($($name:ident),*) => {$(
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({:?})", stringify!($name), self.as_str())
            }
        }

        impl std::str::FromStr for $name {
            type Err = InvalidName;

            fn from_str(text: &str) -> Result<Self, InvalidName> {
                Self::new(text)
            }
        }
    )*};
}

shown!(AccountId, Asset, Key, Reference);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_and_keys_are_bounded_and_printable() {
        let longest = "a".repeat(192);
        for good in ["a", "actor/b3:1f~!", longest.as_str()] {
            assert_eq!(AccountId::new(good).map(|id| id.to_string()), Ok(good.to_owned()));
            assert_eq!(Key::new(good).map(|key| key.to_string()), Ok(good.to_owned()));
        }
        for bad in ["", "two words", "tab\t", "é", "\u{7f}", &"a".repeat(193)] {
            assert!(AccountId::new(bad).is_err() && Key::new(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_reference_may_be_empty_and_have_spaces() {
        for good in ["", "two words", &"a".repeat(256)] {
            assert_eq!(Reference::new(good).map(|text| text.to_string()), Ok(good.to_owned()));
        }
        for bad in ["line\nend", "é", &"a".repeat(257)] {
            assert!(Reference::new(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn an_asset_is_capital_letters() {
        for good in ["AB", "CREDIT", "ABCDEFGHIJKL"] {
            assert_eq!(Asset::new(good).map(|asset| asset.to_string()), Ok(good.to_owned()));
        }
        for bad in ["", "A", "ABCDEFGHIJKLM", "Credit", "A1", "É", "A B"] {
            assert!(Asset::new(bad).is_err(), "{bad:?}");
        }
    }
}
