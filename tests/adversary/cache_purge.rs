//! Purging: what operators remove is gone and stays away, and nobody else can remove anything.

use std::{
    fs,
    net::SocketAddr,
    sync::{Arc, Mutex},
    thread,
};

use crate::{
    cache_node::{Lives, send},
    cache_origin::{Origin, field, is_hit, target, unchanged, whole},
    support::{Client, Flag, ask, eventually},
};

/// A server whose answers have tags.
fn tagged() -> (Origin, Arc<Mutex<u64>>) {
    let version = Arc::<Mutex<u64>>::default();
    let shown = Arc::clone(&version);
    let origin = Origin::start(move |request| {
        let tags = match target(request).split('?').next().unwrap() {
            "/news/1" => "cache-tag: news, one\r\n",
            "/news/2" => "surrogate-key: news two\r\n",
            _ => "",
        };
        let version = *shown.lock().unwrap();
        whole(
            200,
            &format!("cache-control: max-age=3600\r\netag: \"{version}\"\r\nvary: accept\r\n{tags}"),
            &version.to_string(),
        )
    });
    (origin, version)
}

#[test]
fn operators_purge_by_url_prefix_and_tag_and_what_is_purged_stays_away() {
    let (origin, version) = tagged();
    let mut node = Lives::of(&origin, "{}", "");
    node.text = node.text.replacen("[admin]\n", "[admin]\naudit_log = \"audit.log\"\n", 1);
    node.start();
    let all = ["/news/1", "/news/2", "/other", "/other?q=1"];
    let fill = |node: &Lives| {
        for target in all {
            for accept in ["text/html", "text/plain"] {
                let fields = format!("accept: {accept}\r\n");
                let answer = node.get(target, &fields);
                assert!(answer.header("cache-tag").is_none() && answer.header("surrogate-key").is_none());
                assert!(is_hit(&node.get(target, &fields)), "{target}");
            }
        }
    };
    let table: [(&[&str], &[&str]); 7] = [
        (&["http://a/other"], &["/other"]),
        (&["http://A/other?q=1"], &["/other?q=1"]),
        (&["http://a:80/other"], &["/other"]),
        (&["--prefix", "http://a/news"], &["/news/1", "/news/2"]),
        (&["--tag", "NEWS"], &["/news/1", "/news/2"]),
        (&["--tag", "two"], &["/news/2"]),
        (&["--all"], &all),
    ];
    for (at, (args, gone)) in table.into_iter().enumerate() {
        fill(&node);
        let output = node.run(&[&["cache", "purge"], args].concat());
        let told = String::from_utf8(output.stdout).unwrap();
        assert_eq!(told, format!("purged: {} responses\n", 2 * gone.len()), "{args:?}");
        eventually("it is audited", || {
            let trail = fs::read_to_string(node.dir.path().join("audit.log")).ok()?;
            (trail.matches("POST /cache/purge").count() > at).then_some(())
        });
        node.kill();
        node.start();
        for target in all {
            let is_there = node.cache(&format!("?url=http://a{}", target.replace('?', "%3f")))["responses"]
                != serde_json::json!([]);
            assert!(!(gone.contains(&target) && is_there), "{args:?} {target}");
        }
    }
    *version.lock().unwrap() += 1;
    fill(&node);
    assert_eq!(node.get("/other", "accept: text/html\r\n").body, "1");
    let trail = fs::read_to_string(node.dir.path().join("audit.log")).unwrap();
    for line in
        ["POST /cache/purge: prefix http://a/news, 4 responses", "url http://A/other, 2", "tag NEWS", "all, "]
    {
        assert!(trail.contains(line), "{line}: {trail}");
    }
    assert!(!trail.contains("q=1"), "queries may hold secrets");
    for wrong in
        [&["cache", "purge"][..], &["cache", "purge", "--all", "--tag", "x"], &["cache", "purge", "/other"]]
    {
        assert!(!node.run(wrong).status.success(), "{wrong:?}");
    }
}

#[test]
fn a_response_that_is_confirmed_during_a_purge_is_purged_as_well() {
    let origin = Origin::start(|request| {
        let fields = "cache-control: max-age=3600\r\netag: \"v\"\r\n";
        match field(request, "if-none-match") {
            Some(_) => unchanged(fields),
            None => whole(200, fields, "body"),
        }
    });
    let mut node = Lives::of(&origin, "{}", "");
    node.start();
    // Many others, so that a purge takes its time.
    for nth in 0..2000 {
        assert_eq!(node.get(&format!("/{nth}"), "").status, 200);
    }
    let is_over = Flag::default();
    thread::scope(|threads| {
        let _over = is_over.set_at_the_end();
        for _ in 0..4 {
            threads.spawn(|| {
                let mut client = Client::connect(node.gateway).unwrap();
                while !is_over.is_set() {
                    client.ask("GET /hot HTTP/1.1\r\nhost: a\r\ncache-control: no-cache\r\n\r\n").unwrap();
                }
            });
        }
        let whole = || {
            let is_whole =
                |asked: &&String| target(asked) == "/hot" && field(asked, "if-none-match").is_none();
            origin.asked().iter().filter(is_whole).count()
        };
        eventually("it is stored", || is_hit(&node.get("/hot", "")).then_some(()));
        for round in 0..10 {
            let before = whole();
            assert!(node.run(&["cache", "purge", "--all"]).status.success());
            node.get("/hot", "");
            assert!(whole() > before, "{round}: what was purged is still there");
        }
    });
}

#[test]
fn what_is_purged_while_another_process_has_the_store_does_not_come_back_with_it() {
    let origin = Origin::start(|request| {
        let fields = "cache-control: max-age=3600\r\netag: \"v\"\r\n";
        match field(request, "if-none-match") {
            Some(_) => unchanged(fields),
            None => whole(200, fields, "body"),
        }
    });
    let mut node = Lives::of(&origin, "{}", "");
    node.start();
    node.get("/0", "");
    node.wait_for_disk(1);
    node.stop();
    let other = fs::File::options().write(true).open(node.folder().join("index.log.lock")).unwrap();
    other.lock().unwrap();
    node.start();
    assert_eq!(node.cache("")["store"], "waiting");
    assert!(node.run(&["cache", "purge", "http://a/0"]).status.success());
    drop(other);
    eventually("the node has the store", || (node.cache("")["store"] == "disk").then_some(()));
    assert_eq!(node.get("/0", "").body, "body");
    let asked = origin.asked();
    assert!(asked.iter().all(|asked| field(asked, "if-none-match").is_none()), "{asked:?}");
}

#[test]
fn what_is_softly_purged_is_validated_before_it_is_fresh_again() {
    let (origin, version) = tagged();
    let mut node = Lives::of(&origin, "{ grace = \"1h\", keep_tags = true }", "");
    node.start();
    assert_eq!(node.get("/news/1", "").header("cache-tag"), Some("news, one"), "kept as configured");
    let asked = origin.count();
    node.run(&["cache", "purge", "--tag", "one", "--soft"]);
    let answer = node.get("/news/1", "");
    assert!(!is_hit(&answer) && origin.count() == asked + 1, "{answer:?}");
    assert!(is_hit(&node.get("/news/1", "")), "it is fresh again");
    *version.lock().unwrap() += 1;
    assert_eq!(node.get("/news/1", "").body, "0", "still fresh");
    node.run(&["cache", "purge", "http://a/news/1", "--soft"]);
    assert_eq!(node.get("/news/1", "").body, "1");
    let show = node.run(&["cache", "show", "http://a/news/1"]);
    let shown = String::from_utf8(show.stdout).unwrap();
    assert!(shown.contains("tags news, one") && shown.contains("vary accept"), "{shown}");
}

#[test]
fn only_operators_purge() {
    let origin = Origin::start(|request| {
        if request.starts_with("PURGE") {
            whole(501, "", "")
        } else {
            whole(200, "cache-control: max-age=60\r\n", "x")
        }
    });
    let mut node = Lives::of(&origin, "{}", "");
    node.text = node.text.replacen(
        "[admin]\n",
        "[admin]\ntokens = [{ name = \"reader\", role = \"read\", token = \"read-read-read-read\" }, \
         { name = \"chief\", role = \"operate\", token = \"operate-operate-operate\" }]\n",
        1,
    );
    node.start();
    node.get("/", "");
    let purge = |to: SocketAddr, token: &str, fields: &str| {
        let body = r#"{"all":true}"#;
        ask(
            to,
            format!(
                "POST /cache/purge HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\n{fields}content-length: {}\r\n\r\n{body}",
                body.len()
            ),
        )
        .unwrap()
        .status
    };
    assert_eq!(purge(node.admin, "wrong-wrong-wrong-wrong", "x-omnigate: 1\r\n"), 401);
    assert_eq!(purge(node.admin, "read-read-read-read", "x-omnigate: 1\r\n"), 403);
    assert_eq!(purge(node.admin, "operate-operate-operate", ""), 403, "a page of another site could send it");
    assert_eq!(send(node.gateway, "PURGE", "/", "").unwrap().status, 501, "the server's word, not ours");
    assert!(is_hit(&node.get("/", "")), "nobody has purged anything");
    assert_eq!(purge(node.admin, "operate-operate-operate", "x-omnigate: 1\r\n"), 200);
    assert!(!is_hit(&node.get("/", "")));
}
