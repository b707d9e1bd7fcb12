//! Omnigate: one binary that an operator runs on every node.

mod admin;
mod audit_outlet;
mod cli;
mod commands;
mod config_file;
mod demo;
mod failure;
mod fairness;
mod logging;
mod node;
mod object_body;
mod observe;
mod preflight;
mod private_data;
mod rig;
mod sandbox;
mod settings;
mod unworkable;

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: ron_alloc::Allocator = ron_alloc::Allocator;

fn main() -> ExitCode {
    ron_alloc::return_memory_promptly();
    ron_transport::descriptors::raise_limit();
    commands::main()
}
