//! Static files: found, typed, changed, damaged, and never outside of their folder.

use std::{
    fs,
    os::unix::fs::symlink,
    time::{Duration, SystemTime},
};

use ron_kernel::config::ByteSize;

use crate::{
    rot::{self, Rot},
    support::{Running, eventually, noise, rename_over, write},
};

#[test]
fn a_file_is_served_with_its_type_and_its_content_id() {
    let edge = Running::with_files(&[("css/site.css", b"body{}"), ("index.html", b"<p>hi"), ("empty", b"")]);
    let answer = edge.get("/edge/assets/css/site.css");
    assert_eq!((answer.status, answer.text().as_str()), (200, "body{}"));
    assert_eq!(answer.header("content-type"), "text/css; charset=utf-8");
    let id = blake3::hash(b"body{}").to_hex();
    assert_eq!(answer.header("etag"), format!("\"b3:{id}\""));
    assert_eq!(answer.header("cache-control"), "public, max-age=60");
    assert_eq!(answer.header("accept-ranges"), "bytes");
    assert_eq!(answer.header("x-content-type-options"), "nosniff");
    assert_eq!(answer.header("referrer-policy"), "no-referrer");
    assert!(answer.header("last-modified").ends_with("GMT"));
    assert_eq!(answer.header("strict-transport-security"), "", "only over TLS");
    let again = edge.get("/edge/assets/css/site.css?v=2");
    assert_eq!((again.status, again.header("etag")), (200, answer.header("etag")));
    let index = edge.get("/edge/assets/");
    assert_eq!((index.status, index.header("content-type")), (200, "text/html; charset=utf-8"));
    let empty = edge.get("/edge/assets/empty");
    assert_eq!((empty.status, empty.header("content-length"), empty.body.len()), (200, "0", 0));
}

#[test]
fn a_large_file_is_streamed_whole_and_in_parts() {
    let bytes = noise(3 * 1024 * 1024 + 17);
    let edge = Running::with_files(&[("large.bin", &bytes)]);
    let whole = edge.get("/edge/assets/large.bin");
    assert_eq!((whole.status, whole.header("content-length")), (200, bytes.len().to_string().as_str()));
    assert!(whole.body == bytes);
    for (range, part) in [
        ("bytes=0-0", 0..1),
        ("bytes=262143-262144", 262_143..262_145),
        ("bytes=100000-2500000", 100_000..2_500_001),
        ("bytes=-5", bytes.len() - 5..bytes.len()),
    ] {
        let answer = edge.get_with("/edge/assets/large.bin", &[("range", range)]);
        assert_eq!(answer.status, 206, "{range}");
        let told = format!("bytes {}-{}/{}", part.start, part.end - 1, bytes.len());
        assert_eq!(answer.header("content-range"), told);
        assert!(answer.body == bytes[part], "{range}");
    }
    let head = edge.ask("HEAD", "/edge/assets/large.bin", &[]);
    assert_eq!((head.status, head.body.len()), (200, 0));
    assert_eq!(head.header("content-length"), bytes.len().to_string());
}

#[test]
fn a_folder_leads_to_its_slash_and_what_is_not_there_is_not_found() {
    let edge = Running::with_files(&[
        ("docs/a b/index.html", b"index"),
        ("docs/none/x", b"x"),
        ("docs/javascript:1/index.html", b"index"),
    ]);
    let answer = edge.get("/edge/assets/docs/a%20b");
    assert_eq!((answer.status, answer.header("location")), (308, "./a%20b/"));
    let with_query = edge.get("/edge/assets/docs/a%20b?v=2&x=a/b");
    assert_eq!((with_query.status, with_query.header("location")), (308, "./a%20b/?v=2&x=a/b"));
    // Without the dot this would be a link to another scheme.
    let scheme = edge.get("/edge/assets/docs/javascript:1");
    assert_eq!((scheme.status, scheme.header("location")), (308, "./javascript:1/"));
    assert_eq!(edge.get("/edge/assets/docs/a%20b/").text(), "index");
    for path in ["absent", "docs/none/", "docs/a%20b/index.html/", ".hidden", "docs//none/x/y"] {
        let answer = edge.get(&format!("/edge/assets/{path}"));
        assert_eq!((answer.status, answer.reason().as_str()), (404, "not_found"), "{path}");
    }
}

#[test]
fn no_path_leads_out_of_the_folder() {
    let edge = Running::with_files(&[("a.txt", b"a")]);
    write(&edge.path("secret.txt"), b"secret");
    symlink(edge.path("secret.txt"), edge.path("public/link")).unwrap();
    symlink("..", edge.path("public/up")).unwrap();
    for (path, status) in [
        ("../secret.txt", 400),
        ("%2e%2e/secret.txt", 400),
        ("..%2fsecret.txt", 400),
        ("a.txt%00.png", 400),
        ("a%5Ca", 400),
        ("%ff", 400),
        ("link", 404),
        ("up/secret.txt", 404),
        ("/etc/passwd", 404),
    ] {
        let answer = edge.get(&format!("/edge/assets/{path}"));
        assert_eq!(answer.status, status, "{path}: {}", answer.text());
        assert!(!answer.text().contains("secret\n"));
    }
}

#[test]
fn the_first_folder_that_has_a_file_wins() {
    let edge = Running::start(
        |dir| {
            write(&dir.join("one/a"), b"one");
            write(&dir.join("two/a"), b"two");
            write(&dir.join("two/b"), b"two");
        },
        |config| {
            config.roots = ["one", "two"].map(|path| svc_edge::RootConfig::new(path.into())).to_vec();
        },
    );
    assert_eq!(
        (edge.get("/edge/assets/a").text(), edge.get("/edge/assets/b").text()),
        ("one".into(), "two".into())
    );
}

#[test]
fn a_file_that_is_replaced_shows_within_moments_and_never_half() {
    let (old, new) = (vec![b'o'; 50_000], vec![b'n'; 70_000]);
    let edge = Running::with_files(&[("a.bin", &old)]);
    assert!(edge.get("/edge/assets/a.bin").body == old);
    rename_over(&edge.path("public/a.bin"), &new);
    eventually("the new file shows", || {
        let answer = edge.get("/edge/assets/a.bin");
        assert!(answer.body == old || answer.body == new, "a mixture");
        answer.body == new
    });
}

#[test]
fn a_new_version_with_the_length_and_the_time_of_the_old_one_shows() {
    let (small, large) = (100_000, 3 * 1024 * 1024);
    let names = ["small.js", "large.bin"];
    let version = |of: u8, len: usize| vec![of; len];
    let files = |of: u8| names.iter().zip([small, large]).map(move |(name, len)| (*name, version(of, len)));
    let unpack = |path: &std::path::Path, bytes: &[u8]| {
        write(path, bytes);
        let long_ago = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        fs::File::options().write(true).open(path).unwrap().set_modified(long_ago).unwrap();
    };
    let edge = Running::start(
        |dir| files(b'1').for_each(|(name, bytes)| unpack(&dir.join("public").join(name), &bytes)),
        |config| config.roots.push(svc_edge::RootConfig::new("public".into())),
    );
    let shows = |of: u8| {
        for (name, bytes) in files(of) {
            let url = format!("/edge/assets/{name}");
            eventually("this version shows", || {
                let answer = edge.get(&url);
                assert!(matches!(answer.status, 200 | 503), "{}", answer.text());
                answer.body == bytes
            });
        }
    };
    shows(b'1');
    // As `tar` does it after `rm`; the file system may use the numbers of the old files again.
    names.iter().for_each(|name| fs::remove_file(edge.path("public").join(name)).unwrap());
    files(b'2').for_each(|(name, bytes)| unpack(&edge.path("public").join(name), &bytes));
    shows(b'2');
    // As `cp -p` does it.
    files(b'3').for_each(|(name, bytes)| unpack(&edge.path("public").join(name), &bytes));
    shows(b'3');
    assert!(edge.metric("edge_quarantined_total") < 1.0);
}

/// An edge with a file that can rot, and with this much RAM; `None` where no file can.
fn with_rot(name: &str, bytes: &[u8], ram: ByteSize) -> Option<Running> {
    let prepare = |dir: &std::path::Path| write(&dir.join("public").join(name), bytes);
    Some(Running::start_in(rot::ground()?, prepare, |config| {
        config.roots.push(svc_edge::RootConfig::new("public".into()));
        config.ram_bytes = ram;
    }))
}

#[test]
fn bytes_that_rot_under_a_streamed_file_are_not_served() {
    let bytes = noise(2 * 1024 * 1024);
    let Some(edge) = with_rot("large.bin", &bytes, ByteSize::mib(64)) else { return };
    let path = edge.path("public/large.bin");
    let Some(rot) = Rot::of(&path, 1_500_000) else { return };
    rot.settle();
    assert!(edge.get("/edge/assets/large.bin").body == bytes);
    rot.turn();
    let part = edge.get_with("/edge/assets/large.bin", &[("range", "bytes=1500000-1500010")]);
    assert_eq!((part.status, part.reason().as_str()), (502, "quarantined"));
    eventually("readiness tells", || edge.standing().contains("large.bin"));
    let whole = edge.get("/edge/assets/large.bin");
    assert_eq!(whole.status, 502, "it is known now");
    eventually("it is counted", || edge.metric("edge_quarantined_total") >= 1.0);
    rename_over(&path, &bytes);
    eventually("a new file mends it", || edge.get("/edge/assets/large.bin").body == bytes);
    eventually("readiness hears of it", || !edge.standing().contains("large.bin"));
}

#[test]
fn damage_that_is_met_in_the_middle_breaks_the_connection_before_a_wrong_byte() {
    let bytes = noise(4 * 1024 * 1024);
    let Some(edge) = with_rot("large.bin", &bytes, ByteSize::mib(64)) else { return };
    let Some(rot) = Rot::of(&edge.path("public/large.bin"), 3_000_000) else { return };
    rot.settle();
    assert_eq!(edge.ask("HEAD", "/edge/assets/large.bin", &[]).status, 200);
    rot.turn();
    let whole = edge.get("/edge/assets/large.bin");
    assert_eq!(whole.status, 200, "the beginning is good");
    assert!(whole.body.len() < bytes.len(), "the end is not");
    assert!(whole.body == bytes[..whole.body.len()], "and nothing in between is wrong");
}

#[test]
fn a_small_file_whose_bytes_change_by_themselves_is_not_served() {
    // Without RAM each request reads the file.
    let Some(edge) = with_rot("a.txt", b"what was written", ByteSize::bytes(0)) else { return };
    let path = edge.path("public/a.txt");
    let Some(rot) = Rot::of(&path, 3) else { return };
    rot.settle();
    assert_eq!(edge.get("/edge/assets/a.txt").text(), "what was written");
    rot.turn();
    assert_eq!(edge.get("/edge/assets/a.txt").status, 502);
    write(&path, b"something new");
    eventually("a change that shows is no damage", || {
        edge.get("/edge/assets/a.txt").text() == "something new"
    });
}

#[test]
fn a_file_that_is_asked_for_at_once_is_hashed_again_once_it_has_settled_and_held_to_it() {
    // Without RAM each request reads the file.
    let Some(edge) = with_rot("old", b"old", ByteSize::bytes(0)) else { return };
    write(&edge.path("public/new.txt"), b"what was written");
    let Some(rot) = Rot::of(&edge.path("public/new.txt"), 13) else { return };
    write(&edge.path("public/next.txt"), b"written next");
    for name in ["new.txt", "next.txt"] {
        assert_eq!(edge.get(&format!("/edge/assets/{name}")).status, 200);
    }
    // Nobody asks meanwhile. The files are hashed one after the other, so that the first is done when no more wait.
    let waiting = || edge.metric("queue_depth{node=\"test\",service=\"edge\",queue=\"unsettled\"");
    eventually("they wait until they have settled", || waiting() > 0.0);
    eventually("the first has been hashed again", || waiting() == 0.0);
    rot.turn();
    let answer = edge.get("/edge/assets/new.txt");
    assert_eq!((answer.status, answer.text().contains("wri")), (502, false), "{}", answer.text());
    assert!(edge.standing().contains("new.txt"));
}

#[test]
fn a_file_that_is_written_over_while_it_is_served_is_changed_and_not_damaged() {
    let (old, new) = (noise(3 * 1024 * 1024), vec![b'n'; 2 * 1024 * 1024]);
    let edge = Running::with_files(&[("large.bin", &old)]);
    let path = edge.path("public/large.bin");
    assert!(edge.get("/edge/assets/large.bin").body == old);
    // As cp does: the same file, cut and rewritten.
    fs::write(&path, &new).unwrap();
    eventually("the new bytes show", || {
        let answer = edge.get("/edge/assets/large.bin");
        assert!(matches!(answer.status, 200 | 503), "{}", answer.text());
        let promised = answer.header("content-length").parse::<usize>().unwrap();
        answer.status == 200 && answer.body.len() == promised && answer.body == new
    });
    assert!(!edge.standing().contains("large.bin"), "{}", edge.standing());
    assert!(edge.metric("edge_quarantined_total") < 1.0);
}
