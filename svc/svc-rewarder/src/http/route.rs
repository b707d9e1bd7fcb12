//! What a path leads to.

use http::Method;

use crate::files;

/// The resource that a path names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// The description of this interface.
    OpenApi,
    /// The list of the latest epochs.
    Epochs,
    /// One epoch by its number.
    Epoch(u64),
    /// That an epoch be computed.
    Compute(u64),
    /// Whether the ledger has everything that was posted of an epoch, and that the rest be posted again.
    Reconcile(u64),
    /// That an order about an epoch be carried out.
    Order(u64),
    /// Objections to an epoch.
    Disputes(u64),
    /// Corrections of epochs that were paid.
    Corrections,
    /// The registry of payees.
    Payees,
    /// What an actor earned, epoch by epoch.
    Actor(String),
    /// The lines of an epoch whose actors begin with some letters.
    Lines(u64, String),
    /// That an actor's line is part of an epoch.
    Proof(u64, String),
    /// A file of an epoch.
    File(u64, String),
    /// The newest version of a policy.
    Policy(String),
}

/// Numbers from here on cannot be carried by JSON exactly.
const EPOCHS: u64 = 1 << 53;

impl Route {
    /// What a path leads to; `None` for nothing.
    pub(crate) fn find(path: &str) -> Option<Self> {
        let rest = path.strip_prefix("/rewarder/")?;
        let segments: Vec<&str> = rest.split('/').collect();
        Some(match segments.as_slice() {
            ["openapi.json"] => Self::OpenApi,
            ["epochs"] => Self::Epochs,
            ["epochs", id] => Self::Epoch(epoch(id)?),
            ["epochs", id, "compute"] => Self::Compute(epoch(id)?),
            ["epochs", id, "reconcile"] => Self::Reconcile(epoch(id)?),
            ["epochs", id, "order"] => Self::Order(epoch(id)?),
            ["epochs", id, "disputes"] => Self::Disputes(epoch(id)?),
            ["corrections"] => Self::Corrections,
            ["payees"] => Self::Payees,
            ["actors", actor] => Self::Actor(decoded(actor)?),
            ["epochs", id, "actors", prefix] => Self::Lines(epoch(id)?, decoded(prefix)?),
            ["epochs", id, "proof", actor] => Self::Proof(epoch(id)?, decoded(actor)?),
            ["epochs", id, "files", name @ ..] => {
                Self::File(epoch(id)?, Some(name.join("/")).filter(|name| files::can_be(name))?)
            }
            ["policy", id] => Self::Policy(decoded(id)?),
            _ => return None,
        })
    }

    /// What may be done with it, as it is told.
    pub(crate) const fn methods(&self) -> &'static str {
        match self {
            Self::Compute(_) | Self::Order(_) => "POST",
            Self::Reconcile(_) | Self::Disputes(_) | Self::Corrections => "GET, HEAD, POST",
            Self::Policy(_) | Self::Payees => "GET, HEAD, PUT",
            _ => "GET, HEAD",
        }
    }

    pub(super) fn takes(&self, method: &Method) -> bool {
        self.methods().split(", ").any(|known| known == method.as_str())
    }

    /// The name that its requests are counted under.
    pub(crate) const fn name(&self) -> &'static str {
        match self {
            Self::OpenApi => "/rewarder/openapi.json",
            Self::Epochs => "/rewarder/epochs",
            Self::Epoch(_) => "/rewarder/epochs/{id}",
            Self::Compute(_) => "/rewarder/epochs/{id}/compute",
            Self::Reconcile(_) => "/rewarder/epochs/{id}/reconcile",
            Self::Order(_) => "/rewarder/epochs/{id}/order",
            Self::Disputes(_) => "/rewarder/epochs/{id}/disputes",
            Self::Corrections => "/rewarder/corrections",
            Self::Payees => "/rewarder/payees",
            Self::Actor(_) => "/rewarder/actors/{actor}",
            Self::Lines(..) => "/rewarder/epochs/{id}/actors/{prefix}",
            Self::Proof(..) => "/rewarder/epochs/{id}/proof/{actor}",
            Self::File(..) => "/rewarder/epochs/{id}/files/{name}",
            Self::Policy(_) => "/rewarder/policy/{id}",
        }
    }

    /// Every name there is.
    pub(crate) const NAMES: [&'static str; 14] = [
        "/rewarder/openapi.json",
        "/rewarder/epochs",
        "/rewarder/epochs/{id}",
        "/rewarder/epochs/{id}/compute",
        "/rewarder/epochs/{id}/reconcile",
        "/rewarder/epochs/{id}/order",
        "/rewarder/epochs/{id}/disputes",
        "/rewarder/corrections",
        "/rewarder/payees",
        "/rewarder/actors/{actor}",
        "/rewarder/epochs/{id}/actors/{prefix}",
        "/rewarder/epochs/{id}/proof/{actor}",
        "/rewarder/epochs/{id}/files/{name}",
        "/rewarder/policy/{id}",
    ];
}

/// The number of an epoch, written the one way there is.
fn epoch(text: &str) -> Option<u64> {
    let canonical = text == "0" || !text.starts_with('0') && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|number| canonical && *number < EPOCHS)
}

/// A segment without its percent signs; `None` if it is not text or one of them is alone.
fn decoded(segment: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(segment.len());
    let mut rest = segment.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        if *first == b'%' {
            let digits = str::from_utf8(after.get(..2)?).ok().filter(|digits| !digits.starts_with('+'))?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = &after[2..];
        } else {
            bytes.push(*first);
            rest = after;
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_lead_where_they_say() {
        for (path, route) in [
            ("/rewarder/openapi.json", Some(Route::OpenApi)),
            ("/rewarder/epochs", Some(Route::Epochs)),
            ("/rewarder/epochs/0", Some(Route::Epoch(0))),
            ("/rewarder/epochs/9007199254740991", Some(Route::Epoch(EPOCHS - 1))),
            ("/rewarder/epochs/9007199254740992", None),
            ("/rewarder/epochs/007", None),
            ("/rewarder/epochs/-1", None),
            ("/rewarder/epochs/+1", None),
            ("/rewarder/epochs/", None),
            ("/rewarder/epochs/7/compute", Some(Route::Compute(7))),
            ("/rewarder/epochs/7/compute/", None),
            ("/rewarder/epochs/7/reconcile", Some(Route::Reconcile(7))),
            ("/rewarder/epochs/7/order", Some(Route::Order(7))),
            ("/rewarder/epochs/7/disputes", Some(Route::Disputes(7))),
            ("/rewarder/corrections", Some(Route::Corrections)),
            ("/rewarder/payees", Some(Route::Payees)),
            ("/rewarder/actors/a%2Fb", Some(Route::Actor("a/b".to_owned()))),
            ("/rewarder/epochs/7/actors/ad", Some(Route::Lines(7, "ad".to_owned()))),
            ("/rewarder/epochs/7/proof/a%2Fb", Some(Route::Proof(7, "a/b".to_owned()))),
            ("/rewarder/epochs/7/proof/a%2", None),
            ("/rewarder/epochs/7/proof/%+1", None),
            ("/rewarder/epochs/7/proof/%ff", None),
            ("/rewarder/epochs/7/files/run.json", Some(Route::File(7, "run.json".to_owned()))),
            (
                "/rewarder/epochs/7/files/snapshots/00ff.jsonl",
                Some(Route::File(7, "snapshots/00ff.jsonl".to_owned())),
            ),
            ("/rewarder/epochs/7/files/snapshots/../run.json", None),
            ("/rewarder/epochs/7/files/.unfinished", None),
            ("/rewarder/epochs/7/files/..%2frun.json", None),
            ("/rewarder/policy/default", Some(Route::Policy("default".to_owned()))),
            ("/rewarder", None),
            ("/", None),
        ] {
            assert_eq!(Route::find(path), route, "{path}");
        }
    }

    #[test]
    fn every_route_is_counted_under_a_listed_name() {
        let routes = [
            Route::OpenApi,
            Route::Epochs,
            Route::Epoch(1),
            Route::Compute(1),
            Route::Reconcile(1),
            Route::Order(1),
            Route::Disputes(1),
            Route::Corrections,
            Route::Payees,
            Route::Actor(String::new()),
            Route::Lines(1, String::new()),
            Route::Proof(1, String::new()),
            Route::File(1, String::new()),
            Route::Policy(String::new()),
        ];
        assert_eq!(routes.map(|route| route.name()), Route::NAMES);
    }
}
