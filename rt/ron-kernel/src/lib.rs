//! ron-kernel
