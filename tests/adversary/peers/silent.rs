//! Connections that say nothing, at a node that may open few files.

use super::liar::Liar;
use crate::support::{Node, eventually, free_addr};

#[test]
fn where_few_files_may_be_open_silent_connections_keep_no_peer_out() {
    let addr = free_addr();
    let overlay = format!("[overlay]\nenabled = true\nlisten = \"{addr}\"\nsecurity = \"plaintext\"\n");
    // Sixty connections, 15 from one address, of the 5,000 and 1,250 that are configured.
    let node = Node::start_with_files(240, &format!("enabled = false\n{overlay}"));
    let warning = node.log().lines().any(|line| line.contains("max_conns") && line.contains("\"overlay\""));
    assert!(warning, "the operator is told: {}", node.log());
    crate::connections::hold(addr, "", 20, || {
        // Peers dial again as well.
        for _ in 0..2 {
            eventually("a peer is let in", || Liar::join(addr));
        }
    });
}
