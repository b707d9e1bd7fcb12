//! Precompressed siblings of files: who gets which, and what holds for each.

use std::{
    fs::{self, File},
    io::Write as _,
    path::Path,
    time::{Duration, SystemTime},
};

use crate::support::{Running, eventually, gzip, rename_over};

const FILE: &str = "/edge/assets/site.js";

fn text() -> Vec<u8> {
    (0..2000).flat_map(|line| format!("line {line} of a script\n").into_bytes()).collect()
}

fn brotli(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = brotli::CompressorWriter::new(Vec::new(), 4096, 9, 20);
    encoder.write_all(bytes).unwrap();
    encoder.into_inner()
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 3).unwrap()
}

/// Makes files of a folder as old as each other: a hundred seconds.
fn age(folder: &Path, names: &[&str]) {
    let then = SystemTime::now() - Duration::from_secs(100);
    for name in names {
        File::options().write(true).open(folder.join(name)).unwrap().set_modified(then).unwrap();
    }
}

/// An edge with a file and these siblings, all of them old.
fn edge(siblings: &[(&str, &[u8])]) -> Running {
    let plain = text();
    let named: Vec<(String, &[u8])> =
        siblings.iter().map(|(ending, bytes)| (format!("site.js.{ending}"), *bytes)).collect();
    let mut files: Vec<(&str, &[u8])> = named.iter().map(|(name, bytes)| (name.as_str(), *bytes)).collect();
    files.push(("site.js", &plain));
    let edge = Running::with_files(&files);
    let names: Vec<&str> = files.iter().map(|(name, _)| *name).collect();
    age(&edge.path("public"), &names);
    edge
}

#[test]
fn clients_get_what_they_like_best_and_the_shortest_of_that() {
    let (plain, zst, br, gz) = (text(), zstd(&text()), brotli(&text()), gzip(&text()));
    let edge = edge(&[("zst", &zst), ("br", &br), ("gz", &gz)]);
    let mut all = [("zstd", &zst), ("br", &br), ("gzip", &gz)];
    all.sort_by_key(|(_, bytes)| bytes.len());
    let shortest = all[0].0;
    for (accepted, coding) in [
        ("gzip", "gzip"),
        ("br", "br"),
        ("zstd", "zstd"),
        ("gzip, br, zstd", shortest),
        ("*", shortest),
        ("gzip;q=1, br;q=0.9, zstd;q=0.5", "gzip"),
        ("gzip;q=0.1, br;q=0.9, zstd;q=0.5", "br"),
        ("gzip;q=0, br;q=0, zstd;q=0", ""),
        ("identity", ""),
        ("identity, gzip;q=0.5", ""),
        ("gzip;q=0.5, identity;q=0.4", "gzip"),
        ("deflate", ""),
        ("", ""),
        ("identity;q=0", ""),
        ("identity;q=0, gzip", "gzip"),
    ] {
        let bytes = all.iter().find(|(name, _)| *name == coding).map_or(&plain, |(_, bytes)| *bytes);
        let tag = format!("\"b3:{}\"", blake3::hash(bytes).to_hex());
        for method in ["GET", "HEAD", "GET"] {
            let answer = edge.ask(method, FILE, &[("accept-encoding", accepted)]);
            assert_eq!((answer.status, answer.header("content-encoding")), (200, coding), "{accepted}");
            assert_eq!(answer.header("vary"), "Accept-Encoding", "{accepted}");
            assert_eq!(answer.header("etag"), tag, "{accepted}");
            assert_eq!(answer.header("content-type"), "text/javascript; charset=utf-8", "{accepted}");
            assert_eq!(answer.header("content-length"), bytes.len().to_string(), "{accepted}");
            assert!(answer.body == if method == "HEAD" { &[] } else { &bytes[..] }, "{accepted}");
        }
    }
    let unsaid = edge.get(FILE);
    assert_eq!((unsaid.header("content-encoding"), unsaid.header("vary")), ("", "Accept-Encoding"));
    // Asked for by its own name it is what it is.
    let itself = edge.get_with("/edge/assets/site.js.gz", &[("accept-encoding", "gzip")]);
    assert!(itself.body == gz && itself.header("content-encoding").is_empty());
    assert_eq!((itself.header("content-type"), itself.header("vary")), ("application/gzip", ""));
}

#[test]
fn conditions_and_parts_are_those_of_the_coding_that_is_sent() {
    let gz = gzip(&text());
    let edge = edge(&[("gz", &gz)]);
    let tag = |bytes: &[u8]| format!("\"b3:{}\"", blake3::hash(bytes).to_hex());
    let (coded, plain) = (tag(&gz), tag(&text()));
    let modified = edge.get_with(FILE, &[("accept-encoding", "gzip")]).header("last-modified").to_owned();
    let old = "Mon, 01 Jan 1990 00:00:00 GMT";
    let part = ("range", "bytes=5-9");
    let table: [(&[(&str, &str)], u16); 18] = [
        (&[("if-none-match", &coded)], 304),
        (&[("if-none-match", &plain)], 200),
        (&[("if-none-match", &plain), ("if-modified-since", &modified)], 200),
        (&[("if-none-match", "*")], 304),
        (&[("if-modified-since", &modified)], 304),
        (&[("if-modified-since", old)], 200),
        (&[("if-match", &coded)], 200),
        (&[("if-match", &plain)], 412),
        (&[("if-match", &coded), ("if-unmodified-since", old)], 200),
        (&[("if-unmodified-since", old)], 412),
        (&[("if-match", &coded), ("if-none-match", &coded)], 304),
        (&[("if-match", &plain), ("if-none-match", &coded)], 412),
        (&[part], 206),
        (&[part, ("if-range", &coded)], 206),
        (&[part, ("if-range", &plain)], 200),
        (&[part, ("if-range", &modified)], 200),
        (&[part, ("if-none-match", &coded)], 304),
        (&[("range", "bytes=99999999-")], 416),
    ];
    for (fields, status) in table {
        let fields = [fields, &[("accept-encoding", "gzip")]].concat();
        let answer = edge.get_with(FILE, &fields);
        assert_eq!(answer.status, status, "{fields:?}");
        match status {
            206 => {
                assert!(answer.body == gz[5..10], "{fields:?}");
                assert_eq!(answer.header("content-range"), format!("bytes 5-9/{}", gz.len()));
                assert_eq!(answer.header("content-encoding"), "gzip");
            }
            304 | 412 => assert_eq!(
                (answer.header("etag"), answer.header("vary")),
                (coded.as_str(), "Accept-Encoding")
            ),
            416 => assert_eq!(answer.header("content-range"), format!("bytes */{}", gz.len())),
            _ => assert!(answer.body == gz, "{fields:?}"),
        }
    }
    // The same conditions without the coding are about the plain file.
    assert_eq!(edge.get_with(FILE, &[("if-none-match", &plain)]).status, 304);
    assert_eq!(edge.get_with(FILE, &[("if-none-match", &coded)]).status, 200);
    assert!(edge.get_with(FILE, &[part]).body == text()[5..10]);
}

#[test]
fn a_sibling_that_is_not_the_file_is_not_used() {
    let (other, bomb) = (gzip(b"something else"), gzip(&vec![0; 20 << 20]));
    let long = [text(), b"longer".to_vec()].concat();
    for (what, bytes) in [
        ("other", &other),
        ("bomb", &bomb),
        ("longer", &long),
        ("no gzip", &b"plain".to_vec()),
        ("empty", &Vec::new()),
    ] {
        let edge = edge(&[("gz", bytes)]);
        let answer = edge.get_with(FILE, &[("accept-encoding", "gzip")]);
        assert!(answer.status == 200 && answer.body == text(), "{what}");
        assert_eq!((answer.header("content-encoding"), answer.header("vary")), ("", ""), "{what}");
    }
}

#[test]
fn a_sibling_that_is_older_than_the_file_is_not_used_until_it_is_made_anew() {
    let edge = edge(&[("gz", &gzip(&text()))]);
    let ask = || edge.get_with(FILE, &[("accept-encoding", "gzip")]);
    assert_eq!(ask().header("content-encoding"), "gzip");
    let (plain, changed) = (edge.path("public/site.js"), [text(), b"changed".to_vec()].concat());
    rename_over(&plain, &changed);
    eventually("the changed file is served", || {
        let answer = ask();
        assert!(answer.body == changed || answer.header("content-encoding") == "gzip");
        answer.body == changed
    });
    rename_over(&edge.path("public/site.js.gz"), &gzip(&changed));
    eventually("its new sibling is served", || {
        let answer = ask();
        answer.header("content-encoding") == "gzip" && answer.body == gzip(&changed)
    });
    fs::remove_file(edge.path("public/site.js.gz")).unwrap();
    eventually("without it the file is", || ask().header("content-encoding").is_empty());
}

#[test]
fn a_large_file_has_siblings_too_and_they_are_verified() {
    let large: Vec<u8> = text().repeat(100);
    let gz = {
        // Long enough to be read from the disk: stored, not compressed.
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::none());
        encoder.write_all(&large[..large.len() - 400_000]).unwrap();
        let mut bytes = encoder.finish().unwrap();
        bytes.extend(gzip(&large[large.len() - 400_000..]));
        bytes
    };
    assert!(gz.len() > 2 << 20 && gz.len() < large.len(), "{} {}", gz.len(), large.len());
    let edge = Running::with_files(&[("large.txt", &large), ("large.txt.gz", &gz)]);
    age(&edge.path("public"), &["large.txt", "large.txt.gz"]);
    let ask = || edge.get_with("/edge/assets/large.txt", &[("accept-encoding", "gzip")]);
    let answer = ask();
    assert_eq!((answer.status, answer.header("content-encoding")), (200, "gzip"));
    assert!(answer.body == gz);
}

#[test]
fn what_is_well_known_is_served_and_the_server_tells_what_it_can() {
    let edge =
        Running::with_files(&[(".well-known/security.txt", b"Contact: x"), (".git/config", b"secret")]);
    assert_eq!(edge.get("/edge/assets/.well-known/security.txt").text(), "Contact: x");
    assert_eq!(edge.get("/edge/assets/.git/config").status, 404);
    let options = edge.ask("OPTIONS", "*", &[]);
    assert_eq!((options.status, options.header("allow")), (204, "GET, HEAD, OPTIONS"));
}
