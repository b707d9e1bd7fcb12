//! What an engine does with publications, good and bad, and with what is asked of it.

use std::time::Duration;

use crate::support::{Bench, entry, node, proof, publication, topic, unproven};
use bytes::Bytes;
use gossip::{Action, Engine, Event, GapReason, LossReason, PeerKey, Settings, Unsigned, Verdict};
use oap::{Accepted, Graft, Head, IHave, IWant, Message, PUBLICATION_MAX};

fn bench() -> Bench {
    Bench::new(Settings::default())
}

fn publications(messages: &[Message]) -> usize {
    messages.iter().filter(|message| matches!(message, Message::Publish(_))).count()
}

#[test]
fn what_is_published_without_neighbours_is_local_only() {
    let mut bench = bench();
    bench.publish(1);
    assert_eq!(bench.verdicts(), [(1, Verdict::LocalOnly)]);
    assert_eq!(bench.delivered(), [(node(0), 1)], "subscribers here get it all the same");
}

#[test]
fn one_neighbours_acknowledgement_makes_it_accepted_and_only_once() {
    let mut bench = bench();
    bench.join(1);
    bench.join(2);
    bench.publish(9);
    assert_eq!(bench.verdicts(), []);
    let accepted = Message::Accepted(Accepted { topic: topic(), incarnation: 1, seqs: vec![1] });
    bench.hear(1, accepted.clone());
    bench.hear(2, accepted);
    assert_eq!(bench.verdicts(), [(9, Verdict::Accepted)]);
}

#[test]
fn an_acknowledgement_of_another_life_counts_for_nothing() {
    let mut bench = bench();
    bench.join(1);
    bench.publish(9);
    bench.hear(1, Message::Accepted(Accepted { topic: topic(), incarnation: 2, seqs: vec![1] }));
    assert_eq!(bench.verdicts(), []);
}

#[test]
fn what_nobody_acknowledges_is_local_only_when_the_time_is_over_and_not_before() {
    let mut bench = bench();
    bench.join(1);
    bench.publish(9);
    let timeout = Settings::default().accept_timeout;
    bench.pass(timeout - Duration::from_millis(1));
    assert_eq!(bench.verdicts(), []);
    bench.pass(Duration::from_millis(1));
    assert_eq!(bench.verdicts(), [(9, Verdict::LocalOnly)]);
}

#[test]
fn what_waits_for_a_verdict_is_bounded() {
    let mut bench = Bench::new(Settings { max_unacked: 3, ..Settings::default() });
    bench.join(1);
    (1..=4).for_each(|ticket| bench.publish(ticket));
    assert_eq!(bench.verdicts(), [(4, Verdict::Busy)]);
}

#[test]
fn a_body_of_the_most_bytes_is_published_and_a_longer_one_is_not() {
    let mut bench = bench();
    for (ticket, len) in [(1, PUBLICATION_MAX), (2, PUBLICATION_MAX + 1)] {
        bench.tell(Event::Publish { ticket, topic: topic(), body: Bytes::from(vec![0; len]) });
    }
    assert_eq!(bench.verdicts(), [(1, Verdict::LocalOnly), (2, Verdict::TooLarge)]);
}

#[test]
fn what_arrives_is_delivered_once_passed_on_and_acknowledged_to_its_publisher() {
    let mut bench = bench();
    bench.join(1);
    bench.join(2);
    bench.take();
    bench.hear_publication(1, 1, 1);
    bench.hear_publication(2, 1, 1);
    assert_eq!(bench.delivered(), [(node(1), 1)]);
    assert_eq!(publications(&bench.said_to(2)), 1);
    let acknowledged = Message::Accepted(Accepted { topic: topic(), incarnation: 1, seqs: vec![1] });
    assert!(bench.said_to(1).contains(&acknowledged));
    assert!(!bench.said_to(2).contains(&acknowledged), "it is not the publisher");
}

#[test]
fn a_peer_that_only_repeats_is_pruned_and_is_pushed_to_again_once_it_grafts() {
    let mut bench = bench();
    bench.join(1);
    bench.join(2);
    for seq in 1..=10 {
        bench.hear_publication(1, 1, seq);
        bench.hear_publication(2, 1, seq);
    }
    let prunes = bench.said_to(2).iter().filter(|message| **message == Message::Prune(topic())).count();
    assert_eq!(prunes, 1, "asked once, not with every copy");
    bench.take();
    bench.hear_publication(1, 1, 11);
    assert_eq!(publications(&bench.said_to(2)), 0);
    bench.hear(2, Message::Graft(Graft { topic: topic(), missing: Some(entry(1, 11)) }));
    bench.hear_publication(1, 1, 12);
    assert_eq!(publications(&bench.said_to(2)), 2, "what it missed, and what came then");
}

#[test]
fn a_publication_that_is_not_what_it_says_is_refused_and_the_good_one_still_comes() {
    let mut bench = bench();
    bench.join(1);
    let mut bad = publication(1, 1);
    bad.body = Bytes::from_static(b"something else");
    bench.hear(1, Message::Publish(bad));
    assert_eq!(bench.losses(), [LossReason::Mismatch]);
    assert!(bench.is_misbehaviour_seen() && bench.delivered().is_empty());
    bench.hear_publication(1, 1, 1);
    assert_eq!(bench.delivered(), [(node(1), 1)]);
}

#[test]
fn nobody_publishes_in_the_name_of_this_node() {
    let mut bench = bench();
    bench.join(1);
    bench.hear(1, Message::Publish(unproven(0, 1)));
    assert_eq!(bench.losses(), [LossReason::Unproven]);
    bench.take();
    let head = Head { entry: entry(0, 5), proof: proof(entry(0, 4)) };
    bench.hear(1, Message::IHave(IHave { topic: topic(), entries: Vec::new(), heads: vec![head] }));
    assert!(bench.is_misbehaviour_seen(), "nor says that it did");
}

#[test]
fn numbers_that_no_publisher_reaches_are_refused() {
    let mut bench = bench();
    bench.join(1);
    bench.hear_heads(1, &[entry(1, u64::MAX)]);
    assert!(bench.is_misbehaviour_seen());
    bench.hear_publication(1, 1, u64::MAX);
    assert_eq!(bench.losses(), [LossReason::Forged]);
}

#[test]
fn what_is_missing_is_asked_for_from_one_peer_at_a_time_and_from_another_next() {
    let mut bench = bench();
    (1..=3).for_each(|number| bench.join(number));
    bench.take();
    (1..=3).for_each(|number| bench.hear_heads(number, &[entry(9, 1)]));
    let asked = |bench: &mut Bench| {
        let is_asked = |message: &Message| matches!(message, Message::IWant(_) | Message::Graft(_));
        (1..=3)
            .map(|number| bench.said_to(number).iter().filter(|it| is_asked(it)).count())
            .collect::<Vec<_>>()
    };
    let Settings { graft_after, pull_timeout, .. } = Settings::default();
    bench.pass(graft_after - Duration::from_millis(1));
    assert_eq!(asked(&mut bench).iter().sum::<usize>(), 0, "it may come by itself");
    bench.pass(Duration::from_millis(1));
    let first = asked(&mut bench);
    assert_eq!(first.iter().sum::<usize>(), 1);
    bench.pass(pull_timeout + Duration::from_millis(1));
    let second = asked(&mut bench);
    assert_eq!(second.iter().sum::<usize>(), 2);
    assert!(second.iter().all(|times| *times <= 1), "not the same one twice: {second:?}");
}

#[test]
fn a_gap_is_named_when_patience_is_over_and_not_before() {
    let mut bench = bench();
    bench.join(1);
    bench.hear_publication(1, 1, 1);
    bench.hear_publication(1, 1, 4);
    let patience = Settings::default().patience;
    bench.pass(patience - Duration::from_millis(1));
    assert_eq!(bench.gaps(), []);
    bench.pass(Duration::from_millis(400));
    let gap = &bench.gaps()[0];
    assert_eq!((gap.publisher, gap.from, gap.to, gap.reason), (node(1), 2, 3, GapReason::Unavailable));
    bench.take();
    bench.hear_publication(1, 1, 2);
    assert_eq!(bench.delivered(), [(node(1), 2)], "late is better than never");
}

#[test]
fn what_was_published_before_joining_is_named_at_once_but_for_the_last_few() {
    let mut bench = Bench::new(Settings { history: 2, ..Settings::default() });
    bench.join(1);
    bench.hear_heads(1, &[entry(1, 100)]);
    let gap = &bench.gaps()[0];
    assert_eq!((gap.from, gap.to, gap.reason), (1, 98, GapReason::BeforeJoining));
}

#[test]
fn a_peers_budget_holds_what_is_on_its_way_and_the_backlog_what_follows() {
    let mut bench = Bench::new(Settings { burst_budget: 2, backlog: 3, ..Settings::default() });
    bench.join(1);
    bench.join(2);
    bench.take();
    (1..=7).for_each(|seq| bench.hear_publication(2, 2, seq));
    assert_eq!(publications(&bench.said_to(1)), 2);
    assert_eq!(bench.losses(), [], "the last two of seven are kept, and can be asked for");
    bench.sent(1, 2);
    assert_eq!(publications(&bench.said_to(1)), 4);
    bench.sent(1, 2);
    assert_eq!(publications(&bench.said_to(1)), 5);
}

#[test]
fn what_would_wait_for_everybody_is_refused_before_it_is_published() {
    let mut bench = Bench::new(Settings { burst_budget: 2, backlog: 3, ..Settings::default() });
    bench.join(1);
    (0..5).for_each(|ticket| bench.publish(ticket));
    assert_eq!(bench.verdicts(), [(4, Verdict::Busy)], "two on their way and two behind them");
    bench.join(2);
    bench.publish(5);
    assert_eq!(bench.verdicts().len(), 1, "one that is not behind is enough");
    bench.sent(1, 2);
    (6..8).for_each(|ticket| bench.publish(ticket));
    assert_eq!(bench.verdicts().len(), 1);
}

#[test]
fn what_a_queue_refuses_is_announced_again() {
    let mut bench = bench();
    bench.join(1);
    bench.take();
    bench.publish(1);
    let refused = bench.take().into_iter().find_map(|action| match action {
        gossip::Action::Send { packet, .. } => Some(packet),
        _ => None,
    });
    bench.tell(Event::Refused { peer: PeerKey(1), packet: refused.expect("it was to be sent") });
    assert_eq!(bench.losses(), [], "it is kept, and can be asked for");
    bench.pass(Settings::default().heartbeat * 2);
    assert!(bench.said_to(1).iter().any(|message| matches!(message, Message::IHave(_))));
}

#[test]
fn what_is_kept_for_others_is_bounded_and_the_oldest_goes_first() {
    let mut bench = Bench::new(Settings { cache_messages: 2, ..Settings::default() });
    bench.join(1);
    (1..=3).for_each(|seq| bench.hear_publication(1, 1, seq));
    assert_eq!(bench.engine.stats().cached_messages, 2);
    bench.join(2);
    bench.take();
    let entries = (1..=3).map(|seq| entry(1, seq)).collect();
    bench.hear(2, Message::IWant(IWant { topic: topic(), entries }));
    assert_eq!(publications(&bench.said_to(2)), 2);
    assert_eq!(bench.losses(), [LossReason::Evicted]);
    bench.hear(
        2,
        Message::IWant(IWant { topic: topic(), entries: vec![entry(1, 1), entry(1, 9), entry(7, 1)] }),
    );
    assert_eq!(bench.losses().len(), 1, "named once, and what was never here not at all");
}

#[test]
fn a_topic_that_is_not_joined_is_not_delivered_and_the_sender_is_told() {
    let mut bench = bench();
    bench.join(1);
    bench.tell(Event::Unsubscribe { topic: topic() });
    bench.take();
    bench.hear_publication(1, 1, 1);
    assert_eq!(bench.losses(), [LossReason::NotSubscribed]);
    assert_eq!(bench.said_to(1), [Message::Unsubscribe(topic())]);
}

#[test]
fn publishers_beyond_the_most_are_refused_until_one_has_been_silent_for_long() {
    let settings = Settings { max_publishers: 4, remember: Duration::from_secs(5), ..Settings::default() };
    let mut bench = Bench::new(settings);
    bench.join(1);
    (10..13).for_each(|publisher| bench.hear_publication(1, publisher, 1));
    assert_eq!(bench.losses(), [LossReason::Publishers]);
    bench.pass(Duration::from_secs(5));
    bench.hear_publication(1, 12, 1);
    assert_eq!(bench.delivered().len(), 3);
    assert_eq!(bench.engine.stats().publishers, 2);
}

#[test]
fn topics_beyond_the_most_are_refused() {
    let mut bench = Bench::new(Settings { max_topics: 1, ..Settings::default() });
    bench.join(1);
    bench.hear(1, Message::Subscribe(oap::Topic::new("other").expect("a good name")));
    let refused = |action: &Action| matches!(action, Action::NoRoomForPeer { .. });
    assert!(bench.take().iter().any(refused), "the peer has nothing yet, so it is not blamed");
    assert_eq!(bench.engine.stats().topics, 1);
}

#[test]
fn settings_that_allow_nothing_make_no_engine() {
    let make = |settings| Engine::new(node(0), 1, settings, Box::new(Unsigned), 0);
    assert!(make(Settings::default()).is_ok());
    let bad = [
        Settings { relay_fanout: 0, ..Settings::default() },
        Settings { dedupe_window: 100, ..Settings::default() },
        Settings { history: 32_768, ..Settings::default() },
        Settings { pull_batch: 1025, ..Settings::default() },
        Settings { patience: Duration::from_millis(1), ..Settings::default() },
        Settings { idle_heartbeat: Duration::ZERO, ..Settings::default() },
    ];
    assert!(bad.into_iter().all(|settings| make(settings).is_err()));
}

#[test]
fn a_peer_that_joins_and_leaves_all_the_time_is_told_everything_only_so_often() {
    let mut bench = Bench::new(Settings::default());
    bench.join(1);
    let heads: Vec<_> = (2..=90).map(|publisher| entry(publisher, 1)).collect();
    bench.hear_heads(1, &heads);
    bench.take();
    bench.connect(2);
    let told = |bench: &mut Bench| {
        let messages = bench.said_to(2).into_iter();
        messages.filter(|message| matches!(message, Message::IHave(_))).count()
    };
    for _ in 0..2000 {
        bench.hear(2, Message::Unsubscribe(topic()));
        bench.hear(2, Message::Subscribe(topic()));
    }
    let at_once = told(&mut bench);
    assert!((1..=1000).contains(&at_once), "{at_once}");
    bench.take();
    bench.pass(Duration::from_millis(400));
    assert!(told(&mut bench) > 0, "it is told a little later");
}
