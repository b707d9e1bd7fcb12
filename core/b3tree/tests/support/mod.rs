//! Objects for tests.

use b3tree::{Builder, GROUP_LEN, Tree};

/// Lengths on both sides of what matters: chunks, groups, and the powers of two at which the tree changes its shape.
pub(crate) fn lengths() -> Vec<usize> {
    let around = |at: usize| [at.saturating_sub(1), at, at + 1];
    let chunks = [0, 64, 1024, 2048, 15 * 1024, GROUP_LEN + 1024];
    let groups = [1, 2, 3, 4, 5, 7, 8, 9, 16, 17].map(|groups| groups * GROUP_LEN);
    let mut all: Vec<usize> = chunks.into_iter().chain(groups).flat_map(around).collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// Bytes without a period that groups could share.
pub(crate) fn object(len: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let word = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 32).to_le_bytes()[0]
    };
    (0..len).map(word).collect()
}

pub(crate) fn tree_of(object: &[u8]) -> Tree {
    Builder::new().update(object).finish()
}
