//! What is believed without the publisher's word for it, and what is not.

use std::time::Duration;

use crate::support::{Bench, entry, node, proof, publication, topic, unproven};
use gossip::{Action, Event, GapReason, LossReason, PeerKey, Settings, Verdict};
use oap::{Entry, Head, IHave, Message, Publication};

/// A bench whose neighbours are 1, which is honest and publishes, and 2, which is not.
fn bench() -> Bench {
    let mut bench = Bench::new(Settings::default());
    (1..=2).for_each(|number| bench.join(number));
    (1..=3).for_each(|seq| bench.hear_publication(1, 1, seq));
    bench
}

fn forged(entry: Entry) -> Message {
    let head = Head { entry, proof: proof(Entry { incarnation: 77, ..entry }) };
    Message::IHave(IHave { topic: topic(), entries: Vec::new(), heads: vec![head] })
}

/// Heads and entries that were told to a neighbour.
fn told(bench: &mut Bench, number: u8) -> (Vec<Entry>, Vec<Entry>) {
    let mut told = (Vec::new(), Vec::new());
    for message in bench.said_to(number) {
        if let Message::IHave(have) = message {
            told.0.extend(have.heads.iter().map(|head| head.entry));
            told.1.extend(have.entries);
        }
    }
    told
}

#[test]
fn a_forged_head_changes_nothing_and_its_sender_is_dismissed() {
    for lie in [entry(1, 1 << 40), entry(1, 4), entry(7, 5), Entry { incarnation: 9, ..entry(1, 1) }] {
        let mut bench = bench();
        bench.take();
        bench.hear(2, forged(lie));
        let dismissed: Vec<_> = bench
            .actions
            .iter()
            .filter_map(|action| match action {
                Action::Misbehaved { peer, .. } => Some(*peer),
                _ => None,
            })
            .collect();
        assert_eq!(dismissed, [PeerKey(2)], "{lie:?}");
        bench.pass(Settings::default().patience * 2);
        assert!(!told(&mut bench, 1).0.contains(&lie), "{lie:?}");
        bench.hear_publication(1, 1, 4);
        assert_eq!((bench.delivered(), bench.gaps()), (vec![(node(1), 4)], vec![]), "{lie:?}");
    }
}

#[test]
fn what_a_peer_only_claims_is_asked_for_and_neither_named_nor_repeated() {
    let mut bench = bench();
    bench.take();
    bench.hear_entries(2, &[entry(1, 900), entry(7, 5)]);
    bench.pass(Settings::default().patience * 2);
    let asked =
        bench.said_to(2).iter().any(|message| matches!(message, Message::IWant(_) | Message::Graft(_)));
    assert!(asked);
    assert_eq!(bench.gaps(), []);
    assert!(!bench.is_misbehaviour_seen());
    let (heads, entries) = told(&mut bench, 1);
    assert!(heads.iter().chain(&entries).all(|entry| entry.seq <= 3 && entry.publisher == node(1)));
    assert_eq!(bench.engine.stats().searching, 0, "it is given up");
    assert_eq!(bench.engine.stats().publishers, 1);
}

#[test]
fn a_claim_beyond_the_window_is_passed_over() {
    let mut bench = bench();
    bench.take();
    let window = Settings::default().dedupe_window as u64;
    bench.hear_entries(2, &[entry(1, 3 + window + 1)]);
    assert_eq!(bench.engine.stats().searching, 0);
    bench.hear_entries(2, &[entry(1, 3 + window)]);
    assert_eq!(bench.engine.stats().searching, 1);
}

#[test]
fn publications_too_far_beyond_what_is_proven_are_refused_and_the_honest_ones_still_come() {
    let mut bench = bench();
    bench.take();
    let window = Settings::default().dedupe_window as u64;
    for seq in [3 + window + 1, 1 << 40] {
        bench.hear(2, Message::Publish(unproven(1, seq)));
    }
    assert_eq!(bench.losses(), [LossReason::Unproven; 2]);
    assert!(!bench.is_misbehaviour_seen(), "a relay may be ahead in good faith");
    bench.hear(2, Message::Publish(unproven(1, 3 + window)));
    (4..=9).for_each(|seq| bench.hear(1, Message::Publish(unproven(1, seq))));
    bench.hear_publication(1, 1, 10);
    assert_eq!(bench.delivered().len(), 8);
}

#[test]
fn a_proof_that_was_not_checked_is_not_passed_on() {
    let mut bench = bench();
    bench.hear_heads(1, &[entry(1, 9)]);
    bench.take();
    let lie = Publication { proof: Some(proof(entry(1, 8)).into()), ..unproven(1, 5) };
    bench.hear(2, Message::Publish(lie));
    let passed_on = bench.said_to(1).into_iter().find_map(|message| match message {
        Message::Publish(publication) => Some(publication),
        _ => None,
    });
    assert_eq!(passed_on.map(|publication| publication.proof), Some(None));
}

#[test]
fn a_publisher_is_remembered_only_with_its_own_word() {
    let mut bench = bench();
    bench.take();
    bench.hear(2, Message::Publish(unproven(7, 1)));
    assert_eq!(bench.losses(), [LossReason::Unproven]);
    let lie = Publication { proof: Some(proof(entry(7, 2)).into()), ..unproven(7, 1) };
    bench.hear(2, Message::Publish(lie));
    assert!(bench.is_misbehaviour_seen());
    assert_eq!(bench.engine.stats().publishers, 1);
    bench.hear_heads(2, &[entry(7, 1)]);
    bench.hear(2, Message::Publish(unproven(7, 1)));
    assert_eq!(bench.delivered(), [(node(7), 1)]);
}

#[test]
fn only_its_publisher_sends_a_publication_that_has_come_over_no_link() {
    let mut bench = bench();
    bench.take();
    bench.hear(2, Message::Publish(Publication { hops: 0, ..publication(1, 4) }));
    assert_eq!(bench.losses(), [LossReason::Forged]);
    assert!(bench.is_misbehaviour_seen());
    bench.hear(1, Message::Publish(Publication { hops: 0, ..publication(1, 4) }));
    assert_eq!(bench.delivered(), [(node(1), 4)]);
}

#[test]
fn a_relay_is_not_dismissed_for_a_publisher_whose_key_is_not_known_here() {
    let mut bench = bench();
    bench.take();
    bench.hear_heads(2, &[entry(98, 4)]);
    bench.hear_publication(2, 98, 4);
    assert_eq!(bench.losses(), [LossReason::Unlisted]);
    assert!(!bench.is_misbehaviour_seen());
    assert_eq!(bench.engine.stats().publishers, 1);
}

#[test]
fn a_node_gives_its_word_with_its_first_publication_and_its_heads() {
    let mut bench = Bench::new(Settings::default());
    bench.join(1);
    bench.take();
    (1..=1000).for_each(|ticket| {
        bench.publish(ticket);
        bench.sent(1, 1);
    });
    let proven: Vec<_> = bench
        .said_to(1)
        .into_iter()
        .filter_map(|message| match message {
            Message::Publish(publication) => publication.proof.map(|it| (publication.id.entry(), *it)),
            _ => None,
        })
        .collect();
    assert_eq!(proven.first(), Some(&(entry(0, 1), proof(entry(0, 1)))));
    assert!(proven.iter().all(|(entry, it)| *it == proof(*entry)));
    let numbers: Vec<_> = proven.iter().map(|(entry, _)| entry.seq).collect();
    assert_eq!(numbers, [1, 257, 513, 769], "one in 256, all at one moment");
    bench.take();
    bench.pass(Settings::default().heartbeat * 2);
    let (heads, entries) = told(&mut bench, 1);
    assert!(heads.contains(&entry(0, 1000)), "{heads:?}");
    assert_eq!(entries, []);
    bench.take();
    bench.join(2);
    assert_eq!(told(&mut bench, 2).0, [entry(0, 1000)]);
}

#[test]
fn a_node_that_stops_publishing_signs_its_last_number_and_tells_everybody() {
    for at_once in [2, 3, 15] {
        let mut bench = Bench::new(Settings::default());
        (1..=3).for_each(|number| bench.join(number));
        bench.hear(3, Message::Prune(topic()));
        bench.pass(Duration::from_secs(3));
        (1..=3).for_each(|number| bench.sent(number, 0));
        bench.take();
        (1..=at_once).for_each(|ticket| bench.publish(ticket));
        bench.take();
        bench.pass(Duration::from_millis(30));
        for neighbour in 1..=3 {
            assert_eq!(told(&mut bench, neighbour).0.last(), Some(&entry(0, at_once)), "{neighbour}");
        }
        // Once is enough.
        (1..=3).for_each(|number| bench.sent(number, 200));
        bench.take();
        bench.pass(Duration::from_millis(100));
        assert_eq!(told(&mut bench, 1).0.len(), 0);
    }
}

#[test]
fn a_node_that_goes_on_publishing_says_nothing_more_than_its_publications() {
    let mut bench = Bench::new(Settings::default());
    bench.join(1);
    bench.pass(Duration::from_secs(3));
    bench.sent(1, 0);
    let mut heads = 0;
    for ticket in 1..=200 {
        bench.publish(ticket);
        bench.take();
        bench.now = bench.now.after(Duration::from_millis(2));
        bench.tell(Event::Tick);
        heads += told(&mut bench, 1).0.len();
        bench.sent(1, 1);
    }
    assert!(heads <= 1, "{heads}: a heartbeat at most");
}

#[test]
fn a_node_that_ends_tells_what_it_has_published() {
    let mut bench = Bench::new(Settings::default());
    bench.join(1);
    (1..=5).for_each(|ticket| bench.publish(ticket));
    bench.sent(1, 5);
    bench.take();
    let now = bench.now;
    bench.engine.conclude(now, &mut bench.actions);
    assert_eq!(told(&mut bench, 1).0, [entry(0, 5)]);
}

#[test]
fn a_node_that_meets_a_later_life_of_its_own_goes_on_after_it() {
    let later = |seq| Entry { incarnation: 70, ..entry(0, seq) };
    let mut bench = Bench::new(Settings::default());
    bench.join(1);
    bench.publish(5);
    bench.take();
    let head = Head { entry: later(9), proof: proof(later(9)) };
    bench.hear(1, Message::IHave(IHave { topic: topic(), entries: Vec::new(), heads: vec![head] }));
    assert!(!bench.is_misbehaviour_seen(), "who tells of it is no liar");
    assert_eq!(bench.verdicts(), [(5, Verdict::Busy)]);
    assert!(bench.actions.iter().any(|action| matches!(action, Action::Outlived { incarnation: 70 })));
    bench.publish(6);
    let published = bench.said_to(1).into_iter().find_map(|message| match message {
        Message::Publish(publication) => Some((publication.id.incarnation, publication.id.seq)),
        _ => None,
    });
    assert_eq!(published, Some((71, 1)));
    bench.tell(Event::Tick);
    bench.hear(
        1,
        Message::Publish(Publication {
            id: later(9).in_topic(&topic()),
            proof: Some(proof(later(9)).into()),
            ..publication(0, 9)
        }),
    );
    assert!(bench.delivered().contains(&(node(0), 9)), "what it published then is news to it");
    bench.pass(Duration::from_secs(1));
}

/// The numbers that neighbour 1 was told are accepted, and the heads that it was shown.
fn answers(bench: &mut Bench) -> (Vec<u64>, Vec<Entry>) {
    let (mut accepted, mut shown) = (Vec::new(), Vec::new());
    for message in bench.said_to(1) {
        match message {
            Message::Accepted(it) => accepted.extend(it.seqs),
            Message::IHave(have) => shown.extend(have.heads.iter().map(|head| head.entry)),
            _ => {}
        }
    }
    bench.take();
    (accepted, shown)
}

/// A publication of neighbour 1 as it sends it itself.
fn own(entry: Entry, body: &'static str) -> Message {
    let publication = Publication::new(entry.in_topic(&topic()), bytes::Bytes::from_static(body.as_bytes()));
    Message::Publish(Publication { proof: Some(proof(entry).into()), ..publication })
}

#[test]
fn another_publication_with_a_number_that_is_taken_is_not_acknowledged() {
    let mut bench = Bench::new(Settings::default());
    bench.join(1);
    bench.take();
    bench.hear(1, own(entry(1, 1), "first"));
    assert_eq!(answers(&mut bench).0, [1]);
    bench.hear(1, own(entry(1, 1), "first"));
    assert_eq!(answers(&mut bench), (vec![1], vec![]), "a copy is acknowledged again");
    bench.hear(1, own(entry(1, 1), "after a restored backup"));
    assert_eq!(
        answers(&mut bench),
        (vec![], vec![entry(1, 1)]),
        "its publisher has lost count, and is shown so"
    );
}

#[test]
fn a_publisher_in_a_life_before_those_that_are_followed_is_shown_its_latest() {
    let mut bench = Bench::new(Settings::default());
    bench.join(1);
    let in_life = |incarnation, seq| Entry { incarnation, ..entry(1, seq) };
    (3..=6).for_each(|life| bench.hear(1, own(in_life(life, 1), "then")));
    bench.take();
    bench.hear(1, own(in_life(2, 1), "now"));
    assert_eq!(answers(&mut bench), (vec![], vec![in_life(6, 1)]));
}

#[test]
fn a_node_that_only_publishes_in_a_topic_hears_of_a_later_life_too() {
    let mut bench = Bench::new(Settings::default());
    bench.tell(Event::Unsubscribe { topic: topic() });
    bench.join(1);
    bench.publish(1);
    bench.take();
    let outlived = |bench: &Bench| bench.actions.iter().any(|it| matches!(it, Action::Outlived { .. }));
    bench.hear_heads(1, &[entry(0, 1), entry(2, 7)]);
    assert!(!outlived(&bench) && bench.engine.stats().publishers == 1, "what others publish is not followed");
    // Its memory was restored: it had published more in this life.
    bench.hear_heads(1, &[entry(0, 5)]);
    assert!(outlived(&bench) && bench.verdicts() == [(1, Verdict::Busy)]);
    bench.take();
    bench.publish(2);
    let published = bench.said_to(1).into_iter().find_map(|message| match message {
        Message::Publish(publication) => Some((publication.id.incarnation, publication.id.seq)),
        _ => None,
    });
    assert_eq!(published, Some((2, 1)));
    bench.hear(1, forged(Entry { incarnation: 9, ..entry(0, 9) }));
    assert!(bench.is_misbehaviour_seen());
}

#[test]
fn a_relay_is_not_blamed_for_a_publication_that_its_topic_demands_a_signature_of() {
    let mut bench = Bench::new(Settings::default());
    bench.join(1);
    bench.join(97);
    let with = |signature: Option<[u8; 64]>| Publication { signature, ..publication(97, 1) };
    for signature in [None, Some([1; 64])] {
        bench.hear(1, Message::Publish(with(signature)));
        assert_eq!(bench.losses(), [LossReason::Unsigned], "{signature:?}");
        assert!(bench.delivered().is_empty() && !bench.is_misbehaviour_seen(), "{signature:?}");
        bench.take();
    }
    // Nor is a publisher that does not know that the topic is signed here.
    bench.hear(97, Message::Publish(Publication { hops: 0, ..with(None) }));
    assert!(bench.losses() == [LossReason::Unsigned] && !bench.is_misbehaviour_seen());
    bench.take();
    // The publisher's own is still taken.
    bench.hear(1, Message::Publish(with(Some([97; 64]))));
    assert_eq!(bench.delivered(), [(node(97), 1)]);
}

#[test]
fn who_sends_what_it_must_know_to_be_wrong_is_blamed() {
    let signed = Publication { signature: Some([97; 64]), ..publication(97, 1) };
    let wrong_body = Publication { body: bytes::Bytes::from_static(b"something else"), ..signed.clone() };
    let wrong_signature = Publication { signature: Some([1; 64]), hops: 0, ..signed };
    for (from, wrong) in [(1, wrong_body), (97, wrong_signature)] {
        let mut bench = Bench::new(Settings::default());
        bench.join(from);
        bench.hear(from, Message::Publish(wrong));
        assert!(bench.losses() == [LossReason::Mismatch] && bench.is_misbehaviour_seen(), "{from}");
    }
}

#[test]
fn what_comes_only_without_a_signature_is_named_once_and_as_that() {
    let mut bench = Bench::new(Settings::default());
    bench.join(1);
    let send = |bench: &mut Bench, seq, signature| {
        bench.hear(1, Message::Publish(Publication { signature, ..publication(97, seq) }));
    };
    send(&mut bench, 1, Some([97; 64]));
    bench.hear_heads(1, &[entry(97, 5)]);
    bench.take();
    let mut all = Vec::new();
    for _ in 0..1500 {
        bench.pass(Duration::from_millis(10));
        for message in bench.said_to(1) {
            let wanted = match message {
                Message::IWant(want) => want.entries,
                Message::Graft(graft) => graft.missing.into_iter().collect(),
                _ => Vec::new(),
            };
            // It has no five.
            wanted.iter().filter(|entry| entry.seq < 5).for_each(|entry| send(&mut bench, entry.seq, None));
        }
        all.extend(bench.gaps());
        assert!(!bench.is_misbehaviour_seen());
        let losses = bench.losses();
        all.iter().for_each(|gap| assert_eq!(gap.publisher, node(97)));
        assert!(losses.iter().all(|loss| *loss == LossReason::Unsigned) && losses.len() <= 3, "{losses:?}");
        bench.take();
    }
    let named: Vec<_> = all.iter().map(|gap| (gap.from, gap.to, gap.reason)).collect();
    assert_eq!(named, [(5, 5, GapReason::Unavailable), (2, 4, GapReason::Unsigned)]);
}
