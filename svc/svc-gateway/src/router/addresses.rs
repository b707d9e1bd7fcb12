//! Which clients a route is for, by their addresses.

use ron_transport::proxy_protocol::TrustedSource;

use crate::{client_addr::Origin, config::RouteConfig};

/// The addresses that a route serves.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct AddressRules {
    /// The allowed sources; empty for all clients.
    allow: Box<[TrustedSource]>,
    deny: Box<[TrustedSource]>,
}

impl AddressRules {
    pub(crate) fn new(config: &RouteConfig) -> Self {
        Self { allow: config.allow_from.clone().into(), deny: config.deny_from.clone().into() }
    }

    /// Whether a client is served: it is not denied, and it is allowed if only some are. Where there is a rule, a client
    /// whose address nobody can tell is not.
    pub(crate) fn permits(&self, origin: Origin) -> bool {
        if self.allow.is_empty() && self.deny.is_empty() {
            return true;
        }
        let covers = |list: &[TrustedSource]| {
            list.iter().any(|source| match (source, origin) {
                (TrustedSource::Network(network), Origin::Address(ip)) => network.contains(ip),
                (TrustedSource::Unix, Origin::Unix) => true,
                _ => false,
            })
        };
        origin != Origin::Doubtful && !covers(&self.deny) && (self.allow.is_empty() || covers(&self.allow))
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn rules(allow: &[&str], deny: &[&str]) -> AddressRules {
        let list = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect();
        AddressRules { allow: list(allow), deny: list(deny) }
    }

    #[test]
    fn who_is_denied_is_refused_even_if_allowed() {
        let rules = rules(&["10.0.0.0/8", "2001:db8::/32"], &["10.1.0.0/16"]);
        for (ip, expected) in [
            ("10.2.0.1", true),
            ("10.1.0.1", false),
            ("::ffff:10.1.0.1", false),
            ("11.0.0.1", false),
            ("2001:db8::7", true),
            ("2001:db9::7", false),
        ] {
            assert_eq!(rules.permits(Origin::Address(ip.parse().unwrap())), expected, "{ip}");
        }
        assert!(!rules.permits(Origin::Unix));
    }

    #[test]
    fn without_a_list_of_the_allowed_everybody_else_is() {
        let rules = rules(&[], &["10.0.0.0/8"]);
        assert!(rules.permits(Origin::Address("11.0.0.1".parse().unwrap())));
        assert!(rules.permits(Origin::Unix));
    }

    #[test]
    fn a_client_whose_address_nobody_can_tell_passes_no_rule() {
        assert!(rules(&[], &[]).permits(Origin::Doubtful));
        assert!(!rules(&[], &["10.0.0.0/8"]).permits(Origin::Doubtful));
        assert!(!rules(&["0.0.0.0/0", "::/0", "unix"], &[]).permits(Origin::Doubtful));
        assert!(rules(&["unix"], &[]).permits(Origin::Unix));
    }
}
