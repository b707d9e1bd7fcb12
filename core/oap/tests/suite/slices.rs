//! Objects in chunks: each convinces alone, and a wrong byte, place, order or length convinces nobody.
#![expect(clippy::unwrap_used, reason = "tests")]

use crate::support::{answer, chunk, prover};
use bytes::Bytes;
use oap::{CHUNK_MAX, Checker, Chunks, Data, Get, NotTheObject};
use proptest::prelude::*;
use types::ObjectId;

const LENGTHS: [usize; 10] = [0, 1, 16_383, 16_384, 16_385, 65_536, 65_537, 131_072, 200_000, 1_000_001];

fn object(len: usize) -> Vec<u8> {
    (0..len).map(|at| u8::try_from(at % 251).unwrap()).collect()
}

fn get(object: &[u8], offset: u64, len: u64, tail: bool) -> Get {
    Get { id: ObjectId::new(*blake3::hash(object).as_bytes()), offset, len, tail }
}

fn receive(get: Get, answer: &[Data]) -> Result<Vec<u8>, NotTheObject> {
    let mut checker = Checker::of_get(get);
    let mut received = Vec::new();
    for data in answer {
        received.extend(checker.check(data)?);
    }
    checker.finish().map(|()| received)
}

#[test]
fn a_whole_object_arrives_as_it_is_and_its_length_is_proven() {
    for len in LENGTHS {
        let object = object(len);
        for tail in [false, true] {
            let get = get(&object, 0, u64::MAX, tail);
            let answer = answer(&object, &get);
            assert!(answer.iter().all(|data| data.body.len() <= CHUNK_MAX));
            assert_eq!(receive(get, &answer).as_ref(), Ok(&object), "{len}");
            let mut checker = Checker::of_get(get);
            checker.check(&answer[0]).unwrap();
            let known_at_once = tail || len <= CHUNK_MAX;
            assert_eq!(checker.proven_len(), known_at_once.then_some(len as u64), "{len}");
        }
    }
}

#[test]
fn where_chunks_are_cut_is_the_senders_choice() {
    let object = object(200_000);
    let prover = prover(&object);
    for (asked_for, longest) in [(0, 16_384), (16_384, 16_384), (40_000, 32_768), (usize::MAX, CHUNK_MAX)] {
        let chunks: Vec<_> = Chunks::of_put(200_000).of_len(asked_for).collect();
        assert_eq!(chunks.iter().map(|range| range.end - range.start).max(), Some(longest as u64));
        let answer: Vec<_> = chunks.into_iter().map(|range| chunk(&prover, &object, range)).collect();
        assert_eq!(receive(get(&object, 0, u64::MAX, false), &answer).as_ref(), Ok(&object));
    }
}

#[test]
fn the_tail_alone_tells_the_length() {
    for len in LENGTHS {
        let object = object(len);
        let get = get(&object, 0, 0, true);
        let answer = answer(&object, &get);
        assert_eq!(answer.len(), 1);
        let mut checker = Checker::of_get(get);
        assert_eq!(checker.check(&answer[0]), Ok(Bytes::new()));
        assert_eq!((checker.proven_len(), checker.finish()), (Some(len as u64), Ok(())));
    }
}

#[test]
fn an_offered_object_is_checked_alike() {
    for len in LENGTHS {
        let object = object(len);
        let prover = prover(&object);
        let mut checker = Checker::of_put(prover.tree().root(), len as u64);
        assert_eq!(checker.finish(), Err(NotTheObject::Incomplete));
        let chunks = Chunks::of_put(len as u64).map(|range| chunk(&prover, &object, range));
        let received: Vec<u8> = chunks.flat_map(|data| checker.check(&data).unwrap()).collect();
        assert_eq!((received == object, checker.finish()), (true, Ok(())), "{len}");
    }
    let object = object(20_000);
    let get = get(&object, 0, u64::MAX, false);
    let mut checker = Checker::of_put(get.id, 20_001);
    assert_eq!(checker.check(&answer(&object, &get)[0]), Err(NotTheObject::Length), "not what was offered");
}

#[test]
fn there_is_no_range_beyond_the_end() {
    let get = |offset, len, tail| Chunks::of_get(&get(&[], offset, len, tail), 100);
    assert!(get(99, 1, false).is_ok() && get(99, u64::MAX, false).is_ok());
    assert!(get(100, 1, false).is_err() && get(u64::MAX, u64::MAX, true).is_err());
    assert!(get(100, 0, true).is_ok(), "nothing but the tail is asked for");
    assert!(
        Chunks::of_get(&self::get(&[], 0, 1, false), 0).is_ok(),
        "an empty object is nothing, and proves it"
    );
    assert!(Chunks::of_get(&self::get(&[], 1, 1, false), 0).is_err());
}

#[test]
fn what_is_missing_repeated_or_exchanged_is_noticed() {
    let object = object(200_000);
    let get = get(&object, 0, u64::MAX, false);
    let honest = answer(&object, &get);
    assert_eq!(honest.len(), 4);
    let with = |change: &dyn Fn(&mut Vec<Data>)| {
        let mut answer = honest.clone();
        change(&mut answer);
        receive(get, &answer)
    };
    assert_eq!(with(&|answer| answer.swap(1, 2)), Err(NotTheObject::Order));
    assert_eq!(with(&|answer| answer.insert(1, honest[0].clone())), Err(NotTheObject::Order));
    assert_eq!(with(&|answer| answer.push(honest[3].clone())), Err(NotTheObject::Order));
    assert_eq!(with(&|answer| drop(answer.remove(0))), Err(NotTheObject::Order));
    assert_eq!(with(&|answer| drop(answer.pop())), Err(NotTheObject::Incomplete));
    assert_eq!(with(&|answer| answer.clear()), Err(NotTheObject::Incomplete));
    assert_eq!(with(&|answer| answer[2].object_len += 1), Err(NotTheObject::Length));
}

/// A length of the same number of groups passes until the last group, which shows it.
#[test]
fn a_lie_about_the_length_does_not_outlive_the_last_group() {
    let object = object(200_000);
    for wrong in [199_999, 200_001] {
        for tail in [true, false] {
            let get = get(&object, 0, u64::MAX, tail);
            let mut answer = answer(&object, &get);
            answer.iter_mut().for_each(|data| data.object_len = wrong);
            assert!(receive(get, &answer).is_err(), "{wrong}");
            let mut checker = Checker::of_get(get);
            let first = checker.check(&answer[0]);
            assert_eq!((first.is_err(), checker.proven_len()), (tail, None), "{wrong}");
        }
    }
}

proptest! {
    /// Any range arrives as it is, and with any one bit wrong nothing of its chunk does.
    #[test]
    fn any_range_arrives_and_no_wrong_bit_does(
        len in 1..300_000_usize,
        from in 0.0..1.0_f64,
        count in 1..200_000_u64,
        tail in any::<bool>(),
        at in any::<prop::sample::Index>(),
        bit in 0..8_u8,
    ) {
        let object = object(len);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss, reason = "a test's choice")]
        let offset = (from * len as f64) as u64;
        let get = get(&object, offset, count, tail);
        let answer = answer(&object, &get);
        let end = (offset + count).min(len as u64);
        let expected = &object[usize::try_from(offset).unwrap()..usize::try_from(end).unwrap()];
        prop_assert_eq!(receive(get, &answer).unwrap(), expected);
        let mut wrong = answer.clone();
        let which = at.index(wrong.len());
        let data = &mut wrong[which];
        let mut bytes = [&data.proof[..], &data.body[..]].concat();
        let place = at.index(bytes.len());
        bytes[place] ^= 1 << bit;
        let body = bytes.split_off(data.proof.len());
        (data.proof, data.body) = (bytes.into(), body.into());
        let mut checker = Checker::of_get(get);
        let verdicts: Vec<_> = wrong[..=which].iter().map(|data| checker.check(data).is_ok()).collect();
        prop_assert_eq!(verdicts.iter().position(|is_ok| !is_ok), Some(which));
    }
}
