//! The rewarder as a program: what it pays, that it pays it once however it dies, and what others find in its files.

mod clients;
mod crashes;
mod database;
mod failover;
mod ground;
mod life;
mod replicas;
mod restored_ledger;
#[path = "../../../store/ron-ledger/tests/support/server.rs"]
mod server;
