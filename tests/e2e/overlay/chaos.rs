//! Nodes in a ring that are killed, stopped and cut off from each other while all of them publish. Whatever a subscriber's
//! node comes to know of is heard or named, nothing twice, and nothing that nobody published.
//!
//! `OMNIGATE_CHAOS_RUNS`, `OMNIGATE_CHAOS_SECONDS` and `OMNIGATE_CHAOS_SEED` say how often, how long, and which faults.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;

use super::{
    node::{Home, Listening, OverlayNode},
    relay::Relay,
};
use crate::support::{Flag, PATIENCE, ask};

const NODES: usize = 5;
/// Between two publications of one node.
const PACE: Duration = Duration::from_millis(10);
/// Between two faults.
const CALM: Duration = Duration::from_millis(700);

/// Whose publications: the publisher, in one of its lives.
type Life = (String, u64);

/// One node, and what is known of it.
struct Place {
    node: Mutex<OverlayNode>,
    admin: std::net::SocketAddr,
    /// Its subscriber, since it was last started.
    listening: Mutex<Listening>,
    is_up: AtomicBool,
    /// Whether it was killed and started again: its subscriber did not hear what came before it subscribed.
    was_killed: AtomicBool,
}

/// What everybody was about to publish, and what became of it.
#[derive(Default)]
struct Book {
    bodies: Mutex<BTreeSet<String>>,
    /// What nodes said they have published.
    published: Mutex<BTreeMap<Life, BTreeSet<u64>>>,
}

fn setting(name: &str, usual: u64) -> u64 {
    std::env::var(name).map_or(usual, |value| value.parse().unwrap())
}

/// Nodes in a ring, each of which dials the next one and the one after it through links of its own.
fn start() -> (Vec<Place>, Vec<Relay>) {
    let homes: Vec<_> = (0..NODES).map(|_| Home::new()).collect();
    let ids: Vec<_> = homes.iter().map(|home| home.id.clone()).collect();
    let mut links = Vec::new();
    let mut nodes: Vec<OverlayNode> = Vec::new();
    for home in homes {
        let mut dialled = Vec::new();
        for back in [1, 2] {
            if let Some(node) = nodes.len().checked_sub(back).map(|at| &nodes[at]) {
                let link = Relay::to(node.addr);
                dialled.push(format!("\"{}@{}\"", node.id, link.addr));
                links.push(link);
            }
        }
        let allow: Vec<_> = ids.iter().map(|id| format!("\"{id}\"")).collect();
        let lines = format!(
            "topics = [\"news\"]\ntimeouts.idle = \"6s\"\npeer = {{ max_rps = 0 }}\nallow = [{}]\npeers = [{}]\n",
            allow.join(", "),
            dialled.join(", ")
        );
        nodes.push(OverlayNode::start(home, &lines));
    }
    let place = |node: OverlayNode| Place {
        admin: node.node.admin,
        listening: Mutex::new(node.subscribe("news")),
        node: Mutex::new(node),
        is_up: AtomicBool::new(true),
        was_killed: AtomicBool::new(false),
    };
    (nodes.into_iter().map(place).collect(), links)
}

/// Publishes until it is over, as well as the node can.
fn publish(number: usize, place: &Place, book: &Book, over: &Flag) {
    for count in 0_u64.. {
        if over.is_set() {
            return;
        }
        thread::sleep(PACE);
        if !place.is_up.load(Relaxed) {
            continue;
        }
        let body = format!("{number}/{count}");
        book.bodies.lock().unwrap().insert(body.clone());
        let head = "POST /overlay/pub/news HTTP/1.1\r\nhost: localhost\r\nx-omnigate: 1\r\n";
        let request = format!("{head}content-length: {}\r\nconnection: close\r\n\r\n{body}", body.len());
        if let Ok(answer) = ask(place.admin, request)
            && answer.status == 200
        {
            let id = &answer.json()["id"];
            let life = (id["publisher"].as_str().unwrap().to_owned(), id["incarnation"].as_u64().unwrap());
            book.published.lock().unwrap().entry(life).or_default().insert(id["seq"].as_u64().unwrap());
        }
    }
}

/// Does harm, and makes up for it.
fn disturb(places: &[Place], links: &[Relay], rng: &mut fastrand::Rng) -> &'static str {
    let place = &places[rng.usize(..places.len())];
    match rng.u8(..4) {
        0 => {
            let mut node = place.node.lock().unwrap();
            place.is_up.store(false, Relaxed);
            place.was_killed.store(true, Relaxed);
            node.node.kill();
            thread::sleep(CALM);
            node.node.start_again();
            *place.listening.lock().unwrap() = node.subscribe("news");
            place.is_up.store(true, Relaxed);
            "killed"
        }
        1 => {
            let node = place.node.lock().unwrap();
            node.node.signal("STOP");
            thread::sleep(CALM * 2);
            node.node.signal("CONT");
            "stopped"
        }
        2 => {
            let first = rng.usize(..links.len());
            let cut: Vec<_> = (0..3).map(|next| &links[(first + next) % links.len()]).collect();
            cut.iter().for_each(|link| link.part(true));
            thread::sleep(CALM * 2);
            cut.iter().for_each(|link| link.part(false));
            "cut"
        }
        _ => {
            links[rng.usize(..links.len())].reset();
            "reset"
        }
    }
}

/// What one subscriber heard and was told of as missing.
#[derive(Default)]
struct Account {
    /// It begins with the first number of each life that it heard or was told of, not with one.
    is_late: bool,
    heard: BTreeMap<Life, BTreeSet<u64>>,
    named: BTreeMap<Life, BTreeSet<u64>>,
    unread: u64,
}

impl Account {
    fn enter(&mut self, event: &Value, bodies: &BTreeSet<String>) {
        let life =
            || (event["publisher"].as_str().unwrap().to_owned(), event["incarnation"].as_u64().unwrap());
        match event["event"].as_str() {
            Some("publication") => {
                assert!(bodies.contains(event["text"].as_str().unwrap()), "invented: {event}");
                let seq = event["seq"].as_u64().unwrap();
                assert!(self.heard.entry(life()).or_default().insert(seq), "twice: {event}");
            }
            Some("gap") => {
                let run = event["from"].as_u64().unwrap()..=event["to"].as_u64().unwrap();
                self.named.entry(life()).or_default().extend(run);
            }
            _ => self.unread += event["missed"].as_u64().unwrap_or_default(),
        }
    }

    /// The numbers of a life up to this one that were neither heard nor named.
    fn unaccounted(&self, life: &Life, upto: u64) -> Vec<u64> {
        let has = |all: &BTreeMap<Life, BTreeSet<u64>>, seq: &u64| {
            all.get(life).is_some_and(|seqs| seqs.contains(seq))
        };
        (self.first(life)..=upto).filter(|seq| !has(&self.heard, seq) && !has(&self.named, seq)).collect()
    }

    /// The first number of a life that has to be accounted for.
    fn first(&self, life: &Life) -> u64 {
        let seen = [&self.heard, &self.named].into_iter().filter_map(|all| all.get(life)?.first());
        if self.is_late { seen.min().copied().unwrap_or(u64::MAX) } else { 1 }
    }

    /// The highest number of a life that is known here.
    fn highest(&self, life: &Life) -> u64 {
        [&self.heard, &self.named]
            .into_iter()
            .filter_map(|all| all.get(life)?.last())
            .max()
            .copied()
            .unwrap_or(0)
    }

    /// What is not accounted for: of lives that go on all that was published, of others all up to what is known here.
    fn open(&self, published: &BTreeMap<Life, BTreeSet<u64>>, present: &BTreeSet<Life>) -> usize {
        let lives: BTreeSet<&Life> = self.heard.keys().chain(self.named.keys()).chain(present).collect();
        let upto = |life: &Life| match present.contains(life) {
            true => published.get(life).and_then(BTreeSet::last).copied().unwrap_or(0),
            false => self.highest(life),
        };
        lives.into_iter().map(|life| self.unaccounted(life, upto(life)).len()).sum()
    }
}

/// One run; how long each node took to account for everything once all was well.
fn run(seed: u64, length: Duration) -> Vec<Duration> {
    let (places, links) = start();
    let (book, over) = (Book::default(), Flag::default());
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut faults = BTreeMap::<&str, u32>::new();
    thread::scope(|scope| {
        let _over = over.set_at_the_end();
        for (number, place) in places.iter().enumerate() {
            let (book, over) = (&book, &over);
            scope.spawn(move || publish(number, place, book, over));
        }
        let begun = Instant::now();
        while begun.elapsed() < length {
            thread::sleep(CALM);
            *faults.entry(disturb(&places, &links, &mut rng)).or_default() += 1;
        }
        thread::sleep(CALM);
    });
    let healed = Instant::now();
    let (bodies, published) = (book.bodies.into_inner().unwrap(), book.published.into_inner().unwrap());
    let latest = |publisher: &String| published.keys().filter(|life| life.0 == *publisher).max().cloned();
    let present: BTreeSet<Life> = published.keys().filter_map(|life| latest(&life.0)).collect();
    let mut took = Vec::new();
    let (mut heard, mut named, mut unread) = (0, 0, 0);
    for place in &places {
        let is_late = place.was_killed.load(Relaxed);
        let (listening, mut account) =
            (place.listening.lock().unwrap(), Account { is_late, ..Account::default() });
        let mut last = Instant::now();
        // A subscriber that was too slow is told how many it missed, not which.
        while account.open(&published, &present) as u64 > account.unread {
            match listening.next_within(Duration::from_millis(50)) {
                Some(event) => account.enter(&event, &bodies),
                None => assert!(
                    last.elapsed() < PATIENCE,
                    "{} are unaccounted for",
                    account.open(&published, &present)
                ),
            }
            while let Some(event) = listening.next_within(Duration::ZERO) {
                account.enter(&event, &bodies);
                last = Instant::now();
            }
        }
        took.push(healed.elapsed());
        heard += account.heard.values().map(BTreeSet::len).sum::<usize>();
        named += account.named.values().map(BTreeSet::len).sum::<usize>();
        unread += account.unread;
    }
    let count: usize = published.values().map(BTreeSet::len).sum();
    println!(
        "seed {seed}: {faults:?}; {count} published; {heard} heard, {named} named, {unread} unread; 0 unaccounted, \
              0 twice, 0 invented; settled after {took:?}"
    );
    took
}

#[test]
#[ignore = "takes minutes, and has not been seen to pass: run it by name, with --nocapture"]
fn nodes_that_are_killed_stopped_and_cut_off_account_for_everything() {
    let seed = setting("OMNIGATE_CHAOS_SEED", fastrand::u64(..));
    let length = Duration::from_secs(setting("OMNIGATE_CHAOS_SECONDS", 20));
    let mut all: Vec<_> = (0..setting("OMNIGATE_CHAOS_RUNS", 1))
        .flat_map(|number| run(seed.wrapping_add(number), length))
        .collect();
    all.sort_unstable();
    println!("95 of 100 nodes had settled after {:?}", all[(all.len() * 95).div_ceil(100) - 1]);
}
