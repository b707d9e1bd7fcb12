//! Objects by their content id.

use std::{fs, os::unix::fs::FileExt};

use cas::{Cas, Limits};
use types::ObjectId;

use crate::support::{Running, eventually, noise};

/// An edge whose store has these objects already.
fn edge_with(objects: &[&[u8]]) -> (Running, Vec<ObjectId>) {
    let mut ids = Vec::new();
    let edge = Running::start(
        |dir| {
            let cas = Cas::at(&dir.join("data/cas"), Limits::default()).unwrap();
            ids.extend(objects.iter().map(|bytes| cas.put(bytes).unwrap().id));
        },
        |_| {},
    );
    (edge, ids)
}

#[test]
fn objects_are_served_by_their_ids_and_may_be_kept_for_ever() {
    let large = noise(2 * 1024 * 1024 + 5);
    let (edge, ids) = edge_with(&[b"small", &large]);
    for (bytes, id) in [(b"small".as_slice(), ids[0]), (&large, ids[1])] {
        for _ in 0..2 {
            let answer = edge.get(&format!("/edge/cas/{id}"));
            assert_eq!((answer.status, answer.header("etag")), (200, format!("\"{id}\"").as_str()));
            assert!(answer.body == bytes);
            assert_eq!(answer.header("cache-control"), "public, max-age=31536000, immutable");
        }
    }
    let part = edge.get_with(&format!("/edge/cas/{}", ids[1]), &[("range", "bytes=1000000-1000009")]);
    assert!(part.status == 206 && part.body == large[1_000_000..1_000_010]);
}

#[test]
fn an_id_that_is_none_is_malformed_and_one_that_is_not_stored_not_found() {
    let (edge, _) = edge_with(&[]);
    for id in ["", "b3:", "b3:00", &format!("b3:{}", "G".repeat(64)), &format!("b3:{}", "A".repeat(64))] {
        assert_eq!(edge.get(&format!("/edge/cas/{id}")).status, 400, "{id}");
    }
    assert_eq!(edge.get(&format!("/edge/cas/b3:{}", "0".repeat(64))).status, 404);
}

#[test]
fn an_object_that_rots_is_set_aside_and_gone() {
    let large = noise(3 * 1024 * 1024);
    let (edge, ids) = edge_with(&[&large]);
    let url = format!("/edge/cas/{}", ids[0]);
    let file = find(&edge.path("data/cas"), large.len() as u64);
    fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let file = fs::File::options().write(true).open(file).unwrap();
    file.write_all_at(&[large[0] ^ 1], 0).unwrap();
    let answer = edge.get(&url);
    assert_eq!((answer.status, answer.reason().as_str()), (502, "quarantined"));
    eventually("it is gone", || edge.get(&url).status == 410);
    eventually("readiness tells", || edge.standing().contains(&ids[0].to_string()));
}

/// The file of that length somewhere in a folder.
fn find(folder: &std::path::Path, len: u64) -> std::path::PathBuf {
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
            let kind = entry.metadata().unwrap();
            if kind.is_dir() {
                folders.push(entry.path());
            } else if kind.len() == len {
                return entry.path();
            }
        }
    }
    panic!("no file has {len} bytes");
}
