//! Who makes room for whom when there are too many publishers.

use crate::support::{Bench, entry, node, proof, topic};
use gossip::{GapReason, Settings};
use oap::{Entry, Head, IHave, Message};

/// Room for eight publishers, four of them told of by one peer.
fn bench() -> Bench {
    let mut bench = Bench::new(Settings { max_publishers: 8, ..Settings::default() });
    (1..=3).for_each(|number| bench.join(number));
    bench
}

#[test]
fn publishers_that_one_peer_invents_take_no_room_of_others() {
    let mut bench = bench();
    bench.hear_publication(1, 1, 1);
    (20..60).for_each(|invented| bench.hear_heads(2, &[entry(invented, 5)]));
    assert_eq!(bench.engine.stats().publishers, 5);
    bench.take();
    for publisher in [1, 3, 10, 11] {
        bench.hear_publication(3, publisher, 2);
        bench.hear_publication(3, publisher, 3);
    }
    assert_eq!(bench.delivered().len(), 8);
    assert_eq!(bench.engine.stats().publishers, 8);
}

#[test]
fn invented_publishers_that_come_by_an_honest_relay_make_room_for_those_that_publish() {
    let mut bench = bench();
    (20..60).for_each(|invented| bench.hear_heads(1, &[entry(invented, 5)]));
    bench.take();
    (10..14).for_each(|publisher| bench.hear_publication(1, publisher, 1));
    assert_eq!(bench.delivered().len(), 4);
}

#[test]
fn a_listed_publisher_and_a_neighbour_always_fit() {
    let mut bench = bench();
    for peer in 1..=2 {
        (1..=4).for_each(|number| bench.hear_publication(peer, peer * 10 + number, 1));
    }
    assert_eq!(bench.engine.stats().publishers, 8);
    bench.take();
    bench.hear_publication(1, 99, 1);
    bench.hear_publication(3, 3, 1);
    assert_eq!(bench.delivered(), [(node(99), 1), (node(3), 1)]);
    (40..60).for_each(|number| bench.hear_publication(3, number, 1));
    bench.take();
    bench.hear_publication(2, 99, 2);
    assert_eq!(bench.delivered(), [(node(99), 2)], "and stays");
    assert_eq!(bench.gaps(), []);
}

#[test]
fn a_publisher_that_does_not_fit_is_named_to_subscribers() {
    let mut bench = bench();
    (1..=5).for_each(|number| bench.hear_publication(1, 10 + number, 1));
    let gap = &bench.gaps()[0];
    assert_eq!((gap.publisher, gap.from, gap.to, gap.reason), (node(15), 1, 1, GapReason::NoRoom));
}

#[test]
fn a_neighbour_or_a_listed_publisher_with_many_lives_takes_the_room_of_its_own() {
    let mut bench = bench();
    (10..14).for_each(|publisher| bench.hear_publication(1, publisher, 1));
    for publisher in [2, 99] {
        for incarnation in 5..50 {
            let entry = Entry { incarnation, ..entry(publisher, 1) };
            let heads = vec![Head { entry, proof: proof(entry) }];
            bench.hear(2, Message::IHave(IHave { topic: topic(), entries: Vec::new(), heads }));
        }
    }
    bench.take();
    (10..14).for_each(|publisher| bench.hear_publication(1, publisher, 2));
    assert_eq!((bench.delivered().len(), bench.gaps()), (4, vec![]), "all four are still known");
    assert!(bench.engine.stats().publishers <= 8);
}
