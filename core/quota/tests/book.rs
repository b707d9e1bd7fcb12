//! The bounded map: its bounds, what it forgets, and its equivalence to an ordinary map as long as it forgets nothing.

use std::{
    collections::HashMap,
    hash::{BuildHasherDefault, DefaultHasher},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use proptest::prelude::*;
use quota::{Book, Bucket, Forgettable, Full, Rate, ShardedBook};
use types::Moment;

const NOW: Moment = Moment::from_nanos(1);

/// The same hashes every time.
type Hasher = BuildHasherDefault<DefaultHasher>;

/// An entry that knows its number and can be told to stay.
#[derive(Debug, Default)]
struct Entry {
    number: u32,
    stays: AtomicBool,
}

impl Entry {
    fn new(number: u32, stays: bool) -> Self {
        Self { number, stays: AtomicBool::new(stays) }
    }
}

impl Forgettable for Entry {
    fn is_forgettable(&self, _now: Moment) -> bool {
        !self.stays.load(Ordering::Relaxed)
    }
}

fn book(capacity: usize) -> Book<u32, Entry, Hasher> {
    Book::new(capacity, Hasher::default())
}

#[test]
fn a_book_holds_exactly_its_capacity() {
    let mut book = book(3);
    for key in 0..3 {
        book.get_or_insert(&key, NOW, || Entry::new(key, true)).expect("there is room");
    }
    assert_eq!(book.get_or_insert(&3, NOW, || Entry::new(3, true)).map(|_| ()), Err(Full));
    assert_eq!((book.len(), book.capacity(), book.is_empty()), (3, 3, false));
    // Who is in is found, full or not.
    let entry = book.get_or_insert(&1, NOW, || unreachable!("it is there")).expect("it is there");
    assert_eq!(entry.number, 1);
}

#[test]
fn a_book_without_room_is_always_full() {
    assert_eq!(book(0).get_or_insert(&1, NOW, Entry::default).map(|_| ()), Err(Full));
}

#[test]
fn only_what_is_forgettable_makes_room() {
    let mut book = book(4);
    for key in 0..4 {
        book.get_or_insert(&key, NOW, || Entry::new(key, key != 2)).expect("there is room");
    }
    book.get_or_insert(&9, NOW, || Entry::new(9, true)).expect("2 makes room");
    assert!(book.get(&2).is_none());
    for key in [0, 1, 3, 9] {
        assert_eq!(book.get(&key).map(|entry| entry.number), Some(key));
    }
    assert_eq!(book.get_or_insert(&8, NOW, Entry::default).map(|_| ()), Err(Full));
}

#[test]
fn what_somebody_holds_is_not_forgotten() {
    let mut book = book(1);
    let held = book.get_or_insert(&1, NOW, Entry::default).expect("there is room");
    assert_eq!(book.get_or_insert(&2, NOW, Entry::default).map(|_| ()), Err(Full));
    drop(held);
    assert!(book.get_or_insert(&2, NOW, Entry::default).is_ok());
    assert!(book.get(&1).is_none());
}

#[test]
fn the_search_for_room_is_short_and_goes_on_where_it_stopped() {
    let mut book = book(100);
    for key in 0..100 {
        book.get_or_insert(&key, NOW, || Entry::new(key, key != 99)).expect("there is room");
    }
    // Eight at a time: the last of a hundred is met by the thirteenth.
    for attempt in 1..=12 {
        assert_eq!(book.get_or_insert(&500, NOW, Entry::default).map(|_| ()), Err(Full), "{attempt}");
    }
    assert!(book.get_or_insert(&500, NOW, Entry::default).is_ok());
}

#[test]
fn a_bucket_is_forgotten_once_it_is_whole() {
    let rate = Rate::per_second(1, 10).expect("a rate");
    let mut book: Book<u32, Bucket, Hasher> = Book::new(1, Hasher::default());
    let passed = book.get_or_insert(&1, NOW, Bucket::default).expect("there is room").check(&rate, NOW);
    let whole = passed.expect("the first").tat;
    let early = Moment::from_nanos(whole.as_nanos() - 1);
    assert_eq!(book.get_or_insert(&2, early, Bucket::default).map(|_| ()), Err(Full));
    assert!(book.get_or_insert(&2, whole, Bucket::default).is_ok());
}

#[test]
fn an_entry_whose_making_fails_leaves_the_book_as_it_was() {
    let book: ShardedBook<u32, Entry, Hasher> = ShardedBook::new(1, Hasher::default());
    book.get_or_insert(&1, NOW, || Entry::new(1, false)).expect("there is room");
    let failed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        book.get_or_insert(&2, NOW, || panic!("on purpose")).map(|_| ())
    }));
    assert!(failed.is_err());
    assert_eq!(book.get(&1).map(|entry| entry.number), Some(1));
    assert!(book.get(&2).is_none());
    assert_eq!(book.get_or_insert(&2, NOW, || Entry::new(2, true)).map(|entry| entry.number), Ok(2));
}

#[test]
fn shards_share_the_capacity_among_them() {
    for capacity in [0, 1, 63, 1023, 1024, 1039] {
        let book: ShardedBook<u32, Entry, Hasher> = ShardedBook::new(capacity, Hasher::default());
        assert_eq!(book.capacity(), capacity);
        assert!(book.is_empty());
        let taken =
            (0..10_000_u32).filter(|key| book.get_or_insert(key, NOW, || Entry::new(*key, true)).is_ok());
        assert_eq!(taken.count(), capacity, "given enough newcomers, every shard is filled");
        assert_eq!(book.len(), capacity);
    }
}

#[test]
fn keys_are_spread_over_the_shards_evenly_enough() {
    let book: ShardedBook<u32, Entry, Hasher> = ShardedBook::new(16_384, Hasher::default());
    let first_full = (0..).find(|key| book.get_or_insert(key, NOW, || Entry::new(*key, true)).is_err());
    assert!(first_full.is_some_and(|newcomers| newcomers > 14_000), "full at {first_full:?}");
}

#[test]
fn threads_that_ask_for_one_key_get_one_entry() {
    let book: ShardedBook<u32, Entry, Hasher> = ShardedBook::new(2048, Hasher::default());
    let get = || -> Vec<Arc<Entry>> {
        let entry = |key| book.get_or_insert(&key, NOW, || Entry::new(key, true)).expect("there is room");
        (0..500).map(entry).collect()
    };
    std::thread::scope(|scope| {
        let threads: [_; 4] = std::array::from_fn(|_| scope.spawn(get));
        let [first, others @ ..] = threads.map(|thread| thread.join().expect("no panic"));
        for other in others {
            assert!(first.iter().zip(&other).all(|(one, another)| Arc::ptr_eq(one, another)));
        }
    });
    assert_eq!(book.len(), 500);
}

#[derive(Clone, Debug)]
enum Action {
    Enter(u32),
    Look(u32),
    Hold(u32),
    LetGo(u32),
    Stay(u32, bool),
}

fn actions() -> impl Strategy<Value = Vec<Action>> {
    let key = 0..24_u32;
    let action = prop_oneof![
        5 => key.clone().prop_map(Action::Enter),
        1 => key.clone().prop_map(Action::Look),
        1 => key.clone().prop_map(Action::Hold),
        1 => key.clone().prop_map(Action::LetGo),
        2 => (key, any::<bool>()).prop_map(|(key, stays)| Action::Stay(key, stays)),
    ];
    prop::collection::vec(action, 1..300)
}

/// What an ordinary map says of the same actions. It learns what was forgotten by looking, and checks that it might be.
#[derive(Default)]
struct Model {
    entries: HashMap<u32, (u32, bool)>,
    held: HashMap<u32, Arc<Entry>>,
}

impl Model {
    fn must_be_there(&self, key: u32) -> bool {
        self.held.contains_key(&key) || self.entries.get(&key).is_some_and(|(_, stays)| *stays)
    }

    fn forget_what_is_gone(&mut self, book: &Book<u32, Entry, Hasher>) -> Vec<u32> {
        let gone: Vec<u32> = self.entries.keys().copied().filter(|key| book.get(key).is_none()).collect();
        assert!(gone.iter().all(|key| !self.must_be_there(*key)), "{gone:?} was forgotten too early");
        self.entries.retain(|key, _| !gone.contains(key));
        gone
    }
}

proptest! {
    #[test]
    fn a_book_is_a_map_that_forgets_only_what_it_may(actions in actions(), capacity in 1..16_usize) {
        let (mut book, mut model, mut next) = (book(capacity), Model::default(), 0);
        for action in actions {
            match action {
                Action::Enter(key) => {
                    next += 1;
                    let (was_there, was_full) = (model.entries.contains_key(&key), book.len() == capacity);
                    let known: Vec<u32> = model.entries.keys().copied().collect();
                    match book.get_or_insert(&key, NOW, || Entry::new(next, false)) {
                        Ok(entry) if was_there => prop_assert_eq!(entry.number, model.entries[&key].0),
                        Ok(entry) => {
                            prop_assert_eq!(entry.number, next);
                            let gone = model.forget_what_is_gone(&book);
                            prop_assert_eq!(gone.len(), usize::from(was_full), "one goes when one comes");
                            model.entries.insert(key, (next, false));
                        }
                        Err(Full) => {
                            prop_assert!(!was_there && was_full);
                            let stay = known.iter().filter(|key| model.must_be_there(**key)).count();
                            prop_assert!(stay >= capacity.min(8), "eight were looked at");
                        }
                    }
                }
                Action::Look(key) => {
                    let number = book.get(&key).map(|entry| entry.number);
                    prop_assert_eq!(number, model.entries.get(&key).map(|(number, _)| *number));
                }
                Action::Hold(key) => {
                    if let Some(entry) = book.get(&key) {
                        model.held.insert(key, entry);
                    }
                }
                Action::LetGo(key) => drop(model.held.remove(&key)),
                Action::Stay(key, stays) => {
                    if let Some(entry) = book.get(&key) {
                        entry.stays.store(stays, Ordering::Relaxed);
                        model.entries.get_mut(&key).expect("both have it").1 = stays;
                    }
                }
            }
            prop_assert_eq!(book.len(), model.entries.len());
            prop_assert!(book.len() <= capacity);
        }
    }
}
