//! What a single value may be at its place, in words, and why a given one is refused.

use serde_json::Value;

use super::form::Form;
use super::shape::Shape;
use super::suggest::{listed, nearest};
use super::tree::Body;
use super::values::{ByteSize, HumanDuration};

/// Why a value is refused, and what to do.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) message: String,
    pub(crate) help: Option<String>,
}

/// Why this value cannot stand here; nothing if it can. Looks at the value itself, not inside lists and tables.
pub(crate) fn fault(body: &Body, shape: &Shape<'_>, at: &str) -> Option<Fault> {
    let kind = json_type(body);
    let of_kind: Vec<&Form<'_>> = shape.forms().iter().filter(|form| form_allows(form, kind)).collect();
    if of_kind.is_empty() {
        return Some(mismatch(body, shape, at));
    }
    let Body::Leaf(value) = body else { return None };
    let mut faults = Vec::new();
    for form in of_kind {
        faults.push(leaf_fault(value, form, shape)?);
    }
    faults.into_iter().next()
}

/// What is allowed here, as a phrase: "an integer", "a duration such as \"5s\"", "`text` or a table".
pub(crate) fn expected(shape: &Shape<'_>) -> String {
    let mut phrases: Vec<String> = Vec::new();
    let choices = shape.choices();
    if !choices.is_empty() {
        phrases.push(format!("one of {}", listed(choices)));
    }
    for form in shape.forms().iter().filter(|form| form.choices().is_empty()) {
        for phrase in form_phrases(form) {
            if !phrases.iter().any(|known| known == phrase) {
                phrases.push(phrase.to_owned());
            }
        }
    }
    phrases.join(" or ")
}

fn form_phrases(form: &Form<'_>) -> Vec<&'static str> {
    match form.value_kind() {
        Some("duration") => return vec!["a duration such as \"5s\""],
        Some("size") => return vec!["a size such as \"1MiB\""],
        _ => {}
    }
    form.types().into_iter().map(type_phrase).collect()
}

fn type_phrase(json_type: &str) -> &'static str {
    match json_type {
        "string" => "a string",
        "integer" => "an integer",
        "number" => "a number",
        "boolean" => "`true` or `false`",
        "array" => "a list",
        "object" => "a table",
        _ => "something else",
    }
}

fn mismatch(body: &Body, shape: &Shape<'_>, at: &str) -> Fault {
    let kind = json_type(body);
    let found = match kind {
        "boolean" => "a boolean",
        "number" => "a fraction",
        other => type_phrase(other),
    };
    let duration = shape.forms().iter().any(|form| form.value_kind() == Some("duration"));
    let of_tables = shape.items().is_some_and(|items| !items.keys().is_empty());
    let help = match kind {
        "integer" | "number" if duration => {
            Some("a duration needs its unit, in quotes: \"5s\", \"250ms\"".to_owned())
        }
        "object" if of_tables => Some(format!("write each table of the list under `[[{at}]]`")),
        _ => None,
    };
    Fault { message: format!("expected {}, found {found}", expected(shape)), help }
}

fn json_type(body: &Body) -> &'static str {
    match body {
        Body::Table(_) | Body::Leaf(Value::Object(_)) => "object",
        Body::Array(_) | Body::Leaf(Value::Array(_)) => "array",
        Body::Leaf(Value::String(_)) => "string",
        Body::Leaf(Value::Bool(_)) => "boolean",
        Body::Leaf(Value::Number(n)) if n.is_f64() => "number",
        Body::Leaf(Value::Number(_)) => "integer",
        Body::Leaf(Value::Null) => "null",
    }
}

fn form_allows(form: &Form<'_>, kind: &str) -> bool {
    form.allows(kind) || (kind == "integer" && form.allows("number"))
}

fn leaf_fault(value: &Value, form: &Form<'_>, shape: &Shape<'_>) -> Option<Fault> {
    match value {
        Value::String(text) => text_fault(text, form, shape),
        Value::Number(_) => range_fault(value, form),
        _ => None,
    }
}

fn text_fault(text: &str, form: &Form<'_>, shape: &Shape<'_>) -> Option<Fault> {
    if !form.choices().is_empty() {
        return if form.choices().contains(&text) { None } else { Some(wrong_choice(text, shape)) };
    }
    let (kind, allowed) = match form.value_kind()? {
        "duration" => ("duration", HumanDuration::read(text).err()?),
        "size" => ("size", ByteSize::read(text).err()?),
        _ => return None,
    };
    Some(Fault { message: format!("not a {kind}"), help: Some(format!("write {allowed}")) })
}

fn wrong_choice(text: &str, shape: &Shape<'_>) -> Fault {
    let choices = shape.choices();
    // A value that may hold a secret in another form is not repeated.
    let message =
        if shape.holds_secret() { "unknown value".to_owned() } else { format!("unknown value `{text}`") };
    let allowed = format!("allowed: {}", listed(choices.iter().copied()));
    let help = match nearest(text, choices) {
        Some(meant) => format!("did you mean `{meant}`? {allowed}"),
        None => allowed,
    };
    Fault { message, help: Some(help) }
}

/// The bounds the schema states, or those of the integer type it names.
fn range_fault(value: &Value, form: &Form<'_>) -> Option<Fault> {
    let stated = |keyword| form.number(keyword).cloned();
    let (type_min, type_max) = form.text("format").map_or((None, None), format_range);
    let (min, max) = (stated("minimum").or(type_min), stated("maximum").or(type_max));
    let given = value.as_f64()?;
    let below = min.as_ref().and_then(Value::as_f64).is_some_and(|min| given < min);
    let above = max.as_ref().and_then(Value::as_f64).is_some_and(|max| given > max);
    if !below && !above {
        return None;
    }
    let message = match (min, max) {
        (Some(min), Some(max)) => format!("must be between {min} and {max}"),
        (Some(min), None) => format!("must be at least {min}"),
        (_, max) => format!("must be at most {}", max.unwrap_or(Value::Null)),
    };
    Some(Fault { message, help: None })
}

fn format_range(format: &str) -> (Option<Value>, Option<Value>) {
    let (min, max): (Value, Value) = match format {
        "int8" => (i8::MIN.into(), i8::MAX.into()),
        "int16" => (i16::MIN.into(), i16::MAX.into()),
        "int32" => (i32::MIN.into(), i32::MAX.into()),
        "uint8" => (0.into(), u8::MAX.into()),
        "uint16" => (0.into(), u16::MAX.into()),
        "uint32" => (0.into(), u32::MAX.into()),
        "uint" | "uint64" => return (Some(0.into()), None),
        _ => return (None, None),
    };
    (Some(min), Some(max))
}
