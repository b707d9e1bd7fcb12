//! Values whose drop blocks.

use std::{
    ops::{Deref, DerefMut},
    sync::Arc,
};

use super::{Blocking, Job, Waiter};

/// A value whose drop blocks, such as a file that is removed with it. Whoever lets go of it, wherever that is, it is dropped
/// on a thread of the pool.
#[derive(Debug)]
pub struct BlockingDrop<T: Send + 'static> {
    /// `None` once it is taken out.
    value: Option<T>,
    job: &'static str,
    pool: Blocking,
}

impl Blocking {
    /// Has a value dropped on a thread of the pool, under the name of a job.
    #[must_use]
    pub fn drop_on_pool<T: Send + 'static>(&self, job: &'static str, value: T) -> BlockingDrop<T> {
        BlockingDrop { value: Some(value), job, pool: self.clone() }
    }

    /// Drops a value on a thread; nobody waits for it. However many callers wait, it waits with them: there are no more of
    /// these than there were values. Once the runtime has ended it is dropped at once.
    #[expect(clippy::disallowed_methods, reason = "the pool is where blocking work is started")]
    fn dispose(&self, job: &'static str, value: Box<dyn Send>) {
        let job = Job::usual(job);
        let (pool, waiter) = (self.clone(), Waiter::new(&self.0, job));
        drop(self.0.runtime.spawn(async move {
            let Ok(thread) = Arc::clone(&pool.0.usual.threads).acquire_owned().await else { return };
            drop(waiter);
            // A panic is counted where it happens.
            let _ = pool.begin(job, thread, Box::new(move || drop(value))).await;
        }));
    }
}

const TAKEN: &str = "it is taken out only by those who consume it";

impl<T: Send + 'static> BlockingDrop<T> {
    /// Returns the value; dropping it may block.
    #[must_use]
    pub fn into_inner(mut self) -> T {
        self.value.take().expect(TAKEN)
    }
}

impl<T: Send + 'static> Deref for BlockingDrop<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.value.as_ref().expect(TAKEN)
    }
}

impl<T: Send + 'static> DerefMut for BlockingDrop<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.value.as_mut().expect(TAKEN)
    }
}

impl<T: Send + 'static> Drop for BlockingDrop<T> {
    fn drop(&mut self) {
        if let Some(value) = self.value.take() {
            self.pool.dispose(self.job, Box::new(value));
        }
    }
}
