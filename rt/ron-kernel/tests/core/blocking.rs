//! The blocking pool: sixteen run, 512 wait, the next is refused; what panics is told by name.

use std::{
    sync::{Arc, Mutex},
    task::Poll,
    thread::{self, ThreadId},
    time::Duration,
};

use ron_kernel::{
    Kernel, Scope,
    blocking::{APART_THREADS, BLOCKING_THREADS, BLOCKING_WAITERS, BlockingError},
    topology::Topology,
};
use tokio::task::JoinSet;

use crate::support::{Door, conduct, kernel_here, stop, topology, until};

static TOPOLOGY: Topology = topology(&[], &[], &[]);

fn scope() -> (Kernel, Scope) {
    let kernel = kernel_here();
    let scope = kernel.scope(&TOPOLOGY);
    (kernel, scope)
}

/// Callers that all wait at the door, running or waiting for a thread.
async fn crowd(scope: &Scope, door: &Door, size: usize) -> JoinSet<Result<usize, BlockingError>> {
    let mut callers = JoinSet::new();
    for n in 0..size {
        let (pool, inside) = (scope.blocking().clone(), door.clone());
        let work = move || {
            inside.wait();
            n
        };
        callers.spawn(async move { pool.run("stand at the door", work).await });
    }
    until(|| scope.blocking().running().len() + scope.blocking().waiting() == size).await;
    callers
}

#[tokio::test]
async fn sixteen_jobs_run_512_callers_wait_and_the_529th_is_refused_at_once() {
    let (kernel, scope) = scope();
    let metrics = kernel.own().metrics().queue("blocking", "");
    let door = Door::default();
    let _end = door.opened_at_the_end();
    let mut callers = crowd(&scope, &door, BLOCKING_THREADS + BLOCKING_WAITERS).await;
    assert_eq!((BLOCKING_THREADS, BLOCKING_WAITERS), (16, 512));
    assert_eq!((scope.blocking().running().len(), scope.blocking().waiting()), (16, 512));
    assert_eq!((metrics.busy.get(), metrics.dropped.get()), (0, 0));

    let refused = scope.blocking().run("one too many", || 0).await;
    assert_eq!(refused, Err(BlockingError::Busy));
    assert_eq!((metrics.busy.get(), metrics.dropped.get()), (1, 1));

    let conductor = conduct(kernel);
    until(|| metrics.depth.get() == 512).await;
    door.open();
    let mut answers = Vec::new();
    while let Some(answer) = callers.join_next().await {
        answers.push(answer.unwrap().unwrap());
    }
    answers.sort_unstable();
    assert_eq!(answers, (0..528).collect::<Vec<_>>());
    until(|| metrics.depth.get() == 0).await;
    stop(&scope, conductor).await;
}

#[tokio::test]
async fn a_caller_that_leaves_gives_its_place_to_the_next() {
    let (_kernel, scope) = scope();
    let door = Door::default();
    let _end = door.opened_at_the_end();
    let callers = crowd(&scope, &door, BLOCKING_THREADS + BLOCKING_WAITERS).await;
    drop(callers);
    until(|| scope.blocking().waiting() == 0).await;
    assert_eq!(scope.blocking().running().len(), 16, "what has started runs to its end");
    let (pool, next) = (scope.blocking().clone(), tokio::spawn);
    let next = next(async move { pool.run("next", || 7).await });
    until(|| scope.blocking().waiting() == 1).await;
    door.open();
    assert_eq!(next.await.unwrap(), Ok(7));
    until(|| scope.blocking().running().is_empty()).await;
}

#[tokio::test]
async fn callers_that_are_not_polled_hold_no_thread() {
    let (_kernel, scope) = scope();
    let door = Door::default();
    let _end = door.opened_at_the_end();
    let running = crowd(&scope, &door, BLOCKING_THREADS).await;
    // Twice as many as there are threads: each is polled once, as the body of a response to a stalled client is.
    let mut stalled: Vec<_> = (0..2 * BLOCKING_THREADS)
        .map(|n| Box::pin(scope.blocking().run("read a piece", move || n)))
        .collect();
    for caller in &mut stalled {
        assert!(std::future::poll_fn(|cx| Poll::Ready(caller.as_mut().poll(cx).is_pending())).await);
    }
    door.open();
    running.join_all().await;
    let next = scope.blocking().run("next", || 7);
    let next = tokio::time::timeout(Duration::from_secs(60), next).await;
    assert_eq!(next.expect("a thread is free"), Ok(7));
    until(|| scope.blocking().running().is_empty() && scope.blocking().waiting() == 0).await;
    for (n, caller) in stalled.into_iter().enumerate() {
        assert_eq!(caller.await, Ok(n), "its result waits for it");
    }
}

#[tokio::test]
async fn jobs_that_hang_take_no_thread_from_others_and_are_not_waited_for() {
    let (_kernel, scope) = scope();
    let door = Door::default();
    let _end = door.opened_at_the_end();
    let mut hung = JoinSet::new();
    for _ in 0..2 * APART_THREADS {
        let (scope, door) = (scope.clone(), door.clone());
        hung.spawn(async move { scope.blocking().run_apart("ask", move || door.wait()).await });
    }
    until(|| scope.blocking().waiting() == APART_THREADS).await;
    assert_eq!(scope.blocking().running(), Vec::<&str>::new());
    for n in 0..BLOCKING_THREADS {
        assert_eq!(scope.blocking().run("other", move || n).await, Ok(n));
    }
    door.open();
    assert!(hung.join_all().await.into_iter().all(|ended| ended.is_ok()));
}

#[tokio::test]
async fn a_panic_is_a_typed_error_and_counted_even_if_nobody_waits_for_it() {
    let (kernel, scope) = scope();
    let metrics = kernel.own().metrics().tasks("blocking");
    let result: Result<(), _> = scope.blocking().run("parse", || panic!("bad bytes")).await;
    let fault = "panicked: bad bytes".to_owned();
    let expected = BlockingError::Panicked { job: "parse", fault };
    assert_eq!(expected.to_string(), "parse panicked: bad bytes");
    assert_eq!(result, Err(expected));
    assert_eq!((metrics.spawned.get(), metrics.panicked.get()), (1, 1));

    let door = Door::default();
    let (pool, inside) = (scope.blocking().clone(), door.clone());
    let caller = tokio::spawn(async move {
        let work = move || {
            inside.wait();
            panic!("unheard");
        };
        pool.run::<(), _>("leave", work).await
    });
    until(|| scope.blocking().running() == ["leave"]).await;
    caller.abort();
    door.open();
    until(|| scope.blocking().running().is_empty()).await;
    assert_eq!(metrics.panicked.get(), 2);
    assert_eq!(scope.blocking().run("go on", || 3).await, Ok(3), "the pool goes on");
}

/// Notes the threads that drop it.
struct DropsOn(Arc<Mutex<Vec<ThreadId>>>);

impl Drop for DropsOn {
    fn drop(&mut self) {
        self.0.lock().unwrap().push(thread::current().id());
    }
}

#[tokio::test]
async fn a_value_whose_drop_blocks_is_dropped_by_the_pool_wherever_it_is_let_go() {
    let (_kernel, scope) = scope();
    let dropped_on = Arc::new(Mutex::new(Vec::new()));
    let here = thread::current().id();
    drop(scope.blocking().drop_on_pool("remove", DropsOn(Arc::clone(&dropped_on))));
    until(|| dropped_on.lock().unwrap().len() == 1).await;
    assert_ne!(dropped_on.lock().unwrap()[0], here);
    drop(scope.blocking().drop_on_pool("remove", DropsOn(Arc::clone(&dropped_on))).into_inner());
    assert_eq!(dropped_on.lock().unwrap()[1..], [here], "whoever takes it out drops it");
    until(|| scope.blocking().running().is_empty()).await;
}

#[tokio::test]
async fn a_value_whose_drop_blocks_is_dropped_by_the_pool_also_when_the_pool_is_full() {
    let (_kernel, scope) = scope();
    let door = Door::default();
    let _end = door.opened_at_the_end();
    let callers = crowd(&scope, &door, BLOCKING_THREADS + BLOCKING_WAITERS).await;
    let dropped_on = Arc::new(Mutex::new(Vec::new()));
    drop(scope.blocking().drop_on_pool("remove", DropsOn(Arc::clone(&dropped_on))));
    assert_eq!(dropped_on.lock().unwrap().len(), 0, "it would have blocked whoever let it go");
    assert_eq!(scope.blocking().waiting(), BLOCKING_WAITERS + 1);
    door.open();
    callers.join_all().await;
    until(|| dropped_on.lock().unwrap().len() == 1).await;
    assert_ne!(dropped_on.lock().unwrap()[0], thread::current().id());
}
