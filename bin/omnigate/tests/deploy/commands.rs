//! Every block of commands in the pages is run as it stands, or says why it is not.
//!
//! The blocks of a page are run by one shell, in order, in a folder that has what pages take for granted (see
//! [`super::stage`]), and the files beside the page of an example. A comment on the line before a block changes that: `<!-- not run: REASON -->`, or `<!-- in a new
//! folder -->`. A block of TOML after `<!-- omnigate.toml -->` becomes that file.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::{repository, stage::Stage};

/// Pages whose commands are another test.
const RUN_ELSEWHERE: [(&str, &str); 1] =
    [("docs/guide/three-nodes.md", "tests/e2e runs it line by line, on three nodes")];

/// Marks that a block may have.
const NOT_RUN: &str = "<!-- not run: ";
const NEW_FOLDER: &str = "<!-- in a new folder -->";
const CONFIG: &str = "<!-- omnigate.toml -->";

/// A block that does something.
#[derive(Debug, PartialEq)]
enum Block {
    /// A script, and the line it begins at.
    Shell { line: usize, script: String, new_folder: bool },
    /// A configuration file.
    Config(String),
}

#[test]
fn every_command_in_the_pages_works() {
    let mut ran = 0;
    for page in pages() {
        let blocks = blocks(&fs::read_to_string(repository(&page)).unwrap())
            .unwrap_or_else(|problem| panic!("{page}, {problem}"));
        let scripts = blocks.iter().filter(|block| matches!(block, Block::Shell { .. })).count();
        if scripts > 0 {
            run(&page, &blocks);
        }
        ran += scripts;
    }
    assert!(ran >= 15, "only {ran} blocks were run");
}

#[test]
fn a_block_that_is_not_run_says_why() {
    let page = "```sh\na\n```\n<!-- not run: b is a secret -->\n```sh\nb\n```\n```toml\ny\n```\n<!-- omnigate.toml -->\n```toml\nx = 1\n```\n<!-- in a new folder -->\n\
                ```console\n$ c\nd\n$ e\n```\n";
    let shell = |line, script: &str, new_folder| Block::Shell { line, script: script.to_owned(), new_folder };
    assert_eq!(
        blocks(page).unwrap(),
        [shell(1, "a\n", false), Block::Config("x = 1\n".to_owned()), shell(16, "c\ne\n", true)]
    );
    assert!(blocks("<!-- not run: -->\n```sh\na\n```\n").is_err(), "no reason");
    assert!(blocks("```bash\na\n```\n").is_err(), "a language that nothing here knows");
}

fn run(page: &str, blocks: &[Block]) {
    let mut stage = Stage::for_page(page);
    let mut script = String::new();
    for block in blocks {
        match block {
            Block::Config(text) => script += &format!("cat > omnigate.toml <<'CONFIG'\n{text}CONFIG\n"),
            Block::Shell { new_folder: true, .. } if !script.is_empty() => {
                stage.run(page, &std::mem::take(&mut script));
                stage = Stage::for_page(page);
            }
            Block::Shell { .. } => {}
        }
        if let Block::Shell { line, script: commands, .. } = block {
            script += &format!("echo 'line {line}:' >&2\n{commands}");
        }
    }
    stage.run(page, &script);
}

/// The blocks of a page that do something, or what is wrong with one.
fn blocks(text: &str) -> Result<Vec<Block>, String> {
    let mut found = Vec::new();
    let mut lines = text.lines().enumerate();
    let mut before = "";
    while let Some((at, line)) = lines.next() {
        if let Some(language) = line.strip_prefix("```") {
            let body: Vec<&str> =
                lines.by_ref().map(|(_, line)| line).take_while(|line| !line.starts_with("```")).collect();
            let wrong = |what: &str| format!("line {}: {what}", at + 1);
            let reason = before.strip_prefix(NOT_RUN).map(|rest| rest.trim_end_matches("-->").trim());
            let typed = match language {
                "sh" => body.iter().map(|line| format!("{line}\n")).collect(),
                // What is typed; the rest is what is answered.
                "console" => body
                    .iter()
                    .filter_map(|line| line.strip_prefix("$ "))
                    .map(|line| format!("{line}\n"))
                    .collect(),
                "toml" if before == CONFIG => {
                    found.push(Block::Config(body.iter().map(|line| format!("{line}\n")).collect()));
                    String::new()
                }
                "bash" | "shell" | "zsh" => return Err(wrong("write sh, or console with its prompts")),
                _ => String::new(),
            };
            match reason {
                Some("") => return Err(wrong("the mark gives no reason")),
                None if !typed.is_empty() => {
                    let new_folder = before == NEW_FOLDER;
                    found.push(Block::Shell { line: at + 1, script: typed, new_folder });
                }
                _ => {}
            }
        }
        before = line;
    }
    Ok(found)
}

/// All pages, from the root of the repository.
fn pages() -> Vec<String> {
    let root = repository("");
    let mut pages = vec![root.join("README.md"), root.join("CONTRIBUTING.md")];
    let mut folders = vec![root.join("docs"), root.join("deploy")];
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            match path.is_dir() {
                true => folders.push(path),
                false if path.extension().is_some_and(|ending| ending == "md") => pages.push(path),
                false => {}
            }
        }
    }
    let name = |page: &PathBuf| name(page, &root);
    let elsewhere = |page: &String| RUN_ELSEWHERE.iter().any(|(other, _)| other == page);
    let mut pages: Vec<String> = pages.iter().map(name).filter(|page| !elsewhere(page)).collect();
    pages.sort_unstable();
    pages
}

fn name(page: &Path, root: &Path) -> String {
    page.strip_prefix(root).unwrap().to_str().unwrap().to_owned()
}
