//! A node that is killed in the midst of fills and evictions, again and again, loses nothing that it said it had.

use std::{fs, io::Write, path::Path, process::Command, sync::Arc, thread, time::Duration};

use super::{
    Chance,
    edge_node::EdgeNode,
    making::noise,
    origin::{Origin, head},
    size,
};
use crate::support::{Flag, eventually};

/// Some ten times what the store may hold.
const OBJECTS: usize = 200;
const STORE: &str = "max_bytes = \"2MiB\"";
const CLIENTS: u64 = 6;
/// Many more than are under way at once.
const FILLS: usize = 30;

fn body(number: usize) -> Vec<u8> {
    noise(number + 1, 1_000 + number * 997)
}

/// Asks for objects until told to stop, and until the node is gone.
fn load(node: &EdgeNode, origin: &Origin, over: &Flag, mut chance: Chance) {
    let mut asker = node.asker();
    while !over.is_set() {
        let number = chance.below(OBJECTS);
        let Ok(got) = asker.ask(&origin.asset(&format!("/{number}")), "") else { return };
        if got.is_served() {
            assert!(body(number).starts_with(&got.body), "object {number}: wrong bytes");
        }
    }
}

/// What `omnigate cas scrub` finds.
fn scrub(store: &Path) -> serde_json::Value {
    let mut command = Command::new(env!("CARGO_BIN_EXE_omnigate"));
    let output = command.args(["cas", "scrub", "--json", "--dir"]).arg(store).output().unwrap();
    let found = serde_json::from_slice(&output.stdout).unwrap();
    assert!(output.status.success(), "{found}");
    found
}

/// Asks for every object without asking the origin: how many are here, and right.
fn kept(node: &EdgeNode, origin: &Origin) -> usize {
    let mut asker = node.asker();
    let mut is_kept = |number: usize| {
        let got =
            asker.ask(&origin.asset(&format!("/{number}")), "cache-control: only-if-cached\r\n").unwrap();
        if got.status != 200 {
            assert_eq!(got.status, 504, "object {number}: {}", got.reason());
            return false;
        }
        assert!(got.whole && got.body == body(number), "object {number}: wrong bytes");
        true
    };
    (0..OBJECTS).filter(|number| is_kept(*number)).count()
}

/// Whatever is in the store belongs to a whole object.
fn check_store(store: &Path) {
    let half_written: Vec<_> = fs::read_dir(store.join("tmp")).unwrap().collect();
    assert!(half_written.is_empty(), "{half_written:?}");
    for folder in fs::read_dir(store.join("objects")).unwrap() {
        for entry in fs::read_dir(folder.unwrap().path()).unwrap() {
            let path = entry.unwrap().path();
            assert!(path.with_extension("").exists(), "{} is a tree without an object", path.display());
        }
    }
    let found = scrub(store);
    for what in ["repaired", "quarantined", "unreadable"] {
        assert_eq!(found[what].as_array().map(Vec::len), Some(0), "{found}");
    }
}

#[test]
fn killed_in_fills_and_evictions_a_node_finds_every_object_whole() {
    let origin = Arc::new(Origin::start(|path, stream| {
        let body = body(path.trim_start_matches('/').parse().unwrap());
        stream.write_all(head(body.len()).as_bytes())?;
        // In parts, so that there is a midst to be killed in.
        body.chunks(20_000).try_for_each(|part| {
            thread::park_timeout(Duration::from_millis(1));
            stream.write_all(part)
        })
    }));
    let dir = tempfile::tempdir().unwrap();
    let settings = format!("{}cas = {{ {STORE}, ram_bytes = \"0B\" }}\n", origin.settings());
    let store = dir.path().join("data/cas");
    let mut chance = Chance::new("kills");
    let rounds = size(5, 100);
    let (mut found, mut asked) = (0, 0);
    for round in 0..=rounds {
        let mut node = EdgeNode::start(dir.path(), "", &settings);
        if round > 0 {
            check_store(&store);
            asked = origin.asked();
            found += kept(&node, &origin);
            assert_eq!(origin.asked(), asked, "only what is here was asked for");
        }
        let over = Flag::default();
        thread::scope(|scope| {
            for client in 0..CLIENTS {
                let (node, origin, over) = (&node, &*origin, &over);
                let chance = Chance(chance.0.wrapping_add(client << 40));
                scope.spawn(move || load(node, origin, over, chance));
            }
            let _over = over.set_at_the_end();
            // However long that takes: some were stored by then, and others are on their way.
            let before = origin.asked();
            eventually("some are filled", || (origin.asked() >= before + FILLS).then_some(()));
            thread::park_timeout(Duration::from_millis(chance.below(300) as u64));
            node.signal("KILL");
        });
        node.wait();
        origin.settle();
    }
    println!("kills: {rounds} rounds, {asked} fills, {found} objects found whole after a restart");
    assert!(found > rounds, "hardly anything was kept: {found}");
}
