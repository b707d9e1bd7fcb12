//! The reference of all settings as Markdown, written from the schema so that it cannot be out of date.

use std::fmt::Write as _;

use super::form::Form;
use super::path;
use super::shape::{MAX_DEPTH, Shape};
use super::table::{Registered, Schema};
use super::text;
use super::tree::{Body, Node};

impl Schema {
    /// Every table and key: type, default, meaning, and whether a change takes effect live or after a restart.
    #[must_use]
    pub fn reference_markdown(&self) -> String {
        let root = self.shape();
        let mut page = String::new();
        for table in self.tables() {
            let Some(shape) = root.child(table.name) else {
                continue;
            };
            push(&mut page, format_args!("## `[{}]`\n", table.name));
            if let Some(about) = shape.about {
                push(&mut page, format_args!("{about}\n"));
            }
            push(
                &mut page,
                format_args!("| key | type | default | meaning | reload |\n|---|---|---|---|---|"),
            );
            shape.visit("", MAX_DEPTH, &mut |path, _, shape| {
                push(&mut page, format_args!("{}", row(table, path, shape)));
            });
            page.push('\n');
        }
        page.truncate(page.trim_end().len());
        page.push('\n');
        page
    }
}

/// What may be written at a place, in a few words: `integer`, `list of string`, `"text"` or `"json"`.
pub(crate) fn type_text(shape: &Shape<'_>) -> String {
    if shape.is_secret() {
        return "secret".to_owned();
    }
    let mut names: Vec<String> = shape.choices().into_iter().map(text::quoted).collect();
    for form in shape.forms().iter().filter(|form| form.choices().is_empty()) {
        for name in form_text(form, shape) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
    }
    names.join(" or ")
}

fn form_text(form: &Form<'_>, shape: &Shape<'_>) -> Vec<String> {
    if let Some(kind) = form.value_kind() {
        return vec![kind.to_owned()];
    }
    let name = |json_type| match json_type {
        "array" => shape.items().map_or("list".to_owned(), |items| format!("list of {}", type_text(&items))),
        "object" => match shape.entries() {
            Some(entries) => format!("{} by name", type_text(&entries)),
            None => "table".to_owned(),
        },
        other => other.to_owned(),
    };
    form.types().into_iter().map(name).collect()
}

/// The default at a path of a table, as TOML; nothing if there is none.
pub(crate) fn default_text(defaults: &Node, path: &str, shape: &Shape<'_>) -> Option<String> {
    if path.contains(['[', '<']) {
        let stated = shape.default.filter(|value| !value.is_null() && !shape.holds_secret());
        return stated.map(text::inline);
    }
    let node = path::keys(path).iter().try_fold(defaults, |node, key| node.get(key))?;
    Some(text::inline(&node.to_json()))
}

fn row(table: &Registered, path: &str, shape: &Shape<'_>) -> String {
    let struct_default = matches!(node_body(table, path), Some(Body::Table(_))) && !shape.keys().is_empty();
    let default = match default_text(&table.defaults, path, shape) {
        // The rows below show the defaults of a struct one by one.
        Some(_) if struct_default => String::new(),
        Some(text) => format!("`{}`", cell(&text)),
        None if shape.required => "required".to_owned(),
        None => "unset".to_owned(),
    };
    let restart = table.restart.iter().any(|prefix| path::is_under(path, prefix));
    let reload = if restart { "restart" } else { "live" };
    let (kind, about) = (cell(&type_text(shape)), cell(shape.about.unwrap_or_default()));
    format!("| `{path}` | {kind} | {default} | {about} | {reload} |")
}

fn node_body<'t>(table: &'t Registered, path: &str) -> Option<&'t Body> {
    let node = path::keys(path).iter().try_fold(&table.defaults, |node, key| node.get(key));
    node.map(|node| &node.body)
}

/// Text that stays inside its table cell.
fn cell(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}

fn push(page: &mut String, line: std::fmt::Arguments<'_>) {
    writeln!(page, "{line}").expect("writing to a string cannot fail");
}
