//! How a service registers its configuration table, and how the table says what is wrong with its values.

use std::any::Any;
use std::fmt::Display;
use std::sync::Arc;

use schemars::{JsonSchema, SchemaGenerator};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::document::document;
use super::report::Severity;
use super::shape::Shape;
use super::tree::{Body, Node, Origin, Place};

/// The setting that lets a protecting limit pass its safe maximum.
pub const DANGER_OK: &str = "node.danger_ok";

/// One top-level table of the configuration file.
///
/// Derive `Serialize`, `Deserialize` and `JsonSchema` and put `#[serde(default)]` on the struct. The doc comments of
/// the fields become the reference and the template. Aliases and flattened maps are not part of the schema: avoid them.
pub trait Table:
    Default + Serialize + DeserializeOwned + JsonSchema + Clone + PartialEq + Send + Sync + 'static
{
    /// The name in the file: `gateway` for `[gateway]`.
    const NAME: &'static str;

    /// The paths, relative to the table, whose change takes effect only after a restart.
    const RESTART: &'static [&'static str] = &[];

    /// Says what is wrong with values that are each of the right type.
    fn check(&self, checks: &Checks, problems: &mut Problems);
}

/// What a table may ask while it checks itself.
#[derive(Clone, Copy, Debug)]
pub struct Checks {
    pub(crate) danger_ok: bool,
}

impl Checks {
    /// Whether the operator accepts limits beyond their safe maximum ([`DANGER_OK`]).
    #[must_use]
    pub fn danger_ok(&self) -> bool {
        self.danger_ok
    }
}

/// Collects what a table's own check finds. Paths are relative to the table.
#[derive(Debug, Default)]
pub struct Problems {
    pub(crate) findings: Vec<Finding>,
}

/// One finding of a check.
#[derive(Debug)]
pub struct Finding {
    pub(crate) severity: Severity,
    pub(crate) path: String,
    pub(crate) message: String,
    pub(crate) help: Option<String>,
}

impl Finding {
    /// Adds what to do about it.
    pub fn help(&mut self, help: impl Into<String>) {
        self.help = Some(help.into());
    }
}

impl Problems {
    /// An error at a path: the configuration is refused.
    pub fn at(&mut self, path: impl Into<String>, message: impl Into<String>) -> &mut Finding {
        self.push(Severity::Error, path.into(), message.into())
    }

    /// A warning at a path: the configuration is used, the operator is told.
    pub fn warn(&mut self, path: impl Into<String>, message: impl Into<String>) -> &mut Finding {
        self.push(Severity::Warning, path.into(), message.into())
    }

    /// Holds a protecting limit to its safe maximum: past it is an error, or a warning once danger is accepted.
    pub fn guard<T: PartialOrd + Display>(&mut self, path: &str, value: T, safe_max: T, danger_ok: bool) {
        if value <= safe_max {
            return;
        }
        let message = format!("{value} is above the safe maximum of {safe_max}");
        if danger_ok {
            self.warn(path, format!("{message}, which `{DANGER_OK} = true` allows"));
        } else {
            let help = format!("use at most {safe_max}, or accept the risk with `{DANGER_OK} = true`");
            self.at(path, message).help(help);
        }
    }

    /// Has a part of the table, at this path, say what is wrong with it; its paths are relative to that one.
    pub fn under(&mut self, path: &str, check: impl FnOnce(&mut Self)) {
        let mut of_part = Self::default();
        check(&mut of_part);
        self.findings.extend(of_part.findings.into_iter().map(|mut finding| {
            finding.path = format!("{path}.{}", finding.path);
            finding
        }));
    }

    fn push(&mut self, severity: Severity, path: String, message: String) -> &mut Finding {
        self.findings.push(Finding { severity, path, message, help: None });
        self.findings.last_mut().expect("just pushed")
    }
}

/// The tables a configuration file may have, in the order they are shown.
pub struct Schema {
    tables: Vec<Registered>,
    doc: Value,
}

/// A table without its type.
pub(crate) struct Registered {
    pub(crate) name: &'static str,
    pub(crate) restart: &'static [&'static str],
    /// The defaults as a layer. Secrets are absent: written out they would read `<hidden>`.
    pub(crate) defaults: Node,
    pub(crate) read: fn(Value) -> Result<Loaded, serde_path_to_error::Error<serde_json::Error>>,
    pub(crate) describe: fn(&mut SchemaGenerator) -> schemars::Schema,
}

/// One table as read.
pub(crate) struct Loaded {
    pub(crate) table: Arc<dyn Any + Send + Sync>,
    /// The resolved values; secrets are hidden.
    pub(crate) resolved: Value,
    pub(crate) check: fn(&(dyn Any + Send + Sync), &Checks, &mut Problems),
}

impl Default for Schema {
    fn default() -> Self {
        Self { tables: Vec::new(), doc: document(&[]) }
    }
}

impl Schema {
    /// A schema with no table.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a table.
    ///
    /// # Panics
    /// If the name is taken, or if an empty `[table]` would not give the table's own defaults (a missing
    /// `#[serde(default)]`): both are mistakes in the program that its first test run shows.
    #[must_use]
    pub fn table<T: Table>(mut self) -> Self {
        assert!(
            self.tables.iter().all(|table| table.name != T::NAME),
            "table [{}] is registered twice",
            T::NAME
        );
        let defaults = resolved(&T::default());
        let placeholder = Node::empty();
        let describe = |generator: &mut SchemaGenerator| generator.subschema_for::<T>();
        self.tables.push(Registered {
            name: T::NAME,
            restart: T::RESTART,
            defaults: placeholder,
            read: read::<T>,
            describe,
        });
        self.doc = document(&self.tables);

        let shape = Shape::root(&self.doc).child(T::NAME).expect("the table was just described");
        let mut layer = Node::from_json(&defaults, &Place::outside(Origin::Default));
        drop_secrets(&mut layer, &shape);
        let again: Option<T> = serde_json::from_value(layer.to_json()).ok();
        assert!(
            again == Some(T::default()),
            "[{}] does not read its own defaults: add #[serde(default)]",
            T::NAME
        );
        self.tables.last_mut().expect("just pushed").defaults = layer;
        self
    }

    /// The JSON schema of the whole file, for editors.
    #[must_use]
    pub fn json_schema(&self) -> Value {
        self.doc.clone()
    }

    pub(crate) fn tables(&self) -> &[Registered] {
        &self.tables
    }

    pub(crate) fn shape(&self) -> Shape<'_> {
        Shape::root(&self.doc)
    }

    /// The lowest layer: every table's defaults.
    pub(crate) fn defaults(&self) -> Node {
        let mut root = Node::empty();
        for table in &self.tables {
            root.insert(&[table.name.to_owned()], table.defaults.clone());
        }
        root
    }
}

fn read<T: Table>(value: Value) -> Result<Loaded, serde_path_to_error::Error<serde_json::Error>> {
    let table: T = serde_path_to_error::deserialize(value)?;
    let resolved = resolved(&table);
    let check = |table: &(dyn Any + Send + Sync), checks: &Checks, problems: &mut Problems| {
        if let Some(table) = table.downcast_ref::<T>() {
            table.check(checks, problems);
        }
    };
    Ok(Loaded { table: Arc::new(table), resolved, check })
}

fn resolved<T: Table>(table: &T) -> Value {
    serde_json::to_value(table).expect("a table has string keys, or it could not be written as TOML")
}

fn drop_secrets(node: &mut Node, shape: &Shape<'_>) {
    match &mut node.body {
        Body::Table(map) => {
            map.retain(|key, _| !shape.child(key).is_some_and(|shape| shape.is_secret()));
            for (key, below) in map {
                if let Some(shape) = shape.child(key) {
                    drop_secrets(below, &shape);
                }
            }
        }
        Body::Array(items) => {
            for item in items {
                if let Some(shape) = shape.items() {
                    drop_secrets(item, &shape);
                }
            }
        }
        Body::Leaf(_) => {}
    }
}
