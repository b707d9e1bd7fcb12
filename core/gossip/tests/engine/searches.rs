//! What a search for missing publications costs, and what it does not wait for.

use std::{
    collections::{BTreeSet, VecDeque},
    time::Duration,
};

use crate::support::{Bench, entry, node, proof, topic};
use gossip::{Action, Event, Settings};
use oap::{Entry, Head, IHave, Message};

/// The numbers that a neighbour was asked for, in the order of the messages.
fn asked(bench: &mut Bench, neighbour: u8) -> Vec<Entry> {
    let entries = |message: Message| match message {
        Message::IWant(want) => want.entries,
        Message::Graft(graft) => graft.missing.into_iter().collect(),
        _ => Vec::new(),
    };
    bench.said_to(neighbour).into_iter().flat_map(entries).collect()
}

#[test]
fn numbers_that_nobody_has_do_not_keep_later_ones_waiting_until_they_are_named() {
    let mut bench = Bench::new(Settings::default());
    bench.join(1);
    (1..=10).for_each(|seq| bench.hear_publication(1, 1, seq));
    // Eleven and twelve are lost for good.
    bench.hear_publication(1, 1, 13);
    bench.pass(Duration::from_secs(1));
    bench.take();
    bench.hear_publication(1, 1, 21);
    bench.pass(Duration::from_secs(1));
    let asked: BTreeSet<_> = asked(&mut bench, 1).into_iter().map(|entry| entry.seq).collect();
    assert!((14..=20).all(|seq| asked.contains(&seq)), "{asked:?}");
    bench.take();
    (14..=20).for_each(|seq| bench.hear_publication(1, 1, seq));
    assert_eq!(bench.delivered().len(), 7);
    bench.pass(Settings::default().patience);
    let gaps: Vec<_> = bench.gaps().iter().map(|gap| (gap.from, gap.to)).collect();
    assert_eq!(gaps, [(11, 12)], "only those are named");
}

#[test]
fn a_search_for_more_than_is_asked_for_at_once_is_not_looked_at_all_the_time() {
    let mut bench = Bench::new(Settings::default());
    bench.join(1);
    bench.hear_publication(1, 1, 1);
    bench.hear_heads(1, &[entry(1, 1 << 40)]);
    let (end, mut looks) = (bench.now.after(Duration::from_secs(9)), 0);
    // Time passes as the timer asks.
    while bench.now < end {
        let timer = bench.take().iter().rev().find_map(|action| match action {
            Action::SetTimer { at } => Some(*at),
            _ => None,
        });
        bench.now = timer.expect("a timer is set");
        bench.tell(Event::Tick);
        looks += 1;
    }
    assert!(looks < 200, "{looks} looks in nine seconds");
}

#[test]
fn heads_of_invented_publishers_are_asked_for_little() {
    let settings = Settings::default();
    let mut bench = Bench::new(settings.clone());
    bench.join(1);
    for number in 0..100_u64 {
        let mut id = [7; 32];
        id[..8].copy_from_slice(&number.to_be_bytes());
        let entry = Entry { publisher: types::NodeId::new(id), incarnation: 1, seq: 1 };
        let far = Entry { seq: 30_000, ..entry };
        let heads = [entry, far].map(|entry| Head { entry, proof: proof(entry) }).to_vec();
        bench.hear(1, Message::IHave(IHave { topic: topic(), entries: Vec::new(), heads }));
    }
    bench.pass(settings.patience - Duration::from_secs(1));
    let asked: BTreeSet<_> =
        asked(&mut bench, 1).into_iter().map(|entry| (entry.publisher, entry.seq)).collect();
    // What was asked for in vain makes room a few times.
    let most = 100 * usize::try_from(settings.history).expect("a small number") * 8;
    assert!(asked.len() <= most, "{} numbers were asked for", asked.len());
}

#[test]
fn many_searches_share_what_is_asked_for() {
    let mut bench = Bench::new(Settings::default());
    bench.join(1);
    // Of each publisher something came, so all of them are searched for in earnest.
    for publisher in 2..=200 {
        bench.hear_publication(1, publisher, 1);
        bench.hear_heads(1, &[entry(publisher, 30_000)]);
    }
    bench.take();
    bench.pass(Duration::from_secs(2));
    let asked = asked(&mut bench, 1);
    let mut outstanding = std::collections::BTreeMap::<_, BTreeSet<u64>>::new();
    for entry in asked {
        outstanding.entry(entry.publisher).or_default().insert(entry.seq);
    }
    // All but one whose keys nobody knows.
    assert_eq!(outstanding.len(), 198, "every publisher has its share");
    let most = outstanding.values().map(BTreeSet::len).max().unwrap_or(0);
    assert!(most <= 256, "{most} of one publisher");
    assert!(outstanding.contains_key(&node(200)));
}

/// Lets a neighbour answer at most `most` of the requests that wait, in their order, each once, and time pass.
fn answer_slowly(
    bench: &mut Bench,
    waiting: &mut VecDeque<u64>,
    most: usize,
    time: Duration,
) -> Vec<(u64, u64)> {
    let wanted = asked(bench, 1);
    let gaps = bench.gaps().iter().map(|gap| (gap.from, gap.to)).collect();
    bench.take();
    for entry in wanted {
        if !waiting.contains(&entry.seq) {
            waiting.push_back(entry.seq);
        }
    }
    for seq in waiting.drain(..most.min(waiting.len())) {
        bench.hear_publication(1, 1, seq);
    }
    bench.pass(time);
    gaps
}

#[test]
fn what_a_neighbour_gives_out_slowly_is_waited_for() {
    let mut bench = Bench::new(Settings::default());
    bench.join(1);
    bench.hear_publication(1, 1, 1);
    bench.hear_heads(1, &[entry(1, 12_000)]);
    let (mut waiting, mut delivered) = (VecDeque::new(), 0);
    // Some 500 a second, of which a tenth was sent before.
    for _ in 0..3000 {
        assert_eq!(answer_slowly(&mut bench, &mut waiting, 5, Duration::from_millis(10)), []);
        delivered += bench.delivered().len();
    }
    assert_eq!(delivered, 11_999);
}

#[test]
fn what_nobody_has_is_named_after_the_rest_has_come_and_the_time_allowed_has_passed() {
    let settings = Settings::default();
    let mut bench = Bench::new(settings.clone());
    bench.join(1);
    bench.hear_publication(1, 1, 1);
    bench.hear_heads(1, &[entry(1, 10)]);
    bench.pass(settings.patience - Duration::from_secs(1));
    bench.hear_publication(1, 1, 4);
    // Later ones are no progress of this search.
    bench.pass(Duration::from_secs(9));
    (11..20).for_each(|seq| bench.hear_publication(1, 1, seq));
    assert_eq!(bench.gaps(), []);
    bench.pass(Duration::from_secs(2));
    let gaps: Vec<_> = bench.gaps().iter().map(|gap| (gap.from, gap.to)).collect();
    assert_eq!(gaps, [(2, 3), (5, 10)]);
}

#[test]
fn a_neighbour_that_gives_out_one_at_a_time_delays_the_naming_of_the_others_only_so_long() {
    let settings = Settings::default();
    let mut bench = Bench::new(settings.clone());
    bench.join(1);
    bench.hear_publication(1, 1, 1);
    bench.hear_heads(1, &[entry(1, 100)]);
    let most = 12 * settings.patience.as_secs();
    for second in 0..most {
        assert_eq!(bench.gaps(), [], "after {second} seconds");
        if second % 9 == 0 {
            bench.hear_publication(1, 1, 2 + second / 9);
        }
        bench.pass(Duration::from_secs(1));
        bench.actions.retain(|action| matches!(action, Action::Gap(_)));
    }
    bench.pass(Duration::from_secs(2));
    let named: Vec<_> = bench.gaps().iter().map(|gap| (gap.from, gap.to)).collect();
    assert_eq!(named, [(16, 100)]);
}

/// Lets so many seconds pass, in each of which a neighbour brings the next publication, and another one claims to have
/// publications as far ahead as it is believed.
fn endure_claims(bench: &mut Bench, from: u64, seconds: u64) {
    let window = Settings::default().dedupe_window as u64;
    for seq in from..from + seconds {
        bench.hear_publication(1, 1, seq);
        bench.hear_entries(2, &[entry(1, seq + window)]);
        bench.pass(Duration::from_secs(1));
        bench.actions.retain(|action| matches!(action, Action::Gap(_)));
    }
}

#[test]
fn claims_of_what_does_not_exist_take_no_time_from_what_is_missing() {
    let settings = Settings::default();
    let mut bench = Bench::new(settings.clone());
    (1..=2).for_each(|neighbour| bench.join(neighbour));
    endure_claims(&mut bench, 1, 130);
    // Number 131 is lost.
    endure_claims(&mut bench, 132, 8);
    assert_eq!(bench.gaps(), [], "it is looked for");
    bench.hear_publication(1, 1, 131);
    assert_eq!(bench.delivered(), [(node(1), 131)]);
    endure_claims(&mut bench, 140, 30);
    assert_eq!(bench.gaps(), [], "nothing is missing");
    // Number 170 is lost for good, and is named in time.
    let most = settings.patience.as_secs() + 2;
    endure_claims(&mut bench, 171, most);
    let gaps: Vec<_> = bench.gaps().iter().map(|gap| (gap.from, gap.to)).collect();
    assert_eq!(gaps, [(170, 170)]);
}

#[test]
fn what_was_claimed_before_it_was_published_is_asked_for_when_it_is_missing() {
    let mut bench = Bench::new(Settings::default());
    (1..=2).for_each(|neighbour| bench.join(neighbour));
    endure_claims(&mut bench, 1, 20);
    // Number 21 is lost, and the neighbour that brings the others has it.
    bench.hear_publication(1, 1, 22);
    bench.take();
    bench.pass(Duration::from_secs(2));
    let asked: Vec<_> = asked(&mut bench, 1).into_iter().map(|entry| entry.seq).collect();
    assert!(asked.contains(&21), "{asked:?}");
}
