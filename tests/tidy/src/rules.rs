//! The rules, by what they look at.

pub mod bench_commands;
pub mod concurrency_pages;
pub mod conditions;
pub mod core_purity;
pub mod crate_list;
pub mod doc_comments;
pub mod layers;
pub mod links;
pub mod locks;
pub mod log_fields;
pub mod named_paths;
pub mod security_page;
pub mod sources;
pub mod words;
pub mod workflow;
