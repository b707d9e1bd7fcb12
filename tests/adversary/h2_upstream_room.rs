//! Servers that take few requests at once on an HTTP/2 connection: other requests get connections of their own.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use crate::{
    h2_upstream,
    support::{Client, Node, to},
};

#[test]
fn requests_do_not_wait_for_a_server_that_takes_one_at_a_time_on_a_connection() {
    // More than four connections for each core.
    let requests = 4 * thread::available_parallelism().unwrap().get() + 8;
    // One after another first, so that each core has learned what the server takes.
    let alone = 16;
    let arrived = Arc::new(AtomicUsize::new(0));
    let (counted, all) = (Arc::clone(&arrived), Arc::clone(&arrived));
    let count = move |_| {
        counted.fetch_add(1, Ordering::SeqCst);
        "ok".to_owned()
    };
    // It answers the others when it has all of them.
    let is_ready = move || {
        let arrived = all.load(Ordering::SeqCst);
        arrived <= alone || arrived >= alone + requests
    };
    let server = h2_upstream::start(1, count, is_ready);
    let settings = "upstream.up.protocol = \"h2\"\nupstream.up.retry.max_tries = 1\n";
    let node = Node::start(&format!("{}{settings}", to(server)));
    let ask = || Client::connect(node.gateway).unwrap().get("/").unwrap().status;
    (0..alone).for_each(|_| assert_eq!(ask(), 200));
    let statuses: Vec<u16> = thread::scope(|s| {
        let mut asking = Vec::with_capacity(requests);
        asking.extend((0..requests).map(|_| s.spawn(ask)));
        asking.into_iter().map(|asking| asking.join().unwrap()).collect()
    });
    assert_eq!(statuses, vec![200; requests]);
}

#[test]
fn connections_to_such_a_server_stay_within_their_limit() {
    let server = h2_upstream::start(1, |_| "ok".to_owned(), || true);
    let settings = "upstream.up.protocol = \"h2\"\nupstream.up.max_conns = 3\n";
    let node = Node::start(&format!("{}{settings}", to(server)));
    thread::scope(|s| {
        for _ in 0..16 {
            s.spawn(|| {
                let mut client = Client::connect(node.gateway).unwrap();
                for _ in 0..10 {
                    assert_eq!(client.get("/").unwrap().status, 200);
                }
            });
        }
    });
}
