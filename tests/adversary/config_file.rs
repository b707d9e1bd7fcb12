//! Configuration files that are read at the wrong moment: empty, cut short, or half written.

use std::{fs::File, io::Write as _};

use crate::support::{Node, config, eventually, get};

/// The status of the node's only route. Without the route it is 404.
const ROUTED: u16 = 301;

/// A node, and the text of its configuration file.
fn node() -> (Node, String) {
    let settings = "route = [{ path = \"/\", redirect = { to = \"https://a.example\", status = 301 } }]\n";
    let node = Node::start(settings);
    let text = config(node.gateway, node.admin, settings);
    (node, text)
}

/// Writes the file in place, as `cp` and `>` do.
fn write_in_place(node: &Node, text: &str) {
    std::fs::write(node.path().join("omnigate.toml"), text).unwrap();
}

/// The old configuration serves on, and readiness says why the new one does not.
#[track_caller]
fn assert_refused(node: &Node, why: &str) {
    let said = eventually("the file is refused", || {
        let answer = get(node.admin, "/readyz").ok()?;
        answer.body.contains("bad_reload").then_some(answer.body)
    });
    assert!(said.contains(why), "{said}");
    assert_eq!(get(node.gateway, "/").unwrap().status, ROUTED, "the old routes serve on");
    assert_eq!(node.metric("config_update_total"), 0.0);
}

#[test]
fn an_emptied_file_moves_no_listener() {
    let (node, text) = node();
    write_in_place(&node, "");
    node.signal("HUP");
    assert_refused(&node, "no setting at all");
    write_in_place(&node, &text);
    eventually("the old text is good again", || {
        get(node.admin, "/readyz").ok().filter(|answer| !answer.body.contains("bad_reload"))
    });
}

#[test]
fn a_file_that_breaks_off_inside_a_line_changes_nothing() {
    let (node, text) = node();
    // Cut short, the limit is a hundredth of what it was, and all that follows it is gone.
    let longer = format!("{}max_conns = 1000\n[auth]\n", text.split("route").next().unwrap());
    write_in_place(&node, longer.split("00\n").next().unwrap());
    node.signal("HUP");
    assert_refused(&node, "last line has no end");
}

#[test]
fn a_file_is_not_read_between_the_two_writes_of_its_writer() {
    let (node, text) = node();
    let half = text.find("route").unwrap();
    for _ in 0..20 {
        let mut file = File::create(node.path().join("omnigate.toml")).unwrap();
        file.write_all(&text.as_bytes()[..half]).unwrap();
        node.signal("HUP");
        // As long as it takes for the node to have looked, if it looks at once.
        let served = get(node.gateway, "/").unwrap().status;
        file.write_all(&text.as_bytes()[half..]).unwrap();
        assert_eq!(served, ROUTED, "the half file was taken");
    }
    assert_eq!(get(node.gateway, "/").unwrap().status, ROUTED);
    assert_eq!(node.metric("config_update_total"), 0.0, "it was the same file all the time");
}
