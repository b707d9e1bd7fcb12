//! One program for all of these tests: each more would be linked on its own.

#![expect(clippy::disallowed_methods, reason = "nothing here runs on a runtime")]

mod common;
mod flips;
mod kept;
mod mbtiles;
mod pmtiles;
mod signed;
