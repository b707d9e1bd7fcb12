//! ron-transport

pub mod tls;
