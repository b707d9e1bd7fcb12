//! Builds the layers above the defaults: the file, the environment, the command line flags.

use std::path::{Path, PathBuf};

use toml::de::{DeTable, DeValue};
use zeroize::Zeroizing;

use super::include::{INCLUDE, Included};
use super::mask::{Mask, Names};
use super::path;
use super::report::{Problem, Severity, Source};
use super::shape::Shape;
use super::tree::{self, Lines, Node, Origin, Place, Unfit};

/// The largest configuration file that is read.
pub const MAX_FILE_BYTES: usize = 1 << 20;

/// The files as layers, with what is already wrong with them.
pub(crate) struct FileLayers {
    /// The files, in the order in which they count.
    pub(crate) files: Vec<FileLayer>,
    pub(crate) problems: Vec<Problem>,
    /// Whether the files could be parsed at all; if not there is no use in looking further.
    pub(crate) parsed: bool,
    /// The text of all files, one after the other. Wiped when it goes: it may hold secrets.
    text: Zeroizing<String>,
    mask: Mask,
}

/// A configuration file that was read, the main one or an included one.
pub(crate) struct FileLayer {
    pub(crate) tree: Node,
    /// Where the file begins in the text of all files.
    base: usize,
    path: PathBuf,
}

impl FileLayer {
    /// The folder of the file.
    pub(crate) fn folder(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new(""))
    }
}

impl FileLayers {
    /// Parses the file, if there is one, and those it includes. All their syntax errors are found at once.
    pub(crate) fn parse(file: Option<(PathBuf, String)>, included: Included, root: &Shape<'_>) -> Self {
        let text = Zeroizing::default();
        let mut all =
            Self { files: Vec::new(), problems: Vec::new(), parsed: true, text, mask: Mask::default() };
        let Some((path, text)) = file else { return all };
        let names = Names::of(root);
        all.add(path, &Zeroizing::new(text), root, &names);
        for file in included.files {
            all.add(file.path, &file.text, root, &names);
        }
        for fault in included.faults {
            let Some(file) = all.files.get(fault.file) else { continue };
            let lines = Lines::of_file(&all.text[file.base..], &file.path.display().to_string(), file.base);
            let found = problem(fault.message, lines.origin(&fault.span), Some(lines.shifted(&fault.span)));
            all.problems.push(found);
        }
        all
    }

    fn add(&mut self, path: PathBuf, text: &str, root: &Shape<'_>, names: &Names) {
        let (name, base) = (path.display().to_string(), self.text.len());
        if text.len() > MAX_FILE_BYTES {
            let message = format!("{name} is larger than {MAX_FILE_BYTES} bytes");
            self.problems.push(problem(message, Origin::Default, None));
            self.parsed = false;
            return;
        }
        let lines = Lines::of_file(text, &name, base);
        let (table, errors) = DeTable::parse_recoverable(text);
        let mut unfit: Vec<Unfit> = Vec::new();
        let mut tree = tree::from_toml(table.get_ref(), &lines, &mut unfit);
        let mut mask = Mask::of_urls(text);
        if !(errors.is_empty() && unfit.is_empty()) {
            mask = mask.and(Mask::of_text(text, names));
        }
        let mask = mask.shifted(base).and(Mask::of_tree(&tree, root, names));
        self.mask = std::mem::take(&mut self.mask).and(mask);
        let syntax =
            errors.iter().map(|e| (format!("not valid TOML: {}", e.message()), e.span().unwrap_or(0..0)));
        let unfit = unfit.into_iter().map(|unfit| (unfit.message.to_owned(), unfit.span));
        let located = syntax
            .chain(unfit)
            .map(|(message, span)| problem(message, lines.origin(&span), Some(lines.shifted(&span))));
        self.problems.extend(located);
        self.parsed &= errors.is_empty();
        // Followed before the files are parsed.
        tree.remove(INCLUDE);
        self.text.push_str(text);
        // A span at the very end of a file is not the beginning of the next one.
        self.text.push('\n');
        self.files.push(FileLayer { tree, base, path });
    }

    /// The files as reports show them, and the problems moved to where things are in them.
    pub(crate) fn shown(&self, problems: &mut [Problem]) -> Source {
        for span in problems.iter_mut().filter_map(|problem| problem.span.as_mut()) {
            *span = self.mask.moved(span, &self.text);
        }
        let moved = |file: &FileLayer| {
            (self.mask.moved(&(file.base..file.base), &self.text).start, file.path.display().to_string())
        };
        Source { files: self.files.iter().map(moved).collect(), text: self.mask.apply(&self.text) }
    }
}

/// The variables that start with the prefix, but for the `ignored` ones: `PREFIX_GATEWAY__MAX_CONNS=10`.
pub(crate) fn environment(
    variables: &[(String, String)],
    prefix: &str,
    ignored: &[String],
    root: &Shape<'_>,
) -> Node {
    let mut ours: Vec<_> = variables
        .iter()
        .filter(|(name, _)| !ignored.contains(name))
        .filter_map(|(name, value)| name.strip_prefix(prefix).map(|rest| (name, rest, value)))
        .collect();
    // A table comes before what is inside it, whatever order the environment has.
    ours.sort();
    let mut layer = Node::empty();
    for (name, rest, value) in ours {
        let keys: Vec<String> = rest.to_lowercase().split("__").map(str::to_owned).collect();
        let shape = root.below(&keys);
        layer.insert(&keys, outside_value(value, shape.as_ref(), &Place::outside(Origin::Env(name.clone()))));
    }
    layer
}

/// The flags, each a dotted path with a value; of two for one path the later wins.
pub(crate) fn flags(flags: &[(String, String)], root: &Shape<'_>) -> Node {
    let mut layer = Node::empty();
    for (name, value) in flags {
        let keys = path::keys(name);
        let shape = root.below(&keys);
        layer
            .insert(&keys, outside_value(value, shape.as_ref(), &Place::outside(Origin::Flag(name.clone()))));
    }
    layer
}

/// A value typed outside the file: TOML where something else than a string belongs and it parses, else a string.
pub(crate) fn outside_value(text: &str, shape: Option<&Shape<'_>>, place: &Place) -> Node {
    let forms = shape.map(Shape::forms).unwrap_or_default();
    let takes_more = forms.iter().any(|form| form.types() != ["string"]);
    let parsed = DeValue::parse(text).ok().filter(|_| takes_more);
    // A value that does not fit stays a string: the type error then names the variable or flag.
    let node = parsed.and_then(|value| {
        let mut unfit = Vec::new();
        tree::value_node(&value, &Lines::of(text), &mut unfit).filter(|_| unfit.is_empty())
    });
    let value = node.map_or_else(|| text.into(), |node| node.to_json());
    Node::from_json(&value, place)
}

fn problem(message: String, origin: Origin, span: Option<std::ops::Range<usize>>) -> Problem {
    Problem { severity: Severity::Error, path: String::new(), message, help: None, origin, span }
}
