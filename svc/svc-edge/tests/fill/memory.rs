//! What the fill remembers: across restarts, in spite of bit rot, and without a disk.

use std::sync::Arc;

use cas::{Cas, Limits, UrlIndex};
use svc_edge::fill::Found;
use types::Reason;

use crate::support::{Act, Ground, Node, Origin, answer, reason, tagged};

fn on_disk(origin: &Origin, folder: &std::path::Path) -> Ground {
    let mut ground = Ground::new(vec![origin.entry()]);
    ground.cas = Arc::new(Cas::at(&folder.join("cas"), Limits::default()).unwrap());
    ground.index = Some(UrlIndex::open(&folder.join("urls.db")).unwrap().0);
    ground
}

fn origin() -> Origin {
    Origin::start(|_, head| match head.contains("/missing") {
        true => Act::Say(answer(404, "", "")),
        false => Act::Say(tagged(
            "content-type: text/css\r\ncache-control: max-age=600\r\nlast-modified: Sun, 06 Nov 1994 08:49:37 GMT\r\n",
            "body",
        )),
    })
}

#[test]
fn what_was_fetched_is_known_after_a_restart() {
    let (folder, origin) = (tempfile::tempdir().unwrap(), origin());
    let node = Node::on(on_disk(&origin, folder.path()));
    let (url, missing) = (node.url(&origin, "/x"), node.url(&origin, "/missing"));
    let before = node.fetch(&url).unwrap();
    assert_eq!(reason(node.fetch(&missing)), Reason::NotFound);
    assert_eq!(node.stop().code, ron_kernel::ExitCode::Clean);

    let node = Node::on(on_disk(&origin, folder.path()));
    let Found::Fresh(after) = node.find(&url, "") else { panic!("it is known") };
    assert_eq!((after.id, after.len), (before.id, before.len));
    assert_eq!(after.stored.lifetime(), before.stored.lifetime());
    assert_eq!(after.last_modified(), before.last_modified());
    assert_eq!((&after.media_type, &after.cache_control), (&before.media_type, &before.cache_control));
    assert_eq!(node.bytes(&after), b"body");
    assert!(matches!(node.find(&missing, ""), Found::Refused(_)));
    assert_eq!(origin.asked(), 2);
    // Its validators are known, too.
    node.fetch_with(&url, "no-cache").unwrap();
    assert!(origin.heads()[2].contains("if-none-match: \"t\"\r\n"));
}

#[test]
fn what_is_known_of_an_object_that_is_gone_is_forgotten() {
    let (folder, origin) = (tempfile::tempdir().unwrap(), origin());
    let node = Node::on(on_disk(&origin, folder.path()));
    let url = node.url(&origin, "/x");
    let entry = node.fetch(&url).unwrap();
    node.cas.remove(entry.id).unwrap();
    drop(node);
    let node = Node::on(on_disk(&origin, folder.path()));
    assert!(matches!(node.find(&url, ""), Found::Missing));
}

#[test]
fn a_damaged_object_is_set_aside_and_fetched_again() {
    let (folder, origin) = (tempfile::tempdir().unwrap(), origin());
    let node = Node::on(on_disk(&origin, folder.path()));
    let url = node.url(&origin, "/x");
    let entry = node.fetch(&url).unwrap();
    assert!(node.block_on(node.fill.damaged(&url, entry.id)), "it is not damaged at all");
    assert!(matches!(node.find(&url, ""), Found::Fresh(_)));
    flip_a_bit(folder.path(), &entry.id.hex());
    assert!(node.cas.open(entry.id).and_then(|object| object.unwrap().read_all()).is_err());
    assert!(!node.block_on(node.fill.damaged(&url, entry.id)));
    assert!(matches!(node.find(&url, ""), Found::Missing));
    let again = node.fetch(&url).unwrap();
    assert_eq!((again.id, node.bytes(&again)), (entry.id, b"body".to_vec()));
    assert_eq!((origin.asked(), node.cas.quarantined().len()), (2, 1));
}

/// Changes the file that holds an object.
fn flip_a_bit(folder: &std::path::Path, hex: &str) {
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for file in std::fs::read_dir(folder).unwrap() {
            let file = file.unwrap();
            if file.file_type().unwrap().is_dir() {
                folders.push(file.path());
                continue;
            }
            let bytes = std::fs::read(file.path()).unwrap();
            if file.path().to_string_lossy().replace('/', "").contains(hex) && bytes == b"body" {
                return std::fs::write(file.path(), b"bodz").unwrap();
            }
        }
    }
    panic!("no file holds {hex}");
}

#[test]
fn without_a_disk_what_does_not_fit_into_memory_is_refused_for_that() {
    let origin = Origin::saying(tagged("", vec![0; 200_000]));
    let mut ground = Ground::new(vec![origin.entry()]);
    ground.amnesia = true;
    ground.cas = Arc::new(Cas::in_memory(Limits { max_bytes: 100_000, ..Limits::default() }));
    let node = Node::on(ground);
    assert_eq!(reason(node.fetch(&node.url(&origin, "/x"))), Reason::Amnesia);
    assert_eq!(node.stored(), 0);
}
