//! The cache through what happens to a node: a server that is down, a reload, an upgrade, a start with one flag.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use crate::{
    cache_node::{Lives, program, send},
    cache_origin::{Origin, field, fresh, get, is_hit, unchanged, whole},
    support::{Node, Running, UNLIMITED, config, eventually, free_addr, get as get_at},
};

#[test]
fn what_is_purged_softly_answers_while_its_server_is_down() {
    // Not even HTTP; or an answer that says so.
    let downs = ["nonsense\r\nconnection: close\r\n\r\n".to_owned(), whole(503, "", "down")];
    for (said, answers) in [("max-age=3600", true), ("max-age=3600, must-revalidate", false)] {
        for down in &downs {
            let (is_down, down) = (Arc::new(AtomicUsize::new(0)), down.clone());
            let state = Arc::clone(&is_down);
            let origin = Origin::start(move |_| match state.load(Ordering::SeqCst) {
                1 => down.clone(),
                version => whole(200, &format!("cache-control: {said}\r\n"), &format!("v{version}")),
            });
            let mut node = Lives::of(&origin, "{ grace = \"1h\" }", "upstream.up.retry = { max_tries = 1 }");
            node.start();
            node.get("/", "");
            assert!(is_hit(&node.get("/", "")));
            assert!(node.run(&["cache", "purge", "--all", "--soft"]).status.success());
            is_down.store(1, Ordering::SeqCst);
            let asked = origin.count();
            let answer = node.get("/", "");
            assert!(origin.count() > asked, "the server is asked first");
            let is_stored = (answer.status, answer.body.as_str()) == (200, "v0");
            assert_eq!(is_stored, answers, "{said}: {answer:?}");
            if answers {
                assert!(answer.header("cache-status").unwrap().contains("grace"), "{answer:?}");
            }
            is_down.store(2, Ordering::SeqCst);
            let current = eventually("the server is asked again", || {
                Some(node.get("/", "")).filter(|answer| answer.body == "v2")
            });
            assert_eq!(current.status, 200);
        }
    }
}

#[test]
fn interim_responses_are_no_part_of_what_is_stored() {
    let origin = Origin::start(|_| {
        let early = "HTTP/1.1 103 Early Hints\r\nlink: </a.css>\r\ncache-control: no-store\r\n\r\n";
        early.repeat(3) + &fresh("page")
    });
    let node = origin.behind_cache("{}", "");
    for is_stored in [false, true] {
        let answer = get(&node, "/", "");
        assert_eq!((answer.status, answer.body.as_str(), is_hit(&answer)), (200, "page", is_stored));
        assert_eq!((answer.header("link"), answer.header("cache-control")), (None, Some("max-age=60")));
    }
}

#[test]
fn a_cache_behind_one_flag_keeps_to_memory_unless_told_otherwise() {
    let origin = Origin::start(|_| fresh("page"));
    let url = format!("http://{}", origin.addr);
    for on_disk in [
        None,
        Some(("OMNIGATE_NODE__DATA_DIR", "kept")),
        Some(("OMNIGATE_GATEWAY__CACHE__DISK_BYTES", "1GiB")),
    ] {
        let (dir, gateway, admin) = (tempfile::tempdir().unwrap(), free_addr(), free_addr());
        let mut command = Command::new(program());
        command.args(["gateway", "--to", &url, "--cache", "--listen", &gateway.to_string()]);
        command.current_dir(dir.path()).env_clear().env("OMNIGATE_ADMIN__LISTEN", admin.to_string());
        command.envs(on_disk);
        let log = fs::File::create(dir.path().join("node.log")).unwrap();
        let command = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        let _node = Running(command.spawn().unwrap());
        eventually("the node is ready", || {
            get_at(admin, "/readyz").ok().filter(|answer| answer.status == 200)
        });
        send(gateway, "GET", "/", "").unwrap();
        assert!(is_hit(&send(gateway, "GET", "/", "").unwrap()));
        let store = get_at(admin, "/cache").unwrap().json()["store"].clone();
        assert_eq!(store, if on_disk.is_some() { "disk" } else { "memory" });
        let mut left: Vec<_> =
            fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.retain(|name| name != "node.log");
        assert_eq!(left.len(), usize::from(on_disk.is_some()), "{on_disk:?}: {left:?}");
    }
}

#[test]
fn a_reload_that_adds_the_first_cached_route_says_what_the_sandbox_does_not_let_it_reach() {
    let origin = Origin::start(|_| fresh("page"));
    let settings = |cache: &str, more: &str| {
        format!(
            "{UNLIMITED}route = [{{ path = \"/\", upstream = \"up\"{cache} }}]\n\
             upstream.up.endpoints = [\"http://{}\"]\n{more}[node]\nsandbox = \"on\"\n",
            origin.addr
        )
    };
    let node = Node::start(&settings("", ""));
    node.write_config(&config(node.gateway, node.admin, &settings(", cache = {}", "")));
    node.signal("HUP");
    let said = eventually("the reload is refused", || {
        let answer = get_at(node.admin, "/readyz").ok()?;
        answer.body.contains("bad_reload").then_some(answer.body)
    });
    assert!(said.contains("data is outside the sandbox") && said.contains("restart the node"), "{said}");
    assert_eq!(get(&node, "/", "").body, "page", "the old configuration serves on");
    assert!(!node.path().join("data").exists());
    // In memory it can be used at once.
    node.reload(&settings(", cache = {}", "cache.disk_bytes = 0\n"));
    get(&node, "/", "");
    assert!(is_hit(&get(&node, "/", "")));
    assert_eq!(get_at(node.admin, "/cache").unwrap().json()["store"], "memory");
}

#[test]
fn a_node_that_stored_something_at_its_start_takes_more_cached_routes_in_a_reload() {
    let origin = Origin::start(|_| fresh("page"));
    let settings = |cache: &str| {
        format!(
            "{UNLIMITED}route = [{{ path = \"/\", upstream = \"up\", cache = {{}} }}, \
             {{ path = \"/more\", upstream = \"up\"{cache} }}]\n\
             upstream.up.endpoints = [\"http://{}\"]\n[node]\nsandbox = \"on\"\n",
            origin.addr
        )
    };
    let node = Node::start(&settings(""));
    get(&node, "/", "");
    node.reload(&settings(", cache = {}"));
    get(&node, "/more", "");
    assert!(is_hit(&get(&node, "/more", "")) && is_hit(&get(&node, "/", "")));
    assert_eq!(get_at(node.admin, "/cache").unwrap().json()["store"], "disk");
}

#[test]
fn cookies_that_select_responses_are_not_readable_on_the_disk() {
    let origin = Origin::start(|request| {
        let cookie = field(request, "cookie").unwrap_or_default();
        whole(200, "cache-control: public, max-age=3600\r\nvary: cookie\r\n", &cookie.to_uppercase())
    });
    let mut node = Lives::of(&origin, "{}", "");
    node.start();
    let mine = "cookie: session=hunter2\r\n";
    node.get("/0", mine);
    node.wait_for_disk(1);
    let is_readable = |node: &Lives| {
        let log = fs::read(node.folder().join("index.log")).unwrap();
        log.windows(7).any(|bytes| bytes == b"hunter2")
    };
    assert!(!is_readable(&node));
    node.stop();
    assert!(!is_readable(&node));
    let key = fs::metadata(node.folder().join("index.key")).unwrap();
    assert_eq!((key.len(), key.permissions().mode() & 0o777), (32, 0o600));
    node.start();
    node.wait_for_disk(1);
    assert!(is_hit(&node.get("/0", mine)), "it is found again by its cookie");
    assert!(!is_hit(&node.get("/0", "cookie: session=hunter3\r\n")));
    assert!(!is_hit(&node.get("/0", "")));
}

#[test]
fn what_is_stored_of_one_server_does_not_answer_for_another_after_a_reload() {
    let (old, new) = (Origin::start(|_| fresh("old")), Origin::start(|_| fresh("new")));
    let settings = |server: &Origin, more: &str| {
        format!(
            "{UNLIMITED}route = [{{ path = \"/\", upstream = \"up\", cache = {{}} }}]\n\
             upstream.up.endpoints = [\"http://{}\"]\n{more}",
            server.addr
        )
    };
    let node = Node::start(&settings(&old, ""));
    get(&node, "/", "");
    assert!(is_hit(&get(&node, "/", "")));
    node.reload(&settings(&old, "upstream.up.max_idle = 64\n"));
    assert!(is_hit(&get(&node, "/", "")), "what says nothing of the server changes nothing");
    node.reload(&settings(&new, ""));
    let answer = get(&node, "/", "");
    assert_eq!((answer.body.as_str(), is_hit(&answer)), ("new", false));
    assert!(is_hit(&get(&node, "/", "")));
}

#[test]
fn a_successor_takes_over_what_is_on_the_disk_and_validates_it() {
    let origin = Origin::start(|request| {
        let fields = "cache-control: max-age=3600\r\netag: \"1\"\r\n";
        match field(request, "if-none-match") {
            Some(_) => unchanged(fields),
            None => whole(200, fields, "page"),
        }
    });
    let mut node = origin.behind_cache("{}", "");
    let is_on_disk = |node: &Node| {
        let report = get_at(node.admin, "/cache?url=http://a/").ok()?.json();
        (report["store"] == "disk" && report["responses"][0]["on_disk"] == true).then_some(())
    };
    get(&node, "/", "");
    eventually("it is on the disk", || is_on_disk(&node));
    node.signal("USR2");
    // Whoever answers meanwhile, the answer is the right one.
    eventually("the successor has taken over", || {
        assert_eq!(get(&node, "/", "").body, "page");
        node.has_ended().then_some(())
    });
    assert_eq!(node.exit_code(), 0);
    eventually("the successor has the store", || is_on_disk(&node));
    let stored = get_at(node.admin, "/cache").unwrap().json();
    assert!(stored["disk_objects"] == 1, "{stored}");
    assert_eq!(get(&node, "/", "").body, "page");
    assert!(is_hit(&get(&node, "/", "")));
    let whole_answers = origin.asked().iter().filter(|asked| field(asked, "if-none-match").is_none()).count();
    // One for each process: what the successor was asked for before it had the store, it had to ask for.
    assert!(whole_answers <= 2, "{:?}", origin.asked());
}
