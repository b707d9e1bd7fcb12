//! The rules, by what they look at.

pub mod concurrency_pages;
pub mod core_purity;
pub mod crate_list;
pub mod layers;
pub mod links;
pub mod sources;
pub mod words;
