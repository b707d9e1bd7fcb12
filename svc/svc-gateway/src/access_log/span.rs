//! A request's line as a span, by the names that OpenTelemetry has for its parts. What is no part of a line is no part of
//! a span either: no credential, no query string.

use std::sync::atomic::Ordering;

use ron_kernel::spans::{Attribute, Span, SpanIds};
use types::Reason;

use super::{Line, line::CLIENT_LEFT};
use crate::topology::TOPOLOGY;

impl Line {
    /// The span of a request that is over.
    pub(super) fn span(&self, ids: SpanIds) -> Span {
        let method = self.method.as_str();
        let route = self.route.as_deref();
        let status = self.status.unwrap_or(CLIENT_LEFT);
        let text = |text: &str| Attribute::from(text.to_owned());
        let known = [
            ("http.request.method", Some(text(method))),
            ("http.route", route.map(text)),
            ("url.path", Some(Attribute::path(self.target.path()))),
            ("http.response.status_code", Some(u64::from(status).into())),
            ("http.request.body.size", Some(self.bytes_in.load(Ordering::Relaxed).into())),
            ("http.response.body.size", Some(self.bytes_out.into())),
            ("client.address", self.client.map(|ip| ip.to_string().into())),
            ("omnigate.corr_id", self.corr_id.to_str().ok().map(text)),
            ("omnigate.tenant", self.tenant.as_ref().map(|tenant| tenant.to_string().into())),
            ("omnigate.class", Some(self.class).filter(|class| !class.is_empty()).map(Attribute::from)),
            ("omnigate.reason", self.reason.map(Reason::as_str).map(Attribute::from)),
            ("omnigate.upstream", self.upstream.as_deref().map(text)),
            ("omnigate.tries", Some(u64::from(self.tries).into()).filter(|_| self.tries > 0)),
        ];
        Span {
            service: TOPOLOGY.service,
            name: route.map_or_else(|| method.to_owned(), |route| format!("{method} {route}")),
            ids,
            began: self.at,
            took: self.took,
            attributes: known.into_iter().filter_map(|(name, value)| Some((name, value?))).collect(),
            failed: status >= 500,
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::time::Duration;

    use http::{HeaderValue, Method};

    use super::*;

    const IDS: SpanIds = SpanIds { trace: [b'1'; 32], span: [b'2'; 16], parent: None };

    fn line(target: &str) -> Line {
        let target = target.parse().unwrap();
        Line::new(Duration::from_secs(1), HeaderValue::from_static("id-1"), Method::GET, target)
    }

    #[test]
    fn a_span_holds_no_secret_of_the_target_and_not_more_of_it_than_it_may() {
        let long = format!("http://me:secret@a.example/{}?token=secret", "x".repeat(1000));
        let span = line(&long).span(IDS);
        let told = format!("{span:?}");
        assert!(!told.contains("secret"), "{told}");
        let path = span.attributes.iter().find(|(name, _)| *name == "url.path").unwrap();
        assert_eq!(path.1, Attribute::from(format!("/{}", "x".repeat(255))));
    }

    #[test]
    fn only_what_is_no_fault_of_the_clients_has_failed() {
        for (status, failed) in [(None, false), (Some(200), false), (Some(429), false), (Some(502), true)] {
            let line = Line { status, route: Some("/a".into()), ..line("/a") };
            let span = line.span(IDS);
            assert_eq!((span.failed, span.name.as_str()), (failed, "GET /a"));
        }
        assert_eq!(line("/").span(IDS).name, "GET");
    }
}
