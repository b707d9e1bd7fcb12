//! Whatever arrives in whatever order: nothing is delivered twice, and everything up to the head is delivered or named.

use std::{collections::BTreeSet, time::Duration};

use crate::support::{Bench, entry, node};
use gossip::{Action, Event, PeerKey, Settings};
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Step {
    Publication { from: u8, publisher: u8, seq: u64 },
    Heads { from: u8, publisher: u8, seq: u64 },
    Down(u8),
    Up(u8),
    Wait(u64),
    Publish,
}

fn step() -> impl Strategy<Value = Step> {
    let seq = prop_oneof![8 => 1..60u64, 1 => 60..400u64];
    prop_oneof![
        6 => (1..4u8, 10..13u8, seq.clone()).prop_map(|(from, publisher, seq)| Step::Publication { from, publisher, seq }),
        2 => (1..4u8, 10..13u8, seq).prop_map(|(from, publisher, seq)| Step::Heads { from, publisher, seq }),
        1 => (1..4u8).prop_map(Step::Down),
        1 => (1..4u8).prop_map(Step::Up),
        2 => (1..3000u64).prop_map(Step::Wait),
        1 => Just(Step::Publish),
    ]
}

fn settings() -> Settings {
    Settings {
        dedupe_window: 64,
        history: 8,
        cache_messages: 16,
        patience: Duration::from_secs(2),
        ..Settings::default()
    }
}

fn play(steps: &[Step]) -> Bench {
    let mut bench = Bench::new(settings());
    (1..4).for_each(|number| bench.join(number));
    let mut up = [true; 4];
    for step in steps {
        match *step {
            Step::Publication { from, publisher, seq } if up[usize::from(from)] => {
                bench.hear_publication(from, publisher, seq);
            }
            Step::Heads { from, publisher, seq } if up[usize::from(from)] => {
                bench.hear_heads(from, &[entry(publisher, seq)]);
            }
            Step::Down(peer) if std::mem::take(&mut up[usize::from(peer)]) => {
                bench.tell(Event::PeerDown { peer: PeerKey(peer.into()) });
            }
            Step::Up(peer) if !std::mem::replace(&mut up[usize::from(peer)], true) => bench.join(peer),
            Step::Wait(ms) => bench.pass(Duration::from_millis(ms)),
            Step::Publish => bench.publish(0),
            _ => {}
        }
    }
    bench.pass(settings().patience * 3);
    bench
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn everything_up_to_the_head_is_delivered_or_named_and_nothing_twice(steps in prop::collection::vec(step(), 1..120)) {
        let bench = play(&steps);
        let mut heads = std::collections::BTreeMap::new();
        for step in &steps {
            if let Step::Publication { publisher, seq, .. } | Step::Heads { publisher, seq, .. } = step {
                heads.entry(*publisher).and_modify(|head: &mut u64| *head = (*head).max(*seq)).or_insert(*seq);
            }
        }
        let delivered = bench.delivered();
        let once: BTreeSet<_> = delivered.iter().collect();
        prop_assert_eq!(once.len(), delivered.len());
        // Steps of a peer that was down were not played, so the head is what the engine itself has come to know.
        for publisher in 10..13u8 {
            let of_it = |who| who == node(publisher);
            let mut known: BTreeSet<u64> = delivered.iter().filter(|(who, _)| of_it(*who)).map(|(_, seq)| *seq).collect();
            known.extend(bench.gaps().iter().filter(|gap| of_it(gap.publisher)).flat_map(|gap| gap.from..=gap.to));
            let last = known.last().copied().unwrap_or(0);
            prop_assert_eq!(known.len() as u64, last, "publisher {} has a hole", publisher);
            prop_assert!(last <= heads.get(&publisher).copied().unwrap_or(0), "nothing is named that was not told of");
        }
        prop_assert_eq!(bench.engine.stats().searching, 0);
        prop_assert!(bench.engine.stats().cached_messages <= 16);
    }

    #[test]
    fn the_same_seed_and_events_give_the_same_actions(steps in prop::collection::vec(step(), 1..60)) {
        let text = |bench: Bench| bench.actions.iter().map(|action: &Action| format!("{action:?}")).collect::<Vec<_>>();
        prop_assert_eq!(text(play(&steps)), text(play(&steps)));
    }
}
