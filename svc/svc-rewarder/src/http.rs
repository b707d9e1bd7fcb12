//! The HTTP interface: from a request to its answer.

mod access;
mod answer;
mod route;
mod service;

pub(crate) use service::Handler;
