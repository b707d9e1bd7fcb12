//! What the operator wants changed in a header.

use http::{HeaderMap, HeaderName, HeaderValue};

use super::fields::{as_read, is_odd};
use crate::config::{Flaw, HeaderRulesConfig};

/// Changes to a header, in this order: `remove`, `set`, `add`.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct HeaderRules {
    remove: Box<[HeaderName]>,
    set: Box<[(HeaderName, HeaderValue)]>,
    add: Box<[(HeaderName, HeaderValue)]>,
}

impl HeaderRules {
    /// Whether they put any field into a header.
    pub(super) fn write_any(&self) -> bool {
        !self.set.is_empty() || !self.add.is_empty()
    }

    /// What a configuration says; what it says wrongly is told and left out.
    pub(crate) fn new(config: &HeaderRulesConfig) -> (Self, Vec<Flaw>) {
        let mut flaws = Vec::new();
        let mut keep = |key: String, parsed: Result<_, String>| match parsed {
            Ok(field) => Some(field),
            Err(message) => {
                flaws.push(Flaw::new(key, message));
                None
            }
        };
        let fields = |(name, value): (&String, &String)| {
            let parsed = value.parse().map_err(|_| "is no value that a header field can have".to_owned());
            Ok((changeable(name)?, parsed?))
        };
        let set = config.set.iter().filter_map(|field| keep(format!("set.{}", field.0), fields(field)));
        let set = set.collect();
        let add = config.add.iter().filter_map(|field| keep(format!("add.{}", field.0), fields(field)));
        let add = add.collect();
        let mut remove = Vec::new();
        for (index, name) in config.remove.iter().enumerate() {
            match changeable(name) {
                Ok(name) => remove.push(name),
                Err(message) => flaws.push(Flaw::new(format!("remove[{index}]"), message)),
            }
        }
        (Self { remove: remove.into(), set, add }, flaws)
    }

    /// The fields whose value a client must not be able to choose: those that are set or removed.
    pub(crate) fn guarded(&self) -> impl Iterator<Item = &HeaderName> {
        self.remove.iter().chain(self.set.iter().map(|(name, _)| name))
    }

    /// Applies the rules to the header.
    pub(crate) fn apply(&self, headers: &mut HeaderMap) {
        for name in &self.remove {
            headers.remove(name);
        }
        for (name, value) in &self.set {
            headers.insert(name, value.clone());
        }
        for (name, value) in &self.add {
            headers.append(name, value.clone());
        }
    }
}

/// Fields that the configuration decides about, so that a client must not send others that servers take for them.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct GuardedFields {
    /// Their names, and how servers may read them.
    names: Box<[(HeaderName, String)]>,
    /// Whether one of them is itself a name that could be taken for another.
    has_odd_names: bool,
    /// Those that no client may send at all.
    forbidden: Box<[HeaderName]>,
}

impl GuardedFields {
    /// Fields that a client must not imitate, and of these the ones that it must not send.
    pub(crate) fn new<'n>(names: impl Iterator<Item = &'n HeaderName>, forbidden: Box<[HeaderName]>) -> Self {
        let guarded = |name: &HeaderName| (name.clone(), as_read(name.as_str()));
        let names: Box<[_]> = names.map(guarded).chain(forbidden.iter().map(guarded)).collect();
        let has_odd_names = names.iter().any(|(name, _)| is_odd(name.as_str()));
        Self { names, has_odd_names, forbidden }
    }

    /// Whether servers may take a field of this name for one of these.
    pub(super) fn has_alike(&self, name: &HeaderName) -> bool {
        let read = as_read(name.as_str());
        self.names.iter().any(|(_, guarded_read)| *guarded_read == read)
    }

    /// Removes the fields of a client that it must not send, and those that servers may take for one of these and are not
    /// exactly it.
    pub(super) fn remove_alike(&self, headers: &mut HeaderMap, has_odd_names: bool) {
        for name in &self.forbidden {
            headers.remove(name);
        }
        if self.names.is_empty() || !(has_odd_names || self.has_odd_names) {
            return;
        }
        let is_alike = |name: &&HeaderName| {
            let read = as_read(name.as_str());
            self.names.iter().any(|(guarded, guarded_read)| *guarded_read == read && guarded != *name)
        };
        let alike: Vec<HeaderName> = headers.keys().filter(is_alike).cloned().collect();
        for name in alike {
            headers.remove(name);
        }
    }
}

/// Fields that frame a message, route it or concern one connection. To change one is to break the message.
const FIXED: [&str; 11] = [
    "connection",
    "content-length",
    "expect",
    "host",
    "http2-settings",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// The field of this name, if it may be changed.
fn changeable(name: &str) -> Result<HeaderName, String> {
    let parsed: HeaderName = name.parse().map_err(|_| format!("`{name}` is no name of a header field"))?;
    if FIXED.contains(&parsed.as_str()) {
        return Err(format!("`{parsed}` is the gateway's own business and cannot be changed"));
    }
    Ok(parsed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(set: &[(&str, &str)], add: &[(&str, &str)], remove: &[&str]) -> HeaderRulesConfig {
        let owned = |pairs: &[(&str, &str)]| {
            pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
        };
        HeaderRulesConfig {
            set: owned(set),
            add: owned(add),
            remove: remove.iter().map(|name| (*name).to_owned()).collect(),
        }
    }

    #[test]
    fn fields_are_removed_then_set_then_added() {
        let (rules, flaws) = HeaderRules::new(&config(&[("A", "1")], &[("a", "2"), ("b", "3")], &["a", "c"]));
        assert_eq!(flaws, []);
        let given = [("a", "0"), ("a", "0"), ("b", "0"), ("c", "0")];
        let mut headers = HeaderMap::new();
        for (name, value) in given {
            headers.append(name, HeaderValue::from_static(value));
        }
        rules.apply(&mut headers);
        let values = |name| headers.get_all(name).iter().collect::<Vec<_>>();
        assert_eq!(values("a"), ["1", "2"]);
        assert_eq!(values("b"), ["0", "3"]);
        assert!(values("c").is_empty());
    }

    #[test]
    fn fields_that_would_break_a_message_cannot_be_changed() {
        for name in FIXED {
            let upper = name.to_ascii_uppercase();
            for config in [
                config(&[(&upper, "x")], &[], &[]),
                config(&[], &[(name, "x")], &[]),
                config(&[], &[], &[name]),
            ] {
                let (rules, flaws) = HeaderRules::new(&config);
                assert_eq!(rules, HeaderRules::default());
                assert!(flaws[0].message.contains("cannot be changed"), "{flaws:?}");
            }
        }
    }

    #[test]
    fn what_is_no_field_is_told_with_its_place() {
        let (_, flaws) = HeaderRules::new(&config(&[("a b", "x")], &[("x", "line\nend")], &["ok", "ä"]));
        let keys: Vec<_> = flaws.iter().map(|flaw| flaw.key.as_str()).collect();
        assert_eq!(keys, ["set.a b", "add.x", "remove[1]"]);
    }
}
