//! What the JSON schema allows at one place of the tree: references resolved, alternatives laid out side by side.

use std::collections::BTreeMap;

use serde_json::Value;

use super::form::{Form, forms, referred};
use super::path;
use super::tree::Node;

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
    /// Whether the operator chose a key for this text that is a word for secrets, such as `authorization`.
    named_like_secret: bool,
}

/// Words in keys chosen by operators, such as names of header fields, whose values are not shown.
const SECRET_WORDS: [&str; 9] =
    ["secret", "token", "passw", "credential", "private", "key", "auth", "cookie", "session"];

impl<'s> Shape<'s> {
    /// The shape of the whole file.
    pub(crate) fn root(doc: &'s Value) -> Self {
        Self::of(doc, doc)
    }

    fn of(doc: &'s Value, schema: &'s Value) -> Self {
        let forms = forms(doc, schema, MAX_DEPTH);
        let about = about(doc, schema, MAX_DEPTH);
        Self { doc, forms, about, default: schema.get("default"), required: false, named_like_secret: false }
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
        let required = self.tables().all(|form| form.required().any(|required| required == key));
        let is_text = below.forms.iter().all(|form| form.allows("string"));
        let is_chosen = !self.keys().contains(&key);
        let named_like_secret = is_text && is_chosen && is_word_for_secrets(key);
        Some(Self { required, named_like_secret, ..below })
    }

    /// The place below, along keys.
    pub(crate) fn below(&self, keys: &[String]) -> Option<Self> {
        keys.iter().try_fold(self.clone(), |shape, key| shape.child(key))
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
        let forms: Vec<_> =
            self.forms.iter().filter(|form| form.agrees(|key| table.get(key))).cloned().collect();
        if forms.is_empty() { self.clone() } else { Self { forms, ..self.clone() } }
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

    /// What may precede a path in this value; empty if it is no path.
    pub(crate) fn path_prefixes(&self) -> Vec<&'s str> {
        self.forms.iter().flat_map(Form::path_prefixes).collect()
    }

    /// Whether the value is a secret.
    pub(crate) fn is_secret(&self) -> bool {
        self.named_like_secret || self.forms.iter().any(Form::is_secret)
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
            || below.chain(self.items()).chain(self.entries()).any(|shape| shape.any_within(depth - 1, test))
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

/// Whether a key names a secret.
pub(crate) fn is_word_for_secrets(key: &str) -> bool {
    let key = key.to_lowercase();
    SECRET_WORDS.iter().any(|word| key.contains(word))
}

/// The documentation at the schema itself, else at what it refers to.
fn about<'s>(doc: &'s Value, schema: &'s Value, depth: usize) -> Option<&'s str> {
    if let Some(text) = schema.get("description") {
        return text.as_str();
    }
    let below = |target| {
        if depth == 0 { None } else { about(doc, target, depth - 1) }
    };
    let map = schema.as_object()?;
    let optional = map.get("anyOf").and_then(Value::as_array).filter(|any| any.len() == 2);
    referred(doc, map).and_then(below).or_else(|| optional.and_then(|any| any.first()).and_then(below))
}
