//! The rewarder as a program: what it pays, that it pays it once however it dies, and what others find in its files.

mod clients;
mod crashes;
mod ground;
mod life;
mod replicas;
mod restored_ledger;
#[path = "../../../store/ron-ledger/tests/support/server.rs"]
#[expect(dead_code, reason = "shared with the ledger's tests, which use more of it")]
mod server;
