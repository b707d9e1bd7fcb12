//! The edge as curl sees it: ranges, resumed downloads, codings, HTTP/2.

use std::process::Command;

use ron_transport::tls::testkit::TestCa;

use super::{EdgeNode, write};

/// What curl makes of it.
fn curl(edge: &EdgeNode, path: &str, options: &[&str]) -> Vec<u8> {
    let output = Command::new("curl")
        .args(["--silent", "--show-error", "--fail", "--max-time", "120"])
        .args(options)
        .arg(if path.starts_with('/') { format!("http://{}{path}", edge.addr) } else { path.to_owned() })
        .current_dir(edge.node.path())
        .output()
        .expect("curl comes with Debian");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

fn start(content: &[u8]) -> EdgeNode {
    let dir = tempfile::tempdir().unwrap();
    write(&dir.path().join("public/large.bin"), content);
    EdgeNode::start_in(dir, "roots = [\"public\"]")
}

fn content() -> Vec<u8> {
    (0..3_000_000u32)
        .flat_map(|at| (at.wrapping_mul(2_654_435_761) >> 24).to_le_bytes().into_iter().take(1))
        .collect()
}

#[test]
fn curl_resumes_a_download_where_it_broke_off() {
    let content = content();
    let edge = start(&content);
    write(&edge.node.path().join("got.bin"), &content[..1_234_567]);
    curl(&edge, "/edge/assets/large.bin", &["--continue-at", "-", "--output", "got.bin"]);
    assert!(std::fs::read(edge.node.path().join("got.bin")).unwrap() == content);
}

#[test]
fn curl_gets_parts_and_wholes_over_both_versions_of_http() {
    let content = content();
    let edge = start(&content);
    for version in ["--http1.1", "--http2-prior-knowledge"] {
        assert!(curl(&edge, "/edge/assets/large.bin", &[version]) == content, "{version}");
        let part = curl(&edge, "/edge/assets/large.bin", &[version, "--range", "1000000-1999999"]);
        assert!(part == content[1_000_000..2_000_000], "{version}");
        let head = curl(&edge, "/edge/assets/large.bin", &[version, "--head"]);
        let head = String::from_utf8(head).unwrap().to_ascii_lowercase();
        assert!(head.contains("content-length: 3000000") && head.contains("accept-ranges: bytes"), "{head}");
    }
}

#[test]
fn curl_keeps_what_it_has_by_its_tag() {
    let edge = start(b"what is served");
    curl(&edge, "/edge/assets/large.bin", &["--etag-save", "tag", "--output", "got"]);
    let code = ["--etag-compare", "tag", "--output", "again", "--write-out", "%{http_code}"];
    assert_eq!(curl(&edge, "/edge/assets/large.bin", &code), b"304");
}

#[test]
fn over_tls_browsers_are_told_to_stay_there() {
    let dir = tempfile::tempdir().unwrap();
    write(&dir.path().join("public/a.txt"), b"a");
    let files = TestCa::new("ca").server(&["localhost"]).write(dir.path(), "made");
    let tls = format!(
        "tls = {{ cert_path = \"{}\", key_path = \"{}\" }}",
        files.cert_path.display(),
        files.key_path.display()
    );
    let edge = EdgeNode::start_in(dir, &format!("roots = [\"public\"]\n{tls}"));
    let url = format!("https://{}/edge/assets/a.txt", edge.addr);
    for version in ["--http1.1", "--http2"] {
        let answer = curl(&edge, &url, &[version, "--insecure", "--include"]);
        let answer = String::from_utf8(answer).unwrap().to_ascii_lowercase();
        assert!(answer.contains("strict-transport-security: max-age="), "{answer}");
    }
    let described = curl(&edge, &format!("https://{}/edge/packs", edge.addr), &["--insecure"]);
    assert_eq!(described, b"{\n  \"packs\": []\n}\n");
}
