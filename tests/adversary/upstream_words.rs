//! Answers of servers that would send the gateway, or its memory, elsewhere.

use crate::{
    scripted_server::{head_server, json_server},
    support::{Client, Node, UNLIMITED, Upstream, eventually, get, to},
};

#[test]
fn a_redirect_of_a_server_is_passed_on_and_not_followed() {
    let elsewhere = Upstream::start();
    let place = format!("http://{}/secret", elsewhere.addr);
    let said = place.clone();
    let server = head_server(move |head| {
        let status = head.split(['/', ' ']).nth(2).unwrap();
        format!("HTTP/1.1 {status} Elsewhere\r\nlocation: {said}\r\ncontent-length: 0\r\n\r\n")
    });
    let node = Node::start(&format!(
        "{}view.home.parts = [{{ name = \"a\", upstream = \"up\", path = \"/302\", budget = \"30s\" }}]\n",
        to(server)
    ));
    for status in [300, 301, 302, 303, 307, 308] {
        let answer = get(node.gateway, &format!("/{status}")).unwrap();
        assert_eq!((answer.status, answer.header("location")), (status, Some(place.as_str())));
    }
    assert_eq!(get(node.gateway, "/v1/views/home").unwrap().status, 502, "no part of a view");
    assert_eq!(elsewhere.arrived(), 0, "nobody but the configured server was asked");
}

#[test]
fn answers_of_views_count_as_buffered_until_they_are_read() {
    let server = json_server(|_| format!("\"{}\"", "x".repeat(1_000_000)));
    let parts = ["a", "b", "c"]
        .map(|name| format!("{{ name = \"{name}\", upstream = \"up\", path = \"/\", budget = \"30s\" }}"));
    let node = Node::start(&format!(
        "{UNLIMITED}write_timeout = \"60s\"\nlimits.buffer_memory = \"32MiB\"\nview.home.parts = [{}]\n\
         upstream.up.endpoints = [\"http://{server}\"]\n",
        parts.join(", ")
    ));
    let held = |bytes: f64| {
        eventually("so much is buffered", || (node.metric("gateway_buffer_bytes") >= bytes).then_some(()));
    };
    let begin = || {
        let mut client = Client::connect_from(2, node.gateway).unwrap();
        client.send("/v1/views/home").unwrap();
        client.receive_head().map(|head| (client, head)).unwrap()
    };
    // One tenant has a quarter of the memory: two answers of three megabytes.
    let unread = [begin(), begin()];
    held(6_000_000.0);
    assert_eq!(begin().1.status, 429, "its part of the memory is taken");
    let other = Client::connect_from(3, node.gateway).unwrap().get("/v1/views/home").unwrap();
    assert_eq!(other.status, 200, "another tenant has its own part");
    for (mut client, head) in unread {
        assert!(client.receive_body(head).unwrap().bytes.len() > 3_000_000);
    }
    eventually("all of it is given back", || (node.metric("gateway_buffer_bytes") == 0.0).then_some(()));
}
