//! Bad packs beside good ones. Swaps under load are in `edge_proofs`.

use crate::support::{eventually, get};

use super::{EdgeNode, pack, rename_over, tile, write};

#[test]
fn a_bad_pack_is_named_by_readiness_and_the_others_are_served() {
    let dir = tempfile::tempdir().unwrap();
    write(&dir.path().join("good.pmtiles"), &pack(2, 0));
    let mut bad = pack(2, 0);
    let cut = bad.len() / 2;
    bad.truncate(cut);
    write(&dir.path().join("bad.pmtiles"), &bad);
    let edge = EdgeNode::start_in(dir, "packs = [\"good.pmtiles\", \"bad.pmtiles\"]");
    edge.wait_for_pack("good", "served");
    edge.wait_for_pack("bad", "refused");
    assert_eq!(edge.get("/edge/tiles/good/2/1/1").body, tile((2, 1, 1), 0));
    assert_eq!(edge.get("/edge/tiles/bad/2/1/1").status, 502);
    let ready = eventually("readiness tells", || {
        get(edge.node.admin, "/readyz/edge").ok().filter(|answer| answer.body.contains("bad:"))
    });
    assert_eq!(ready.status, 200, "it still serves: {}", ready.body);
    assert!(!ready.body.contains("good:"), "{}", ready.body);
    rename_over(&edge.node.path().join("bad.pmtiles"), &pack(2, 7));
    edge.wait_for_pack("bad", "served");
    assert_eq!(edge.get("/edge/tiles/bad/2/1/1").body, tile((2, 1, 1), 7));
}
