//! Runtimes as the data plane has them: single-threaded, here or each on a thread of its own.

use std::{io, thread};

use tokio::{
    runtime::{Builder, Handle, Runtime},
    sync::oneshot,
};

/// A runtime for this thread.
pub(crate) fn current_thread() -> io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}

/// Calls `work` with `count` runtimes that other threads run; they end with it.
pub(crate) fn with_cores<R>(count: usize, work: impl FnOnce(&[Handle]) -> R) -> io::Result<R> {
    let cores = (0..count).map(|_| current_thread()).collect::<io::Result<Vec<_>>>()?;
    let handles: Vec<_> = cores.iter().map(|core| core.handle().clone()).collect();
    let result = thread::scope(|scope| {
        let mut stops = Vec::new();
        for core in cores {
            let (stop, stopped) = oneshot::channel::<()>();
            stops.push(stop);
            scope.spawn(move || core.block_on(stopped));
        }
        let result = work(&handles);
        drop(stops);
        result
    });
    Ok(result)
}

/// The same with one.
pub(crate) fn with_far<R>(work: impl FnOnce(&Handle) -> R) -> io::Result<R> {
    with_cores(1, |cores| work(&cores[0]))
}
