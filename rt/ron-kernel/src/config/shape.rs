//! What the JSON schema allows at one place of the tree: references resolved, alternatives laid out side by side.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::path;
use super::tree::{Body, Node};
use super::values::VALUE_KEYWORD;

/// How deep schemas are followed where the file does not set the pace; a recursive type would never end.
pub(crate) const MAX_DEPTH: usize = 12;

/// Every form a value may take at one place.
#[derive(Clone)]
pub(crate) struct Shape<'s> {
    doc: &'s Value,
    forms: Vec<Form<'s>>,
    /// The documentation of this place.
    pub(crate) about: Option<&'s str>,
    /// The default the schema states, for places (such as a list's elements) that have no resolved default.
    pub(crate) default: Option<&'s Value>,
    /// Whether the table around this place is not complete without it.
    pub(crate) required: bool,
}

/// One form: the conjunction of some schema objects. No object at all allows anything.
#[derive(Clone)]
pub(crate) struct Form<'s> {
    parts: Vec<&'s Map<String, Value>>,
}

impl<'s> Shape<'s> {
    /// The shape of the whole file.
    pub(crate) fn root(doc: &'s Value) -> Self {
        Self::of(doc, doc)
    }

    fn of(doc: &'s Value, schema: &'s Value) -> Self {
        let forms = forms(doc, schema, MAX_DEPTH);
        let about = about(doc, schema, MAX_DEPTH);
        Self {
            doc,
            forms,
            about,
            default: schema.get("default"),
            required: false,
        }
    }

    /// The forms side by side.
    pub(crate) fn forms(&self) -> &[Form<'s>] {
        &self.forms
    }

    /// The forms that are tables.
    pub(crate) fn tables(&self) -> impl Iterator<Item = &Form<'s>> {
        self.forms.iter().filter(|form| form.allows("object"))
    }

    /// The keys a table here may have, in the order of the schema.
    pub(crate) fn keys(&self) -> Vec<&'s str> {
        let mut keys = Vec::new();
        for key in self.forms.iter().flat_map(Form::keys) {
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
        keys
    }

    /// The shape below a key, if the key is allowed in any of the forms.
    pub(crate) fn child(&self, key: &str) -> Option<Self> {
        let below = self.join(self.forms.iter().filter_map(|form| form.child(key)))?;
        let required = self
            .tables()
            .all(|form| form.required().any(|required| required == key));
        Some(Self { required, ..below })
    }

    /// The shape of the entries of a map: keys chosen by the operator.
    pub(crate) fn entries(&self) -> Option<Self> {
        self.join(self.forms.iter().filter_map(Form::additional))
    }

    /// The shape of the elements of a list.
    pub(crate) fn items(&self) -> Option<Self> {
        self.join(self.forms.iter().filter_map(Form::items))
    }

    /// Only the forms that agree with the constant keys (the tag of an enum) of this table, if any does.
    pub(crate) fn narrowed(&self, table: &BTreeMap<String, Node>) -> Self {
        let forms: Vec<_> = self
            .forms
            .iter()
            .filter(|form| form.agrees(|key| table.get(key)))
            .cloned()
            .collect();
        if forms.is_empty() {
            self.clone()
        } else {
            Self {
                forms,
                ..self.clone()
            }
        }
    }

    /// Whether one form holds both tables at once, `top` winning where they overlap.
    pub(crate) fn fits(&self, base: &BTreeMap<String, Node>, top: &BTreeMap<String, Node>) -> bool {
        if self.tables().count() <= 1 {
            return true;
        }
        let mut tables = self.tables();
        tables.any(|form| {
            base.keys().chain(top.keys()).all(|key| form.child(key).is_some())
                && form.agrees(|key| top.get(key).or_else(|| base.get(key)))
        })
    }

    /// The strings an enum here may be.
    pub(crate) fn choices(&self) -> Vec<&'s str> {
        self.forms.iter().flat_map(Form::choices).collect()
    }

    /// Whether the value is a secret.
    pub(crate) fn is_secret(&self) -> bool {
        self.forms.iter().any(Form::is_secret)
    }

    /// Whether the value, or anything that may lie inside it, is a secret.
    pub(crate) fn holds_secret(&self) -> bool {
        self.any_within(MAX_DEPTH, &|shape| shape.is_secret())
    }

    /// Calls `visit` with the path, name and shape of every key below; lists and maps add `[]` and `<name>`.
    pub(crate) fn visit(&self, at: &str, depth: usize, visit: &mut dyn FnMut(&str, &str, &Self)) {
        if depth == 0 {
            return;
        }
        for key in self.keys() {
            let Some(shape) = self.child(key) else { continue };
            let below = path::child(at, key);
            visit(&below, key, &shape);
            shape.visit(&below, depth - 1, visit);
        }
        if let Some(items) = self.items() {
            items.visit(&format!("{at}[]"), depth - 1, visit);
        }
        if let Some(entries) = self.entries() {
            entries.visit(&format!("{at}.<name>"), depth - 1, visit);
        }
    }

    fn any_within(&self, depth: usize, test: &dyn Fn(&Self) -> bool) -> bool {
        if depth == 0 {
            return false;
        }
        let below = self.keys().into_iter().filter_map(|key| self.child(key));
        test(self)
            || below
                .chain(self.items())
                .chain(self.entries())
                .any(|shape| shape.any_within(depth - 1, test))
    }

    fn join(&self, schemas: impl Iterator<Item = &'s Value>) -> Option<Self> {
        let mut shapes = schemas.map(|schema| Self::of(self.doc, schema));
        let mut joined = shapes.next()?;
        for shape in shapes {
            joined.forms.extend(shape.forms);
            joined.about = joined.about.or(shape.about);
        }
        Some(joined)
    }
}

impl<'s> Form<'s> {
    /// Whether this form allows anything.
    pub(crate) fn is_anything(&self) -> bool {
        self.types().is_empty() && self.choices().is_empty() && self.keys().is_empty()
    }

    /// The JSON types this form may have, `null` aside.
    pub(crate) fn types(&self) -> Vec<&'s str> {
        let stated = self.parts.iter().find_map(|part| part.get("type"));
        match stated {
            Some(Value::String(one)) => vec![one.as_str()],
            Some(Value::Array(some)) => some
                .iter()
                .filter_map(Value::as_str)
                .filter(|t| *t != "null")
                .collect(),
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
        self.parts
            .iter()
            .find_map(|part| part.get(keyword))
            .filter(|v| v.is_number())
    }

    /// A string the schema states, such as `format`.
    pub(crate) fn text(&self, keyword: &str) -> Option<&'s str> {
        self.parts
            .iter()
            .find_map(|part| part.get(keyword))
            .and_then(Value::as_str)
    }

    /// Which of our own value types this is.
    pub(crate) fn value_kind(&self) -> Option<&'s str> {
        self.text(VALUE_KEYWORD)
    }

    /// The keys that must be given.
    pub(crate) fn required(&self) -> impl Iterator<Item = &'s str> {
        let lists = self
            .parts
            .iter()
            .filter_map(|part| part.get("required").and_then(Value::as_array));
        lists.flatten().filter_map(Value::as_str)
    }

    /// The strings this form may be, if it is an enum.
    pub(crate) fn choices(&self) -> Vec<&'s str> {
        let constants = self.parts.iter().filter_map(|part| part.get("const"));
        let lists = self
            .parts
            .iter()
            .filter_map(|part| part.get("enum").and_then(Value::as_array));
        constants
            .chain(lists.flatten())
            .filter_map(Value::as_str)
            .collect()
    }

    fn is_secret(&self) -> bool {
        self.parts
            .iter()
            .any(|part| part.get("writeOnly") == Some(&Value::Bool(true)))
    }

    fn keys(&self) -> Vec<&'s str> {
        let tables = self
            .parts
            .iter()
            .filter_map(|part| part.get("properties").and_then(Value::as_object));
        tables
            .flat_map(|table| table.keys().map(String::as_str))
            .collect()
    }

    fn child(&self, key: &str) -> Option<&'s Value> {
        let mut tables = self.parts.iter().filter_map(|part| part.get("properties"));
        tables
            .find_map(|table| table.get(key))
            .or_else(|| self.additional())
    }

    fn additional(&self) -> Option<&'s Value> {
        let stated = self
            .parts
            .iter()
            .find_map(|part| part.get("additionalProperties"));
        stated.filter(|schema| **schema != Value::Bool(false))
    }

    fn items(&self) -> Option<&'s Value> {
        self.parts
            .iter()
            .find_map(|part| part.get("items"))
            .filter(|schema| schema.is_object())
    }

    /// Whether every constant key that `given` knows has the value this form wants.
    fn agrees<'n>(&self, given: impl Fn(&str) -> Option<&'n Node>) -> bool {
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
fn forms<'s>(doc: &'s Value, schema: &'s Value, depth: usize) -> Vec<Form<'s>> {
    let Some(map) = schema.as_object() else {
        return if schema == &Value::Bool(true) {
            vec![Form { parts: Vec::new() }]
        } else {
            Vec::new()
        };
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
            let sides: Vec<_> = any
                .iter()
                .flat_map(|schema| forms(doc, schema, depth - 1))
                .collect();
            found = product(&found, &sides);
        }
    }
    found.retain(|form| form.types() != ["null"]);
    found
}

fn product<'s>(left: &[Form<'s>], right: &[Form<'s>]) -> Vec<Form<'s>> {
    let join = |a: &Form<'s>, b: &Form<'s>| Form {
        parts: a.parts.iter().chain(&b.parts).copied().collect(),
    };
    left.iter()
        .flat_map(|a| right.iter().map(move |b| join(a, b)))
        .collect()
}

/// The documentation at the schema itself, else at what it refers to.
fn about<'s>(doc: &'s Value, schema: &'s Value, depth: usize) -> Option<&'s str> {
    if let Some(text) = schema.get("description") {
        return text.as_str();
    }
    let below = |target| {
        if depth == 0 {
            None
        } else {
            about(doc, target, depth - 1)
        }
    };
    let map = schema.as_object()?;
    let optional = map
        .get("anyOf")
        .and_then(Value::as_array)
        .filter(|any| any.len() == 2);
    referred(doc, map)
        .and_then(below)
        .or_else(|| optional.and_then(|any| any.first()).and_then(below))
}

fn referred<'s>(doc: &'s Value, map: &Map<String, Value>) -> Option<&'s Value> {
    doc.pointer(map.get("$ref")?.as_str()?.strip_prefix('#')?)
}
