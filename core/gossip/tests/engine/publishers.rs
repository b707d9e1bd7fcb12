//! Who makes room for whom when there are too many publishers.

use crate::support::{Bench, entry, node, proof, topic};
use bytes::Bytes;
use gossip::{Action, GapReason, Settings};
use oap::{Entry, Head, IHave, Message, Publication};

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

#[test]
fn of_a_publisher_with_many_lives_the_latest_stay_and_none_comes_twice() {
    let mut bench = bench();
    let life = |incarnation: u64, seq: u64| Entry { incarnation, ..entry(10, seq) };
    let publish = |bench: &mut Bench, peer: u8, of: Entry| {
        let proof = Some(proof(of).into());
        let news = Publication::new(of.in_topic(&topic()), Bytes::from_static(b"hello"));
        bench.hear(peer, Message::Publish(Publication { hops: 1, proof, ..news }));
    };
    // The first life has the most publications, the last one only one.
    for incarnation in 1..=5 {
        (1..=6 - incarnation).for_each(|seq| publish(&mut bench, 1, life(incarnation, seq)));
    }
    assert_eq!(bench.take().iter().filter(|action| matches!(action, Action::Deliver { .. })).count(), 15);
    // A neighbour that has not heard of the last life still tells of the first.
    let (of, proof) = (life(1, 5), proof(life(1, 5)));
    let heads = vec![Head { entry: of, proof }];
    bench.hear(2, Message::IHave(IHave { topic: topic(), entries: Vec::new(), heads }));
    (1..=5).for_each(|seq| publish(&mut bench, 2, life(1, seq)));
    assert_eq!(bench.delivered(), [], "delivered before");
    bench.take();
    for incarnation in 2..=5 {
        publish(&mut bench, 1, life(incarnation, 7 - incarnation));
    }
    let gaps = bench.gaps();
    assert_eq!((bench.delivered().len(), gaps.len()), (4, 0), "all four are still known: {gaps:?}");
}

#[test]
fn how_often_one_peer_has_others_make_room_is_bounded_by_time() {
    let mut bench = bench();
    let head = |number: u64| {
        let mut id = [7; 32];
        id[..8].copy_from_slice(&number.to_be_bytes());
        let entry = Entry { publisher: types::NodeId::new(id), incarnation: 1, seq: 40 };
        Head { entry, proof: proof(entry) }
    };
    for number in 0..1000 {
        let heads = vec![head(number)];
        bench.hear(1, Message::IHave(IHave { topic: topic(), entries: Vec::new(), heads }));
    }
    let forgotten =
        |bench: &Bench| bench.gaps().iter().filter(|gap| gap.reason == GapReason::Forgotten).count();
    assert!((1..=64).contains(&forgotten(&bench)), "{}", forgotten(&bench));
    // Others are not concerned.
    bench.take();
    bench.hear_publication(3, 10, 1);
    bench.hear_publication(3, 99, 1);
    assert_eq!(bench.delivered().len(), 2);
}
