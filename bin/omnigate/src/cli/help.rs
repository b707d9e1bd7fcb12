//! The program's help, with its commands in groups and lines of at most 80 columns, and what it says of wrong values.

use clap::{
    Command, CommandFactory, Error,
    error::{ContextKind, ContextValue},
};

use super::Cli;

/// The widest line of the help.
const WIDTH: usize = 80;
/// Where the descriptions of the commands begin.
const INDENT: usize = 15;

/// Every command stands in one group.
const GROUPS: [(&str, &[&str]); 7] = [
    ("Run a node", &["up", "gateway", "edge", "overlay", "rewarder", "demo"]),
    ("Look at and steer a running node", &["status", "health", "top", "reload", "stop", "cache"]),
    ("Configuration and access", &["check", "config", "token", "password", "node"]),
    ("Topics and objects of the overlay", &["pub", "sub", "peers", "losses", "object"]),
    ("Content", &["pack", "cas"]),
    ("Rewards and payments", &["epoch", "policy", "ledger"]),
    ("Other", &["fairness", "docs", "completions", "man", "version", "help"]),
];

/// The command line, with the help in groups.
pub(crate) fn grouped() -> Command {
    let mut command = Cli::command().max_term_width(WIDTH);
    command.build();
    let template = format!(
        "{{before-help}}{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{}\
         Options:\n{{options}}{{after-help}}",
        listed(&command)
    );
    command.help_template(template)
}

/// The commands by group.
fn listed(command: &Command) -> String {
    let mut list = String::new();
    for (heading, names) in GROUPS {
        list.push_str(heading);
        list.push_str(":\n");
        for name in names {
            let about = command.find_subcommand(name).and_then(Command::get_about);
            list.push_str(&row(name, &about.map(ToString::to_string).unwrap_or_default()));
        }
        list.push('\n');
    }
    list
}

/// A command and what it is for, in lines that fit.
fn row(name: &str, about: &str) -> String {
    let mut row = format!("  {name:<width$}", width = INDENT - 2);
    let mut column = INDENT;
    for (at, word) in about.split_whitespace().enumerate() {
        let length = word.chars().count();
        if at > 0 && column + 1 + length > WIDTH {
            row.push('\n');
            row.push_str(&" ".repeat(INDENT));
            column = INDENT;
        } else if at > 0 {
            row.push(' ');
            column += 1;
        }
        row.push_str(word);
        column += length;
    }
    row.push('\n');
    row
}

/// The same error, whose message repeats no password and no query of a URL that was typed.
pub(crate) fn without_secrets(mut error: Error) -> Error {
    if let Some(ContextValue::String(value)) = error.get(ContextKind::InvalidValue) {
        let shown = without_credentials(value);
        error.insert(ContextKind::InvalidValue, ContextValue::String(shown));
    }
    error
}

/// A text without what stands before `@` in a URL, and without its query.
fn without_credentials(text: &str) -> String {
    let scheme_end = text.find("://").map(|at| at + 3);
    let looks_secret = scheme_end.is_some() || text.split_once('@').is_some_and(|(user, _)| is_pair(user));
    let start = scheme_end.unwrap_or(0);
    let shown = match text.rfind('@').filter(|at| looks_secret && *at >= start) {
        Some(at) => format!("{}…{}", &text[..start], &text[at..]),
        None => text.to_owned(),
    };
    match shown.find(['?', '#']).filter(|_| scheme_end.is_some()) {
        Some(at) => format!("{}…", &shown[..=at]),
        None => shown,
    }
}

/// Whether it is a user with a password. The id of a node, which stands before `@` as well, is none.
fn is_pair(text: &str) -> bool {
    text.contains(':') && !text.starts_with("b3:")
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_command_stands_in_one_group() {
        let command = grouped();
        let known: BTreeSet<&str> = command.get_subcommands().map(Command::get_name).collect();
        let listed: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        assert_eq!(listed.iter().copied().collect::<BTreeSet<_>>(), known);
        assert_eq!(listed.len(), known.len(), "a command is listed twice");
    }

    #[test]
    fn no_line_of_any_help_is_wider_than_80_columns() {
        fn check(command: &mut Command) {
            let help = command.render_long_help().to_string();
            let wide: Vec<&str> = help.lines().filter(|line| line.chars().count() > WIDTH).collect();
            assert!(wide.is_empty(), "{}: {wide:#?}", command.get_name());
            command.get_subcommands_mut().for_each(check);
        }
        let mut command = grouped();
        command.build();
        check(&mut command);
    }

    #[test]
    fn passwords_and_queries_of_typed_urls_are_not_repeated() {
        for (typed, shown) in [
            ("http://user:hunter2@host:1/", "http://…@host:1/"),
            ("htp://hunter2@host", "htp://…@host"),
            ("http://u:p@ss@host", "http://…@host"),
            ("user:hunter2@host:80", "…@host:80"),
            ("http://host/?token=hunter2", "http://host/?…"),
            ("b3:zz@node:9500", "b3:zz@node:9500"),
            ("127.0.0.1:x", "127.0.0.1:x"),
        ] {
            assert_eq!(without_credentials(typed), shown);
        }
        let error = grouped().try_get_matches_from(["omnigate", "gateway", "--to", "http://u:hunter2@h/"]);
        let message = without_secrets(error.unwrap_err()).to_string();
        assert!(!message.contains("hunter2") && message.contains("credentials"), "{message}");
    }

    #[test]
    fn a_misspelled_command_is_answered_with_the_one_that_is_meant() {
        for (typed, meant) in
            [("strat", "start"), ("stauts", "status"), ("relaod", "reload"), ("gatway", "gateway")]
        {
            let error = grouped().try_get_matches_from(["omnigate", typed]).unwrap_err().to_string();
            assert!(error.contains(&format!("'{meant}'")), "{typed}: {error}");
        }
    }
}
