//! A thousand clients who want the same missing object cost its origin one request.

use std::sync::{Arc, Mutex, mpsc};

use super::{
    edge_node::EdgeNode,
    making::noise,
    origin::{Origin, send},
    wire::Wire,
};
use crate::support::eventually;

const CLIENTS: usize = 1000;

#[test]
fn a_thousand_clients_of_one_missing_object_cause_one_origin_request() {
    let body = Arc::new(noise(1, 40_000));
    let (release, released) = mpsc::channel::<()>();
    let (sent, released) = (Arc::clone(&body), Mutex::new(released));
    let origin = Origin::start(move |_, stream| {
        // Nobody gets anything before everybody has asked.
        released.lock().unwrap().recv().ok();
        send(stream, &sent)
    });
    let dir = tempfile::tempdir().unwrap();
    let settings = format!(
        "{}max_conns = 4096\nmax_conns_per_client = 4096\ningress.max_inflight = 4096\ningress.timeout_secs = 300\n\
         fill_timeout = \"5m\"\n",
        origin.settings()
    );
    let node = EdgeNode::start(dir.path(), "", &settings);
    let path = origin.asset("/one");
    let mut clients: Vec<Wire> = (0..CLIENTS).map(|_| Wire::connect(node.edge).unwrap()).collect();
    for client in &mut clients {
        client.send(&path, "").unwrap();
    }
    eventually("all of them wait", || (node.metric("edge_inflight{") >= CLIENTS as f64).then_some(()));
    assert_eq!(origin.asked(), 1, "before the answer");
    release.send(()).unwrap();
    for client in &mut clients {
        let got = client.receive().unwrap();
        assert_eq!((got.status, got.whole), (200, true), "{}", got.reason());
        assert!(got.body == *body, "another body");
    }
    assert_eq!(origin.asked(), 1, "after the answer");
}
