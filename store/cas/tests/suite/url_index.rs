//! The index of URLs: what was put is loaded, and what was changed behind its back is not.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::support::id_of;
use cas::{Change, IndexError, Start, UrlIndex, UrlRow};
use proptest::{prelude::*, sample::Index};
use tempfile::TempDir;

fn row(at: u64) -> UrlRow {
    UrlRow {
        url: format!("https://tiles.example.org/{at}.png"),
        object: Some(id_of(&at.to_le_bytes())),
        len: 1000 + at,
        status: 200,
        media_type: Some("image/png".to_owned()),
        etag: Some(format!("\"{at}\"")),
        last_modified: Some("Sun, 06 Nov 1994 08:49:37 GMT".to_owned()),
        vary: None,
        cache_control: Some("max-age=60".to_owned()),
        expires: Some(String::new()),
        fields: Some("content-language: de\n".to_owned()),
        date: Some(1_700_000_000 + at),
        age: 3,
        request_time: 1_700_000_000,
        response_time: 1_700_000_001,
        fresh_until: 1_700_000_060,
        used: 1_700_000_000 + at,
    }
}

fn negative(at: u64) -> UrlRow {
    UrlRow { url: row(at).url, status: 404, fresh_until: 9, used: at, ..UrlRow::default() }
}

fn open(path: &Path) -> UrlIndex {
    UrlIndex::open(path).unwrap().0
}

fn urls(rows: &[UrlRow]) -> Vec<&str> {
    rows.iter().map(|row| row.url.as_str()).collect()
}

#[test]
fn what_was_put_is_loaded_whole_and_the_last_used_first() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("urls.db");
    let (mut index, start) = UrlIndex::open(&path).unwrap();
    assert_eq!(start, Start::New);
    let rows = [row(2), row(1), negative(3)];
    rows.iter().for_each(|row| index.put(row).unwrap());
    drop(index);
    let (mut index, start) = UrlIndex::open(&path).unwrap();
    assert_eq!(start, Start::Kept);
    assert_eq!(index.load(10).unwrap(), rows);
    assert_eq!(index.load(2).unwrap(), rows[..2]);
    assert_eq!((index.load(0).unwrap(), index.count().unwrap()), (vec![], 3));
}

#[test]
fn a_url_has_one_row_which_is_the_last() {
    let mut index = UrlIndex::in_memory().unwrap();
    index.put(&row(1)).unwrap();
    index.put(&negative(1)).unwrap();
    assert_eq!(index.load(10).unwrap(), [negative(1)]);
}

#[test]
fn rows_are_removed_by_url_and_by_object() {
    let mut index = UrlIndex::in_memory().unwrap();
    let twin = UrlRow { url: "https://example.org/twin".to_owned(), ..row(1) };
    for row in [&row(1), &twin, &row(2), &negative(3)] {
        index.put(row).unwrap();
    }
    index.remove_object(row(1).object.unwrap()).unwrap();
    assert_eq!(urls(&index.load(10).unwrap()), [row(2).url, row(3).url]);
    index.remove(&row(2).url).unwrap();
    index.remove("https://example.org/never/seen").unwrap();
    assert_eq!(index.load(10).unwrap(), [negative(3)]);
}

#[test]
fn the_longest_unused_rows_are_pruned() {
    let mut index = UrlIndex::in_memory().unwrap();
    for at in 1..=5 {
        index.put(&row(at)).unwrap();
    }
    index.touch(&row(1).url, 1_700_000_100).unwrap();
    index.touch(&row(5).url, 7).unwrap();
    assert_eq!(index.prune(5).unwrap(), 0);
    assert_eq!(index.prune(3).unwrap(), 2);
    let kept = index.load(10).unwrap();
    assert_eq!(urls(&kept), [row(1).url, row(5).url, row(4).url], "a use long ago does not undo a later one");
    assert_eq!(kept[0], UrlRow { used: 1_700_000_100, ..row(1) });
}

#[test]
fn changes_are_made_together_or_not_at_all() {
    let mut index = UrlIndex::in_memory().unwrap();
    index.put(&row(1)).unwrap();
    let (second, mut long) = (row(2), row(3));
    long.etag = Some("x".repeat(UrlRow::MAX_TEXT));
    let changes =
        [Change::Put(&second), Change::Remove("https://tiles.example.org/1.png"), Change::Put(&long)];
    assert!(matches!(index.apply(&changes), Err(IndexError::TooLong)));
    assert_eq!(index.load(10).unwrap(), [row(1)]);
    index.apply(&changes[..2]).unwrap();
    assert_eq!(index.load(10).unwrap(), [row(2)]);
    long.etag = Some("x".repeat(UrlRow::MAX_TEXT - 200));
    index.put(&long).unwrap();
}

#[test]
fn what_is_no_index_is_begun_anew() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("urls.db");
    fs::write(&path, "this is no database, and longer than a header of one would be".repeat(20)).unwrap();
    let (mut index, start) = UrlIndex::open(&path).unwrap();
    assert!(matches!(start, Start::Replaced { .. }), "{start:?}");
    index.put(&row(1)).unwrap();
    drop(index);
    assert_eq!(open(&path).load(10).unwrap(), [row(1)]);
}

#[test]
fn an_index_of_another_version_is_begun_anew() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("urls.db");
    open(&path).put(&row(1)).unwrap();
    rusqlite::Connection::open(&path).unwrap().pragma_update(None, "user_version", 3).unwrap();
    let (mut index, start) = UrlIndex::open(&path).unwrap();
    assert_eq!(start, Start::Replaced { why: "it is of version 3".to_owned() });
    assert_eq!(index.load(10).unwrap(), []);
}

#[test]
fn an_index_that_cannot_be_opened_is_told_and_not_replaced() {
    let dir = TempDir::new().unwrap();
    let refused = UrlIndex::open(&dir.path().join("no/such/folder/urls.db")).unwrap_err();
    assert!(matches!(refused, IndexError::Failed(_)), "{refused}");
}

#[test]
fn a_row_that_was_changed_in_the_file_is_dropped() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("urls.db");
    let mut index = open(&path);
    (1..=4).for_each(|at| index.put(&row(at)).unwrap());
    drop(index);
    let by_hand = rusqlite::Connection::open(&path).unwrap();
    by_hand.execute("UPDATE urls SET url = 'https://tiles.example.org/9.png' WHERE len = 1001", ()).unwrap();
    by_hand.execute("UPDATE urls SET fresh_until = fresh_until + 1 WHERE len = 1002", ()).unwrap();
    by_hand.execute("UPDATE urls SET vary = '', expires = NULL WHERE len = 1003", ()).unwrap();
    drop(by_hand);
    let mut index = open(&path);
    assert_eq!(index.load(10).unwrap(), [row(4)]);
    assert_eq!(index.count().unwrap(), 1);
}

#[test]
fn two_owners_take_turns() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("urls.db");
    let (mut old, mut new) = (open(&path), open(&path));
    old.put(&row(1)).unwrap();
    new.put(&row(2)).unwrap();
    old.put(&row(3)).unwrap();
    assert_eq!(new.count().unwrap(), 3);
}

/// A closed index with some rows; its file.
fn filled(dir: &TempDir) -> PathBuf {
    let path = dir.path().join("urls.db");
    let mut index = open(&path);
    (0..40).for_each(|at| index.put(&row(at)).unwrap());
    path
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn no_flipped_bit_leads_a_url_to_another_object(bits in prop::collection::vec(any::<Index>(), 1..4)) {
        let dir = TempDir::new().unwrap();
        let path = filled(&dir);
        let mut bytes = fs::read(&path).unwrap();
        for bit in bits {
            let bit = bit.index(8 * bytes.len());
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        fs::write(&path, bytes).unwrap();
        let (mut index, _) = UrlIndex::open(&path).unwrap();
        match index.load(100) {
            Err(damaged) => prop_assert!(matches!(damaged, IndexError::Damaged(_)), "{damaged}"),
            Ok(rows) => {
                for found in rows {
                    let at = found.len - 1000;
                    prop_assert_eq!(UrlRow { used: 0, ..found }, UrlRow { used: 0, ..row(at) });
                }
            }
        }
    }
}
