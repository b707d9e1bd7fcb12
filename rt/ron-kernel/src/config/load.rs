//! Resolves a configuration from its layers: flags over environment over file over defaults.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::Value;
use serde_path_to_error::Segment;

use super::inspect::Inspector;
use super::layers::{self, FileLayer};
use super::memo::Memo;
use super::path;
use super::references::{self, Lookup, References};
use super::report::{Problem, Report, Severity};
use super::shape::Shape;
use super::snapshot::{self, Contents, Places, Snapshot};
use super::table::{Checks, DANGER_OK, Problems, Registered, Schema};
use super::tree::{Body, Node};

/// Where a configuration comes from. Nothing is read from the system here, so that it can be given in a test.
///
/// It may hold secrets, hence no `Debug`.
#[derive(Clone, Default)]
pub struct Sources {
    /// The configuration file: its name, for messages, and its text.
    pub file: Option<(PathBuf, String)>,
    /// What finds the environment variables and files that the file refers to; without it there are none.
    pub references: Option<Lookup>,
    /// The environment; variables without the prefix are passed over.
    pub env: Vec<(String, String)>,
    /// The flags: a dotted path and a value each.
    pub flags: Vec<(String, String)>,
}

/// Loads configurations of one schema.
pub struct Loader {
    schema: Schema,
    env_prefix: String,
    env_ignored: Vec<String>,
}

impl Loader {
    /// A loader for a schema; `env_prefix` starts the names of all environment variables that count.
    #[must_use]
    pub fn new(schema: Schema, env_prefix: impl Into<String>) -> Self {
        Self { schema, env_prefix: env_prefix.into(), env_ignored: Vec::new() }
    }

    /// Names variables that have the prefix but are no settings, such as the one that names the file.
    #[must_use]
    pub fn ignoring<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.env_ignored.extend(names.into_iter().map(Into::into));
        self
    }

    /// Returns the schema of the configuration.
    #[must_use]
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// Resolves a configuration, or says everything that is wrong with it.
    ///
    /// # Errors
    /// A [`Report`] with at least one error. Warnings alone come with the [`Snapshot`].
    pub fn load(&self, sources: Sources) -> Result<Snapshot, Report> {
        let root = self.schema.shape();
        let mut file = match sources.file {
            Some((name, text)) => FileLayer::parse(&name, text, &root),
            None => FileLayer::none(),
        };
        let mut problems = file.problems.clone();
        if !file.parsed {
            return Err(Report::new(problems, |problems| file.shown(problems)));
        }
        let mut references = References::new(sources.references.as_ref());
        references.fill(&mut file.tree, "", Some(&root));
        problems.append(&mut references.problems);
        let env = layers::environment(&sources.env, &self.env_prefix, &self.env_ignored, &root);
        let flags = layers::flags(&sources.flags, &root);

        let mut inspector = Inspector::new(root.clone(), &self.env_prefix);
        let mut merged = self.schema.defaults();
        for layer in [file.tree.clone(), env, flags] {
            inspector.layer(&layer);
            merged.merge(layer, &root);
        }
        inspector.missing(&merged);
        problems.append(&mut inspector.problems);

        let contents = self.read_tables(&merged, &root, &mut problems);
        references::hide(&references.filled, &mut problems);
        let refused = problems.iter().any(|problem| problem.severity == Severity::Error);
        let report = Report::new(problems, |problems| file.shown(problems));
        if refused {
            Err(report)
        } else {
            Ok(Snapshot::new(Contents { warnings: report, files: references.files, ..contents }))
        }
    }

    /// Reads and checks every table that has no error yet, so that one bad table does not hide another's problems.
    fn read_tables(&self, merged: &Node, root: &Shape<'_>, problems: &mut Vec<Problem>) -> Contents {
        let places = Places::of(merged);
        let checks = Checks { danger_ok: danger_ok(merged) };
        let (mut tables, mut entries) = (BTreeMap::new(), Vec::new());
        for table in self.schema.tables() {
            if problems.iter().any(|problem| path::is_under(&problem.path, table.name)) {
                continue;
            }
            let shape = root.child(table.name);
            match (table.read)(merged.get(table.name).map_or(Value::Null, Node::to_json)) {
                Ok(loaded) => {
                    let mut found = Problems::default();
                    (loaded.check)(&*loaded.table, &checks, &mut found);
                    problems.extend(located(found, table.name, &places));
                    let shape = shape.map(Memo::new);
                    snapshot::leaves(&loaded.resolved, shape.as_ref(), table.name, &places, &mut entries);
                    tables.insert(table.name, loaded.table);
                }
                Err(error) => problems.push(unreadable(&error, table, shape, &places)),
            }
        }
        Contents {
            tables,
            entries,
            places,
            restart: self.restart_paths(),
            warnings: Report::default(),
            files: Vec::new(),
        }
    }

    fn restart_paths(&self) -> Vec<String> {
        let tables = self.schema.tables().iter();
        tables.flat_map(|table| table.restart.iter().map(|below| format!("{}.{below}", table.name))).collect()
    }
}

fn danger_ok(merged: &Node) -> bool {
    let node = path::keys(DANGER_OK).iter().try_fold(merged, |node, key| node.get(key));
    matches!(node.map(|node| &node.body), Some(Body::Leaf(Value::Bool(true))))
}

/// A check's findings, each at the place of the value it is about.
fn located(found: Problems, table: &str, places: &Places) -> impl Iterator<Item = Problem> {
    found.findings.into_iter().map(move |finding| {
        let path =
            if finding.path.is_empty() { table.to_owned() } else { format!("{table}.{}", finding.path) };
        let place = places.nearest(&path);
        Problem {
            severity: finding.severity,
            message: format!("`{path}`: {}", finding.message),
            path,
            help: finding.help,
            span: place.value.or(place.key),
            origin: place.origin,
        }
    })
}

/// The problem of a table that fits its schema but not its type. Rules the schema cannot express end here.
fn unreadable(
    error: &serde_path_to_error::Error<serde_json::Error>,
    table: &Registered,
    mut shape: Option<Shape<'_>>,
    places: &Places,
) -> Problem {
    let mut path = table.name.to_owned();
    for segment in error.path() {
        match segment {
            Segment::Seq { index } => {
                path = path::element(&path, *index);
                shape = shape.and_then(|shape| shape.items());
            }
            Segment::Map { key } | Segment::Enum { variant: key } => {
                path = path::child(&path, key);
                shape = shape.and_then(|shape| shape.child(key));
            }
            Segment::Unknown => break,
        }
    }
    // The reader's message may quote the value.
    let quotable = shape.is_some_and(|shape| !shape.holds_secret());
    let reason = if quotable { error.inner().to_string() } else { "not a valid value".to_owned() };
    let place = places.nearest(&path);
    Problem {
        severity: Severity::Error,
        message: format!("`{path}`: {reason}"),
        path,
        help: None,
        span: place.value.or(place.key),
        origin: place.origin,
    }
}
