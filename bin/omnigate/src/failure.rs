//! A command that did not work: what is wrong, what to do about it, and the exit code that says so to scripts.

use std::{fmt, io::IsTerminal};

use ron_kernel::{ExitCode, config::Report};

/// Why a command ends in failure. Displayed as it is printed to standard error.
#[derive(Debug)]
pub(crate) struct Failure {
    shown: String,
    code: ExitCode,
    /// Whether it is prose, and may be broken into lines.
    is_prose: bool,
}

impl Failure {
    /// The configuration or the command line is wrong; nothing was opened.
    pub(crate) fn bad_config(problem: impl fmt::Display) -> Self {
        Self::new(problem, ExitCode::BadConfig)
    }

    /// What was asked for could not be done.
    pub(crate) fn failed(problem: impl fmt::Display) -> Self {
        Self::new(problem, ExitCode::Failed)
    }

    /// The same failure, with what to do about it.
    #[must_use]
    pub(crate) fn help(mut self, remedy: impl fmt::Display) -> Self {
        self.shown.push_str(&format!("\n = help: {remedy}"));
        self
    }

    /// The same failure, and what it is about.
    #[must_use]
    pub(crate) fn about(mut self, what: impl fmt::Display) -> Self {
        self.shown = self.shown.replacen("error: ", &format!("error: {what}: "), 1);
        self
    }

    /// The exit code.
    pub(crate) fn code(&self) -> ExitCode {
        self.code
    }

    /// As it is shown on standard error: in lines that fit, if that is a terminal.
    pub(crate) fn for_standard_error(&self) -> String {
        match rustix::termios::tcgetwinsize(std::io::stderr()) {
            Ok(size) if self.is_prose && size.ws_col > 0 => wrapped(&self.shown, size.ws_col.into()),
            _ => self.shown.clone(),
        }
    }

    fn new(problem: impl fmt::Display, code: ExitCode) -> Self {
        Self { shown: format!("error: {problem}"), code, is_prose: true }
    }
}

impl From<Report> for Failure {
    /// A configuration's problems, each with its line, in colour on a terminal.
    fn from(report: Report) -> Self {
        Self { shown: report.render(wants_color()), code: ExitCode::BadConfig, is_prose: false }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

/// The text in lines of at most `width` characters, as far as its words allow; what is broken goes on below the words
/// behind `error:` or `help:`.
fn wrapped(text: &str, width: usize) -> String {
    let mut lines = Vec::new();
    for line in text.lines() {
        let indent = line.find(": ").filter(|at| *at < 8).map_or(0, |at| at + 2);
        let (label, words) = line.split_at(indent);
        let mut current = label.to_owned();
        for (at, word) in words.split(' ').enumerate() {
            if at > 0 && current.chars().count() + 1 + word.chars().count() > width {
                lines.push(std::mem::replace(&mut current, " ".repeat(indent)));
            } else if at > 0 {
                current.push(' ');
            }
            current.push_str(word);
        }
        lines.push(current);
    }
    lines.join("\n")
}

/// Whether standard error shows colour: a terminal, and nobody asked to leave it out.
pub(crate) fn wants_color() -> bool {
    std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|no| no.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_are_broken_between_words_and_stay_below_their_beginning() {
        let text = "error: the quick brown fox\n = help: jumps over the lazy dog\nshort";
        assert_eq!(
            wrapped(text, 20),
            "error: the quick\n       brown fox\n = help: jumps over\n         the lazy\n         dog\nshort"
        );
        assert_eq!(wrapped(text, 80), text);
        assert_eq!(wrapped("error: /a/very/long/path/that/cannot/be/broken here", 20).lines().count(), 2);
    }
}
