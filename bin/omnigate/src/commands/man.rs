//! `omnigate man`: the manual, from the same declarations as the help.

#![expect(clippy::disallowed_methods, reason = "a command that writes files and ends; no runtime is running")]

use std::{io, path::Path};

use clap::CommandFactory;
use clap_mangen::Man;

use crate::{cli::Cli, failure::Failure};

/// Prints the program's page, or writes a page per command into `dir`.
pub(super) fn run(dir: Option<&Path>) -> Result<(), Failure> {
    let Some(dir) = dir else {
        let mut page = Vec::new();
        Man::new(Cli::command()).render(&mut page).map_err(Failure::failed)?;
        return super::print(&String::from_utf8_lossy(&page));
    };
    write_pages(dir)
        .map_err(|error| Failure::failed(format!("cannot write manual pages to {}: {error}", dir.display())))
}

fn write_pages(dir: &Path) -> io::Result<()> {
    std::fs::create_dir_all(dir)?;
    clap_mangen::generate_to(Cli::command(), dir)
}
