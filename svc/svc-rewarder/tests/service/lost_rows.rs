//! Files of rows that a disk has damaged or lost: what can be had elsewhere is used, and the rest is told.

use std::path::{Path, PathBuf};

use crate::{
    stage::Stage,
    support::{Running, Wish, eventually},
};

/// The files of rows in the data of a node.
fn files_of_rows(data: &Path) -> Vec<PathBuf> {
    let below = |folder: &Path| -> Vec<PathBuf> {
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect()
    };
    below(&data.join("snapshots/objects")).iter().flat_map(|folder| below(folder)).collect()
}

fn data(running: &Running) -> PathBuf {
    running.dir.as_ref().unwrap().path().join("data")
}

fn flip_a_bit(file: &Path) {
    let mut bytes = std::fs::read(file).unwrap();
    bytes[20] ^= 1;
    std::fs::write(file, bytes).unwrap();
}

#[test]
fn a_damaged_file_of_rows_stops_no_epoch_whose_rows_are_in_the_store() {
    let stage = Stage::new(1_000_000, 0);
    stage.give(5, 0, &[("alice", 1)]);
    let files = files_of_rows(&data(&stage.running));
    assert_eq!(files.len(), 1);
    flip_a_bit(&files[0]);
    stage.compute(5, "settled");
    stage.give(6, 0, &[("bob", 1)]);
    stage.compute(6, "settled");
    assert_eq!(stage.paid(), [1000, 1000]);
}

#[test]
fn an_epoch_that_cannot_be_computed_is_told_of_until_it_can() {
    let stage = Stage::new(1_000_000, 0);
    stage.give(5, 0, &[("alice", 1)]);
    let file = files_of_rows(&data(&stage.running)).pop().unwrap();
    let rows = std::fs::read(&file).unwrap();
    let store = rusqlite::Connection::open(data(&stage.running).join("epochs.sqlite")).unwrap();
    assert_eq!(store.execute("DELETE FROM rewarder_rows", []).unwrap(), 1);
    flip_a_bit(&file);
    stage.ask_for(5);
    eventually("it is told", || {
        stage.running.standing().contains("compute: epoch 5 cannot be computed: the rows b3:")
    });
    std::fs::write(&file, rows).unwrap();
    stage.running.wait_for(Some(5), "settled");
    eventually("that is over", || !stage.running.standing().contains("compute: "));
}

#[test]
fn a_snapshot_whose_rows_are_lost_is_not_forgotten_and_keeps_no_other_from_being_listed() {
    let running = Running::start();
    running.book("alice", 3);
    let epoch = running.wait_for(None, "settled")["epoch"].as_u64().unwrap();
    let ledger = std::sync::Arc::clone(&running.ledger);
    let dir = running.stop();
    // As if the process had died before it told anybody, with a disk that has lost the rows.
    let data = dir.path().join("data");
    files_of_rows(&data).iter().for_each(|file| std::fs::remove_file(file).unwrap());
    let journal = rusqlite::Connection::open(data.join("usage.sqlite")).unwrap();
    journal.execute("DELETE FROM usage", []).unwrap();
    journal.execute("UPDATE sealed SET told = 0", []).unwrap();
    drop(journal);
    let again = Running::within(dir, Wish { ledger, pool: 0, ..Wish::default() }, |_| {});
    eventually("it is told", || {
        let told = format!("accounting: the rows that epoch {epoch} was sealed as are lost");
        again.standing().contains(&told)
    });
    again.book("bob", 1);
    eventually("others are paid", || again.balance("actor/bob") == 1000);
    let journal =
        rusqlite::Connection::open(again.dir.as_ref().unwrap().path().join("data/usage.sqlite")).unwrap();
    let told: i64 =
        journal.query_row("SELECT told FROM sealed WHERE epoch = ?", [epoch], |row| row.get(0)).unwrap();
    assert_eq!(told, 0);
}
