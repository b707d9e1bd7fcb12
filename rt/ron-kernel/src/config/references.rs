//! References in the strings of a configuration file: `${NAME}` is an environment variable, `${NAME:-text}` one with a default,
//! `${file:PATH}` the content of a file, and `$${` a plain `${`. What they stand for may be secret: listings and reports show the
//! reference instead.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;
use zeroize::Zeroizing;

use super::layers;
use super::memo::Memo;
use super::path;
use super::path_setting;
use super::report::{Problem, Severity};
use super::shape::Shape;
use super::tree::{Body, Node};

/// Shorter texts occur in messages by chance, and are only looked for in those about the setting itself.
const TELLING: usize = 4;

/// A name that a string of the configuration file refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reference<'a> {
    /// An environment variable, whose value takes the place of the reference.
    Variable(&'a str),
    /// A file, whose content takes the place of the reference; its path starts at the folder of the configuration file.
    File(&'a Path),
}

/// Looks up what a reference stands for: `None` for a variable that is not set, or why it cannot be had.
pub type Lookup = Arc<dyn Fn(Reference<'_>) -> Result<Option<String>, String> + Send + Sync>;

/// A string of the file that was filled in.
pub(crate) struct Filled {
    path: String,
    /// The text as it is in the file.
    written: String,
    value: Zeroizing<String>,
}

impl Filled {
    /// The text with the reference in the place of what it stands for, also where that is quoted.
    fn hidden_in(&self, text: &str) -> String {
        let escaped = self.value.escape_debug().to_string();
        text.replace(self.value.as_str(), &self.written).replace(&escaped, &self.written)
    }
}

/// Fills in the references in all strings of a file's tree.
pub(crate) struct References<'l> {
    lookup: Option<&'l Lookup>,
    /// The folder of the file that is filled in.
    folder: PathBuf,
    pub(crate) filled: Vec<Filled>,
    /// The files that are referred to.
    pub(crate) files: Vec<PathBuf>,
    pub(crate) problems: Vec<Problem>,
}

impl<'l> References<'l> {
    pub(crate) fn new(lookup: Option<&'l Lookup>) -> Self {
        Self { lookup, folder: PathBuf::new(), filled: Vec::new(), files: Vec::new(), problems: Vec::new() }
    }

    /// Fills in the tree of a file in `folder`, and has its relative paths start there.
    pub(crate) fn fill_file(&mut self, tree: &mut Node, folder: &Path, root: &Shape<'_>) {
        self.folder = folder.to_owned();
        self.fill(tree, "", Some(root));
        path_setting::start_at(folder, tree, &Memo::new(root.clone()));
    }

    /// Fills in a node and everything below it.
    fn fill(&mut self, node: &mut Node, at: &str, shape: Option<&Shape<'_>>) {
        let Node { body, place, written } = node;
        match body {
            Body::Table(map) => {
                for (key, below) in map {
                    let shape = shape.and_then(|shape| shape.child(key));
                    self.fill(below, &path::child(at, key), shape.as_ref());
                }
            }
            Body::Array(items) => {
                let shape = shape.and_then(Shape::items);
                for (index, item) in items.iter_mut().enumerate() {
                    self.fill(item, &path::element(at, index), shape.as_ref());
                }
            }
            Body::Leaf(Value::String(text)) if text.contains("${") => match self.resolve(text) {
                Ok(value) => {
                    *written = Some(text.clone());
                    self.filled.push(Filled {
                        path: at.to_owned(),
                        written: text.clone(),
                        value: value.clone(),
                    });
                    *body = layers::outside_value(&value, shape, place).body;
                }
                Err(message) => self.problems.push(Problem {
                    severity: Severity::Error,
                    message: format!("`{at}`: {message}"),
                    path: at.to_owned(),
                    help: None,
                    span: place.value.clone(),
                    origin: place.origin.clone(),
                }),
            },
            Body::Leaf(_) => {}
        }
    }

    /// The text with its references filled in.
    fn resolve(&mut self, text: &str) -> Result<Zeroizing<String>, String> {
        let mut filled = Zeroizing::new(String::with_capacity(text.len()));
        let mut rest = text;
        while let Some(start) = rest.find("${") {
            let (before, reference) = (&rest[..start], &rest[start + 2..]);
            if let Some(before) = before.strip_suffix('$') {
                filled.push_str(before);
                filled.push_str("${");
                rest = reference;
                continue;
            }
            let end =
                reference.find('}').ok_or("a reference `${` has no `}`; write `$${` for a plain `${`")?;
            filled.push_str(before);
            filled.push_str(&self.value(&reference[..end])?);
            rest = &reference[end + 1..];
        }
        filled.push_str(rest);
        Ok(filled)
    }

    fn value(&mut self, reference: &str) -> Result<Zeroizing<String>, String> {
        if let Some(file) = reference.strip_prefix("file:") {
            if file.is_empty() {
                return Err("`${file:}` names no file".to_owned());
            }
            let file = self.folder.join(file);
            self.files.push(file.clone());
            let content = self.look_up(Reference::File(&file))?;
            return content.ok_or_else(|| format!("the file {} is not there", file.display()));
        }
        let (name, default) = match reference.split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (reference, None),
        };
        if !is_name(name) {
            return Err(format!(
                "`${{{reference}}}` is no reference: write `${{NAME}}`, `${{NAME:-default}}` or `${{file:PATH}}`, or `$${{` for a plain `${{`"
            ));
        }
        let value = self.look_up(Reference::Variable(name))?;
        let value = value.or_else(|| default.map(|text| Zeroizing::new(text.to_owned())));
        value.ok_or_else(|| format!("the environment variable {name} is not set"))
    }

    fn look_up(&self, reference: Reference<'_>) -> Result<Option<Zeroizing<String>>, String> {
        let Some(lookup) = self.lookup else { return Ok(None) };
        Ok(lookup(reference)?.map(Zeroizing::new))
    }
}

/// Puts references back in the place of what they stand for, in everything that is told.
pub(crate) fn hide(filled: &[Filled], problems: &mut [Problem]) {
    for problem in problems {
        for fill in filled.iter().filter(|fill| !fill.value.is_empty()) {
            let is_about =
                path::is_under(&problem.path, &fill.path) || path::is_under(&fill.path, &problem.path);
            if !is_about && fill.value.chars().count() < TELLING {
                continue;
            }
            problem.message = fill.hidden_in(&problem.message);
            problem.help = problem.help.as_deref().map(|help| fill.hidden_in(help));
        }
    }
}

fn is_name(name: &str) -> bool {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    !name.is_empty() && name.chars().all(is_word) && !name.starts_with(|c: char| c.is_ascii_digit())
}
