//! Children that stand and fall with the task that leads them.
//!
//! A child alone has no handle and needs none. Where one task answers for many children, as a worker does for the
//! connections of its core, its death must be theirs: otherwise what it answered for would go on unattended.

use std::{
    collections::HashMap,
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
};

use pin_project_lite::pin_project;
use tokio::task::AbortHandle;

use super::Children;
use crate::planes::Core;

/// Children of one kind under one leader, who may be lost and replaced.
#[derive(Debug)]
pub struct Crew {
    children: Children,
    is_led: AtomicBool,
    members: Mutex<Members>,
}

#[derive(Debug, Default)]
struct Members {
    next: u64,
    /// Those alive; without a handle while they are being started.
    alive: HashMap<u64, Option<AbortHandle>>,
}

/// Leads a crew. Dropped, as when its task is killed, the crew ends with it; see [`Lead::dismiss`] for the end in
/// good order.
#[derive(Debug)]
pub struct Lead(Arc<Crew>);

pin_project! {
    /// A child of a crew. Not an async block, which would store `work` twice.
    struct Member<F> {
        #[pin]
        work: F,
        _membership: Membership,
    }
}

impl<F: Future<Output = ()>> Future for Member<F> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.project().work.poll(cx)
    }
}

/// A place among the members, given back at the end of the child.
struct Membership {
    crew: Arc<Crew>,
    key: u64,
}

impl Crew {
    /// A crew of such children, without a leader yet.
    #[must_use]
    pub fn new(children: Children) -> Arc<Self> {
        Arc::new(Self { children, is_led: AtomicBool::new(false), members: Mutex::default() })
    }

    /// Makes the caller the leader of the crew.
    #[must_use]
    pub fn lead(self: &Arc<Self>) -> Lead {
        self.is_led.store(true, Ordering::Release);
        Lead(Arc::clone(self))
    }

    /// Whether somebody leads it. Who is about to add a member may look for a crew that is led.
    #[must_use]
    pub fn is_led(&self) -> bool {
        self.is_led.load(Ordering::Acquire)
    }

    /// Starts a member on a core.
    pub fn spawn_on<F>(self: &Arc<Self>, core: &Core, work: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let membership = self.join();
        let key = membership.key;
        self.keep(key, self.children.start_on(core, Member { work, _membership: membership }));
    }

    fn join(self: &Arc<Self>) -> Membership {
        let mut members = self.members();
        let key = members.next;
        members.next += 1;
        members.alive.insert(key, None);
        Membership { crew: Arc::clone(self), key }
    }

    fn keep(&self, key: u64, handle: AbortHandle) {
        if let Some(place) = self.members().alive.get_mut(&key) {
            *place = Some(handle);
            return;
        }
        // Over already, or the crew was disbanded meanwhile.
        handle.abort();
    }

    fn members(&self) -> MutexGuard<'_, Members> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lead {
    /// Gives the lead up and leaves the crew be, because it was told to end by itself.
    pub fn dismiss(self) {
        self.0.members().alive.clear();
    }
}

impl Drop for Lead {
    fn drop(&mut self) {
        self.0.is_led.store(false, Ordering::Release);
        let members = std::mem::take(&mut self.0.members().alive);
        self.0.children.count_lost(members.len());
        // Outside of the lock: a child that ends takes it.
        members.into_values().flatten().for_each(|member| member.abort());
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        self.crew.members().alive.remove(&self.key);
    }
}
