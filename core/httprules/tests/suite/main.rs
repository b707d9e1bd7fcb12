//! One program for all of these tests: each more would be linked on its own.

mod codings;
mod conditions;
mod dates;
mod freshness;
mod ranges;
