//! An origin whose answer is next to nothing until it is decoded.

use std::{
    fs,
    io::{self, Write},
    net::TcpStream,
    path::Path,
    sync::Arc,
};

use super::{
    edge_node::EdgeNode,
    making::gzip,
    origin::{self, Origin},
    size,
};

/// The most memory that bombs may cost.
const SPARE_MEMORY: u64 = 16 << 20;
/// How many come, one after the other.
const BOMBS: usize = 4;

/// The head of a gzip file.
const GZIP_HEAD: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];

/// A MiB of zeros as it is encoded at the beginning, and in the midst of zeros: encoded once, sent as often as need be.
fn encoded_zeros() -> [Vec<u8>; 2] {
    let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::best());
    let mut mib = || {
        encoder.write_all(&vec![0; 1 << 20]).unwrap();
        encoder.flush().unwrap();
        std::mem::take(encoder.get_mut())
    };
    [mib(), mib()]
}

/// Sends a gzip bomb of `mib` MiB of zeros, for as long as somebody takes it.
fn bomb(stream: &mut TcpStream, mib: usize, [first, more]: &[Vec<u8>; 2]) -> io::Result<()> {
    let head = "HTTP/1.1 200 OK\r\netag: \"b\"\r\ncache-control: max-age=60\r\ncontent-encoding: gzip\r\n";
    stream.write_all(format!("{head}transfer-encoding: chunked\r\n\r\n").as_bytes())?;
    chunk(stream, &GZIP_HEAD)?;
    chunk(stream, first)?;
    (1..mib).try_for_each(|_| chunk(stream, more))?;
    // It ends without the end of its stream: nobody is to come so far.
    stream.write_all(b"0\r\n\r\n")
}

fn chunk(stream: &mut TcpStream, bytes: &[u8]) -> io::Result<()> {
    stream.write_all(&[format!("{:x}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat())
}

/// Files under a folder.
fn files(folder: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    entries
        .map(|entry| entry.unwrap().path())
        .flat_map(|path| if path.is_dir() { files(&path) } else { vec![path.display().to_string()] })
        .collect()
}

/// Has the edge filled with bombs and holds it to what that may cost.
fn explode(stopped: &str, node_table: &str, limits: &str, spare_memory: u64) {
    let mib = size(256, 10 << 10);
    let zeros = encoded_zeros();
    let small = Arc::new(gzip(&vec![0; 64 << 10]));
    let origin = Origin::start(move |path, stream| match path {
        "/small" => {
            let head = origin::head(small.len()).replacen("etag", "content-encoding: gzip\r\netag", 1);
            stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&small))
        }
        _ => bomb(stream, mib, &zeros),
    });
    let dir = tempfile::tempdir().unwrap();
    let settings = format!("{}{limits}", origin.settings());
    let node = EdgeNode::start(dir.path(), node_table, &settings);
    // Whatever a first fill costs once is no cost of a bomb.
    let got = node.ask(&origin.asset("/small"));
    assert_eq!((got.status, got.body.len()), (200, 64 << 10), "{stopped}: {}", got.reason());
    let objects = dir.path().join("data/cas/objects");
    let (kept, before) = (files(&objects), node.peak_memory());
    for number in 0..BOMBS {
        let got = node.ask(&origin.asset(&format!("/bomb{number}")));
        assert_eq!((got.status, got.reason().as_str()), (502, "source_expands"));
    }
    let grown = node.peak_memory() - before;
    println!("bombs: {stopped}: {} KiB more memory for {BOMBS} of {mib} MiB each", grown >> 10);
    assert!(grown <= spare_memory, "{stopped}: {grown} bytes more");
    assert_eq!(files(&objects), kept, "{stopped}");
    assert_eq!(files(&dir.path().join("data/cas/tmp")), [""; 0], "{stopped}");
    let refused =
        node.metric("edge_rejects_total{node=\"omnigate\",service=\"edge\",reason=\"decompress_cap\"}");
    assert!(refused >= BOMBS as f64, "{stopped}: {refused} counted");
}

#[test]
fn an_origins_bomb_is_refused_and_costs_next_to_no_memory() {
    explode("by ratio", "", "", SPARE_MEMORY);
    // The longest way: only the cap on all of it stops it, and up to there it may be held.
    let limits = "ingress.decompress_max_ratio = 1000000\n";
    explode("by size", "danger_ok = true", limits, SPARE_MEMORY + (10 << 20));
}
