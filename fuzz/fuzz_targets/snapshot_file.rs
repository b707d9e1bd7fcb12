//! A file of usage rows, by anybody's hand: it is refused or read, the same way twice, and rows that come out of it in order
//! come back out of a file of ours.

#![no_main]

use libfuzzer_sys::fuzz_target;
use ron_accounting::{SnapshotError, Used, read_rows, rows_of};
use types::ActorId;

/// Rows that are looked at: a file of some bytes may have millions.
const ENOUGH: usize = 4096;

fuzz_target!(|input: &[u8]| {
    check(input);
    // Chance alone would rarely write the frame of a file.
    let length = u32::try_from(input.len()).unwrap_or(u32::MAX).to_le_bytes();
    check(&[b"PAR1".as_slice(), input, &length, b"PAR1"].concat());
    // A good file, damaged by the input: where, and with what.
    if let Some((at, noise)) = input.split_first_chunk::<2>() {
        let actor = |name: &str| ActorId::new(name).expect("a name");
        let used = |name: &str| Used { actor: actor(name), metric: "provided.bytes".to_owned(), units: 7 };
        let (mut file, _) = rows_of(&[used("alice"), used("bob")]).expect("rows in order");
        let start = usize::from(u16::from_le_bytes(*at)) % file.len();
        file[start..].iter_mut().zip(noise).for_each(|(byte, noise)| *byte ^= noise);
        check(&file);
    }
});

fn check(file: &[u8]) {
    let first = read(file);
    assert_eq!(first, read(file), "the same file was read in two ways");
    let Ok(rows) = first else { return };
    if let Ok((ours, root)) = rows_of(&rows) {
        assert_eq!(read(&ours).as_ref(), Ok(&rows));
        assert_eq!(rows_of(&rows).map(|(_, root)| root), Ok(root));
    }
}

/// The rows of a file whose names can be names, as far as they are looked at.
fn read(file: &[u8]) -> Result<Vec<Used>, SnapshotError> {
    let mut rows = Vec::new();
    let read = read_rows(file, |row| {
        let actor = ActorId::new(row.actor).map_err(|_| SnapshotError::RowsDiffer)?;
        rows.push(Used { actor, metric: row.metric.to_owned(), units: row.units });
        if rows.len() < ENOUGH { Ok(()) } else { Err(SnapshotError::TooLarge) }
    });
    read.map(|()| rows)
}
