//! The allocator of the brotli decoder, which counts what it has given.

use brotli_decompressor::{Allocator, SliceWrapper, StandardAlloc};

/// Counts the bytes that a decoder holds.
#[derive(Default)]
pub(crate) struct Counted {
    bytes: usize,
}

impl Counted {
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }
}

impl<T: Clone + Default> Allocator<T> for Counted {
    type AllocatedMemory = <StandardAlloc as Allocator<T>>::AllocatedMemory;

    fn alloc_cell(&mut self, len: usize) -> Self::AllocatedMemory {
        let cell: Self::AllocatedMemory = StandardAlloc::default().alloc_cell(len);
        self.bytes += size_of_val(cell.slice());
        cell
    }

    fn free_cell(&mut self, cell: Self::AllocatedMemory) {
        self.bytes = self.bytes.saturating_sub(size_of_val(cell.slice()));
    }
}
