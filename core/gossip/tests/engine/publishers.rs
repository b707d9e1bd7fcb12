//! Who makes room for whom when there are too many publishers.

use std::{collections::BTreeSet, time::Duration};

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

/// Heads of these lives of node 8, each of which has published three times.
fn heads_of(lives: std::ops::RangeInclusive<u64>) -> Vec<Head> {
    let entry = |incarnation| Entry { publisher: node(8), incarnation, seq: 3 };
    lives.map(|life| Head { entry: entry(life), proof: proof(entry(life)) }).collect()
}

/// The lives of node 8 that a neighbour was told of.
fn told(bench: &mut Bench, neighbour: u8) -> BTreeSet<u64> {
    let heads = |message: Message| match message {
        Message::IHave(have) => have.heads,
        _ => Vec::new(),
    };
    let heads = bench.said_to(neighbour).into_iter().flat_map(heads);
    heads.filter(|head| head.entry.publisher == node(8)).map(|head| head.entry.incarnation).collect()
}

#[test]
fn lives_that_are_not_followed_any_more_are_still_told_of() {
    let mut bench = bench();
    for life in 1..=8 {
        for seq in 1..=3 {
            let entry = Entry { publisher: node(8), incarnation: life, seq };
            let publication = Publication::new(entry.in_topic(&topic()), Bytes::from_static(b"text"));
            let proof = Some(proof(entry).into());
            bench.hear(1, Message::Publish(Publication { hops: 1, proof, ..publication }));
        }
    }
    assert_eq!((bench.delivered().len(), bench.gaps()), (24, Vec::new()));
    bench.take();
    bench.join(9);
    assert_eq!(told(&mut bench, 9), (1..=8).collect(), "a peer that comes is told of all");
    bench.take();
    bench.sent(9, 0);
    bench.pass(Duration::from_secs(3));
    assert_eq!(told(&mut bench, 9), (1..=8).collect(), "and so does the heartbeat");
}

#[test]
fn each_publication_of_more_lives_than_are_followed_is_named_once() {
    for order in 0..3 {
        let mut bench = bench();
        let mut heads = heads_of(1..=8);
        match order {
            0 => {}
            1 => heads.reverse(),
            _ => heads.rotate_left(4),
        }
        // Some are told of again and again, and nobody has any of them.
        for _ in 0..3 {
            for heads in heads.chunks(3) {
                let heads = heads.to_vec();
                bench.hear(1, Message::IHave(IHave { topic: topic(), entries: Vec::new(), heads }));
            }
            bench.pass(Settings::default().patience);
        }
        let gaps = bench.gaps().into_iter().filter(|gap| gap.publisher == node(8));
        let mut named: Vec<_> =
            gaps.flat_map(|gap| (gap.from..=gap.to).map(move |seq| (gap.incarnation, seq))).collect();
        named.sort_unstable();
        let all: Vec<_> = (1..=8).flat_map(|life| (1..=3).map(move |seq| (life, seq))).collect();
        assert_eq!(named, all, "{order}");
        assert!(!bench.is_misbehaviour_seen());
    }
}

#[test]
fn a_head_of_a_life_that_is_not_followed_is_checked_too() {
    let mut bench = bench();
    let mut heads = heads_of(2..=5);
    bench.hear(1, Message::IHave(IHave { topic: topic(), entries: Vec::new(), heads: heads.clone() }));
    bench.take();
    heads[0].entry.incarnation = 1;
    bench.hear(1, Message::IHave(IHave { topic: topic(), entries: Vec::new(), heads }));
    assert!(bench.is_misbehaviour_seen() && bench.gaps().is_empty());
}

#[test]
fn lives_that_are_remembered_are_bounded() {
    let mut bench = bench();
    for heads in heads_of(1..=1000).chunks(8) {
        let heads = heads.to_vec();
        bench.hear(1, Message::IHave(IHave { topic: topic(), entries: Vec::new(), heads }));
        bench.pass(Duration::from_secs(1));
    }
    bench.take();
    bench.join(9);
    let told = told(&mut bench, 9);
    assert!(told.len() <= 68 && told.contains(&1000), "{}", told.len());
    // Those that are not remembered any more are not named again.
    bench.take();
    bench.hear(1, Message::IHave(IHave { topic: topic(), entries: Vec::new(), heads: heads_of(1..=100) }));
    assert_eq!(bench.gaps(), []);
}

#[test]
fn a_node_that_goes_on_in_a_later_life_signs_what_it_published_in_the_one_before() {
    let mut bench = Bench::new(Settings::default());
    (1..=50).for_each(|ticket| bench.publish(ticket));
    bench.join(1);
    bench.take();
    bench.hear_heads(1, &[Entry { publisher: node(0), incarnation: 900, seq: 3 }]);
    bench.sent(1, 0);
    bench.pass(Duration::from_secs(2));
    let heads = bench.said_to(1).into_iter().filter_map(|message| match message {
        Message::IHave(have) => Some(have.heads),
        _ => None,
    });
    let own = heads.flatten().filter(|head| head.entry.incarnation == 1).map(|head| head.entry.seq);
    assert_eq!(own.max(), Some(50));
}

#[test]
fn a_publisher_that_made_room_and_comes_back_is_not_heard_twice() {
    let mut bench = Bench::new(Settings { max_publishers: 2, ..Settings::default() });
    (1..=2).for_each(|number| bench.join(number));
    (1..=40).for_each(|seq| bench.hear_publication(1, 8, seq));
    bench.hear_publication(2, 9, 1);
    let silence = Settings::default().remember + Duration::from_secs(1);
    bench.pass(silence);
    bench.hear_publication(1, 10, 1);
    bench.pass(silence);
    bench.take();
    bench.hear_publication(1, 8, 41);
    // What was published meanwhile is looked for; what came before that is not, though others still have it.
    bench.hear_heads(2, &[entry(8, 43)]);
    bench.pass(Duration::from_secs(1));
    let asked = bench.said_to(2).into_iter().chain(bench.said_to(1)).flat_map(|message| match message {
        Message::IWant(want) => want.entries,
        Message::Graft(graft) => graft.missing.into_iter().collect(),
        _ => Vec::new(),
    });
    let asked: BTreeSet<u64> = asked.filter(|it| it.publisher == node(8)).map(|it| it.seq).collect();
    assert_eq!(asked, BTreeSet::from([42, 43]));
    (1..=41).for_each(|seq| bench.hear_publication(2, 8, seq));
    assert_eq!(bench.delivered(), [(node(8), 41)]);
    assert_eq!(bench.gaps(), []);
}

#[test]
fn lives_that_one_peer_makes_up_leave_room_for_those_of_honest_publishers() {
    let mut bench = Bench::new(Settings { max_publishers: 16, ..Settings::default() });
    (1..=3).for_each(|number| bench.join(number));
    let life = |incarnation| Entry { publisher: node(50), incarnation, seq: 3 };
    for incarnation in (100..=103).chain(1..=40) {
        bench.hear_heads(2, &[life(incarnation)]);
    }
    for incarnation in 1..=8 {
        for seq in 1..=3 {
            let entry = Entry { publisher: node(8), incarnation, seq };
            let publication = Publication::new(entry.in_topic(&topic()), Bytes::from_static(b"text"));
            let proof = Some(proof(entry).into());
            bench.hear(1, Message::Publish(Publication { hops: 1, proof, ..publication }));
        }
    }
    bench.take();
    bench.join(9);
    assert_eq!(told(&mut bench, 9), (1..=8).collect());
}
