//! Every command line that the pages show is one that the program takes.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "tests: a failure may panic, and files are read"
)]

use std::{
    fs,
    path::{Path, PathBuf},
};

use clap::{Parser, error::ErrorKind};

use super::Cli;

/// A command line, and where it stands.
struct Shown {
    place: String,
    words: Vec<String>,
    /// In a block that is to be copied, not in the middle of a sentence: nothing may be missing.
    whole: bool,
}

/// How the program is called in the pages.
const CALLS: [&str; 4] =
    ["omnigate", "target/release/omnigate", "target/debug/omnigate", "/usr/bin/omnigate"];

#[test]
fn every_command_in_the_pages_is_one_that_the_program_takes() {
    let shown: Vec<Shown> = pages().iter().flat_map(|page| commands_of(page)).collect();
    let whole = shown.iter().filter(|command| command.whole).count();
    assert!(whole > 20 && shown.len() > whole + 20, "only {whole} of {} were found", shown.len());
    let wrong: Vec<String> = shown.iter().filter_map(complaint).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_command_that_is_wrong_is_found() {
    let found = |line: &str, whole: bool| {
        let shown = Shown { place: String::new(), words: words(line), whole };
        complaint(&shown).is_some()
    };
    assert!(found("omnigate upp", false));
    assert!(found("omnigate up --bogus", false));
    assert!(found("omnigate token mint", true));
    assert!(!found("omnigate token mint", false));
    assert!(found("omnigate epoch show x", true));
    assert!(!found("omnigate epoch show $epoch", true));
    assert!(!found("omnigate up [--config FILE] [--set key=value]...", true));
    assert!(!found("omnigate token inspect < job.token   # what it says", true));
}

/// What the program says against it, if it does.
fn complaint(shown: &Shown) -> Option<String> {
    let error = Cli::try_parse_from(&shown.words).err()?;
    use ErrorKind::{
        DisplayHelp, DisplayHelpOnMissingArgumentOrSubcommand, DisplayVersion, MissingRequiredArgument,
        MissingSubcommand, ValueValidation,
    };
    let fine = match error.kind() {
        DisplayHelp | DisplayVersion => true,
        // A sentence may name a command without all that it needs.
        DisplayHelpOnMissingArgumentOrSubcommand | MissingRequiredArgument | MissingSubcommand => {
            !shown.whole
        }
        // Only the shell knows what is in a variable.
        ValueValidation => shown.words.iter().any(|word| word.starts_with('$')),
        _ => false,
    };
    (!fine).then(|| format!("{}: {}\n{error}", shown.place, shown.words.join(" ")))
}

/// The pages for those who use the program.
fn pages() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut pages: Vec<PathBuf> =
        ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "bench/RESULTS.md"]
            .map(|page| root.join(page))
            .to_vec();
    let mut folders = vec![root.join("docs"), root.join("deploy")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.extension().and_then(|extension| extension.to_str()) {
                _ if path.is_dir() => folders.push(path),
                Some("md") => pages.push(path),
                _ => {}
            }
        }
    }
    pages
}

fn commands_of(page: &Path) -> Vec<Shown> {
    let text = fs::read_to_string(page).unwrap();
    let name = page.file_name().unwrap().to_string_lossy().into_owned();
    let mut found = Vec::new();
    let (mut fence, mut continued) = (None, String::new());
    for (at, line) in text.lines().enumerate() {
        let place = format!("{name}, line {}", at + 1);
        if let Some(language) = line.trim_start().strip_prefix("```") {
            fence = fence.is_none().then(|| language.to_owned());
            continue;
        }
        match fence.as_deref() {
            Some("sh" | "console") => {
                continued.push_str(line);
                if !line.ends_with('\\') {
                    found.extend(in_shell(&std::mem::take(&mut continued), &place));
                } else {
                    continued.pop();
                }
            }
            Some(_) => {}
            None => {
                let spans = line.split('`').skip(1).step_by(2).filter(|span| span.starts_with("omnigate "));
                let spans = spans.flat_map(alternatives);
                found.extend(spans.map(|span| Shown {
                    place: place.clone(),
                    words: words(&span),
                    whole: false,
                }));
            }
        }
    }
    found
}

/// `a b|c` is `a b` and `a c`.
fn alternatives(span: &str) -> Vec<String> {
    let Some(word) = span.split_whitespace().find(|word| word.contains('|')) else {
        return vec![span.to_owned()];
    };
    word.split('|').map(|choice| span.replacen(word, choice, 1)).collect()
}

/// The calls of the program in one line of a script.
fn in_shell(line: &str, place: &str) -> Vec<Shown> {
    let line = line.trim_start().trim_start_matches("$ ").replace("cargo run --release -- ", "omnigate ");
    let parts = line.split(['&', ';', '|']);
    let calls = parts.map(words).filter(|words| words.first().is_some_and(|word| word == "omnigate"));
    calls.map(|words| Shown { place: place.to_owned(), words, whole: true }).collect()
}

/// The words of a call as the program gets them: without assignments before it, redirections, comments, marks of what
/// may be left out, and quotes.
fn words(call: &str) -> Vec<String> {
    let call = call.split(" #").next().unwrap_or_default();
    let mut words = Vec::new();
    let mut rest = call.split_whitespace().skip_while(|word| is_assignment(word) || *word == "sudo");
    while let Some(word) = rest.next() {
        match word.trim_end_matches("...").trim_matches(['[', ']', '\'', '"', '…']) {
            "" | "&" => {}
            "<" | ">" | ">>" | "2>" => drop(rest.next()),
            "URL" => words.push("http://example.org".to_owned()),
            word if CALLS.contains(&word) && words.is_empty() => words.push("omnigate".to_owned()),
            word => words.push(word.to_owned()),
        }
    }
    words
}

/// Such as `OMNIGATE_ADMIN__TOKEN=x` before a command.
fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| name.bytes().all(|b| b.is_ascii_uppercase() || b == b'_'))
}
