//! One program for all of these tests: each more would be linked on its own.

mod addresses;
mod attacks;
mod isolation;
mod model;
mod promises;
mod properties;
mod reference;
mod retry;
mod room;
mod shares;
mod streams;
mod support;
