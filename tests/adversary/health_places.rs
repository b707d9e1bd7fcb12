//! Servers that hang must not keep the servers of other upstreams from being checked.

use std::{
    io::{Read as _, Write as _},
    net::TcpListener,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use crate::support::{Node, eventually};

/// Servers in each of two upstreams, more than can be checked at once.
const HUNG: usize = 60;

/// Starts a server that answers every request with 200; gives its port and how many it has answered.
fn healthy() -> (u16, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let answered = Arc::<AtomicUsize>::default();
    let counted = Arc::clone(&answered);
    thread::spawn(move || {
        for mut conn in listener.incoming().map_while(Result::ok) {
            let read = conn.read(&mut [0; 4096]);
            if read.is_ok_and(|read| read > 0)
                && conn.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").is_ok()
            {
                counted.fetch_add(1, Ordering::Relaxed);
            }
        }
    });
    (port, answered)
}

#[test]
fn servers_that_hang_leave_the_health_checks_of_other_upstreams_alone() {
    // The kernel accepts the connections, and nobody answers, on every address of this machine.
    let hangs = TcpListener::bind("0.0.0.0:0").unwrap();
    let port = hangs.local_addr().unwrap().port();
    let hung: Vec<String> = (1..=HUNG).map(|at| format!("\"http://127.0.1.{at}:{port}\"")).collect();
    let (well, checks) = healthy();
    let health = "health = { path = \"/healthz\", interval = \"200ms\", timeout = \"60s\" }";
    let _node = Node::start(&format!(
        "route = [{{ path = \"/\", upstream = \"z\" }}, {{ path = \"/a\", upstream = \"a\" }}, {{ path = \"/b\", upstream = \"b\" }}]\n\
         [gateway.upstream.a]\nendpoints = [{hung}]\n{health}\n\
         [gateway.upstream.b]\nendpoints = [{hung}]\n{health}\n\
         [gateway.upstream.z]\nendpoints = [\"http://127.0.0.1:{well}\"]\n{health}\n",
        hung = hung.join(", "),
    ));
    eventually("the healthy server is checked again and again", || {
        (checks.load(Ordering::Relaxed) >= 5).then_some(())
    });
}
