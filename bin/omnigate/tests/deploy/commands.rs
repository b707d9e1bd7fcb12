//! The blocks of commands in the pages that say so are run, as they stand.
//!
//! A block that follows `<!-- run -->` is run by a shell in a folder of its own, in which earlier such blocks of the same
//! page have left their files, and with it those beside the page of an example. It has to end by itself and without
//! complaint. Those after `<!-- run, slowly -->` are run only with `OMNIGATE_FULL_PROOFS=1`.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::repository;

const MARK: &str = "<!-- run";

#[test]
fn commands_that_say_they_can_be_run_can() {
    let mut ran = 0;
    for page in pages() {
        let blocks = blocks(&fs::read_to_string(&page).unwrap());
        if !blocks.is_empty() {
            let dir = tempfile::tempdir().unwrap();
            furnish(dir.path(), &page);
            blocks.iter().for_each(|block| run_block(dir.path(), &page, block));
            ran += blocks.len();
        }
    }
    assert!(ran >= 4, "only {ran} blocks are marked");
}

/// Gives the commands of an example what it comes with.
fn furnish(dir: &Path, page: &Path) {
    let folder = page.parent().unwrap();
    if folder.parent().is_some_and(|parent| parent.ends_with("deploy/examples")) {
        for file in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            fs::copy(&file, dir.join(file.file_name().unwrap())).unwrap();
        }
    }
}

fn run_block(dir: &Path, page: &Path, block: &str) {
    let program = Path::new(env!("CARGO_BIN_EXE_omnigate")).parent().unwrap();
    let path = format!("{}:/usr/bin:/bin", program.display());
    let output = Command::new("bash")
        .args(["-euo", "pipefail", "-c", block])
        .current_dir(dir)
        .env_clear()
        .env("PATH", path)
        .output()
        .unwrap();
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}:\n{block}\n{complaints}", page.display());
}

/// The marked blocks of a page, in order.
fn blocks(text: &str) -> Vec<String> {
    let patient = std::env::var_os("OMNIGATE_FULL_PROOFS").is_some();
    let marked =
        text.split(MARK).skip(1).map(|rest| rest.split_once(" -->\n").expect("a mark ends its line"));
    let marked = marked.filter(|(how, _)| patient || !how.contains("slowly"));
    let block = |(_, rest): (&str, &str)| -> String {
        let (fence, rest) = rest.trim_start().split_once('\n').expect("a mark is followed by a block");
        let body = rest.split("\n```").next().unwrap_or_default();
        match fence {
            "```sh" => body.to_owned(),
            // What is typed; the rest is what is answered.
            "```console" => {
                body.lines().filter_map(|line| line.strip_prefix("$ ")).collect::<Vec<_>>().join("\n")
            }
            other => panic!("{other} cannot be run"),
        }
    };
    marked.map(block).collect()
}

fn pages() -> Vec<PathBuf> {
    let mut pages = vec![repository("README.md")];
    let mut folders = vec![repository("docs"), repository("deploy")];
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            match path.is_dir() {
                true => folders.push(path),
                false if path.extension().is_some_and(|ending| ending == "md") => pages.push(path),
                false => {}
            }
        }
    }
    pages
}
