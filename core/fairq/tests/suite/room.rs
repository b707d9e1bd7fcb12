//! The waiting room: who is refused, who is dropped for whom, who is held back, and what is remembered.

use fairq::{Arrival, ClassSettings, FairQueue, Grant, Settings, SettingsError, Verdict};
use std::time::Duration;
use types::Moment;

type Queue = FairQueue<&'static str, usize>;

const ANON: usize = 0;
const INTERNAL: usize = 1;
const NOW: Moment = Moment::from_nanos(1_000_000_000);

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Classes of weight 1 and 10, five slots, a room for `room`.
fn settings(room: usize) -> Settings {
    let classes = [1, 10].map(ClassSettings::weighing).to_vec();
    Settings { slots: 5, room, classes, ..Settings::default() }
}

fn queue(settings: Settings) -> Queue {
    Queue::new(settings, NOW).expect("sound settings")
}

fn arrival(class: usize, tenant: &'static str) -> Arrival<&'static str> {
    Arrival { class, tenant, weight: 1, slot_time: ms(10).into(), extra_units: 0, slow: false, slots_held: 0 }
}

fn slow(tenant: &'static str) -> Arrival<&'static str> {
    Arrival { slot_time: ms(500).into(), ..arrival(ANON, tenant) }
}

/// Pushes tickets with these numbers, all of which must find a free place.
fn fill(queue: &mut Queue, arrival: &Arrival<&'static str>, tickets: std::ops::Range<usize>) {
    for ticket in tickets {
        assert_eq!(queue.push(arrival.clone(), ticket, ticket, NOW), Verdict::Queued);
    }
}

/// The victim of a newcomer, `None` if it just waits, an error if it is refused.
fn push(queue: &mut Queue, arrival: Arrival<&'static str>, ticket: usize) -> Result<Option<usize>, ()> {
    match queue.push(arrival, ticket, ticket, NOW) {
        Verdict::Queued => Ok(None),
        Verdict::Shed { victim, .. } => Ok(Some(victim)),
        Verdict::Busy(_) => Err(()),
    }
}

fn pop(queue: &mut Queue, now: Moment) -> Option<usize> {
    queue.pop(now).map(|Grant { ticket, pass: _pass }| ticket)
}

#[test]
fn the_last_place_is_taken_and_the_next_of_the_same_tenant_is_refused() {
    let mut queue = queue(settings(4));
    fill(&mut queue, &arrival(ANON, "a"), 0..4);
    assert_eq!(push(&mut queue, arrival(ANON, "a"), 4), Err(()));
    assert_eq!(queue.depth(), 4);
    assert_eq!(pop(&mut queue, NOW), Some(0));
    assert_eq!(push(&mut queue, arrival(ANON, "a"), 4), Ok(None));
}

#[test]
fn a_flood_of_anon_cannot_make_internal_see_busy() {
    let mut queue = queue(settings(22));
    fill(&mut queue, &arrival(ANON, "flood"), 0..22);
    // Its share is 20 of 22. Until it has that, each of its tickets drops the oldest of the flood.
    for ticket in 22..42 {
        assert_eq!(push(&mut queue, arrival(INTERNAL, "ours"), ticket), Ok(Some(ticket - 22)));
        assert_eq!(push(&mut queue, arrival(ANON, "flood"), 100), Err(()), "the flood does not come back in");
    }
    assert_eq!(push(&mut queue, arrival(INTERNAL, "ours"), 42), Err(()));
    let [anon, internal] = [ANON, INTERNAL].map(|class| queue.class(class, NOW).expect("two classes"));
    assert_eq!((anon.waiting, internal.waiting, queue.depth()), (2, 20, 22));
    assert_eq!((anon.counts.queued, anon.counts.shed, anon.counts.busy), (22, 20, 20));
    assert_eq!((internal.counts.queued, internal.counts.shed, internal.counts.busy), (20, 0, 1));
}

#[test]
fn a_tenant_below_its_share_takes_the_oldest_place_of_the_greediest() {
    let mut queue = queue(settings(8));
    fill(&mut queue, &arrival(ANON, "three"), 0..3);
    fill(&mut queue, &arrival(ANON, "five"), 3..8);
    assert_eq!(push(&mut queue, arrival(ANON, "new"), 8), Ok(Some(3)));
    assert_eq!(push(&mut queue, arrival(ANON, "new"), 9), Ok(Some(4)));
    // Now 3, 3 and 2 wait: the newcomer is still below a third of eight.
    assert_eq!(push(&mut queue, arrival(ANON, "new"), 10), Ok(Some(0)));
    assert_eq!(push(&mut queue, arrival(ANON, "new"), 11), Err(()));
    assert_eq!(push(&mut queue, arrival(ANON, "five"), 12), Err(()), "3 of 8 is more than a third");
    assert_eq!(push(&mut queue, arrival(ANON, "three"), 13), Ok(Some(5)), "2 of 8 is less");
}

/// How many were turned away though they asked for no more than their share.
fn wronged(queue: &Queue) -> [u64; 2] {
    [ANON, INTERNAL].map(|class| queue.class(class, NOW).expect("two classes").counts.inside_share)
}

/// Hands out all five slots, so that nothing is unknown about them.
fn occupy(queue: &mut Queue, arrival: &Arrival<&'static str>) {
    fill(queue, arrival, 1000..1005);
    while pop(queue, NOW).is_some() {}
}

#[test]
fn a_flood_is_never_wronged_and_neither_is_anybody_by_it() {
    let mut queue = queue(settings(8));
    occupy(&mut queue, &arrival(ANON, "flood"));
    fill(&mut queue, &arrival(ANON, "flood"), 0..8);
    for ticket in 8..100 {
        assert_eq!(push(&mut queue, arrival(ANON, "flood"), ticket), Err(()));
    }
    assert_eq!(push(&mut queue, arrival(ANON, "mouse"), 100), Ok(Some(0)), "the flood makes place");
    assert_eq!(push(&mut queue, arrival(INTERNAL, "ours"), 101), Ok(Some(1)));
    assert_eq!(wronged(&queue), [0, 0]);
}

#[test]
fn tenants_that_want_one_slot_each_are_wronged_when_they_are_too_many() {
    let names = ["a", "b", "c", "d", "e", "f", "g", "h", "i"];
    let mut queue = queue(settings(8));
    occupy(&mut queue, &arrival(ANON, "before"));
    for (ticket, name) in names[..8].iter().enumerate() {
        assert_eq!(push(&mut queue, arrival(ANON, name), ticket), Ok(None));
    }
    assert_eq!(wronged(&queue), [0, 0]);
    assert!(push(&mut queue, arrival(ANON, names[8]), 8).is_ok_and(|victim| victim.is_some()));
    assert_eq!(wronged(&queue), [1, 0], "whoever made place had only one ticket");
    // While another class wants something, a class that fills the room is in the wrong itself.
    assert!(push(&mut queue, arrival(INTERNAL, "ours"), 9).is_ok_and(|victim| victim.is_some()));
    assert_eq!(push(&mut queue, arrival(ANON, "f"), 10), Err(()));
    assert_eq!(wronged(&queue), [1, 0]);
}

#[test]
fn while_it_is_not_known_whose_the_slots_are_nobody_is_taken_to_be_wronged() {
    let mut queue = queue(settings(2));
    fill(&mut queue, &arrival(ANON, "a"), 0..1);
    fill(&mut queue, &arrival(ANON, "b"), 1..2);
    assert!(push(&mut queue, arrival(ANON, "c"), 2).is_ok());
    assert_eq!(wronged(&queue), [0, 0], "all five slots may be of any of them");
}

#[test]
fn who_waits_in_vain_is_wronged_unless_it_wants_more_than_its_share() {
    let mut queue = queue(settings(8));
    for (ticket, name) in ["a", "b", "c", "d", "e"].into_iter().enumerate() {
        fill(&mut queue, &arrival(ANON, name), ticket..ticket + 1);
    }
    while pop(&mut queue, NOW).is_some() {}
    fill(&mut queue, &arrival(ANON, "greedy"), 0..3);
    fill(&mut queue, &arrival(ANON, "modest"), 3..4);
    for (ticket, name, expected) in [(0, "greedy", 0), (3, "modest", 1), (4, "nobody", 1)] {
        queue.cancel(ticket, NOW);
        queue.waited_in_vain(ANON, &name);
        assert_eq!(wronged(&queue), [expected, 0], "{name}");
    }
}

#[test]
fn who_waits_in_vain_for_slots_that_one_tenant_holds_waits_because_of_that_tenant() {
    let mut queue = queue(settings(8));
    occupy(&mut queue, &arrival(ANON, "holder"));
    fill(&mut queue, &arrival(ANON, "modest"), 0..1);
    queue.cancel(0, NOW);
    queue.waited_in_vain(ANON, &"modest");
    assert_eq!(wronged(&queue), [0, 0]);
}

#[test]
fn greed_is_measured_by_weight() {
    let mut queue = queue(settings(12));
    let heavy = Arrival { weight: 4, ..arrival(ANON, "heavy") };
    fill(&mut queue, &heavy, 0..8);
    fill(&mut queue, &arrival(ANON, "light"), 8..12);
    assert_eq!(push(&mut queue, arrival(ANON, "new"), 12), Ok(Some(8)), "4 for 1 is more than 8 for 4");
    assert_eq!(push(&mut queue, heavy, 13), Err(()), "8 of 12 is the share of 4 among 6");
}

#[test]
fn caps_of_tenants_and_classes_hold_before_the_room_is_full() {
    let mut capped = settings(100);
    (capped.tenant_room, capped.classes[ANON].room) = (3, 5);
    let mut queue = queue(capped);
    fill(&mut queue, &arrival(ANON, "a"), 0..3);
    assert_eq!(push(&mut queue, arrival(ANON, "a"), 3), Err(()));
    fill(&mut queue, &arrival(ANON, "b"), 3..5);
    assert_eq!(push(&mut queue, arrival(ANON, "b"), 5), Ok(Some(0)), "b has 2 of 5, a has 3");
    assert_eq!(push(&mut queue, arrival(ANON, "b"), 6), Err(()));
    fill(&mut queue, &arrival(INTERNAL, "c"), 6..9);
    assert_eq!(queue.depth(), 8);
}

#[test]
fn a_room_without_places_refuses_everybody() {
    let mut queue = queue(settings(0));
    assert_eq!(push(&mut queue, arrival(INTERNAL, "a"), 0), Err(()));
    assert_eq!(pop(&mut queue, NOW), None);
}

#[test]
fn slow_tenants_are_held_back_at_four_fifths_and_others_overtake() {
    let mut queue = queue(settings(100));
    fill(&mut queue, &slow("slow"), 0..5);
    fill(&mut queue, &slow("slower"), 5..10);
    let mut passes: Vec<_> = (0..4).map(|_| queue.pop(NOW).expect("four of five slots").pass).collect();
    assert_eq!(queue.slow_running(), 4);
    assert_eq!(pop(&mut queue, NOW), None, "six wait, and one slot is free");
    fill(&mut queue, &arrival(ANON, "quick"), 10..11);
    let quick = queue.pop(NOW).expect("a quick one waits");
    assert_eq!((quick.ticket, pop(&mut queue, NOW)), (10, None));
    queue.settle(quick.pass, NOW.after(ms(10)));
    queue.settle(passes.remove(0), NOW.after(ms(500)));
    assert!(queue.pop(NOW.after(ms(500))).is_some(), "a slow slot came back");
    assert_eq!(pop(&mut queue, NOW.after(ms(500))), None);
}

#[test]
fn raising_and_lowering_the_slots_moves_the_limit_of_the_slow() {
    let mut queue = queue(settings(100));
    fill(&mut queue, &slow("slow"), 0..10);
    fill(&mut queue, &slow("slower"), 10..20);
    let granted = |queue: &mut Queue| std::iter::from_fn(|| pop(queue, NOW)).count();
    assert_eq!(granted(&mut queue), 4);
    queue.reconfigure(Settings { slots: 10, ..settings(100) }, NOW).expect("sound settings");
    assert_eq!(granted(&mut queue), 4);
    queue.reconfigure(Settings { slots: 2, ..settings(100) }, NOW).expect("sound settings");
    assert_eq!(granted(&mut queue), 0);
    assert_eq!((queue.depth(), queue.slow_running()), (12, 8), "nothing was forgotten");
}

#[test]
fn settings_that_make_no_sense_change_nothing() {
    let mut queue = queue(settings(1));
    let fewer = Settings { classes: vec![ClassSettings::weighing(1)], ..settings(7) };
    assert_eq!(queue.reconfigure(fewer, NOW), Err(SettingsError::ClassesChanged));
    let mut starving = settings(7);
    starving.classes[0].weight = 0;
    assert_eq!(queue.reconfigure(starving, NOW), Err(SettingsError::Weight { class: 0, weight: 0 }));
    assert_eq!(queue.settings(), &settings(1));
}

#[test]
fn a_smaller_room_drops_nobody_and_admits_nobody_until_it_has_emptied() {
    let mut queue = queue(settings(4));
    fill(&mut queue, &arrival(ANON, "a"), 0..4);
    queue.reconfigure(settings(2), NOW).expect("sound settings");
    assert_eq!((queue.depth(), push(&mut queue, arrival(ANON, "a"), 4)), (4, Err(())));
    let _ = [pop(&mut queue, NOW), pop(&mut queue, NOW), pop(&mut queue, NOW)];
    assert_eq!(push(&mut queue, arrival(ANON, "a"), 4), Ok(None));
}

#[test]
fn giving_up_before_the_grant_costs_nothing_and_after_it_what_was_used() {
    let mut queue = queue(settings(9));
    let debt = |queue: &Queue, now| queue.tenant(ANON, &"a", now).expect("known").debt;
    fill(&mut queue, &arrival(ANON, "a"), 0..2);
    fill(&mut queue, &arrival(ANON, "b"), 2..4);
    assert!(queue.cancel(0, NOW) && !queue.cancel(0, NOW));
    assert_eq!(debt(&queue, NOW), Duration::ZERO);
    let grant = queue.pop(NOW).expect("three wait");
    assert_eq!((grant.ticket, debt(&queue, NOW)), (1, ms(10)));
    queue.settle(grant.pass, NOW.after(ms(4)));
    assert_eq!(debt(&queue, NOW.after(ms(4))), ms(4));
    assert_eq!(queue.class(ANON, NOW).map(|class| class.counts.cancelled), Some(1));
}

#[test]
fn requests_that_never_waited_are_charged_for_the_time_in_which_somebody_did() {
    let mut queue = queue(settings(9));
    let debt = |queue: &Queue, now| queue.tenant(ANON, &"a", now).map(|tenant| tenant.debt);
    queue.settle_unqueued(ANON, "a", 1, ms(900), NOW);
    assert_eq!(debt(&queue, NOW), None, "nobody waited");
    fill(&mut queue, &arrival(ANON, "b"), 0..1);
    let later = NOW.after(ms(30));
    queue.settle_unqueued(ANON, "a", 1, ms(900), later);
    assert_eq!(debt(&queue, later), Some(ms(30)));
    queue.settle_unqueued(ANON, "a", 1, ms(5), later);
    assert_eq!(debt(&queue, later), Some(ms(35)));
}

#[test]
fn idle_tenants_are_forgotten_in_time_unless_they_owe() {
    let mut queue = queue(settings(9));
    fill(&mut queue, &arrival(ANON, "owes"), 0..1);
    fill(&mut queue, &arrival(ANON, "gave up"), 1..2);
    let grant = queue.pop(NOW).expect("two wait");
    queue.cancel(1, NOW);
    let ended = NOW.after(Duration::from_secs(300));
    queue.settle(grant.pass, ended);
    assert_eq!((queue.housekeep(10, NOW.after(Duration::from_millis(59_999))), queue.tenants()), (0, 2));
    // 300 slot-seconds are owed; five slots, of which this class is sure of an eleventh, take 660 seconds to pay them.
    assert_eq!((queue.housekeep(10, ended.after(Duration::from_secs(100))), queue.tenants()), (1, 1));
    assert_eq!((queue.housekeep(10, ended.after(Duration::from_secs(700))), queue.tenants()), (1, 0));
}

#[test]
fn the_tenants_remembered_are_bounded() {
    let mut queue = queue(Settings { max_tenants: 2, ..settings(9) });
    fill(&mut queue, &arrival(ANON, "a"), 0..1);
    fill(&mut queue, &arrival(ANON, "b"), 1..2);
    assert_eq!(push(&mut queue, arrival(ANON, "c"), 2), Err(()), "both wait");
    queue.cancel(0, NOW);
    assert_eq!(push(&mut queue, arrival(ANON, "c"), 2), Ok(None), "the idle one makes place");
    assert_eq!(queue.tenants(), 2);
}

#[test]
fn credit_dies_with_the_queue_and_debt_does_not() {
    let mut queue = queue(settings(100));
    let estimate =
        |tenant, estimate: Duration| Arrival { slot_time: estimate.into(), ..arrival(ANON, tenant) };
    fill(&mut queue, &estimate("a", ms(90)), 0..3);
    // Its estimates were far too high, but nothing of it waits when that turns out.
    let passes: Vec<_> = (0..3).filter_map(|_| queue.pop(NOW)).map(|grant| grant.pass).collect();
    fill(&mut queue, &estimate("b", ms(10)), 3..23);
    let _ = [pop(&mut queue, NOW), pop(&mut queue, NOW)];
    passes.into_iter().for_each(|pass| queue.settle(pass, NOW.after(ms(1))));
    fill(&mut queue, &estimate("a", ms(10)), 23..43);
    let order: Vec<_> = (0..10).filter_map(|_| pop(&mut queue, NOW.after(ms(1)))).collect();
    let of_a = order.iter().filter(|&&ticket| ticket >= 23).count();
    assert!((4..=6).contains(&of_a), "they take turns, whatever was refunded: {order:?}");
}

#[test]
fn a_tenant_is_judged_when_a_slot_is_given_and_not_when_its_ticket_came() {
    let mut queue = queue(Settings { slots: 10, ..settings(100) });
    fill(&mut queue, &arrival(ANON, "burst"), 0..10);
    let mut passes: Vec<_> = (0..3).map(|_| queue.pop(NOW).expect("thought to be quick").pass).collect();
    let later = NOW.after(ms(101));
    let more = std::iter::from_fn(|| queue.pop(later)).map(|grant| passes.push(grant.pass)).count();
    assert_eq!((more, queue.slow_running()), (2, 5), "its running requests have shown that it is slow");
    assert!(queue.tenant(ANON, &"burst", later).is_some_and(|burst| burst.is_capped));
    assert_eq!(pop(&mut queue, later), None, "it has half of the slots");
    queue.settle(passes.remove(0), later);
    assert!(queue.pop(later).is_some(), "one of its slots came back");
}

#[test]
fn a_tenant_of_which_nothing_is_known_gets_one_slot_as_a_quick_one() {
    let mut queue = queue(Settings { slots: 10, ..settings(100) });
    let unknown = Arrival { slot_time: Duration::ZERO.into(), ..arrival(ANON, "new") };
    fill(&mut queue, &unknown, 0..10);
    let first = queue.pop(NOW).expect("ten wait");
    assert_eq!(queue.slow_running(), 1, "it may turn out slow");
    let granted = std::iter::from_fn(|| pop(&mut queue, NOW)).count();
    assert_eq!((granted, queue.slow_running()), (4, 5));
    queue.settle(first.pass, NOW.after(ms(10)));
    assert!(!queue.tenant(ANON, &"new", NOW.after(ms(10))).is_some_and(|new| new.is_capped), "it is quick");
}

#[test]
fn slots_given_around_the_queue_count_as_slow_until_they_are_back() {
    let mut queue = queue(settings(100));
    fill(&mut queue, &slow("slow"), 0..5);
    queue.set_slots_in_use(4);
    assert_eq!(pop(&mut queue, NOW), None, "four of five slots are held by who knows whom");
    fill(&mut queue, &arrival(ANON, "quick"), 5..6);
    assert_eq!(pop(&mut queue, NOW), Some(5));
    queue.set_slots_in_use(4);
    assert_eq!(pop(&mut queue, NOW), Some(0), "three around the queue, and one quick through it");
}
