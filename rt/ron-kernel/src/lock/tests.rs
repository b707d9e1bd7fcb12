//! Locks in the right and in the wrong order, and awaits with and without one.

use std::task::Waker;

use super::*;

static LOW: LockSpec = LockSpec { name: "state_meta", rank: 1, doc: "first" };
static MIDDLE: LockSpec = LockSpec { name: "routing_table", rank: 2, doc: "second" };
static HIGH: LockSpec = LockSpec { name: "counters", rank: 3, doc: "third" };

fn poll_once<F: Future>(future: F) -> Poll<F::Output> {
    std::pin::pin!(NoLockAcrossAwait::new(future)).poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn locks_taken_in_rising_rank_nest() {
    let (low, middle, high) = (Ranked::new(&LOW, 1), Ranked::new(&MIDDLE, 2), Ranked::new(&HIGH, 3));
    let sum = *low.lock() + *middle.lock() + *high.lock();
    assert_eq!((sum, held()), (6, 0));
    let mut first = low.lock();
    let second = high.lock();
    *first += *second;
    drop((first, second));
    assert_eq!(*low.lock(), 4);
}

#[test]
fn a_lock_survives_the_panic_of_its_holder() {
    let lock = Ranked::new(&LOW, 7);
    std::thread::scope(|s| {
        let holder = s.spawn(|| {
            let _guard = lock.lock();
            panic!("while holding the lock");
        });
        assert!(holder.join().is_err());
    });
    assert_eq!(held(), 0);
    assert_eq!(*lock.lock(), 7);
}

#[test]
fn other_threads_hold_locks_of_their_own() {
    let (low, high) = (Ranked::new(&LOW, ()), Ranked::new(&HIGH, ()));
    let _held_here = high.lock();
    std::thread::scope(|s| {
        s.spawn(|| {
            assert_eq!(held(), 0);
            drop(low.lock());
        });
    });
}

#[test]
fn a_lock_released_before_the_await_is_fine() {
    let lock = Ranked::new(&LOW, 0);
    let polled = poll_once(async {
        *lock.lock() += 1;
        std::future::pending::<()>().await;
    });
    assert_eq!((polled, *lock.lock()), (Poll::Pending, 1));
}

#[test]
fn a_finished_future_passes_its_output_on() {
    assert_eq!(poll_once(async { 5 }), Poll::Ready(5));
}

#[test]
fn printing_a_lock_shows_its_name_and_not_its_content() {
    let lock = Ranked::new(&MIDDLE, "secret");
    let _guard = lock.lock();
    assert_eq!(format!("{lock:?}"), "Ranked(routing_table, rank 2)");
}

/// What only debug builds check.
#[cfg(debug_assertions)]
mod in_debug_builds {
    use super::*;

    #[test]
    #[should_panic(expected = "`state_meta` (rank 1) is wanted while `counters` (rank 3) is held")]
    fn a_lower_rank_is_refused_and_both_locks_named() {
        let (low, high) = (Ranked::new(&LOW, ()), Ranked::new(&HIGH, ()));
        let _high = high.lock();
        let _low = low.lock();
    }

    #[test]
    #[should_panic(expected = "`state_meta` (rank 1) is wanted while `state_meta` (rank 1) is held")]
    fn an_equal_rank_is_refused() {
        let (one, another) = (Ranked::new(&LOW, ()), Ranked::new(&LOW, ()));
        let _one = one.lock();
        let _another = another.lock();
    }

    #[test]
    fn a_refused_lock_leaves_the_count_as_it_was() {
        let (low, high) = (Ranked::new(&LOW, ()), Ranked::new(&HIGH, ()));
        let guard = high.lock();
        let refused = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(low.lock())));
        assert!(refused.is_err());
        assert_eq!(held(), 1);
        drop(guard);
        drop(low.lock());
        assert_eq!(held(), 0);
    }

    #[test]
    fn guards_may_be_released_in_any_order() {
        let (low, middle, high) = (Ranked::new(&LOW, ()), Ranked::new(&MIDDLE, ()), Ranked::new(&HIGH, ()));
        let (first, second) = (low.lock(), high.lock());
        drop(first);
        assert_eq!(held(), 1);
        drop(second);
        let third = middle.lock();
        assert_eq!(held(), 1);
        drop(third);
        assert_eq!(held(), 0);
    }

    #[test]
    #[should_panic(expected = "`state_meta` (rank 1) is wanted while `counters` (rank 3) is held")]
    fn releasing_the_lower_lock_first_does_not_forget_the_higher() {
        let (low, high) = (Ranked::new(&LOW, ()), Ranked::new(&HIGH, ()));
        let (first, _second) = (low.lock(), high.lock());
        drop(first);
        let _again = low.lock();
    }

    #[test]
    #[should_panic(expected = "an await while holding state_meta, counters")]
    fn an_await_under_locks_is_refused_and_they_are_named() {
        let (low, high) = (Ranked::new(&LOW, ()), Ranked::new(&HIGH, ()));
        let _ = poll_once(async {
            let _guards = (low.lock(), high.lock());
            std::future::pending::<()>().await;
        });
    }
}
