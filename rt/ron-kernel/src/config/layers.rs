//! Builds the layers above the defaults: the file, the environment, the command line flags.

use std::path::Path;

use toml::de::{DeTable, DeValue};
use zeroize::Zeroizing;

use super::mask::{Mask, Names};
use super::path;
use super::report::{Problem, Severity, Source};
use super::shape::Shape;
use super::tree::{self, Lines, Node, Origin, Place, Unfit};

/// The largest configuration file that is read.
pub const MAX_FILE_BYTES: usize = 1 << 20;

/// The file as a layer, with what is already wrong with it.
pub(crate) struct FileLayer {
    pub(crate) tree: Node,
    pub(crate) problems: Vec<Problem>,
    /// Whether the file could be parsed at all; if not there is no use in looking further.
    pub(crate) parsed: bool,
    /// Wiped when it goes: it may hold secrets.
    text: Zeroizing<String>,
    name: String,
    mask: Mask,
}

impl FileLayer {
    /// Makes the layer of a node without a configuration file.
    pub(crate) fn none() -> Self {
        let (text, name, mask) = (Zeroizing::default(), String::new(), Mask::default());
        Self { tree: Node::empty(), problems: Vec::new(), parsed: true, text, name, mask }
    }

    /// Parses a file. All its syntax errors are found at once.
    pub(crate) fn parse(file: &Path, text: String, root: &Shape<'_>) -> Self {
        let text = Zeroizing::new(text);
        let name = file.display().to_string();
        if text.len() > MAX_FILE_BYTES {
            let message = format!("{name} is larger than {MAX_FILE_BYTES} bytes");
            let problems = vec![problem(message, Origin::Default, None)];
            return Self { problems, parsed: false, name, ..Self::none() };
        }
        let lines = Lines::of(&text);
        let (table, errors) = DeTable::parse_recoverable(&text);
        let mut unfit: Vec<Unfit> = Vec::new();
        let tree = tree::from_toml(table.get_ref(), &lines, &mut unfit);
        let names = Names::of(root);
        let mut mask = Mask::of_tree(&tree, root, &names).and(Mask::of_urls(&text));
        if !(errors.is_empty() && unfit.is_empty()) {
            mask = mask.and(Mask::of_text(&text, &names));
        }
        let syntax =
            errors.iter().map(|e| (format!("not valid TOML: {}", e.message()), e.span().unwrap_or(0..0)));
        let unfit = unfit.into_iter().map(|unfit| (unfit.message.to_owned(), unfit.span));
        let located = syntax.chain(unfit).map(|(message, span)| {
            let line = lines.at(span.start);
            problem(message, Origin::File { line }, Some(span))
        });
        Self { tree, problems: located.collect(), parsed: errors.is_empty(), name, mask, text }
    }

    /// The file as reports show it, and the problems moved to where things are in it.
    pub(crate) fn shown(&self, problems: &mut [Problem]) -> Source {
        for span in problems.iter_mut().filter_map(|problem| problem.span.as_mut()) {
            *span = self.mask.moved(span, &self.text);
        }
        Source { name: self.name.clone(), text: self.mask.apply(&self.text) }
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
