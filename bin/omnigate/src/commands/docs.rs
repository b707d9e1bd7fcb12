//! `omnigate docs`: the pages that are generated from what the services declare.

#![expect(
    clippy::disallowed_methods,
    reason = "a command that reads and writes files and ends; no runtime is running"
)]

use std::path::{Path, PathBuf};

use ron_kernel::docs::concurrency_page;

use crate::{failure::Failure, node::TOPOLOGIES};

/// Writes one page per service into `dir`, or with `check` only compares.
pub(super) fn concurrency(dir: &Path, check: bool) -> Result<(), Failure> {
    let pages: Vec<(PathBuf, String)> =
        TOPOLOGIES.iter().map(|t| (dir.join(format!("{}.md", t.service)), concurrency_page(t))).collect();
    if check { compare(&pages) } else { write(dir, &pages) }
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

fn compare(pages: &[(PathBuf, String)]) -> Result<(), Failure> {
    let is_stale = |(path, page): &&(PathBuf, String)| {
        !std::fs::read_to_string(path).is_ok_and(|committed| committed == *page)
    };
    let stale: Vec<String> =
        pages.iter().filter(is_stale).map(|(path, _)| path.display().to_string()).collect();
    if stale.is_empty() {
        return super::print("ok: every page is as the services declare\n");
    }
    Err(Failure::failed(format!("not as the services declare: {}", stale.join(", ")))
        .help("write them with `omnigate docs concurrency`"))
}
