//! The HTTP interface: from a request to its answer.

mod access;
mod answer;
mod ask;
mod documents;
mod history;
mod places;
mod route;
mod service;

pub(crate) use places::Places;
pub(crate) use service::Handler;
#[cfg(any(test, fuzzing))]
pub(crate) use {
    access::admit,
    ask::{compute_body, page},
    route::Route,
};
