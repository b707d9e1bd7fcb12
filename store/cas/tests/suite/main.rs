//! One program for all of these tests: each more would be linked on its own.

#![expect(clippy::unwrap_used, clippy::disallowed_methods, reason = "tests: nothing here runs on a runtime")]

mod crash;
mod damages;
mod eviction;
mod hot;
mod record_log;
mod rot;
mod store;
mod support;
mod tail;
mod url_index;
mod verified;
