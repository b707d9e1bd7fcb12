//! Files that the configuration file includes, under a running node; and paths, which start at the file's folder.

use std::{fs, path::Path};

use crate::support::{Node, config, eventually, get};

fn route(path: &str, body: &str) -> String {
    format!("[[gateway.route]]\npath = \"{path}\"\nrespond = {{ body = \"{body}\" }}\n")
}

/// Writes a file at once, as editors do.
fn put(folder: &Path, name: &str, text: &str) {
    fs::write(folder.join(".aside"), text).unwrap();
    fs::rename(folder.join(".aside"), folder.join(name)).unwrap();
}

/// A node that includes `conf.d/*.toml`, which has a route to `/a`.
fn node() -> Node {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("conf.d")).unwrap();
    put(&dir.path().join("conf.d"), "a.toml", &route("/a", "first"));
    // Without rates, because the tests ask until what they changed is applied.
    Node::start_with_top(dir, "include = [\"conf.d/*.toml\"]\n", "quotas.per_ip_rps = 0\n")
}

fn body(node: &Node, path: &str) -> String {
    get(node.gateway, path).unwrap().body
}

/// Waits until the node has refused its files for this reason.
fn refused(node: &Node, why: &str) -> String {
    eventually("the files are refused", || {
        let told = get(node.admin, "/readyz").ok()?.body;
        (told.contains("bad_reload") && told.contains(why)).then_some(told)
    })
}

#[test]
fn a_new_file_that_matches_and_a_changed_one_are_applied_without_a_signal() {
    let node = node();
    let folder = node.path().join("conf.d");
    assert_eq!(body(&node, "/a"), "first");
    put(&folder, "b.toml", &route("/b", "second"));
    eventually("the new file is applied", || (body(&node, "/b") == "second").then_some(()));
    put(&folder, "a.toml", &route("/a", "changed"));
    eventually("the changed file is applied", || (body(&node, "/a") == "changed").then_some(()));
    fs::remove_file(folder.join("b.toml")).unwrap();
    eventually("the removed file counts no more", || {
        (get(node.gateway, "/b").unwrap().status == 404).then_some(())
    });
    put(&folder, "c.toml.bak", &route("/c", "third"));
    put(&folder, "d.toml", &route("/d", "fourth"));
    eventually("the next file is applied", || (body(&node, "/d") == "fourth").then_some(()));
    assert_eq!(get(node.gateway, "/c").unwrap().status, 404, "its name does not match");
}

#[test]
fn a_setting_in_two_files_is_refused_with_both_places() {
    let node = node();
    put(&node.path().join("conf.d"), "b.toml", "[gateway]\nmax_conns = 7\n");
    eventually("one is good", || (node.metric("config_update_total") >= 1.0).then_some(()));
    put(&node.path().join("conf.d"), "c.toml", "# again\n[gateway]\nmax_conns = 8\n");
    let told = refused(&node, "is set twice");
    assert!(told.contains("conf.d/b.toml, line 2") && told.contains("conf.d/c.toml:3"), "{told}");
    assert_eq!(body(&node, "/a"), "first");
}

#[test]
fn an_included_file_that_is_half_written_changes_nothing() {
    let node = node();
    let file = node.path().join("conf.d/a.toml");
    let whole = fs::read_to_string(&file).unwrap();
    for half in ["", whole.trim_end(), "[[gateway.route]]\npath = \"/\"\nrespond = { body = \"\" }"] {
        fs::write(&file, half).unwrap();
        node.signal("HUP");
        let told = refused(&node, "conf.d/a.toml");
        assert!(told.contains("no setting at all") || told.contains("last line has no end"), "{told}");
        assert_eq!(body(&node, "/a"), "first", "{half:?}");
        fs::write(&file, &whole).unwrap();
        eventually("the old text is good again", || {
            get(node.admin, "/readyz").ok().filter(|answer| !answer.body.contains("bad_reload"))
        });
    }
    assert_eq!(node.metric("config_update_total"), 0.0);
}

#[test]
fn mistakes_in_included_files_are_told_with_file_and_line() {
    let node = node();
    put(&node.path().join("conf.d"), "b.toml", "[gateway]\n\nmax_cons = 7\n");
    let told = refused(&node, "max_cons");
    assert!(told.contains("conf.d/b.toml:3"), "{told}");
    fs::remove_file(node.path().join("conf.d/b.toml")).unwrap();
    let text = config(node.gateway, node.admin, "");
    node.write_config(&format!("include = [\"conf.d/*.toml\", \"nowhere.toml\"]\n{text}"));
    let told = refused(&node, "nowhere.toml does not exist");
    assert!(told.contains(&node.path().join("nowhere.toml").display().to_string()), "the full path: {told}");
    assert!(told.contains("omnigate.toml:1"), "{told}");
}

#[test]
fn a_folder_that_is_replaced_by_another_one_is_watched_on() {
    let node = node();
    let (folder, aside) = (node.path().join("conf.d"), node.path().join("aside"));
    for round in ["second", "third"] {
        fs::create_dir(&aside).unwrap();
        put(&aside, "a.toml", &route("/a", round));
        fs::rename(&folder, node.path().join(round)).unwrap();
        fs::rename(&aside, &folder).unwrap();
        eventually("the other folder is read", || (body(&node, "/a") == round).then_some(()));
        put(&folder, "a.toml", &route("/a", "changed"));
        eventually("a change in it is applied", || (body(&node, "/a") == "changed").then_some(()));
    }
}

#[test]
fn the_target_of_a_link_in_another_folder_is_watched_too() {
    let node = node();
    let elsewhere = node.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    put(&elsewhere, "b.toml", &route("/b", "first"));
    std::os::unix::fs::symlink(elsewhere.join("b.toml"), node.path().join("conf.d/b.toml")).unwrap();
    eventually("the link is followed", || (body(&node, "/b") == "first").then_some(()));
    put(&elsewhere, "b.toml", &route("/b", "second"));
    eventually("a change of its target is applied", || (body(&node, "/b") == "second").then_some(()));
}
