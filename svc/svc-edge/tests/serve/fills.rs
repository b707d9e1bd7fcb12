//! What one client may have fetched from origins at once.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{SocketAddr, TcpListener},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use svc_edge::{AllowConfig, Mode, OriginScheme, RootConfig};

use crate::support::{Running, eventually, rename_over, write};

/// An origin whose objects are stale when they come, may be served so, and are not given a second time.
struct Origin {
    addr: SocketAddr,
    /// Requests that are not answered.
    held: Arc<AtomicUsize>,
}

impl Origin {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (addr, held) = (listener.local_addr().unwrap(), Arc::<AtomicUsize>::default());
        let counted = Arc::clone(&held);
        thread::spawn(move || {
            for mut stream in listener.incoming().map_while(Result::ok) {
                let held = Arc::clone(&counted);
                thread::spawn(move || {
                    let mut reader = BufReader::new(stream.try_clone().unwrap());
                    let (mut head, mut again) = (String::new(), false);
                    while !again {
                        head.clear();
                        while !head.ends_with("\r\n\r\n") {
                            if !reader.read_line(&mut head).is_ok_and(|len| len > 0) {
                                return;
                            }
                        }
                        again = head.to_ascii_lowercase().contains("if-none-match");
                        if !again {
                            let lifetime = match head.contains("/unstored") {
                                true => "no-store",
                                false => "max-age=1, stale-while-revalidate=600",
                            };
                            let fields = format!("etag: \"t\"\r\ncache-control: {lifetime}\r\nage: 9\r\n");
                            let _ = write!(stream, "HTTP/1.1 200 X\r\n{fields}content-length: 3\r\n\r\nold");
                        }
                    }
                    held.fetch_add(1, Ordering::SeqCst);
                    let _ = reader.read(&mut [0]);
                });
            }
        });
        Self { addr, held }
    }
}

fn in_front_of(origin: &Origin) -> Running {
    Running::start(
        |_| {},
        |config| {
            config.mode = Mode::Live;
            let allow = AllowConfig::new(&origin.addr.to_string());
            config.allow = vec![AllowConfig { scheme: OriginScheme::Http, private: true, ..allow }];
        },
    )
}

#[test]
fn only_what_is_stored_is_said_to_be() {
    let origin = Origin::start();
    let edge = in_front_of(&origin);
    for (name, status) in [("kept", "omnigate; fwd=uri-miss; stored"), ("unstored", "omnigate; fwd=uri-miss")]
    {
        let answer = edge.get(&format!("/edge/assets/{}/{name}", origin.addr));
        assert_eq!((answer.status, answer.header("cache-status")), (200, status), "{name}");
    }
}

#[test]
fn a_client_that_says_how_long_it_waits_is_answered_then() {
    // Connections are made, and nobody accepts them.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let origin = silent.local_addr().unwrap();
    let edge = Running::start(
        |_| {},
        |config| {
            config.mode = Mode::Live;
            // Without the client's word it would wait for an hour.
            config.ingress.timeout_secs = 3600;
            config.fill_timeout = std::time::Duration::from_secs(3600).into();
            let allow = AllowConfig::new(&origin.to_string());
            config.allow = vec![AllowConfig { scheme: OriginScheme::Http, private: true, ..allow }];
        },
    );
    for field in [
        ("request-timeout", "0.05"),
        ("deadline", "1000"),
        ("deadline", "Sun, 06 Nov 1994 08:49:37 GMT"),
        ("x-request-timeout-ms", "50"),
        ("grpc-timeout", "50m"),
    ] {
        let answer = edge.get_with(&format!("/edge/assets/{origin}/object"), &[field]);
        assert_eq!(
            (answer.status, answer.reason().as_str()),
            (504, "downstream_timeout"),
            "{field:?}: {answer:?}"
        );
    }
    // The fetch fails, and the edge can end.
    drop(silent);
}

#[test]
fn refreshes_of_stale_objects_count_toward_the_fills_of_the_client_that_asked() {
    let origin = Origin::start();
    let edge = in_front_of(&origin);
    let path = |name: &str| format!("/edge/assets/{}/{name}", origin.addr);
    for round in 1..=3 {
        for nth in 0..8 {
            let answer = edge.get(&path(&nth.to_string()));
            assert_eq!((answer.status, answer.text().as_str()), (200, "old"), "{round}: {answer:?}");
        }
    }
    // Half of eight workers are for one client.
    eventually("its share is under way", || origin.held.load(Ordering::SeqCst) == 4);
    let answer = edge.get_with(&path("another"), &[("prefer", "respond-async")]);
    assert_eq!((answer.status, answer.reason().as_str()), (429, "busy"), "{answer:?}");
    assert_eq!(origin.held.load(Ordering::SeqCst), 4);
}

#[test]
fn a_change_of_a_file_is_noticed_though_a_look_at_it_was_refused() {
    let origin = Origin::start();
    let edge = Running::start(
        |dir| write(&dir.join("public/a.txt"), b"old"),
        |config| {
            config.mode = Mode::Live;
            config.ingress.max_inflight = 1;
            config.roots.push(RootConfig::new("public".into()));
            let allow = AllowConfig::new(&origin.addr.to_string());
            config.allow = vec![AllowConfig { scheme: OriginScheme::Http, private: true, ..allow }];
        },
    );
    let (file, slow) = ("/edge/assets/a.txt", format!("/edge/assets/{}/slow", origin.addr));
    assert_eq!(edge.get(file).text(), "old");
    assert_eq!(edge.get(&slow).text(), "old");
    // The only place is taken by a request that the origin does not answer.
    let held = edge.open_with(&slow, "cache-control: no-cache\r\n");
    eventually("the origin is asked", || origin.held.load(Ordering::SeqCst) == 1);
    rename_over(&edge.path("public/a.txt"), b"new");
    eventually("a look at the file is due, and refused", || edge.get(file).status == 429);
    drop(held);
    eventually("there is a place", || edge.get("/edge/assets/absent").status == 404);
    assert_eq!(edge.get(file).text(), "new");
}
