//! What commands that show something are rigged up with: a server of a few slots, the smallest client, a folder.

mod client;
mod scratch;
mod sleeper;

pub(crate) use client::{Answer, LoadConn, Pace, connect};
pub(crate) use scratch::ScratchDir;
pub(crate) use sleeper::{SLOW, Sleeper, start_sleeper};
