//! Clients that have a healthy origin fail, to have the edge leave it alone for everybody.

use std::{
    io::{self, BufRead, BufReader, Write},
    net::{SocketAddr, TcpStream},
};

use crate::{
    scripted_server,
    support::{Answer, Client, Node, eventually, free_addr},
};

/// Far more than the breaker's failures in a row.
const FAILURES: usize = 30;

/// An origin that breaks off below `/broken/`, is silent below `/slow/` and answers elsewhere.
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
        match path.split('/').nth(1) {
            None | Some("broken") => return Ok(()),
            Some("slow") => return reader.read_line(&mut line).map(drop),
            _ => {}
        }
        write!(writer, "HTTP/1.1 200 OK\r\nno-cache: 1\r\netag: \"v1\"\r\ncontent-length: 4\r\n\r\nbody")?;
    }
}

struct Edge {
    _node: Node,
    addr: SocketAddr,
    origin: SocketAddr,
}

impl Edge {
    fn start(settings: &str) -> Self {
        let (addr, origin) = (free_addr(), scripted_server::start(serve));
        let node = Node::start(&format!(
            "enabled = false\n[node]\ndata_dir = \"./data\"\n[edge]\nenabled = true\nlisten = \"{addr}\"\nmode = \"live\"\n\
             allow = [{{ host = \"{origin}\", scheme = \"http\", private = true }}]\n\
             ingress = {{ timeout_secs = 30, rps_limit = 0, fill_rps_limit = 0 }}\nretry.live_fill.max_retries = 0\n{settings}\n"
        ));
        Self { _node: node, addr, origin }
    }

    /// One request of the client at 127.0.0.`from`.
    fn get(&self, from: u8, path: &str) -> Answer {
        let path = format!("/edge/assets/{}{path}", self.origin);
        Client::connect_from(from, self.addr).unwrap().get(&path).unwrap()
    }

    #[track_caller]
    fn assert_answers(&self, from: u8, path: &str) {
        let answer = self.get(from, path);
        assert_eq!((answer.status, answer.body.as_str()), (200, "body"), "{path}: {answer:?}");
    }
}

#[test]
fn a_client_that_asks_for_what_breaks_off_does_not_have_the_origin_left_alone() {
    let edge = Edge::start("");
    for nth in 0..FAILURES {
        if nth.is_multiple_of(10) {
            edge.assert_answers(2, &format!("/fine/{nth}"));
        }
        assert_eq!(edge.get(3, &format!("/broken/{nth}")).status, 502);
    }
    edge.assert_answers(2, "/fine/last");
}

#[test]
fn a_client_that_asks_for_what_takes_too_long_does_not_have_the_origin_left_alone() {
    let edge = Edge::start("fill_timeout = \"2s\"");
    edge.assert_answers(2, "/fine/first");
    let mut hostile: Vec<Client> = (0..8)
        .map(|nth| {
            let mut client = Client::connect_from(3, edge.addr).unwrap();
            client.send(&format!("/edge/assets/{}/slow/{nth}", edge.origin)).unwrap();
            client
        })
        .collect();
    for client in &mut hostile {
        assert_eq!(client.receive().unwrap().status, 504);
    }
    edge.assert_answers(2, "/fine/last");
}

#[test]
fn a_client_that_was_alone_before_has_the_origin_left_alone_for_itself_alone() {
    let edge = Edge::start("");
    let is_left_alone = |answer: &Answer| answer.body.contains("left alone");
    let refused = (0..FAILURES).map(|nth| edge.get(3, &format!("/broken/{nth}"))).find(is_left_alone);
    let refused = refused.expect("it is left alone by the only one who asks for anything");
    assert!(refused.header("retry-after").is_some(), "{refused:?}");
    edge.assert_answers(2, "/fine/first");
}

#[test]
fn an_origin_that_fails_everybody_is_left_alone_by_everybody() {
    let edge = Edge::start("");
    (2..6).for_each(|from| edge.assert_answers(from, &format!("/fine/{from}")));
    let mut nth = 0;
    eventually("it is left alone", || {
        let left_alone = (2..6).any(|from| {
            nth += 1;
            edge.get(from, &format!("/broken/{nth}")).body.contains("left alone")
        });
        left_alone.then_some(())
    });
    assert_eq!(edge.get(9, "/broken/newcomer").status, 502, "a newcomer finds out once");
    assert!(edge.get(9, "/fine/newcomer").body.contains("left alone"), "and then leaves it alone");
}

#[test]
fn three_clients_that_ask_for_what_breaks_off_do_not_take_the_origin_from_a_quiet_one() {
    let edge = Edge::start("");
    edge.assert_answers(2, "/fine/first");
    // For longer than the one answer speaks for the origin.
    let is_left_alone =
        |from: u8, nth: usize| edge.get(from, &format!("/broken/{from}/{nth}")).body.contains("left alone");
    let _ = (0..FAILURES * 15).any(|nth| (3..6).any(|from| is_left_alone(from, nth)));
    edge.assert_answers(2, "/fine/last");
}
