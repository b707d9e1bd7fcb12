//! The HTTP interface: from a request to its answer.

mod access;
mod answer;
mod ask;
mod route;
mod service;

pub(crate) use service::Handler;
#[cfg(any(test, fuzzing))]
pub(crate) use {
    access::admit,
    ask::{compute_body, page},
    route::Route,
};
