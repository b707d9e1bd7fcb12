//! One node of a chaos run: its process, what publishes through it, and what is heard at it.

use std::{
    collections::BTreeMap,
    io::{self, BufRead, BufReader, Write},
    net::{SocketAddr, TcpStream},
    sync::{
        Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

use serde_json::Value;

use super::account::{Account, Life};
use crate::{
    overlay::node::OverlayNode,
    support::{Client, Flag},
};

/// Threads that publish through one node: one that waits for a verdict does not hold the others up.
pub(super) const PUBLISHERS: usize = 4;
/// How long a stream of events may be silent; the node says something every 15 s.
const SILENCE: Duration = Duration::from_secs(30);
/// Until the next attempt to reach a node that is down.
const RETRY: Duration = Duration::from_millis(20);

/// One node, and what is known of it.
pub(super) struct Place {
    pub(super) number: usize,
    node: Mutex<OverlayNode>,
    pub(super) admin: SocketAddr,
    /// Whether its process is there.
    is_up: AtomicBool,
    /// Bodies that it was given to publish.
    pub(super) attempted: AtomicU64,
    /// How many the node says that it has published.
    pub(super) published: AtomicU64,
    /// Since the node was last started.
    account: Mutex<Account>,
}

impl Place {
    pub(super) fn new(number: usize, node: OverlayNode) -> Self {
        Self {
            number,
            admin: node.node.admin,
            node: Mutex::new(node),
            is_up: AtomicBool::new(true),
            attempted: AtomicU64::new(0),
            published: AtomicU64::new(0),
            account: Mutex::default(),
        }
    }

    pub(super) fn node(&self) -> MutexGuard<'_, OverlayNode> {
        self.node.lock().unwrap()
    }

    pub(super) fn account(&self) -> MutexGuard<'_, Account> {
        self.account.lock().unwrap()
    }

    /// Kills the node without a word, and starts it again after a while.
    pub(super) fn kill(&self, pause: Duration) {
        let mut node = self.node();
        self.is_up.store(false, Relaxed);
        node.node.kill();
        thread::sleep(pause);
        node.node.start_again();
        self.is_up.store(true, Relaxed);
    }

    /// Publishes one after the other until it is over, as well as the node can.
    pub(super) fn publish(&self, pace: Duration, over: &Flag) {
        let mut client = None;
        while !over.is_set() {
            thread::sleep(pace);
            if self.is_up.load(Relaxed) && self.publish_one(&mut client).is_none() {
                // What became of it nobody knows, so it is not tried again.
                client = None;
            }
        }
    }

    /// Publishes a body that nobody else does; its publisher's life and its number, if the node says so.
    pub(super) fn publish_one(&self, client: &mut Option<Client>) -> Option<(Life, u64)> {
        if client.is_none() {
            *client = Client::connect(self.admin).ok();
        }
        let body = format!("{}/{}", self.number, self.attempted.fetch_add(1, Relaxed) + 1);
        let head = "POST /overlay/pub/news HTTP/1.1\r\nhost: localhost\r\nx-omnigate: 1\r\n";
        let request = format!("{head}content-length: {}\r\n\r\n{body}", body.len());
        let answer = client.as_mut()?.ask(request).ok()?;
        if answer.status != 200 {
            return None;
        }
        self.published.fetch_add(1, Relaxed);
        let id = &answer.json()["id"];
        let life = (id["publisher"].as_str()?.to_owned(), id["incarnation"].as_u64()?);
        Some((life, id["seq"].as_u64()?))
    }

    /// Listens until it is over, and keeps the account. It goes on where it was after a break, and begins anew when the node
    /// was started again: with all that the node has told since its start.
    pub(super) fn listen(&self, places: &[Self], over: &Flag) {
        // An event that no node has ever told: all that is kept follows.
        let mut last = "1-1".to_owned();
        while !over.is_set() {
            if self.listen_once(places, over, &mut last).is_err() {
                thread::park_timeout(RETRY);
            }
        }
    }

    fn listen_once(&self, places: &[Self], over: &Flag, last: &mut String) -> io::Result<()> {
        let mut socket = TcpStream::connect(self.admin)?;
        socket.set_read_timeout(Some(SILENCE))?;
        write!(socket, "GET /overlay/sub/news HTTP/1.1\r\nhost: localhost\r\nLast-Event-ID: {last}\r\n\r\n")?;
        let (mut lines, mut line) = (BufReader::new(socket), String::new());
        let (mut id, mut name) = (String::new(), String::new());
        while !over.is_set() {
            line.clear();
            if lines.read_line(&mut line)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let line = line.trim_end();
            if let Some(value) = line.strip_prefix("id: ") {
                value.clone_into(&mut id);
            } else if let Some(value) = line.strip_prefix("event: ") {
                value.clone_into(&mut name);
            } else if let Some(data) = line.strip_prefix("data: ") {
                let event: Value = serde_json::from_str(data).map_err(io::Error::other)?;
                self.enter(places, (last, &id), &name, &event);
                last.clone_from(&id);
            }
        }
        Ok(())
    }

    fn enter(&self, places: &[Self], (last, id): (&str, &str), name: &str, event: &Value) {
        let parts = |id: &str| {
            let (life, number) = id.split_once('-').unwrap_or_default();
            (life.to_owned(), number.parse().unwrap_or(0_u64))
        };
        let ((life_before, _), (life, number)) = (parts(last), parts(id));
        let mut account = self.account();
        if name == "not_resumed" {
            return;
        }
        if life != life_before {
            // What came before the first event that is kept is told to nobody.
            *account = Account::default();
            account.unread = number.saturating_sub(1);
        }
        let attempted =
            |node: usize| places.get(node).map_or(0, |place: &Self| place.attempted.load(Relaxed));
        account.enter(name, event, attempted);
    }
}

/// The lives that every node has to account for, and up to which number: those that go on up to what was published in them
/// last, and those before up to what any node knows of them. A node remembers the latest four of a publisher.
pub(super) fn due(places: &[Place], present: &BTreeMap<Life, u64>) -> BTreeMap<Life, u64> {
    let mut known = BTreeMap::<Life, u64>::new();
    for place in places {
        let account = place.account();
        for life in account.told.keys() {
            let highest = known.entry(life.clone()).or_default();
            *highest = (*highest).max(account.highest(life));
        }
    }
    known.extend(present.iter().map(|(life, seq)| (life.clone(), *seq)));
    let later = |life: &Life| known.keys().filter(|other| other.0 == life.0 && other.1 > life.1).count();
    known.iter().filter(|(life, _)| later(life) < 4).map(|(life, seq)| (life.clone(), *seq)).collect()
}
