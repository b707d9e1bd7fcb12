//! Clients that ask the edge for large files and do not read them, beside clients that do.

use std::{
    fs::File,
    io::Write,
    net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream},
    time::{Duration, SystemTime},
};

use crate::support::{Client, Node, eventually, free_addr, get};

/// Downloads that stall, from eight addresses: more than the blocking pool has threads, and than the edge has places.
const STALLED: u32 = 800;
/// Places of the edge.
const PLACES: u32 = 256;
/// Files that are on the disk only, for clients that read.
const COLD: u32 = 40;

/// A client at 127.0.0.`from` that asks for a large file and reads nothing of it.
fn stall(from: u8, edge: SocketAddr, path: &str) -> TcpStream {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    // Little fits into the sockets, so that the node has to wait with most of the file.
    socket.set_recv_buffer_size(4096).unwrap();
    socket.bind(&SocketAddr::new(IpAddr::V4(Ipv4Addr::new(127, 0, 0, from)), 0).into()).unwrap();
    socket.connect(&edge.into()).unwrap();
    let mut stream = TcpStream::from(socket);
    write!(stream, "GET {path} HTTP/1.1\r\nhost: edge.test\r\n\r\n").unwrap();
    stream
}

#[test]
fn stalled_readers_hold_up_nobody_who_reads() {
    let (dir, edge) = (tempfile::tempdir().unwrap(), free_addr());
    let public = dir.path().join("public");
    std::fs::create_dir(&public).unwrap();
    // Old files: those that were just written are hashed more than once.
    let then = SystemTime::now() - Duration::from_secs(100);
    let file = |name: String, bytes: &[u8]| {
        let mut file = File::create(public.join(name)).unwrap();
        file.write_all(bytes).unwrap();
        file.set_modified(then).unwrap();
    };
    (0..8).for_each(|nth| file(format!("large-{nth}.bin"), &vec![7; 24 << 20]));
    (0..COLD).for_each(|nth| file(format!("cold-{nth}.bin"), &vec![8; 100_000]));
    // A transfer that does not move may stay for longer than this test; a wait for the disk may not.
    let node = Node::start_in(
        dir,
        &format!(
            "enabled = false\n[edge]\nenabled = true\nlisten = \"{edge}\"\nroots = [\"public\"]\n\
             write_timeout = \"60s\"\ningress = {{ timeout_secs = 15, max_inflight = {PLACES} }}\n"
        ),
    );
    // Hashed first, so that the stalled readers do nothing but read pieces.
    for nth in 0..8 {
        eventually("a large file is hashed", || {
            let mut client = Client::connect_from(9, edge).ok()?;
            let request =
                format!("HEAD /edge/assets/large-{nth}.bin HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n");
            client.send_raw(request).ok()?;
            client.wait_for_end().ok()?.starts_with(b"HTTP/1.1 200").then_some(())
        });
    }
    let mut stalled: Vec<TcpStream> = Vec::new();
    for nth in 0..STALLED {
        let from = u8::try_from(20 + nth % 8).unwrap();
        stalled.push(stall(from, edge, &format!("/edge/assets/large-{}.bin", nth / 8 % 8)));
        // Some at a time: as many requests at once as there are places would be refused.
        if stalled.len().is_multiple_of(80) {
            eventually("none of them waits for the disk", || {
                let waiting = node.metric("edge_inflight{") - node.metric("edge_transfers{");
                (waiting < 1.0).then_some(())
            });
        }
    }
    for nth in 0..COLD {
        let answer =
            Client::connect_from(3, edge).unwrap().get(&format!("/edge/assets/cold-{nth}.bin")).unwrap();
        assert_eq!((answer.status, answer.bytes.len()), (200, 100_000), "{nth}: {}", answer.body);
        assert_eq!(get(node.admin, "/metrics").unwrap().status, 200);
    }
    let stalling = node.metric("edge_transfers{");
    assert!(stalling > f64::from(PLACES), "{stalling}: more are still there than there are places");
    drop(stalled);
}
