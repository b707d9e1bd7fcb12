//! Resolves a configuration from its layers: flags over environment over file over defaults.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::Value;
use serde_path_to_error::Segment;

use super::include::{self, INCLUDE, Included};
use super::inspect::Inspector;
use super::layers::{self, FileLayers};
use super::memo::Memo;
use super::path;
use super::path_setting;
use super::references::{self, Lookup, References};
use super::report::{Problem, Report, Severity};
use super::shape::Shape;
use super::snapshot::{self, Contents, Places, Snapshot};
use super::table::{Checks, DANGER_OK, Problems, Registered, Schema, Table};
use super::tree::{Body, Node};

/// Where a configuration comes from. Nothing is read from the system here, so that it can be given in a test.
///
/// It may hold secrets, hence no `Debug`.
#[derive(Clone, Default)]
pub struct Sources {
    /// The configuration file: its path and its text. Relative paths in the file start at its folder.
    pub file: Option<(PathBuf, String)>,
    /// The files that it includes.
    pub included: Included,
    /// Where relative paths in the environment and the flags start, and the path of the file itself; without it they stay
    /// relative.
    pub working_folder: Option<PathBuf>,
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
        let (contents, report) = self.resolve(sources, false);
        let is_error = |problem: &Problem| problem.severity == Severity::Error;
        match contents {
            Some(contents) if !report.problems().iter().any(is_error) => {
                Ok(Snapshot::new(Contents { warnings: report, ..contents }))
            }
            _ => Err(report),
        }
    }

    /// Resolves one table, although others may be wrong, for those who need to know no more. `None` if the table is wrong
    /// itself. Of a file that is no TOML, what can be read of it counts.
    #[must_use]
    pub fn load_alone<T: Table>(&self, sources: Sources) -> Option<Arc<T>> {
        let (contents, _) = self.resolve(sources, true);
        contents?.tables.get(T::NAME).cloned()?.downcast().ok()
    }

    /// All tables that have no error, and everything that is wrong with the others. `None` if a file is no TOML, unless
    /// `as_far_as_possible`.
    fn resolve(&self, sources: Sources, as_far_as_possible: bool) -> (Option<Contents>, Report) {
        let root = self.schema.shape();
        let folders = sources.included.folders().to_vec();
        let files = FileLayers::parse(sources.file, sources.included, &root);
        let mut problems = files.problems.clone();
        if !files.parsed && !as_far_as_possible {
            return (None, Report::new(problems, |problems| files.shown(problems)));
        }
        let mut references = References::new(sources.references.as_ref());
        let mut in_files = Node::empty();
        for file in &files.files {
            let mut tree = file.tree.clone();
            let folder = match &sources.working_folder {
                Some(working_folder) => working_folder.join(file.folder()),
                None => file.folder().to_owned(),
            };
            references.fill_file(&mut tree, &folder, &root);
            include::join(&mut in_files, tree, "", Some(&root), &mut problems);
        }
        problems.append(&mut references.problems);
        let mut env = layers::environment(&sources.env, &self.env_prefix, &self.env_ignored, &root);
        let mut flags = layers::flags(&sources.flags, &root);
        for outside in [&mut env, &mut flags] {
            problems.extend(outside.remove(INCLUDE).map(|node| only_in_files(&node)));
            if let Some(folder) = &sources.working_folder {
                path_setting::start_at(folder, outside, &Memo::new(root.clone()));
            }
        }

        let mut inspector = Inspector::new(root.clone(), &self.env_prefix);
        let mut merged = self.schema.defaults();
        for layer in [in_files, env, flags] {
            inspector.layer(&layer);
            merged.merge(layer, &root);
        }
        inspector.missing(&merged);
        problems.append(&mut inspector.problems);

        let contents = self.read_tables(&merged, &root, &mut problems);
        references::hide(&references.filled, &mut problems);
        let report = Report::new(problems, |problems| files.shown(problems));
        (Some(Contents { files: references.files, folders, ..contents }), report)
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
            folders: Vec::new(),
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

/// The problem of a list of files that no file has.
fn only_in_files(node: &Node) -> Problem {
    Problem {
        severity: Severity::Error,
        path: INCLUDE.to_owned(),
        message: "`include` can only be written in a configuration file".to_owned(),
        help: None,
        origin: node.place.origin.clone(),
        span: None,
    }
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
