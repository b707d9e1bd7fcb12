//! A command that did not work: what is wrong, what to do about it, and the exit code that says so to scripts.

use std::{fmt, io::IsTerminal};

use ron_kernel::{ExitCode, config::Report};

/// Why a command ends in failure. Displayed as it is printed to standard error.
#[derive(Debug)]
pub(crate) struct Failure {
    shown: String,
    code: ExitCode,
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

    /// The exit code.
    pub(crate) fn code(&self) -> ExitCode {
        self.code
    }

    fn new(problem: impl fmt::Display, code: ExitCode) -> Self {
        Self { shown: format!("error: {problem}"), code }
    }
}

impl From<Report> for Failure {
    /// A configuration's problems, each with its line, in colour on a terminal.
    fn from(report: Report) -> Self {
        Self { shown: report.render(wants_color()), code: ExitCode::BadConfig }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

/// Whether standard error shows colour: a terminal, and nobody asked to leave it out.
pub(crate) fn wants_color() -> bool {
    std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|no| no.is_empty())
}
