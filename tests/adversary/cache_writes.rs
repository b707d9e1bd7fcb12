//! Writes whose answer nobody gets: the server has changed what is stored all the same.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use crate::{
    cache_origin::{Origin, get, is_hit, whole},
    support::{Client, Node, ask, eventually},
};

/// How long the server takes for a write.
const WORK: Duration = Duration::from_millis(300);

/// A server with a page that each write changes, as long as it answers writes like this. The number says how many writes it
/// got before.
fn server(answer: impl Fn(usize) -> String + Send + Sync + 'static) -> Origin {
    let writes = Arc::new(AtomicUsize::new(0));
    Origin::start(move |request| {
        if request.starts_with("GET") {
            let version = format!("v{}", writes.load(Ordering::SeqCst));
            return whole(200, "cache-control: max-age=3600\r\n", &version);
        }
        thread::sleep(WORK);
        answer(writes.fetch_add(1, Ordering::SeqCst))
    })
}

/// A node with the first version of the page in its cache.
fn stored(origin: &Origin, settings: &str) -> Node {
    let node = origin.behind_cache("{}", settings);
    assert_eq!(get(&node, "/", "").body, "v0");
    assert!(is_hit(&get(&node, "/", "")));
    node
}

/// Sends the start of a write, and leaves when it is with the server.
fn leave_after(node: &Node, origin: &Origin, request: &str) {
    let mut client = Client::connect(node.gateway).unwrap();
    let before = origin.count();
    client.send_raw(request).unwrap();
    origin.wait_for(before + 1);
}

#[track_caller]
fn assert_updated(node: &Node, version: &str) {
    eventually("the stored response is gone", || (get(node, "/", "").body == version).then_some(()));
}

#[test]
fn a_write_whose_client_leaves_invalidates_what_is_stored() {
    for method in ["POST", "PUT", "DELETE", "PATCH"] {
        let origin = server(|_| whole(200, "", "done"));
        let node = stored(&origin, "");
        let request = format!("{method} / HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\n\r\nx");
        leave_after(&node, &origin, &request);
        assert_updated(&node, "v1");
    }
}

#[test]
fn a_write_whose_client_leaves_invalidates_what_its_answer_names() {
    let origin = server(|_| whole(201, "location: /\r\n", "done"));
    let node = stored(&origin, "");
    leave_after(&node, &origin, "POST /items HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\n\r\n");
    assert_updated(&node, "v1");
}

#[test]
fn a_write_that_the_server_has_not_answered_in_time_invalidates_what_is_stored() {
    // With the time that the server may have for it, and without any.
    for settings in ["", "upstream.up.finish_abandoned = \"100ms\"", "upstream.up.finish_abandoned = \"0s\""]
    {
        let origin = server(|_| whole(200, "", "done"));
        let node = stored(&origin, settings);
        let request =
            "PUT / HTTP/1.1\r\nhost: a\r\nx-request-timeout-ms: 50\r\ncontent-length: 1\r\n\r\nx".to_owned();
        assert_eq!(ask(node.gateway, request).unwrap().status, 504);
        eventually("the stored response is gone", || (!is_hit(&get(&node, "/", ""))).then_some(()));
    }
}

#[test]
fn a_write_whose_server_breaks_off_invalidates_what_is_stored() {
    let origin = server(|_| "nonsense\r\nconnection: close\r\n\r\n".to_owned());
    let node = stored(&origin, "");
    let request = "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\n\r\nx";
    assert_eq!(ask(node.gateway, request).unwrap().status, 502);
    assert_updated(&node, "v1");
}

#[test]
fn a_write_that_is_repeated_invalidates_whatever_is_answered_the_second_time() {
    let origin = server(|before| match before {
        0 => "nonsense\r\nconnection: close\r\n\r\n".to_owned(),
        _ => whole(404, "", "gone already"),
    });
    let node = stored(&origin, "");
    let answer = ask(node.gateway, "DELETE / HTTP/1.1\r\nhost: a\r\n\r\n").unwrap();
    assert_eq!((answer.status, origin.count()), (404, 3));
    assert_updated(&node, "v2");
}

#[test]
fn a_write_that_the_server_refuses_invalidates_nothing_although_its_client_leaves() {
    let origin = server(|_| whole(405, "", "read only"));
    let node = stored(&origin, "");
    let request = "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\n\r\nx";
    leave_after(&node, &origin, request);
    let finishing = "tasks_spawned_total{node=\"omnigate\",service=\"gateway\",kind=\"abandoned\"}";
    eventually("the request is left", || (node.metric(finishing) == 1.0).then_some(()));
    let inside = "fq_inflight{node=\"omnigate\",service=\"gateway\",class=\"anon\"}";
    eventually("the server has answered", || (node.metric(inside) == 0.0).then_some(()));
    assert!(is_hit(&get(&node, "/", "")));
}
