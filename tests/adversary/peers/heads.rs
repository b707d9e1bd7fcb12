//! Lies about what there is: heads, claims, and asking for what was announced.

use oap::{Entry, Head, IHave, Message, Proof};
use ron_transport::tls::raw_key::NodeKey;
use types::NodeId;

use super::{ground::Ground, liar::news};

fn ihave(entries: Vec<Entry>, heads: Vec<Head>) -> Message {
    Message::IHave(IHave { topic: news(), entries, heads })
}

#[test]
fn forged_heads_isolate_nobody() {
    Ground::start("").endure(|liar, honest, number| {
        let entry = honest[usize::try_from(number % 2).unwrap()].ahead(number % 5 * 10_000 + 1);
        // Of the publisher's own key, the liar's, and none that is a key at all.
        let proof = match number % 3 {
            0 => Proof { key: *entry.publisher.as_bytes(), signature: [7; 64] },
            1 => liar.proof(entry),
            _ => Proof { key: [0; 32], signature: [0; 64] },
        };
        liar.say(ihave(Vec::new(), vec![Head { entry, proof }]))
    });
}

#[test]
fn heads_far_ahead_and_invented_publishers_leave_room_for_honest_ones() {
    Ground::start("").endure(|liar, _, number| {
        let invented = (0..64).map(|_| {
            let key = NodeKey::generate().unwrap();
            let publisher = NodeId::of_key(key.public_key().ed25519());
            let entry = Entry { publisher, incarnation: number, seq: 1 };
            let signature = key.sign(&entry.in_topic(&news()).head_bytes());
            Head { entry, proof: Proof { key: *key.public_key().ed25519(), signature } }
        });
        let far = [1, 32_768, 32_769, 1 << 40, 1 << 62].map(|seq| liar.head(number, seq));
        let heads: Vec<_> = invented.chain(far).collect();
        liar.say(ihave(Vec::new(), heads))
    });
}

#[test]
fn claims_to_have_what_nobody_published_are_never_named() {
    Ground::start("").endure(|liar, honest, number| {
        let next = &honest[usize::try_from(number % 2).unwrap()];
        let entries = (1..=1024).map(|by| next.ahead(by * (number % 40 + 1))).collect();
        // What it is asked for it does not send.
        liar.heard().for_each(drop);
        liar.say(ihave(entries, Vec::new()))
    });
}
