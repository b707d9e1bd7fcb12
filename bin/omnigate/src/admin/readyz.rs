//! `/readyz` and `/healthz`: whether requests are welcome, and why not.

use http::{HeaderValue, StatusCode, header};
use ron_kernel::{
    Scope,
    readiness::{Effect, Standing},
};
use ron_transport::Response;
use serde_json::{Value, json};
use types::{Reason, Refusal};

use super::reply;

/// Services that no client asks for anything but how the node is.
const OF_THE_NODE: [&str; 3] = ["kernel", "admin", "traces"];

/// Answers for the node, or for one service. The reasons, which may quote the configuration, are for operators.
pub(super) fn readyz(scope: &Scope, service: Option<&str>, with_reasons: bool) -> Result<Response, Refusal> {
    let readiness = scope.readiness();
    if let Some(unknown) = service.filter(|name| !readiness.services().contains(name)) {
        let known = readiness.services().join(", ");
        return Err(Refusal::new(
            Reason::NotFound,
            format!("no service is called `{unknown}`; there are {known}"),
        ));
    }
    let (verdict, body) = judged(scope, service, with_reasons);
    let mut response = reply::json(verdict.status(), &body);
    if verdict == Verdict::Degraded {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    }
    Ok(response)
}

/// What [`readyz`] would answer for a service that there is.
pub(super) fn summary(scope: &Scope, service: Option<&str>, with_reasons: bool) -> Value {
    judged(scope, service, with_reasons).1
}

fn judged(scope: &Scope, service: Option<&str>, with_reasons: bool) -> (Verdict, Value) {
    let standing = scope.readiness().standing(service);
    let effects = standing.iter().map(|standing| match standing.effect {
        Effect::ServiceDown if service.is_some() || is_alone(scope, standing.service) => Effect::Down,
        Effect::ServiceDown => Effect::Report,
        other => other,
    });
    let verdict = Verdict::of(scope.shutdown().is_draining(), effects);
    let conditions: Vec<Value> = standing.iter().map(|s| condition(s, with_reasons)).collect();
    (verdict, json!({ "status": verdict.as_str(), "conditions": conditions }))
}

/// Whether a service is the only one of the node that clients ask.
fn is_alone(scope: &Scope, service: &str) -> bool {
    scope.readiness().services().iter().all(|other| *other == service || OF_THE_NODE.contains(other))
}

/// Answers as long as the process runs, and names cores that do not.
pub(super) fn healthz(scope: &Scope) -> Response {
    let standing = scope.readiness().standing(Some("kernel"));
    let silent: Vec<&str> =
        standing.iter().filter(|s| s.name == "core_silent").map(|s| s.reason.as_str()).collect();
    reply::json(StatusCode::OK, &json!({ "status": "ok", "silent_cores": silent }))
}

fn condition(standing: &Standing, with_reason: bool) -> Value {
    let mut shown = json!({
        "service": standing.service,
        "name": standing.name,
        "effect": standing.effect.as_str(),
    });
    if with_reason {
        shown["reason"] = standing.reason.as_str().into();
    }
    shown
}

/// The conditions folded into one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Ready,
    Degraded,
    Down,
    Draining,
}

impl Verdict {
    fn of(draining: bool, effects: impl Iterator<Item = Effect>) -> Self {
        match effects.max() {
            _ if draining => Self::Draining,
            Some(Effect::Down | Effect::ServiceDown) => Self::Down,
            Some(Effect::ShedWrites) => Self::Degraded,
            Some(Effect::Report) | None => Self::Ready,
        }
    }

    const fn as_str(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Degraded => "degraded",
            Self::Down => "down",
            Self::Draining => "draining",
        }
    }

    const fn status(self) -> StatusCode {
        match self {
            Self::Ready => StatusCode::OK,
            Self::Degraded | Self::Down | Self::Draining => StatusCode::SERVICE_UNAVAILABLE,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn standing(effect: Effect) -> Standing {
        Standing { service: "gateway", name: "broken", effect, reason: "secret plans".to_owned() }
    }

    #[test]
    fn the_worst_condition_decides_and_a_report_does_not_count() {
        let of = |effects: &[Effect]| {
            let verdict = Verdict::of(false, effects.iter().copied());
            (verdict.as_str(), verdict.status().as_u16())
        };
        assert_eq!(of(&[]), ("ready", 200));
        assert_eq!(of(&[Effect::Report]), ("ready", 200));
        assert_eq!(of(&[Effect::Report, Effect::ShedWrites]), ("degraded", 503));
        assert_eq!(of(&[Effect::ShedWrites, Effect::Down]), ("down", 503));
        assert_eq!(Verdict::of(true, std::iter::empty()), Verdict::Draining);
    }

    #[test]
    fn reasons_are_told_to_operators_only() {
        assert_eq!(condition(&standing(Effect::Down), true)["reason"], "secret plans");
        assert!(!condition(&standing(Effect::Down), false).to_string().contains("plans"));
    }
}
