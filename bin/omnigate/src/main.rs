//! Omnigate: one binary that an operator runs on every node.

mod admin;
mod cli;
mod commands;
mod config_file;
mod failure;
mod logging;
mod node;
mod settings;

use std::process::ExitCode;

#[global_allocator]
static ALLOC: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    commands::main()
}
