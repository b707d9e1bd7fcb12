//! ron-transport
