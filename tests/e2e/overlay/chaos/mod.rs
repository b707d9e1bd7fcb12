//! Nodes in a ring that are killed, stopped, cut off from each other and set to another time while all of them publish.
//! Whatever any node knows of is heard or named at every other, nothing twice, and nothing that nobody published.
//!
//! `OMNIGATE_CHAOS_RUNS`, `OMNIGATE_CHAOS_SECONDS` and `OMNIGATE_CHAOS_SEED` say how often, how long at least, and which
//! faults; `OMNIGATE_CHAOS_PUBLICATIONS` how many each node has to publish at least, and `OMNIGATE_CHAOS_RATE` how many a
//! second it is given. With `OMNIGATE_FAKETIME`, the path of libfaketime.so.1, clocks are set forward and back as well.

mod account;
mod place;

use std::{
    collections::BTreeMap,
    sync::atomic::Ordering::Relaxed,
    thread,
    time::{Duration, Instant},
};

use account::{Life, Ranges};
use place::{PUBLISHERS, Place, due};

use super::{
    node::{Home, OverlayNode},
    relay::Relay,
};
use crate::support::{Flag, PATIENCE, eventually};

const NODES: usize = 5;
/// Between two faults.
const CALM: Duration = Duration::from_millis(700);
/// Longer than a node takes to give a silent peer up.
const LONG_STOP: Duration = Duration::from_secs(8);

/// What a run is to be.
#[derive(Clone, Copy, Debug)]
struct Plan {
    seconds: u64,
    /// Publications of each node, at least.
    publications: u64,
    /// Publications a second that each node is given.
    rate: u64,
}

fn setting(name: &str, usual: u64) -> u64 {
    std::env::var(name).map_or(usual, |value| value.parse().unwrap())
}

/// Nodes in a ring, each of which dials the next one and the one after it through links of its own.
fn start() -> (Vec<Place>, Vec<Relay>) {
    let homes: Vec<_> = (0..NODES).map(|_| Home::new()).collect();
    let allow: Vec<_> = homes.iter().map(|home| format!("\"{}\"", home.id)).collect();
    let allow = allow.join(", ");
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
        let lines = format!(
            "topics = [\"news\"]\ntimeouts.idle = \"6s\"\npeer = {{ max_rps = 0 }}\nallow = [{allow}]\npeers = [{}]\n",
            dialled.join(", ")
        );
        nodes.push(OverlayNode::start(home, &lines));
    }
    let places = nodes.into_iter().enumerate().map(|(number, node)| Place::new(number, node)).collect();
    (places, links)
}

/// Does harm, and makes up for it; what it was.
fn disturb(places: &[Place], links: &[Relay], rng: &mut fastrand::Rng, is_long: bool) -> &'static str {
    let place = &places[rng.usize(..places.len())];
    let kinds = if std::env::var_os("OMNIGATE_FAKETIME").is_some() { 6 } else { 5 };
    match rng.u8(..kinds) {
        0 => {
            place.kill(CALM);
            "killed"
        }
        1 => {
            let node = place.node();
            node.node.signal("STOP");
            thread::sleep(if is_long && rng.bool() { LONG_STOP } else { CALM * 2 });
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
        3 => {
            let link = &links[rng.usize(..links.len())];
            link.stall(true);
            thread::sleep(CALM * 2);
            link.stall(false);
            "stalled"
        }
        4 => {
            links[rng.usize(..links.len())].reset();
            "reset"
        }
        _ => {
            // Two hours either way. A node that is killed later begins a life at that time.
            place.node().node.set_clock(rng.i64(-7200..=7200));
            "set to another time"
        }
    }
}

/// Publishes at all nodes while there are faults; how many there were of each kind.
fn storm(
    places: &[Place],
    links: &[Relay],
    plan: Plan,
    rng: &mut fastrand::Rng,
) -> BTreeMap<&'static str, u32> {
    let mut faults = BTreeMap::new();
    let over = Flag::default();
    let pace = Duration::from_secs(PUBLISHERS as u64) / u32::try_from(plan.rate).unwrap();
    thread::scope(|scope| {
        let _over = over.set_at_the_end();
        for place in places {
            (0..PUBLISHERS).for_each(|_| drop(scope.spawn(|| place.publish(pace, &over))));
        }
        let begun = Instant::now();
        let is_enough = || places.iter().all(|place| place.published.load(Relaxed) >= plan.publications);
        while begun.elapsed() < Duration::from_secs(plan.seconds) || !is_enough() {
            thread::sleep(CALM);
            let is_long = plan.seconds >= 30;
            *faults.entry(disturb(places, links, rng, is_long)).or_default() += 1;
        }
    });
    faults
}

/// The life that each node is in, and the number of its last publication.
fn last_words(places: &[Place]) -> BTreeMap<Life, u64> {
    let publish = |place: &Place| eventually("the node publishes again", || place.publish_one(&mut None));
    places.iter().map(publish).collect()
}

/// Waits until every node has accounted for everything; how long each took since all was well again.
fn settle(places: &[Place], present: &BTreeMap<Life, u64>, begun: Instant) -> Vec<Duration> {
    let mut took = vec![None; places.len()];
    while took.contains(&None) {
        let due = due(places, present);
        for (place, took) in places.iter().zip(&mut took) {
            let account = place.account();
            // A subscriber that was too slow is told how many it missed, not which.
            if took.is_none() && account.open(&due) <= account.unread {
                *took = Some(begun.elapsed());
            }
        }
        if begun.elapsed() > PATIENCE {
            complain(places, &due);
        }
        thread::park_timeout(Duration::from_millis(20));
    }
    took.into_iter().flatten().collect()
}

/// Says what is not accounted for, and ends the test.
fn complain(places: &[Place], due: &BTreeMap<Life, u64>) -> ! {
    let mut open = 0;
    for place in places {
        let account = place.account();
        open += account.open(due).saturating_sub(account.unread);
        for (life, upto) in due {
            let told = account.told.get(life).cloned().unwrap_or_default();
            let holes = Ranges::holes(&told, *upto);
            if !holes.is_empty() {
                println!("node {}: of {life:?} up to {upto}: {holes:?}", place.number);
            }
        }
    }
    panic!("{open} are unaccounted for");
}

/// One run; how long each node took to account for everything once all was well.
fn run(seed: u64, plan: Plan) -> Vec<Duration> {
    println!("seed {seed}: {plan:?}");
    let (places, links) = start();
    let over = Flag::default();
    thread::scope(|scope| {
        let _over = over.set_at_the_end();
        for place in &places {
            scope.spawn(|| place.listen(&places, &over));
        }
        let faults = storm(&places, &links, plan, &mut fastrand::Rng::with_seed(seed));
        let healed = Instant::now();
        let took = settle(&places, &last_words(&places), healed);
        let (mut heard, mut named, mut unread) = (0, 0, 0);
        for place in &places {
            let account = place.account();
            assert_eq!(account.wrong, Vec::<String>::new(), "at node {}", place.number);
            let sums = account.sums();
            (heard, named, unread) = (heard + sums.0, named + sums.1, unread + account.unread);
        }
        let published: Vec<_> = places.iter().map(|place| place.published.load(Relaxed)).collect();
        println!(
            "seed {seed}: {faults:?}; {published:?} published; since each node's last start {heard} heard, {named} named, \
             {unread} unread; 0 unaccounted, 0 twice, 0 invented; settled after {took:?}"
        );
        // Nobody says anything any more, so listeners would wait for the next sign of life.
        drop(links);
        places.iter().for_each(|place| place.node().node.kill());
        took
    })
}

fn runs(count: u64, plan: Plan) {
    let seed = setting("OMNIGATE_CHAOS_SEED", fastrand::u64(..));
    let mut all: Vec<_> = (0..count).flat_map(|number| run(seed.wrapping_add(number), plan)).collect();
    all.sort_unstable();
    println!("95 of 100 nodes had settled after {:?}", all[(all.len() * 95).div_ceil(100) - 1]);
}

#[test]
fn nodes_that_are_killed_stopped_and_cut_off_account_for_everything() {
    runs(1, Plan { seconds: 8, publications: 100, rate: 50 });
}

#[test]
#[ignore = "takes as long as it is told to: run it by name, with --nocapture"]
fn so_they_do_after_many_faults_and_publications() {
    let plan = Plan {
        seconds: setting("OMNIGATE_CHAOS_SECONDS", 60),
        publications: setting("OMNIGATE_CHAOS_PUBLICATIONS", 20_000),
        rate: setting("OMNIGATE_CHAOS_RATE", 400),
    };
    runs(setting("OMNIGATE_CHAOS_RUNS", 20), plan);
}
