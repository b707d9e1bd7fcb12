//! Lies about what was published: in the name of others, with other digests, again, and with numbers that wrap.

use bytes::Bytes;
use oap::{Accepted, Entry, Frame, Message, MessageId, Publication};

use super::{ground::Ground, liar::news};

#[test]
fn publications_in_the_name_of_others_are_not_heard_where_they_are_signed() {
    Ground::signed().endure(|liar, honest, number| {
        let entry = honest[usize::try_from(number % 2).unwrap()].ahead(number % 7 + 1);
        let publication = Publication::new(entry.in_topic(&news()), Bytes::from_static(b"forged"));
        let hops = u8::try_from(number % 3).unwrap();
        let signature = (number % 2 == 0).then_some([7; 64]);
        let proof = (number % 5 == 0).then(|| liar.proof(entry).into());
        liar.say(Message::Publish(Publication { hops, signature, proof, ..publication }))
    });
}

#[test]
fn wrong_digests_and_proofs_are_passed_on_to_nobody() {
    Ground::start("").endure(|liar, _, number| {
        let good = liar.publication(1, number + 1);
        let wrong = match number % 3 {
            0 => Publication { digest: [7; 32], ..good },
            1 => Publication { body: Bytes::from_static(b"something else"), ..good },
            _ => Publication { proof: Some(liar.head(1, number + 2).proof.into()), ..good },
        };
        liar.say(Message::Publish(wrong))
    });
}

#[test]
fn replays_are_heard_once() {
    Ground::start("").endure(|liar, _, number| {
        let echoed: Vec<_> = liar.heard().take(64).collect();
        for Frame { message, .. } in echoed {
            let Message::Publish(heard) = message else { continue };
            for hops in [1, 7, 255] {
                if !liar.say(Message::Publish(Publication { hops, ..heard.clone() })) {
                    return false;
                }
            }
        }
        liar.say(Message::Publish(liar.publication(1, number % 3 + 1)))
    });
}

#[test]
fn numbers_and_lives_that_wrap_hold_nobody_up() {
    const ODD: [u64; 7] = [1, 2, 1 << 61, 1 << 62, (1 << 62) + 1, u64::MAX - 1, u64::MAX];
    let ground = Ground::start("");
    ground.endure(|liar, honest, number| {
        let odd = |by: u64| ODD[usize::try_from((number / by) % 7).unwrap()];
        let (incarnation, seq) = (odd(7), odd(1));
        let own = liar.publication(incarnation, seq);
        let other = &honest[usize::try_from(number % 2).unwrap()];
        let id = MessageId { publisher: other.publisher, incarnation, topic: news(), seq };
        let foreign = Publication { hops: 1, ..Publication::new(id, Bytes::from_static(b"forged")) };
        let taken_on = Accepted { topic: news(), incarnation: other.incarnation, seqs: vec![seq; 128] };
        let entry = Entry { publisher: other.publisher, incarnation, seq };
        let want = oap::IWant { topic: news(), entries: vec![entry; 128] };
        [Message::Publish(own), Message::Accepted(taken_on), Message::IWant(want), Message::Publish(foreign)]
            .into_iter()
            .all(|message| liar.say(message))
    });
    for node in ground.nodes() {
        let gaps = node.node.metric("overlay_gaps_total");
        assert!(gaps < 1e15, "{gaps} publications are said to be missing");
    }
}
