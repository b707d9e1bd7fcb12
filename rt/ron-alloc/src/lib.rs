//! The program's allocator, tuned to return memory to the system. The only crate with `unsafe` code.
//!
//! An idle connection frees its buffers; that helps only if the allocator returns them to the system. By default it
//! keeps freed pages until more are freed a second later, which never happens on an idle node: measured, 37 KiB
//! stayed with each idle connection instead of 3.

use libmimalloc_sys::{mi_option_set, mi_option_t};
pub use mimalloc::MiMalloc as Allocator;

/// `mi_option_purge_delay` of `mimalloc.h`, which the binding leaves out.
const PURGE_DELAY: mi_option_t = 15;
/// Long enough that a page freed and wanted again at once is not given away in between.
const PURGE_AFTER_MS: i32 = 10;

/// Has freed memory returned to the system promptly. To be called first thing in `main`, while there is one thread.
#[expect(unsafe_code, reason = "the option of a C library; the binding offers no safe way to set it")]
pub fn return_memory_promptly() {
    // SAFETY: the function stores a number in a table of the allocator and checks the index itself. It must not run
    // beside itself, and nothing else sets options; before the first thread starts, nothing runs beside it at all.
    unsafe { mi_option_set(PURGE_DELAY, PURGE_AFTER_MS.into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(unsafe_code, reason = "reads the option back")]
    fn the_option_that_is_set_is_the_purge_delay() {
        // SAFETY: reads a number from the allocator's table.
        let read = || unsafe { libmimalloc_sys::mi_option_get(PURGE_DELAY) };
        // Its default, by which we know that the number names the right option.
        assert_eq!(read(), 1000);
        return_memory_promptly();
        assert_eq!(read(), PURGE_AFTER_MS.into());
    }
}
