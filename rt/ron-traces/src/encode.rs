//! Spans as OTLP says them in JSON: ids in hexadecimal digits, 64-bit numbers as text.

use std::time::Duration;

use ron_kernel::spans::{Attribute, Span};
use serde_json::{Value, json};

/// OTLP's number for a span of the server's side.
const KIND_SERVER: u8 = 2;
/// And for a fault on this side.
const STATUS_ERROR: u8 = 2;

/// The body of a request that exports `spans` of a node.
pub(crate) fn request(node: &str, spans: &[Span]) -> Vec<u8> {
    let mut services: Vec<&str> = spans.iter().map(|span| span.service).collect();
    services.sort_unstable();
    services.dedup();
    let scopes: Vec<Value> = services
        .into_iter()
        .map(|service| {
            let spans = spans.iter().filter(|span| span.service == service).map(span);
            json!({ "scope": { "name": service }, "spans": spans.collect::<Vec<_>>() })
        })
        .collect();
    let resource = [
        ("service.name", "omnigate"),
        ("service.version", env!("CARGO_PKG_VERSION")),
        ("service.instance.id", node),
    ];
    let resource = resource.map(|(key, value)| json!({ "key": key, "value": { "stringValue": value } }));
    let document =
        json!({ "resourceSpans": [{ "resource": { "attributes": resource }, "scopeSpans": scopes }] });
    document.to_string().into_bytes()
}

fn span(span: &Span) -> Value {
    let mut document = json!({
        "traceId": digits(&span.ids.trace),
        "spanId": digits(&span.ids.span),
        "name": span.name,
        "kind": KIND_SERVER,
        "startTimeUnixNano": nanos(span.began),
        "endTimeUnixNano": nanos(span.began + span.took),
        "attributes": span.attributes.iter().map(attribute).collect::<Vec<_>>(),
        "status": if span.failed { json!({ "code": STATUS_ERROR }) } else { json!({}) },
    });
    if let Some(parent) = &span.ids.parent {
        document["parentSpanId"] = digits(parent).into();
    }
    document
}

fn attribute((key, value): &(&'static str, Attribute)) -> Value {
    let value = match value {
        Attribute::Text(text) => json!({ "stringValue": text }),
        Attribute::Number(number) => json!({ "intValue": number.to_string() }),
    };
    json!({ "key": key, "value": value })
}

fn digits(digits: &[u8]) -> String {
    String::from_utf8_lossy(digits).into_owned()
}

fn nanos(time: Duration) -> String {
    time.as_nanos().to_string()
}
