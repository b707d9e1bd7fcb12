//! The files that a configuration file includes: found by pattern, and bounded in number, size and depth.
//!
//! Names are matched here, without a crate for globs: `*` and `?` in the name of a file are a short loop, and the crates
//! also find the files on the disk, without the bounds that are kept here and behind [`Shelf`].

use std::ops::Range;
use std::path::{Path, PathBuf};

use serde_json::Value;
use toml::de::DeTable;
use zeroize::Zeroizing;

use super::layers::MAX_FILE_BYTES;
use super::path;
use super::report::{Problem, Severity};
use super::shape::Shape;
use super::tree::{self, Body, Lines, Node};

/// The key that lists the included files.
pub(crate) const INCLUDE: &str = "include";
/// How many files may be included in all.
pub const MAX_INCLUDED: usize = 256;
/// How many files may be on the way from the first file to an included one.
pub const MAX_INCLUDE_DEPTH: usize = 4;
/// The most bytes that all files have together.
pub const MAX_ALL_BYTES: usize = 4 << 20;

/// Finds and reads the files that are included. An error says why that is not possible, with the full path.
pub trait Shelf {
    /// The names of the files in a folder, in any order.
    ///
    /// # Errors
    /// Why the folder cannot be read.
    fn names(&self, folder: &Path) -> Result<Vec<String>, String>;

    /// The text of a file.
    ///
    /// # Errors
    /// Why the file cannot be read.
    fn read(&self, file: &Path) -> Result<String, String>;
}

/// The included files, and what is wrong with the lists that name them. It may hold secrets, hence no `Debug`.
#[derive(Clone, Default)]
pub struct Included {
    pub(crate) files: Vec<IncludedFile>,
    pub(crate) faults: Vec<Fault>,
    folders: Vec<PathBuf>,
}

/// One included file.
#[derive(Clone)]
pub(crate) struct IncludedFile {
    pub(crate) path: PathBuf,
    pub(crate) text: Zeroizing<String>,
}

/// What is wrong with a list of files.
#[derive(Clone)]
pub(crate) struct Fault {
    /// The file with the list: 0 is the first file, then the included ones in their order.
    pub(crate) file: usize,
    pub(crate) span: Range<usize>,
    pub(crate) message: String,
}

/// A list of files that is still to be followed.
struct Listed {
    file: usize,
    folder: PathBuf,
    depth: usize,
}

impl Included {
    /// Reads everything that the file at `path`, which has `text`, includes. Paths start at the folder of the file that has
    /// the list, and what a pattern matches is sorted by name.
    #[must_use]
    pub fn gather(path: &Path, text: &str, shelf: &dyn Shelf) -> Self {
        let mut gathered = Self::default();
        let folder = path.parent().unwrap_or(Path::new("")).to_owned();
        let mut lists = vec![Listed { file: 0, folder, depth: 0 }];
        // Depth first, so that files are in the order in which a reader of the lists would meet them.
        while let Some(list) = lists.pop() {
            let text = match list.file.checked_sub(1) {
                None => Zeroizing::new(text.to_owned()),
                Some(index) => gathered.files[index].text.clone(),
            };
            let first = gathered.files.len();
            for (pattern, span) in patterns(&text, list.file, &mut gathered.faults) {
                if let Err(message) = gathered.follow(path, &list, &pattern, shelf) {
                    gathered.faults.push(Fault { file: list.file, span, message });
                }
            }
            let new = (first..gathered.files.len()).rev().map(|index| Listed {
                file: index + 1,
                folder: gathered.files[index].path.parent().unwrap_or(Path::new("")).to_owned(),
                depth: list.depth + 1,
            });
            lists.extend(new);
        }
        gathered
    }

    /// The included files, each with its text.
    pub fn files(&self) -> impl Iterator<Item = (&Path, &str)> {
        self.files.iter().map(|file| (file.path.as_path(), file.text.as_str()))
    }

    /// The folders in which files were looked for.
    #[must_use]
    pub fn folders(&self) -> &[PathBuf] {
        &self.folders
    }

    fn follow(&mut self, main: &Path, list: &Listed, pattern: &str, shelf: &dyn Shelf) -> Result<(), String> {
        if pattern.contains("${") {
            return Err("references are not filled in here".to_owned());
        }
        if pattern.is_empty() {
            return Err("an empty text names no file".to_owned());
        }
        let full = list.folder.join(pattern);
        let (Some(folder), Some(name)) = (full.parent(), full.file_name().and_then(|name| name.to_str()))
        else {
            return Err(format!("`{pattern}` names no file"));
        };
        if folder.to_str().is_none_or(|folder| folder.contains(['*', '?'])) {
            return Err(format!(
                "`{pattern}` has a wildcard in a folder's name; only the file's name may have one"
            ));
        }
        if !self.folders.iter().any(|known| known == folder) {
            self.folders.push(folder.to_owned());
        }
        let mut names = match name.contains(['*', '?']) {
            true => shelf.names(folder)?.into_iter().filter(|found| matches(name, found)).collect(),
            false => vec![name.to_owned()],
        };
        names.sort_unstable();
        names.into_iter().try_for_each(|name| self.add(main, list, folder.join(name), shelf))
    }

    fn add(&mut self, main: &Path, list: &Listed, path: PathBuf, shelf: &dyn Shelf) -> Result<(), String> {
        let shown = path.display();
        if path == main || self.files.iter().any(|file| file.path == path) {
            return Err(format!("{shown} is included twice"));
        }
        if list.depth >= MAX_INCLUDE_DEPTH {
            return Err(format!("{shown} is included through more than {MAX_INCLUDE_DEPTH} files"));
        }
        if self.files.len() >= MAX_INCLUDED {
            return Err(format!("more than {MAX_INCLUDED} files are included"));
        }
        let text = Zeroizing::new(shelf.read(&path)?);
        if text.len() > MAX_FILE_BYTES {
            return Err(format!("{shown} is larger than {MAX_FILE_BYTES} bytes"));
        }
        let before: usize = self.files.iter().map(|file| file.text.len()).sum();
        if before + text.len() > MAX_ALL_BYTES {
            return Err(format!("the included files have more than {MAX_ALL_BYTES} bytes together"));
        }
        self.files.push(IncludedFile { path, text });
        Ok(())
    }
}

/// The patterns that a file lists. A file that is no TOML lists those that can be seen: reading it will say what is wrong.
fn patterns(text: &str, file: usize, faults: &mut Vec<Fault>) -> Vec<(String, Range<usize>)> {
    let (table, _) = DeTable::parse_recoverable(text);
    let Some(listed) = table.get_ref().get(INCLUDE) else { return Vec::new() };
    let node = tree::value_node(listed, &Lines::of(""), &mut Vec::new());
    let items = match node.map(|node| node.body) {
        Some(Body::Array(items)) => items,
        _ => vec![],
    };
    let texts = items.iter().filter_map(|item| match (&item.body, &item.place.value) {
        (Body::Leaf(Value::String(text)), Some(span)) => Some((text.clone(), span.clone())),
        _ => None,
    });
    let texts: Vec<_> = texts.collect();
    let is_list = listed.get_ref().as_array().is_some_and(|list| list.len() == texts.len());
    if !is_list {
        let message = "`include` is a list of files, such as [\"conf.d/*.toml\"]".to_owned();
        faults.push(Fault { file, span: listed.span(), message });
    }
    texts
}

/// Whether a name matches a pattern: `*` stands for any characters, `?` for one. A dot at the start must be written.
fn matches(pattern: &str, name: &str) -> bool {
    if name.starts_with('.') && !pattern.starts_with('.') {
        return false;
    }
    let (pattern, name): (Vec<char>, Vec<char>) = (pattern.chars().collect(), name.chars().collect());
    // How far the pattern and the name have been compared.
    let (mut compared, mut matched) = (0, 0);
    // Behind the last `*` of the pattern, and where in the name what it stands for ends.
    let mut star: Option<(usize, usize)> = None;
    while matched < name.len() {
        match pattern.get(compared) {
            Some('*') => {
                compared += 1;
                star = Some((compared, matched));
            }
            Some(wanted) if *wanted == '?' || *wanted == name[matched] => {
                compared += 1;
                matched += 1;
            }
            _ => {
                // The last `*` stands for one character more; those before it need not.
                let Some((behind, end)) = star else { return false };
                star = Some((behind, end + 1));
                compared = behind;
                matched = end + 1;
            }
        }
    }
    pattern[compared..].iter().all(|left| *left == '*')
}

/// Adds the settings of another file to those of the files before it. Tables are merged, lists of tables are appended; every
/// other setting may be in one file only.
pub(crate) fn join(
    all: &mut Node,
    more: Node,
    at: &str,
    shape: Option<&Shape<'_>>,
    problems: &mut Vec<Problem>,
) {
    match (&mut all.body, more.body) {
        (Body::Table(all), Body::Table(more)) => {
            for (key, node) in more {
                let Some(known) = all.get_mut(&key) else {
                    all.insert(key, node);
                    continue;
                };
                let shape = shape.and_then(|shape| shape.child(&key));
                join(known, node, &path::child(at, &key), shape.as_ref(), problems);
            }
        }
        (Body::Array(all), Body::Array(more)) if shape.is_some_and(is_list_of_tables) => all.extend(more),
        _ => problems.push(Problem {
            severity: Severity::Error,
            message: format!("`{at}` is set twice: here, and in {}", all.place.origin),
            path: at.to_owned(),
            help: Some("a setting may be in one file only; lists of tables are appended".to_owned()),
            span: more.place.key.or(more.place.value),
            origin: more.place.origin,
        }),
    }
}

fn is_list_of_tables(shape: &Shape<'_>) -> bool {
    let items = shape.items();
    items.is_some_and(|items| {
        !items.keys().is_empty() && items.forms().iter().all(|form| form.types() == ["object"])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_characters_and_a_question_mark_for_one() {
        for (pattern, name) in [
            ("*.toml", "a.toml"),
            ("*.toml", "a.b.toml"),
            ("a*b*c", "a--b-b--c"),
            ("?.toml", "a.toml"),
            ("*", "a"),
            ("**", ""),
            (".*", ".a"),
        ] {
            assert!(matches(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [
            ("*.toml", ".a.toml"),
            ("*.toml", "a.toml~"),
            ("?.toml", "ab.toml"),
            ("a*b", "ac"),
            ("a", ""),
            ("", "a"),
        ] {
            assert!(!matches(pattern, name), "{pattern} {name}");
        }
    }
}
