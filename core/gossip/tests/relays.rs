//! Topics that are relayed for patterns of peers, and what each peer gets of them.
#![expect(clippy::unwrap_used, reason = "tests")]

use gossip::{PeerKey, Relay, RelayShares};
use oap::Topic;
use proptest::{collection::vec, prelude::*};

const GREEDY: PeerKey = PeerKey(1);
const MODEST: PeerKey = PeerKey(2);
const LIAR: PeerKey = PeerKey(3);
const PUBLISHER: PeerKey = PeerKey(4);

fn topic(name: &str) -> Topic {
    Topic::new(name).unwrap()
}

/// Topics that one peer wants and another one takes part in, as many as there is room for.
fn filled(most: usize, wanter: PeerKey, source: PeerKey) -> RelayShares {
    let mut relays = RelayShares::new(most);
    for number in 0..most {
        assert_eq!(relays.add(&topic(&format!("spam.{number}")), &[wanter], Some(source)), Relay::Added);
    }
    relays
}

#[test]
fn the_peer_that_has_the_most_makes_way_until_shares_are_equal() {
    let mut relays = filled(6, GREEDY, LIAR);
    let spam = topic("spam.9");
    assert_eq!(relays.add(&spam, &[GREEDY], Some(LIAR)), Relay::Refused);
    for number in 0..3 {
        let news = topic(&format!("news.{number}"));
        // Both want it, and it counts for the one that has less.
        let relay = relays.add(&news, &[GREEDY, MODEST], Some(PUBLISHER));
        assert!(matches!(&relay, Relay::Instead(other) if other.as_str().starts_with("spam.")), "{relay:?}");
    }
    assert_eq!(relays.add(&topic("news.3"), &[MODEST], Some(PUBLISHER)), Relay::Refused);
    assert_eq!(relays.add(&topic("news.0"), &[MODEST], Some(PUBLISHER)), Relay::Added, "it is there");
    assert_eq!(relays.len(), 6);
}

#[test]
fn a_peer_that_makes_topics_up_does_not_use_up_the_share_of_one_that_wants_them() {
    let mut relays = filled(6, MODEST, LIAR);
    for number in 0..3 {
        let relay = relays.add(&topic(&format!("news.{number}")), &[MODEST], Some(PUBLISHER));
        assert!(matches!(&relay, Relay::Instead(other) if other.as_str().starts_with("spam.")), "{relay:?}");
    }
    assert_eq!(relays.add(&topic("spam.9"), &[MODEST], Some(LIAR)), Relay::Refused);
    // What a peer made up before it came back is still not the other one's.
    relays.forget_source(LIAR);
    assert!(matches!(relays.add(&topic("news.9"), &[MODEST], Some(PeerKey(5))), Relay::Instead(_)));
}

#[test]
fn nothing_is_relayed_to_a_peer_that_only_takes_part_itself() {
    let mut relays = RelayShares::new(2);
    assert_eq!(relays.add(&topic("a"), &[GREEDY], Some(GREEDY)), Relay::Unwanted);
    assert_eq!(relays.add(&topic("a"), &[], None), Relay::Unwanted);
    assert_eq!(relays.add(&topic("a"), &[GREEDY, MODEST], Some(GREEDY)), Relay::Added);
    assert!(relays.contains(&topic("a")) && !relays.is_empty());
}

#[test]
fn what_a_peer_wants_no_more_counts_for_another_that_does() {
    let mut relays = filled(4, GREEDY, LIAR);
    relays.recount(|_| vec![MODEST]);
    assert!(matches!(relays.add(&topic("b"), &[GREEDY], Some(PUBLISHER)), Relay::Instead(_)));
    relays.recount(|_| Vec::new());
    assert_eq!(relays.len(), 4, "they count until they are left");
}

proptest! {
    /// Whatever is added and removed: there are never too many, and a peer with less than an equal share is never refused.
    #[test]
    fn shares_hold(steps in vec((0_u32..4, 0_u32..4, 0_u8..40, any::<bool>()), 0..200)) {
        const MOST: usize = 8;
        let mut relays = RelayShares::new(MOST);
        let mut held = std::collections::BTreeMap::<Topic, PeerKey>::new();
        for (wanter, source, name, is_added) in steps {
            let (topic, wanter) = (topic(&format!("t.{name}")), PeerKey(wanter));
            if !is_added {
                relays.remove(&topic);
                held.remove(&topic);
                continue;
            }
            let count = |held: &std::collections::BTreeMap<Topic, PeerKey>| {
                held.values().filter(|other| **other == wanter).count()
            };
            let is_there = held.contains_key(&topic);
            match relays.add(&topic, &[wanter], Some(PeerKey(source + 10))) {
                Relay::Added if is_there => {}
                Relay::Added => drop(held.insert(topic, wanter)),
                Relay::Instead(other) => {
                    prop_assert!(held.remove(&other).is_some());
                    held.insert(topic, wanter);
                }
                Relay::Refused => prop_assert!(count(&held) + 1 >= MOST / 4, "{:?}", held),
                Relay::Unwanted => prop_assert!(false),
            }
            prop_assert!(relays.len() == held.len() && held.len() <= MOST);
        }
    }
}
