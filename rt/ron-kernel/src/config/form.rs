//! One form a value may take: some schema objects that all hold at once.

use serde_json::{Map, Value};

use super::path_setting::PATH_KEYWORD;
use super::tree::{Body, Node};
use super::values::VALUE_KEYWORD;

/// One form: the conjunction of some schema objects. No object at all allows anything.
#[derive(Clone)]
pub(crate) struct Form<'s> {
    parts: Vec<&'s Map<String, Value>>,
}

impl<'s> Form<'s> {
    /// Returns true if this form allows any value.
    pub(crate) fn is_anything(&self) -> bool {
        self.types().is_empty() && self.choices().is_empty() && self.keys().is_empty()
    }

    /// The JSON types this form may have, `null` aside.
    pub(crate) fn types(&self) -> Vec<&'s str> {
        let stated = self.parts.iter().find_map(|part| part.get("type"));
        match stated {
            Some(Value::String(one)) => vec![one.as_str()],
            Some(Value::Array(some)) => {
                some.iter().filter_map(Value::as_str).filter(|t| *t != "null").collect()
            }
            _ if !self.keys().is_empty() => vec!["object"],
            _ => Vec::new(),
        }
    }

    /// Whether a value of this JSON type is allowed.
    pub(crate) fn allows(&self, kind: &str) -> bool {
        self.is_anything() || self.types().contains(&kind)
    }

    /// A number the schema states, such as `minimum`.
    pub(crate) fn number(&self, keyword: &str) -> Option<&'s Value> {
        self.parts.iter().find_map(|part| part.get(keyword)).filter(|v| v.is_number())
    }

    /// A string the schema states, such as `format`.
    pub(crate) fn text(&self, keyword: &str) -> Option<&'s str> {
        self.parts.iter().find_map(|part| part.get(keyword)).and_then(Value::as_str)
    }

    /// Which of our own value types this is.
    pub(crate) fn value_kind(&self) -> Option<&'s str> {
        self.text(VALUE_KEYWORD)
    }

    /// What may precede a path in this value; empty if it is no path.
    pub(crate) fn path_prefixes(&self) -> impl Iterator<Item = &'s str> {
        let lists = self.parts.iter().filter_map(|part| part.get(PATH_KEYWORD).and_then(Value::as_array));
        lists.flatten().filter_map(Value::as_str)
    }

    /// The keys that must be given.
    pub(crate) fn required(&self) -> impl Iterator<Item = &'s str> {
        let lists = self.parts.iter().filter_map(|part| part.get("required").and_then(Value::as_array));
        lists.flatten().filter_map(Value::as_str)
    }

    /// The strings this form may be, if it is an enum.
    pub(crate) fn choices(&self) -> Vec<&'s str> {
        let constants = self.parts.iter().filter_map(|part| part.get("const"));
        let lists = self.parts.iter().filter_map(|part| part.get("enum").and_then(Value::as_array));
        constants.chain(lists.flatten()).filter_map(Value::as_str).collect()
    }

    /// Whether the value is a secret.
    pub(crate) fn is_secret(&self) -> bool {
        self.parts.iter().any(|part| part.get("writeOnly") == Some(&Value::Bool(true)))
    }

    /// The keys with a fixed name.
    pub(crate) fn keys(&self) -> Vec<&'s str> {
        let tables = self.parts.iter().filter_map(|part| part.get("properties").and_then(Value::as_object));
        tables.flat_map(|table| table.keys().map(String::as_str)).collect()
    }

    /// The schema below a key, if the key is allowed.
    pub(crate) fn child(&self, key: &str) -> Option<&'s Value> {
        let mut tables = self.parts.iter().filter_map(|part| part.get("properties"));
        tables.find_map(|table| table.get(key)).or_else(|| self.additional())
    }

    /// The schema of keys the operator chooses.
    pub(crate) fn additional(&self) -> Option<&'s Value> {
        let stated = self.parts.iter().find_map(|part| part.get("additionalProperties"));
        stated.filter(|schema| **schema != Value::Bool(false))
    }

    /// The schema of a list's elements.
    pub(crate) fn items(&self) -> Option<&'s Value> {
        self.parts.iter().find_map(|part| part.get("items")).filter(|schema| schema.is_object())
    }

    /// Whether every constant key that `given` knows has the value this form wants.
    pub(crate) fn agrees<'n>(&self, given: impl Fn(&str) -> Option<&'n Node>) -> bool {
        self.keys().into_iter().all(|key| {
            let wanted = self.child(key).and_then(|schema| schema.get("const"));
            match (wanted, given(key).map(|node| &node.body)) {
                (Some(wanted), Some(Body::Leaf(value))) => wanted == value,
                _ => true,
            }
        })
    }
}

/// All forms of a schema, with its references followed.
pub(crate) fn forms<'s>(doc: &'s Value, schema: &'s Value, depth: usize) -> Vec<Form<'s>> {
    let Some(map) = schema.as_object() else {
        return if schema == &Value::Bool(true) { vec![Form { parts: Vec::new() }] } else { Vec::new() };
    };
    let mut found = vec![Form { parts: vec![map] }];
    if depth == 0 {
        return found;
    }
    if let Some(target) = referred(doc, map) {
        found = product(&found, &forms(doc, target, depth - 1));
    }
    for all in map.get("allOf").and_then(Value::as_array).into_iter().flatten() {
        found = product(&found, &forms(doc, all, depth - 1));
    }
    for keyword in ["anyOf", "oneOf"] {
        if let Some(any) = map.get(keyword).and_then(Value::as_array) {
            let sides: Vec<_> = any.iter().flat_map(|schema| forms(doc, schema, depth - 1)).collect();
            found = product(&found, &sides);
        }
    }
    found.retain(|form| form.types() != ["null"]);
    found
}

fn product<'s>(left: &[Form<'s>], right: &[Form<'s>]) -> Vec<Form<'s>> {
    let join = |a: &Form<'s>, b: &Form<'s>| Form { parts: a.parts.iter().chain(&b.parts).copied().collect() };
    left.iter().flat_map(|a| right.iter().map(move |b| join(a, b))).collect()
}

/// Returns the schema that a `$ref` points to.
pub(crate) fn referred<'s>(doc: &'s Value, map: &Map<String, Value>) -> Option<&'s Value> {
    doc.pointer(map.get("$ref")?.as_str()?.strip_prefix('#')?)
}
