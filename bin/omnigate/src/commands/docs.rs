//! `omnigate docs`: the pages, dashboards and manuals that are generated from what the program declares.

#![expect(
    clippy::disallowed_methods,
    reason = "a command that reads and writes files and ends; no runtime is running"
)]

use std::path::{Path, PathBuf};

use clap::CommandFactory;
use clap_complete::Shell;
use ron_kernel::docs::concurrency_page;

use crate::{cli::Cli, failure::Failure, node::TOPOLOGIES, observe};

/// Every shell there is a completion script for.
const SHELLS: [Shell; 5] = [Shell::Bash, Shell::Zsh, Shell::Fish, Shell::Elvish, Shell::PowerShell];

/// Writes one page per service into `dir`, or with `check` only compares.
pub(super) fn concurrency(dir: &Path, check: bool) -> Result<(), Failure> {
    let pages: Vec<(PathBuf, String)> =
        TOPOLOGIES.iter().map(|t| (dir.join(format!("{}.md", t.service)), concurrency_page(t))).collect();
    write_or_compare(&pages, dir, check, "concurrency")
}

/// Writes the dashboard and the alert rules into `dir`, or with `check` only compares.
pub(super) fn dashboards(dir: &Path, check: bool) -> Result<(), Failure> {
    write_or_compare(&observe::files(dir, &TOPOLOGIES), dir, check, "dashboards")
}

/// Writes the manual pages of all commands and the completion scripts of all shells into `dir`.
pub(super) fn manuals(dir: &Path) -> Result<(), Failure> {
    let (man, completions) = (dir.join("man1"), dir.join("completions"));
    super::man::run(Some(&man))?;
    let cannot = |error| Failure::failed(format!("cannot write to {}: {error}", completions.display()));
    std::fs::create_dir_all(&completions).map_err(cannot)?;
    for shell in SHELLS {
        clap_complete::generate_to(shell, &mut Cli::command(), "omnigate", &completions).map_err(cannot)?;
    }
    super::print(&format!("wrote {} and {}\n", man.display(), completions.display()))
}

fn write_or_compare(
    pages: &[(PathBuf, String)],
    dir: &Path,
    check: bool,
    command: &str,
) -> Result<(), Failure> {
    if check { compare(pages, command) } else { write(dir, pages) }
}

fn write(dir: &Path, pages: &[(PathBuf, String)]) -> Result<(), Failure> {
    let cannot = |path: &Path, error| Failure::failed(format!("cannot write {}: {error}", path.display()));
    std::fs::create_dir_all(dir).map_err(|error| cannot(dir, error))?;
    for (path, page) in pages {
        std::fs::write(path, page).map_err(|error| cannot(path, error))?;
        super::print(&format!("wrote {}\n", path.display()))?;
    }
    Ok(())
}

fn compare(pages: &[(PathBuf, String)], command: &str) -> Result<(), Failure> {
    let is_stale = |(path, page): &&(PathBuf, String)| {
        !std::fs::read_to_string(path).is_ok_and(|committed| committed == *page)
    };
    let stale: Vec<String> =
        pages.iter().filter(is_stale).map(|(path, _)| path.display().to_string()).collect();
    if stale.is_empty() {
        return super::print("ok: every page is as the services declare\n");
    }
    Err(Failure::failed(format!("out of date: {}", stale.join(", ")))
        .help(format!("write them with `omnigate docs {command}`")))
}
