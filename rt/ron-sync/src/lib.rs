//! ron-sync
