//! Points at which a test has the process die, as `kill -9` would: `OMNIGATE_CRASH_AT=batch.after_post`, or `…:3` for the
//! third time that it is passed.
//!
//! Release builds have none of them, unless they are built with the feature `crash-points`.

/// Every point, in the order in which an epoch passes them.
pub const CRASH_POINTS: [&str; 24] = [
    "seal.before_file",
    "seal.after_file",
    "seal.after_insert",
    "seal.after_announce",
    "close.before_insert",
    "close.after_insert",
    "compute.begun",
    "chain.before_place",
    "chain.after_place",
    "compute.done",
    "write.before_files",
    "write.after_files",
    "write.after_rename",
    "carried.after_insert",
    "computed.after_update",
    "emit.before_update",
    "emit.after_update",
    "link.before_post",
    "link.after_post",
    "batch.before_post",
    "batch.after_post",
    "batch.after_update",
    "settle.before_update",
    "settle.after_update",
];

/// Dies here if a test says so.
#[inline]
pub(crate) fn point(name: &'static str) {
    #[cfg(any(debug_assertions, feature = "crash-points"))]
    armed::pass(name);
    #[cfg(not(any(debug_assertions, feature = "crash-points")))]
    let _ = name;
}

#[cfg(any(debug_assertions, feature = "crash-points"))]
mod armed {
    use std::sync::{
        LazyLock,
        atomic::{AtomicU32, Ordering},
    };

    /// The point and how often it is still to be passed.
    static ARMED: LazyLock<Option<(String, AtomicU32)>> = LazyLock::new(|| {
        let asked = std::env::var("OMNIGATE_CRASH_AT").ok()?;
        let (name, times) = asked.split_once(':').unwrap_or((&asked, "1"));
        Some((name.to_owned(), AtomicU32::new(times.parse().unwrap_or(1))))
    });

    pub(super) fn pass(name: &'static str) {
        debug_assert!(super::CRASH_POINTS.contains(&name), "{name} is not listed");
        if let Some((point, left)) = &*ARMED
            && point == name
            && left.fetch_sub(1, Ordering::AcqRel) == 1
        {
            // Nothing is flushed, closed or said: what a power cut or the kernel's killer leaves is left.
            let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
        }
    }
}
