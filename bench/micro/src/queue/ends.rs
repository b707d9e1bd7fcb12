//! Both ends of the queues compared, behind one face each.

use ron_kernel::queue;
use tokio::sync::mpsc;

use super::lane::Item;

/// A sending end. An item that is not taken is a mistake of the benchmark, and panics.
pub(super) trait Send<T>: Clone + std::marker::Send + Sync + 'static {
    /// Puts an item in.
    fn put(&self, item: T) -> impl Future<Output = ()> + std::marker::Send;
}

/// A receiving end.
pub(super) trait Receive<T>: std::marker::Send + 'static {
    /// Takes the next item out.
    fn take(&mut self) -> impl Future<Output = Option<T>> + std::marker::Send;
}

/// Through the call that never waits.
#[derive(Clone)]
pub(super) struct Trying<S>(pub(super) S);

/// Through the call that waits as it sees fit.
#[derive(Clone)]
pub(super) struct Sending<S>(pub(super) S);

const TAKEN: &str = "the producer keeps within the queue's capacity";

impl<T: Item> Send<T> for Trying<queue::Sender<T>> {
    #[inline]
    async fn put(&self, item: T) {
        self.0.try_send(item).expect(TAKEN);
    }
}

impl<T: Item> Send<T> for Sending<queue::Sender<T>> {
    #[inline]
    async fn put(&self, item: T) {
        self.0.send(item).await.expect(TAKEN);
    }
}

impl<T: Item> Send<T> for Trying<mpsc::Sender<T>> {
    #[inline]
    async fn put(&self, item: T) {
        self.0.try_send(item).expect(TAKEN);
    }
}

impl<T: Item> Send<T> for Sending<mpsc::Sender<T>> {
    #[inline]
    async fn put(&self, item: T) {
        self.0.send(item).await.expect(TAKEN);
    }
}

impl<T: Item> Receive<T> for queue::Receiver<T> {
    #[inline]
    async fn take(&mut self) -> Option<T> {
        self.recv().await
    }
}

impl<T: Item> Receive<T> for mpsc::Receiver<T> {
    #[inline]
    async fn take(&mut self) -> Option<T> {
        self.recv().await
    }
}
