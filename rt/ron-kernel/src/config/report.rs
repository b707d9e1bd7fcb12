//! What is wrong with a configuration, shown the way a compiler shows it: the line, what is allowed, what was meant.

use std::fmt;
use std::ops::Range;

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet, normalize_untrusted_str};

use super::mask::without_url_secrets;
use super::tree::{Lines, Origin};

/// How many problems one report lists; the rest are only counted.
pub const MAX_PROBLEMS: usize = 100;

/// The severity of a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// The configuration is refused.
    Error,
    /// The configuration is used; the operator should know.
    Warning,
}

/// One thing wrong at one place.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Problem {
    /// Whether the configuration is refused for it.
    pub severity: Severity,
    /// The dotted path it concerns; empty for the file as a whole.
    pub path: String,
    /// The description of the problem.
    pub message: String,
    /// The remedy, if there is one.
    pub help: Option<String>,
    /// Where the offending value came from.
    pub origin: Origin,
    /// The bytes of the file to underline.
    pub(crate) span: Option<Range<usize>>,
}

/// The files problems point into. Their secrets are masked before they get here.
#[derive(Clone, Debug, Default)]
pub(crate) struct Source {
    /// Where each file begins in the text, and its name.
    pub(crate) files: Vec<(usize, String)>,
    pub(crate) text: String,
}

impl Source {
    /// The file that holds a byte: where it begins, and its name.
    fn file(&self, at: usize) -> (usize, &str) {
        let file = self.files.iter().rev().find(|(base, _)| *base <= at);
        file.map_or((0, ""), |(base, name)| (*base, name.as_str()))
    }
}

/// The problems of one attempt to load a configuration. Never holds the value of a secret.
#[derive(Clone, Debug, Default)]
pub struct Report {
    problems: Vec<Problem>,
    left_out: usize,
    source: Source,
}

impl Report {
    /// Orders the problems (errors first, then by place in the file, then by the name of the origin) and cuts the list.
    ///
    /// `show` gives the file as it may be shown and moves the problems that are left to their places in it.
    pub(crate) fn new(mut problems: Vec<Problem>, show: impl FnOnce(&mut [Problem]) -> Source) -> Self {
        problems.sort_by_cached_key(|p| {
            let start = p.span.as_ref().map_or(usize::MAX, |span| span.start);
            (p.severity, start, p.origin.to_string(), p.path.clone())
        });
        problems.dedup();
        let left_out = problems.len().saturating_sub(MAX_PROBLEMS);
        problems.truncate(MAX_PROBLEMS);
        for problem in &mut problems {
            problem.message = without_url_secrets(&problem.message);
            problem.help = problem.help.as_deref().map(without_url_secrets);
        }
        let source = show(&mut problems);
        Self { problems, left_out, source }
    }

    /// The problems, the most serious first, at most [`MAX_PROBLEMS`].
    #[must_use]
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// Returns true if there are no problems.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.problems.is_empty()
    }

    /// The report as text for a terminal, with or without colour.
    #[must_use]
    pub fn render(&self, color: bool) -> String {
        let renderer = if color { Renderer::styled() } else { Renderer::plain() };
        let mut shown: Vec<String> =
            self.problems.iter().map(|problem| renderer.render(&[self.group(problem)])).collect();
        if self.left_out > 0 {
            shown.push(format!("... and {} more", self.left_out));
        }
        shown.join("\n\n")
    }

    fn group<'r>(&'r self, problem: &'r Problem) -> Group<'r> {
        let level = match problem.severity {
            Severity::Error => Level::ERROR,
            Severity::Warning => Level::WARNING,
        };
        // A key may hold control characters; a terminal must not obey them.
        let group = Group::with_title(level.primary_title(normalize_untrusted_str(&problem.message)));
        let group = match (&problem.span, &problem.origin) {
            (Some(span), _) => group.element(self.snippet(span)),
            (None, Origin::Default) if problem.path.is_empty() => group,
            (None, Origin::Default) => group.element(outside(format!("default of {}", problem.path))),
            (None, Origin::File { file, line }) => {
                group.element(annotate_snippets::Origin::path(file.to_string()).line(*line))
            }
            (None, origin) => group.element(outside(origin.to_string())),
        };
        match &problem.help {
            Some(help) => group.element(Level::HELP.message(normalize_untrusted_str(help))),
            None => group,
        }
    }

    /// The underlined line. Only the first line of a long value is shown: it is where the eye has to go.
    fn snippet(&self, span: &Range<usize>) -> Snippet<'_, annotate_snippets::Annotation<'_>> {
        let text = &self.source.text;
        let (base, name) = self.source.file(span.start);
        let line_start = text[..span.start].rfind('\n').map_or(0, |at| at + 1);
        let line_end = text[span.start..].find('\n').map_or(text.len(), |at| span.start + at);
        let (from, to) = (span.start - line_start, span.end.clamp(span.start, line_end) - line_start);
        Snippet::source(&text[line_start..line_end])
            .path(name)
            .line_start(Lines::of(&text[base..]).at(span.start - base))
            .annotation(AnnotationKind::Primary.span(from..to))
    }
}

fn outside<'r>(name: String) -> annotate_snippets::Origin<'r> {
    annotate_snippets::Origin::path(name)
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(false))
    }
}

impl std::error::Error for Report {}
