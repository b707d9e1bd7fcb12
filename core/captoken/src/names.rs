//! A list of short names in one string: methods, or scopes.

use crate::TokenError;

/// Names separated by commas, such as `GET,HEAD` or `rewarder.run`; empty for none. Upper and lower case differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NameList<'a>(&'a str);

impl<'a> NameList<'a> {
    /// No name at all.
    pub const NONE: NameList<'static> = NameList("");

    /// Takes a list of names of 1 to 64 letters, digits, dots, dashes and underscores.
    ///
    /// # Errors
    /// [`TokenError::Malformed`] if a name is empty, too long or has other characters.
    pub fn new(text: &'a str) -> Result<Self, TokenError> {
        let list = Self(text);
        if list.iter().all(is_name) && !text.ends_with(',') {
            Ok(list)
        } else {
            Err(TokenError::Malformed(
                "a name has 1 to 64 letters, digits, dots, dashes and underscores, and a comma stands between two",
            ))
        }
    }

    /// Whether the name is in the list.
    #[must_use]
    pub fn contains(self, name: &str) -> bool {
        self.iter().any(|listed| listed == name)
    }

    /// Whether there is no name in it.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// The names, in order.
    pub fn iter(self) -> impl Iterator<Item = &'a str> {
        self.0.split_terminator(',')
    }

    /// The list as it is written.
    #[must_use]
    pub const fn as_str(self) -> &'a str {
        self.0
    }
}

fn is_name(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    (1..=64).contains(&name.len()) && name.bytes().all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_knows_its_names_and_no_parts_of_them() {
        let list = NameList::new("GET,POST").expect("a list");
        assert!(list.contains("GET") && list.contains("POST"));
        for other in ["", "GE", "get", "GET,POST", "HEAD"] {
            assert!(!list.contains(other), "{other}");
        }
        assert!(NameList::NONE.is_empty() && !NameList::NONE.contains(""));
        assert_eq!(NameList::new(""), Ok(NameList::NONE));
    }

    #[test]
    fn empty_long_and_strange_names_are_refused() {
        assert!(NameList::new(&"x".repeat(64)).is_ok());
        for wrong in [",", "a,", ",a", "a,,b", "a b", "a\0", "é", &"x".repeat(65)] {
            assert!(NameList::new(wrong).is_err(), "{wrong}");
        }
    }
}
