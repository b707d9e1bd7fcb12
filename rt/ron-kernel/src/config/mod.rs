//! The configuration engine: typed tables, layers, and errors that point at the line and say what was meant.
//!
//! A service declares a [`Table`]; the program collects the tables in a [`Schema`] and loads a [`Snapshot`] through a
//! [`Loader`]: flags over environment over file over defaults. Everything wrong is found in one pass and told in a
//! [`Report`]. A [`ConfigStore`] holds the current snapshot for readers that must not wait.
//!
//! Secrets never appear in a report, a listing, a template or a `Debug` output.

mod document;
mod expect;
mod form;
mod include;
mod inspect;
mod layers;
mod load;
mod mask;
mod memo;
mod path;
mod path_setting;
mod reference;
mod references;
mod report;
mod secret;
mod shape;
mod snapshot;
mod store;
mod suggest;
mod table;
mod template;
mod text;
mod tree;
mod values;

pub use include::{Included, MAX_ALL_BYTES, MAX_INCLUDE_DEPTH, MAX_INCLUDED, Shelf};
pub use layers::MAX_FILE_BYTES;
pub use load::{Loader, Sources};
pub use path_setting::PathSetting;
pub use references::{Lookup, Reference};
pub use report::{MAX_PROBLEMS, Problem, Report, Severity};
pub use secret::{HIDDEN, Secret};
pub use snapshot::{Change, Snapshot};
pub use store::ConfigStore;
pub use table::{Checks, DANGER_OK, Finding, Problems, Schema, Table};
pub use tree::Origin;
pub use values::{ByteSize, HumanDuration};
