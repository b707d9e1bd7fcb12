//! Commands in the pages that repeat a figure name scripts and options that exist.

use crate::{Finding, Tree};

/// Every `bench/….py` and `tools/…` in a page is a file, and a script knows every option that it is shown with.
#[must_use]
pub fn exist(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.ending(".md") {
        for (at, line) in text.lines().enumerate() {
            // Backticks end a command in a sentence, `#` begins a comment in a block.
            let commands = line.split('`').flat_map(|part| part.split(" #").take(1));
            for command in commands {
                findings.extend(complaint(tree, command).map(|what| Finding::new(path, at + 1, what)));
            }
        }
    }
    findings
}

fn complaint(tree: &Tree, command: &str) -> Option<String> {
    let mut words = command.split_whitespace();
    let script = words.next()?.trim_start_matches("./");
    if !(script.starts_with("bench/") && script.ends_with(".py") || script.starts_with("tools/")) {
        return None;
    }
    let Some(source) = tree.text(script) else {
        return Some(format!("there is no `{script}`"));
    };
    let unknown = words.find(|word| word.starts_with("--") && !source.contains(*word))?;
    Some(format!("`{script}` has no option `{unknown}`"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::places;

    #[test]
    fn a_script_or_an_option_that_does_not_exist_is_found() {
        let page = "`bench/a.py --reps 3` is fine\n`bench/gone.py`\n```sh\nbench/a.py --rep\nbench/a.py --reps 1 --bogus\n\
                    ./tools/check clippy   # fine\ntools/gone\n```\n";
        let tree = Tree::of(&[
            ("docs/x.md", page),
            ("bench/a.py", "add_argument(\"--reps\")"),
            ("tools/check", "x"),
        ]);
        assert_eq!(
            places(&exist(&tree)),
            [("docs/x.md", 2), ("docs/x.md", 5), ("docs/x.md", 7)],
            "a prefix of an option is one that argparse takes"
        );
    }
}
