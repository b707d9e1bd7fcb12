//! One program for all of these tests: each more would be linked on its own.

mod common;
mod directory;
mod header;
mod hostile;
mod packs;
mod vectors;
