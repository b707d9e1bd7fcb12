//! Who waits for whom while a response is not stored: nobody waits in another tenant's queue, and nobody begins again because
//! the client that asked first has left.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use crate::{
    cache_origin::{Origin, fresh, target, unchanged, whole},
    cache_sharing::Door,
    support::{Answer, Client, Node, eventually},
};

/// The attacker's and the victim's addresses.
const ATTACKER: u8 = 10;
const VICTIM: u8 = 200;
/// Slots of the node. One tenant alone gets fewer.
const SLOTS: usize = 8;

/// An attacker that has as many requests with the server as it may, and more in its queue. None is answered before the door
/// opens.
struct Crowd {
    door: Arc<Door>,
    pages: Arc<AtomicUsize>,
    node: Node,
    origin: Origin,
    clients: Vec<Client>,
}

impl Crowd {
    /// A server that answers requests for `/page` with `page`, and others once the door is open.
    fn gather(page: impl Fn(&str) -> String + Send + Sync + 'static) -> Self {
        let (door, pages) = (Arc::new(Door::default()), Arc::<AtomicUsize>::default());
        let (waits, counted) = (Arc::clone(&door), Arc::clone(&pages));
        let origin = Origin::start(move |request| {
            if target(request) == "/page" {
                counted.fetch_add(1, Ordering::SeqCst);
                return page(request);
            }
            waits.pass();
            fresh("slow")
        });
        let settings = format!("fair_queue = {{ max_inflight = {SLOTS}, max_wait = \"15s\" }}");
        let node = origin.behind_cache("{}", &settings);
        Self { door, pages, node, origin, clients: Vec::new() }
    }

    fn come(&mut self) {
        for nth in 0..2 * SLOTS {
            let mut client = self.client(ATTACKER);
            client.send(&format!("/slow/{nth}")).unwrap();
            self.clients.push(client);
        }
        eventually("the attacker has all that it may", || {
            (self.origin.count() - self.pages() + self.waiting() == 2 * SLOTS).then_some(())
        });
        assert!(self.waiting() > 0);
    }

    fn client(&self, from: u8) -> Client {
        Client::connect_from(from, self.node.gateway).unwrap()
    }

    fn pages(&self) -> usize {
        self.pages.load(Ordering::SeqCst)
    }

    /// How many requests wait for slots.
    fn waiting(&self) -> usize {
        let waiting = self.node.metric("queue_depth{node=\"omnigate\",service=\"gateway\",queue=\"sched\"}");
        format!("{waiting}").parse().unwrap()
    }

    /// Waits until one more request waits for a slot than before.
    fn wait_for_one_more(&self, before: usize) {
        eventually("one more waits", || (self.waiting() > before).then_some(()));
    }
}

fn assert_page(answer: &Answer) {
    assert_eq!((answer.status, answer.body.as_str()), (200, "page"), "{answer:?}");
}

#[test]
fn nobody_waits_in_the_queue_of_a_tenant_that_asked_first() {
    let mut crowd = Crowd::gather(|_| fresh("page"));
    crowd.come();
    let waiting = crowd.waiting();
    let mut first = crowd.client(ATTACKER);
    first.send("/page").unwrap();
    crowd.wait_for_one_more(waiting);
    let mut victim = crowd.client(VICTIM);
    victim.send("/page").unwrap();
    assert_page(&victim.receive().unwrap());
    // Nor does the attacker wait for its own queue any more: all have the same answer.
    assert_page(&first.receive().unwrap());
    assert_eq!(crowd.pages(), 1, "the server is asked once");
    crowd.door.open();
    for client in &mut crowd.clients {
        assert_eq!(client.receive().unwrap().body, "slow");
    }
}

#[test]
fn nobody_waits_in_the_queue_of_a_tenant_for_whom_a_response_is_validated() {
    let mut crowd = Crowd::gather(|request| {
        let fields = "cache-control: max-age=60, stale-while-revalidate=600\r\nage: 100\r\netag: \"1\"\r\n";
        if request.contains("if-none-match") { unchanged(fields) } else { whole(200, fields, "page") }
    });
    assert_page(&crowd.client(VICTIM).get("/page").unwrap());
    crowd.come();
    let waiting = crowd.waiting();
    // It has the stale response, which is to be validated meanwhile, with a slot of the attacker's.
    assert_page(&crowd.client(ATTACKER).get("/page").unwrap());
    crowd.wait_for_one_more(waiting);
    let mut victim = crowd.client(VICTIM);
    victim.send_raw("GET /page HTTP/1.1\r\nhost: localhost\r\ncache-control: max-age=0\r\n\r\n").unwrap();
    assert_page(&victim.receive().unwrap());
    assert_eq!(
        crowd.pages(),
        2,
        "the server is asked for the victim while the attacker's turn does not come"
    );
    assert!(crowd.waiting() >= waiting);
    crowd.door.open();
}

#[test]
fn requests_of_one_tenant_for_the_same_wait_as_one() {
    let mut crowd = Crowd::gather(|_| fresh("page"));
    crowd.come();
    let waiting = crowd.waiting();
    let mut clients: Vec<_> = (0..20).map(|_| crowd.client(ATTACKER)).collect();
    clients.iter_mut().for_each(|client| client.send("/page").unwrap());
    eventually("all of them wait", || (crowd.node.metric("gateway_cache_waiting{") >= 19.0).then_some(()));
    assert_eq!(crowd.waiting(), waiting + 1, "one of them is in the queue");
    crowd.door.open();
    clients.iter_mut().for_each(|client| assert_page(&client.receive().unwrap()));
    assert_eq!(crowd.pages(), 1);
}

/// A server that answers `shared` once its door is open, and a node in front of it.
fn held_back() -> (Arc<Door>, Origin, Node) {
    let door = Arc::new(Door::default());
    let waits = Arc::clone(&door);
    let origin = Origin::start(move |_| {
        waits.pass();
        fresh("shared")
    });
    let node = origin.behind_cache("{}", "");
    (door, origin, node)
}

#[test]
fn a_client_in_a_hurry_that_asked_first_has_nobody_begin_again() {
    let (door, origin, node) = held_back();
    let mut hurried = Client::connect_from(ATTACKER, node.gateway).unwrap();
    hurried.send_raw("GET / HTTP/1.1\r\nhost: localhost\r\nx-request-timeout-ms: 3000\r\n\r\n").unwrap();
    origin.wait_for(1);
    let mut others: Vec<_> = (0..10).map(|_| Client::connect_from(VICTIM, node.gateway).unwrap()).collect();
    others.iter_mut().for_each(|client| client.send("/").unwrap());
    assert_eq!(hurried.receive().unwrap().status, 504);
    door.open();
    for client in &mut others {
        assert_eq!(client.receive().unwrap().body, "shared");
    }
    assert_eq!(origin.count(), 1, "the server goes on with the first request");
}

#[test]
fn a_client_that_leaves_has_nobody_begin_again() {
    let (door, origin, node) = held_back();
    let mut leader = Client::connect_from(ATTACKER, node.gateway).unwrap();
    leader.send("/").unwrap();
    origin.wait_for(1);
    let mut others: Vec<_> = (0..10).map(|_| Client::connect_from(VICTIM, node.gateway).unwrap()).collect();
    others.iter_mut().for_each(|client| client.send("/").unwrap());
    let waiting = || node.metric("gateway_cache_waiting{");
    eventually("they wait for the first", || (waiting() == 11.0).then_some(()));
    drop(leader);
    eventually("the first has left", || (waiting() == 10.0).then_some(()));
    door.open();
    for client in &mut others {
        assert_eq!(client.receive().unwrap().body, "shared");
    }
    assert_eq!(origin.count(), 1, "the server goes on with the first request");
}

#[test]
fn a_request_that_nobody_waits_for_is_given_up() {
    let (door, origin, node) = held_back();
    let mut leader = Client::connect(node.gateway).unwrap();
    leader.send("/").unwrap();
    origin.wait_for(1);
    drop(leader);
    eventually("it is given up", || (node.metric("gateway_cache_waiting{") == 0.0).then_some(()));
    let mut next = Client::connect(node.gateway).unwrap();
    next.send("/").unwrap();
    origin.wait_for(2);
    door.open();
    assert_eq!(next.receive().unwrap().body, "shared");
}

#[test]
fn five_hundred_clients_ask_the_server_once() {
    let (door, origin, node) = held_back();
    let mut clients: Vec<_> = (0..500)
        .map(|nth: u32| Client::connect_from(u8::try_from(10 + nth % 100).unwrap(), node.gateway).unwrap())
        .collect();
    thread::scope(|scope| {
        for some in clients.chunks_mut(125) {
            scope.spawn(move || some.iter_mut().for_each(|client| client.send("/").unwrap()));
        }
    });
    origin.wait_for(1);
    door.open();
    for client in &mut clients {
        assert_eq!(client.receive().unwrap().body, "shared");
    }
    assert_eq!(origin.count(), 1);
}
