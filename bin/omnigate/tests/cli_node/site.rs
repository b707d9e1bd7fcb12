//! `omnigate edge --dir`: a folder as a website, through the built program.

use std::{
    fs,
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Stdio},
};

use tempfile::TempDir;

use crate::{
    cli_run::omnigate,
    http::{self, Reply},
};

/// A website, ended with the test.
struct Site {
    child: Child,
    addr: String,
    _dir: TempDir,
}

impl Site {
    /// Serves a folder that `prepare` fills.
    fn of(prepare: impl FnOnce(&Path), args: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let public = dir.path().join("public");
        fs::create_dir(&public).unwrap();
        prepare(&public);
        let start =
            ["edge", "--dir", "public", "--listen", "127.0.0.1:0", "--set", "admin.listen=127.0.0.1:0"];
        let mut command = omnigate(dir.path(), &[&start, args].concat());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let addr = lines.find_map(|line| {
            let line = line.unwrap();
            line.trim().strip_prefix("edge").map(|addr| addr.trim().to_owned())
        });
        // Read on, or the node could not write what follows.
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, addr: addr.expect("the node says where it listens"), _dir: dir }
    }

    fn get(&self, path: &str) -> Reply {
        http::get(&self.addr, path)
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A small website.
fn pages(public: &Path) {
    fs::create_dir_all(public.join("docs")).unwrap();
    for (name, text) in [
        ("index.html", "<h1>home</h1>"),
        ("about.html", "<h1>about</h1>"),
        ("app.js", "run()"),
        ("docs/index.html", "<h1>docs</h1>"),
        ("docs/start.html", "<h1>start</h1>"),
        (".secret", "hidden"),
    ] {
        fs::write(public.join(name), text).unwrap();
    }
}

#[test]
fn a_folder_is_a_website_with_an_index_and_pages_without_endings() {
    let site = Site::of(pages, &[]);
    for (path, body) in [
        ("/", "<h1>home</h1>"),
        ("/index.html", "<h1>home</h1>"),
        ("/about", "<h1>about</h1>"),
        ("/about?utm=1", "<h1>about</h1>"),
        ("/about.html", "<h1>about</h1>"),
        ("/docs/", "<h1>docs</h1>"),
        ("/docs/start", "<h1>start</h1>"),
        ("/app.js", "run()"),
        ("/edge/assets/app.js", "run()"),
    ] {
        // Twice: what is in RAM is answered in another way.
        for _ in 0..2 {
            let reply = site.get(path);
            assert_eq!((reply.status, reply.body.as_str()), (200, body), "{path}");
        }
    }
    assert!(site.get("/about").header("content-type").unwrap().starts_with("text/html"));
    let folder = site.get("/docs");
    assert_eq!((folder.status, folder.header("location")), (308, Some("./docs/")));
    for path in ["/nothing", "/docs/nothing", "/.secret", "/app.css", "/about/", "/edge/nothing"] {
        assert_eq!(site.get(path).status, 404, "{path}");
    }
    for path in ["/../about.html", "/docs/../about", "/%2e%2e/about", "/docs%2fstart", "//etc/passwd"] {
        assert!(matches!(site.get(path).status, 400 | 404), "{path}");
    }
}

#[test]
fn what_does_not_exist_is_answered_with_the_sites_own_page() {
    let own = |public: &Path| {
        pages(public);
        fs::write(public.join("404.html"), "<h1>not here</h1>").unwrap();
    };
    let site = Site::of(own, &[]);
    let reply = site.get("/nothing");
    assert_eq!((reply.status, reply.body.as_str()), (404, "<h1>not here</h1>"));
    assert!(reply.header("content-type").unwrap().starts_with("text/html"));
    let head = http::ask(&site.addr, "HEAD", "/nothing", &[]);
    assert_eq!((head.status, head.body.as_str(), head.header("content-length")), (404, "", Some("17")));
    let known = site.get("/404.html").header("etag").unwrap().to_owned();
    let again = http::ask(&site.addr, "GET", "/nothing", &[&format!("If-None-Match: {known}")]);
    assert_eq!(again.status, 404, "what does not exist has not stayed the same");
}

#[test]
fn a_single_page_application_has_one_page_for_all_but_its_files() {
    let site = Site::of(pages, &["--fallback", "index.html"]);
    for path in ["/users/7", "/users/", "/deep/er/still"] {
        let reply = site.get(path);
        assert_eq!((reply.status, reply.body.as_str()), (200, "<h1>home</h1>"), "{path}");
    }
    assert_eq!(site.get("/about").body, "<h1>about</h1>");
    for path in ["/missing.js", "/assets/logo.png"] {
        assert_eq!(site.get(path).status, 404, "{path}");
    }
}

#[test]
fn without_an_index_the_way_in_is_that_of_the_edge() {
    let site = Site::of(|public| fs::write(public.join("a.txt"), "a").unwrap(), &[]);
    let reply = site.get("/");
    assert_eq!((reply.status, reply.header("location")), (302, Some("/edge/packs")));
    assert_eq!(site.get("/a.txt").body, "a");
}
