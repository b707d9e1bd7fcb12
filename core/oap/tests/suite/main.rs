//! One program for all of these tests: each more would be linked on its own.

#![expect(clippy::unwrap_used, reason = "tests")]

mod frames;
mod sessions;
mod slices;
mod support;
mod vectors;
