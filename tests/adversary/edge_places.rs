//! Clients that want all of the edge for themselves, and origins whose pages want to act in its name.

use std::{
    io::{self, BufRead, BufReader, Write},
    net::{SocketAddr, TcpStream},
};

use crate::{
    scripted_server,
    support::{Answer, Client, Node, eventually, free_addr},
};

/// Places of the edge.
const PLACES: usize = 32;

/// What an origin says of an object: to protect it, to describe it, and to act on the site that serves it.
const PROTECTED: &str = "content-disposition: attachment; filename=\"a.png\"\r\ncontent-language: de\r\n\
    link: </style.css>; rel=preload\r\nexpires: Sun, 06 Nov 2044 08:49:37 GMT\r\nvary: Accept-Encoding\r\n\
    x-frame-options: DENY\r\nx-own: kept\r\nservice-worker-allowed: /\r\naccess-control-allow-origin: *\r\n\
    clear-site-data: \"*\"\r\nconnection: x-hop\r\nx-hop: 1\r\n";

/// An origin that never answers below `/slow/`, and elsewhere at once with what the path says.
fn origin() -> SocketAddr {
    scripted_server::start(serve)
}

fn serve(stream: TcpStream) -> io::Result<()> {
    let (mut reader, mut writer) = (BufReader::new(stream.try_clone()?), stream);
    loop {
        let (mut path, mut line) = (String::new(), String::new());
        while reader.read_line(&mut line)? > 2 {
            if path.is_empty() {
                path = line.split(' ').nth(1).unwrap_or_default().to_owned();
            }
            line.clear();
        }
        if path.is_empty() || path.starts_with("/slow/") {
            return reader.read_line(&mut line).map(drop);
        }
        let media_type = match path.as_str() {
            "/page" => "text/html",
            "/drawing" => "image/svg+xml; charset=utf-8",
            _ => "image/png",
        };
        let more = if path == "/protected" { PROTECTED } else { "" };
        write!(
            writer,
            "HTTP/1.1 200 OK\r\n{more}content-type: {media_type}\r\ncontent-security-policy: default-src *\r\n\
             cache-control: max-age=60\r\netag: \"v1\"\r\ncontent-length: 4\r\n\r\nbody"
        )?;
    }
}

/// The length of a file that takes long to hash, and no room on a disk.
const HUGE: u64 = 15 << 30;
/// The length of a large file that is hashed at once.
const LARGE: u64 = 2 << 20;

/// A node that runs the edge with few places, a file on its disk, and this origin.
struct Edge {
    _node: Node,
    addr: SocketAddr,
    origin: SocketAddr,
    /// Another one of the same kind.
    other: SocketAddr,
}

impl Edge {
    /// Starts one that has this rate for the fills of one client.
    fn start(fill_rate: u32) -> Self {
        let (dir, addr) = (tempfile::tempdir().unwrap(), free_addr());
        let (origin, other) = (origin(), origin());
        std::fs::create_dir(dir.path().join("public")).unwrap();
        std::fs::write(dir.path().join("public/file.bin"), vec![7; 100_000]).unwrap();
        let node = Node::start_in(
            dir,
            &format!(
                "enabled = false\n[node]\ndata_dir = \"./data\"\n[edge]\nenabled = true\nlisten = \"{addr}\"\nroots = [\"public\"]\nmode = \"live\"\n\
                 fill_timeout = \"30s\"\nallow = [{{ host = \"{origin}\", scheme = \"http\", private = true }},\n\
                 {{ host = \"{other}\", scheme = \"http\", private = true }}]\n\
                 ingress = {{ max_inflight = {PLACES}, timeout_secs = 30, fill_rps_limit = {fill_rate} }}\n"
            ),
        );
        Self { _node: node, addr, origin, other }
    }

    /// One request of the client at 127.0.0.`from`, on a connection of its own.
    fn get(&self, from: u8, path: &str) -> Answer {
        Client::connect_from(from, self.addr).unwrap().get(path).unwrap()
    }

    fn asset(&self, path: &str) -> String {
        format!("/edge/assets/{}{path}", self.origin)
    }
}

#[test]
fn a_client_with_hundreds_of_slow_misses_takes_no_place_from_others() {
    let edge = Edge::start(0);
    // They wait for an origin that never answers, twice as many as there are places.
    let mut hostile: Vec<Client> = (0..2 * PLACES)
        .map(|nth| {
            let mut client = Client::connect_from(2, edge.addr).unwrap();
            client.send(&edge.asset(&format!("/slow/{nth}"))).unwrap();
            client
        })
        .collect();
    // Nobody has answered yet, so whoever is answered was refused: what can be taken is taken.
    let refused = hostile.last_mut().unwrap().receive().unwrap();
    assert_eq!(refused.status, 429, "{refused:?}");
    assert!(refused.header("retry-after").is_some(), "{refused:?}");
    let hit = edge.get(3, "/edge/assets/file.bin");
    assert_eq!((hit.status, hit.bytes.len()), (200, 100_000), "{:?}", hit.headers);
    let miss = edge.get(3, &edge.asset("/picture"));
    assert_eq!((miss.status, miss.body.as_str()), (200, "body"), "{miss:?}");
    drop(hostile);
    eventually("the hostile client is served once it has let go", || {
        (edge.get(2, "/edge/assets/file.bin").status == 200).then_some(())
    });
}

#[test]
fn a_client_whose_files_take_long_to_hash_keeps_no_other_from_large_files() {
    let (dir, addr) = (tempfile::tempdir().unwrap(), free_addr());
    let public = dir.path().join("public");
    std::fs::create_dir(&public).unwrap();
    let file = |name: String, len| std::fs::File::create(public.join(name)).unwrap().set_len(len).unwrap();
    (0..8).for_each(|nth| file(format!("huge-{nth}"), HUGE));
    (0..8).for_each(|nth| file(format!("large-{nth}"), LARGE + nth));
    let _node = Node::start_in(
        dir,
        &format!(
            "enabled = false\n[node]\ndata_dir = \"./data\"\n[edge]\nenabled = true\nlisten = \"{addr}\"\n\
             roots = [\"public\"]\ningress = {{ timeout_secs = 30 }}\n"
        ),
    );
    let _hostile: Vec<Client> = (0..8)
        .map(|nth| {
            let mut client = Client::connect_from(2, addr).unwrap();
            client.send(&format!("/edge/assets/huge-{nth}")).unwrap();
            client
        })
        .collect();
    let others: Vec<Client> = (0..8)
        .map(|nth| {
            let mut client = Client::connect_from(3, addr).unwrap();
            client.send(&format!("/edge/assets/large-{nth}")).unwrap();
            client
        })
        .collect();
    // Two at a time; the rest wait for their turn.
    for (mut client, len) in others.into_iter().zip(LARGE..) {
        let answer = client.receive().unwrap();
        assert_eq!((answer.status, answer.bytes.len() as u64), (200, len), "{:?}", answer.headers);
    }
    // Nor does it keep others from what it waits for itself.
    let mut same = Client::connect_from(2, addr).unwrap();
    same.send("/edge/assets/large-0").unwrap();
    let answer = Client::connect_from(3, addr).unwrap().get("/edge/assets/large-0").unwrap();
    assert_eq!(answer.status, 200, "{:?}", answer.headers);
}

#[test]
fn an_origin_that_hangs_delays_no_other() {
    let edge = Edge::start(0);
    // As many misses as there are fills at once, and as many again, of clients that have nothing else.
    let _waiting: Vec<Client> = (0..16)
        .map(|nth| {
            let mut client = Client::connect_from(10 + nth, edge.addr).unwrap();
            client.send(&edge.asset(&format!("/slow/{nth}"))).unwrap();
            client
        })
        .collect();
    for nth in 0..8 {
        let answer = edge.get(3, &format!("/edge/assets/{}/{nth}", edge.other));
        assert_eq!((answer.status, answer.body.as_str()), (200, "body"), "{answer:?}");
    }
}

#[test]
fn a_client_has_a_rate_for_what_origins_are_asked_and_is_told_when_to_return() {
    let edge = Edge::start(1);
    let mut client = Client::connect_from(2, edge.addr).unwrap();
    let answers = (0..20).map(|nth| client.get(&edge.asset(&format!("/{nth}"))).unwrap());
    let refused = answers.into_iter().find(|answer| answer.status == 429).unwrap();
    assert_eq!(
        (refused.json()["reason"].as_str(), refused.header("retry-after")),
        (Some("quota"), Some("1"))
    );
    assert_eq!(client.get(&edge.asset("/0")).unwrap().status, 200, "what is stored needs no origin");
    assert_eq!(edge.get(3, &edge.asset("/another")).status, 200, "another client has its own rate");
}

#[test]
fn what_an_origin_says_cannot_run_in_the_name_of_the_edge() {
    let edge = Edge::start(0);
    for path in ["/page", "/drawing"] {
        // From the origin, and from the store.
        for answer in [edge.get(2, &edge.asset(path)), edge.get(2, &edge.asset(path))] {
            let policies: Vec<_> =
                answer.headers.iter().filter(|(name, _)| name == "content-security-policy").collect();
            // Browsers keep to both, so that the origin's cannot weaken the edge's.
            assert!(policies.len() == 2 && policies[0].1.starts_with("sandbox;"), "{path}: {answer:?}");
            assert_eq!(policies[1].1, "default-src *", "{path}: {answer:?}");
            assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
        }
    }
    assert_eq!(
        edge.get(2, &edge.asset("/picture")).header("content-security-policy"),
        Some("default-src *"),
        "what an origin asks to be protected from holds"
    );
}

#[test]
fn what_an_origin_says_to_protect_its_objects_is_passed_on() {
    let edge = Edge::start(0);
    // From the origin, and from the store.
    for answer in [edge.get(2, &edge.asset("/protected")), edge.get(2, &edge.asset("/protected"))] {
        assert_eq!(answer.status, 200, "{answer:?}");
        for (name, value) in [
            ("content-disposition", "attachment; filename=\"a.png\""),
            ("content-language", "de"),
            ("link", "</style.css>; rel=preload"),
            ("expires", "Sun, 06 Nov 2044 08:49:37 GMT"),
            ("vary", "Accept-Encoding"),
            ("x-frame-options", "DENY"),
            ("x-own", "kept"),
        ] {
            assert_eq!(answer.header(name), Some(value), "{name}: {answer:?}");
        }
        for name in ["service-worker-allowed", "access-control-allow-origin", "clear-site-data", "x-hop"] {
            assert_eq!(answer.header(name), None, "{name} acts on the edge's site");
        }
    }
}
