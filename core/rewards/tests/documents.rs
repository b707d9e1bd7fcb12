//! Whatever bytes arrive, a reader refuses them or has read exactly what it would write.
#![expect(clippy::unwrap_used, reason = "tests")]

mod support;

use proptest::prelude::*;
use rewards::{
    AllocationLine, Attestation, InputSet, Json, Manifest, Proof, Ruleset, SignedPolicy, SnapshotSeal,
    compute,
};
use support::{Seal, inputs, policy, rows, snapshot};

/// Reads `bytes` as every kind of document. None may panic, and what is read has no second text.
fn read_all(bytes: &[u8]) {
    if let Ok(read) = SignedPolicy::read(bytes) {
        assert_eq!(read.to_bytes(), bytes);
    }
    if let Ok(read) = SnapshotSeal::read(bytes) {
        assert_eq!(read.to_bytes(), bytes);
    }
    if let Ok(read) = Manifest::read(bytes) {
        assert_eq!(read.to_bytes(), bytes);
    }
    if let Ok(read) = Proof::read(bytes) {
        assert_eq!(read.to_bytes(), bytes);
    }
    if let Ok(read) = Attestation::read(bytes) {
        assert_eq!(read.to_bytes(), bytes);
    }
    if let Ok(read) = AllocationLine::read(bytes) {
        assert_eq!(read.to_bytes(), bytes);
    }
    if let Ok(read) = Json::read(bytes) {
        assert_eq!(Json::read(&read.to_canonical()), Ok(read), "what is written reads as the same");
    }
    let _ = InputSet::read_list(bytes);
}

/// One good document of each kind.
fn documents() -> Vec<Vec<u8>> {
    let rows = rows(&[("a", "served.bytes", 7), ("b\"", "stored.bytes", 5)]);
    let policy = policy(Ruleset::V1, 100);
    let run = compute(&policy, &inputs(std::slice::from_ref(&rows)).unwrap()).unwrap();
    let mut line = Vec::new();
    run.write_line(1, &mut line);
    line.pop();
    vec![
        SignedPolicy::unsigned(policy).signed_by(&Seal(1)).to_bytes(),
        snapshot("node-0", &rows).seal(&Seal(1)).to_bytes(),
        run.document().to_vec(),
        run.prove("a").unwrap().to_bytes(),
        Attestation::of(&run, &Seal(1)).to_bytes(),
        run.inputs().list(),
        line,
    ]
}

#[test]
fn good_documents_are_read_and_none_of_their_prefixes_is() {
    for document in documents() {
        read_all(&document);
        assert!(Json::read_canonical(&document).is_ok());
        for end in 0..document.len() {
            assert!(Json::read(&document[..end]).is_err());
            read_all(&document[..end]);
        }
    }
}

proptest! {
    #[test]
    fn any_bytes_are_refused_or_read_as_what_they_are(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        read_all(&bytes);
    }

    #[test]
    fn any_text_of_a_documents_letters_is_refused_or_read_as_what_it_is(text in r#"[{}\[\],:"\\ u0-9a-f]{0,60}"#) {
        read_all(text.as_bytes());
    }

    #[test]
    fn a_document_with_some_bytes_changed_is_refused_or_read_as_what_it_is(
        which in 0..7_usize,
        changes in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let mut document = documents().swap_remove(which);
        for (at, byte) in changes {
            *at.get_mut(&mut document) = byte;
        }
        read_all(&document);
    }
}
