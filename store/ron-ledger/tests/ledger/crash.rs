//! Crashes: whoever posts, or the server, is killed at any moment; nothing is lost that was acknowledged, nothing is
//! booked twice.

use std::{
    io::{BufRead, BufReader, Write},
    process::{Child, Command, Stdio},
};

use ron_ledger::{Key, Ledger, Scrutiny, SqliteLedger, verify};

use crate::support::{Chance, Place, balance, batch, funded, pay, seed, size};

/// Tells the process below which ledger it posts to, from which number on.
const WHERE: &str = "OMNIGATE_TEST_LEDGER";
const FROM: &str = "OMNIGATE_TEST_FROM";
/// The process below posts this many at once.
const THREADS: u64 = 3;

fn key(number: u64) -> String {
    format!("payout/{number}")
}

/// Not a test, but the process that is killed: posts one unit under each key, and says so once it is acknowledged.
#[test]
fn the_process_that_is_killed() {
    let Ok(place) = std::env::var(WHERE) else { return };
    let first: u64 = std::env::var(FROM).unwrap().parse().unwrap();
    let ledger: Box<dyn Ledger> = match place.strip_prefix("file:") {
        Some(path) => Box::new(SqliteLedger::open(path.as_ref(), &Scrutiny::Everything).unwrap()),
        #[cfg(feature = "postgres")]
        None => Box::new(ron_ledger::PostgresLedger::open(&place, &Scrutiny::Everything).unwrap()),
        #[cfg(not(feature = "postgres"))]
        None => panic!("{place}"),
    };
    let ledger = &*ledger;
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            scope.spawn(move || {
                for number in (first + thread..).step_by(usize::try_from(THREADS).unwrap()) {
                    let paid = batch(&key(number), vec![pay("issuer", "ada", 1)]);
                    // What is not known is asked again.
                    while let Err(error) = ledger.post(&paid) {
                        assert!(error.is_transient(), "{error}");
                        // As whoever asks again should.
                        std::thread::sleep(std::time::Duration::from_millis(10));
                    }
                    // One write per line, so that lines of threads do not mix.
                    std::io::stdout().write_all(format!("\nack {number}\n").as_bytes()).unwrap();
                }
            });
        }
    });
}

/// A process that does not outlive its test.
struct Poster(Child);

impl Drop for Poster {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(place: &str, from: u64) -> Poster {
    let program = std::env::current_exe().unwrap();
    let args = ["--exact", "crash::the_process_that_is_killed", "--nocapture"];
    let mut command = Command::new(program);
    command.args(args).env(WHERE, place).env(FROM, from.to_string());
    Poster(command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap())
}

fn acknowledged(line: &str) -> Option<u64> {
    line.strip_prefix("ack ")?.parse().ok()
}

/// Every key that was acknowledged is there, and what was booked is one unit per key.
fn check(ledger: &dyn Ledger, acks: &[u64]) -> u64 {
    for number in acks {
        assert!(ledger.request(&Key::new(&key(*number)).unwrap()).unwrap().is_some(), "{number} is missing");
    }
    let tally = verify(&mut *ledger.snapshot().unwrap(), &[]).unwrap();
    assert_eq!(balance(ledger, "ada"), i128::from(tally.requests - 1), "one unit per request");
    tally.requests - 1
}

/// Kills the process that posts after some acknowledgements, again and again.
fn kill_the_client(place: &Place, url: &str, rounds: u64) {
    drop(funded(place));
    let mut chance = Chance(seed());
    let (mut next, mut booked, mut all) = (0, 0, Vec::new());
    for _ in 0..rounds {
        let mut child = start(url, next);
        let mut lines = BufReader::new(child.0.stdout.take().unwrap()).lines().map_while(Result::ok);
        let mut acks: Vec<u64> = Vec::new();
        let until = usize::try_from(chance.below(40)).unwrap();
        while acks.len() < until {
            let line = lines.next().expect("the process goes on until it is killed");
            acks.extend(acknowledged(&line));
        }
        child.0.kill().unwrap();
        acks.extend(lines.filter_map(|line| acknowledged(&line)));
        child.0.wait().unwrap();
        booked = check(&*place.open(), &acks);
        all.extend(acks);
        // The next process begins where numbers are missing or unknown, and sends those again.
        all.sort_unstable();
        all.dedup();
        let missing = (0..).zip(&all).find(|(number, ack)| number != *ack).map(|(number, _)| number);
        next = missing.unwrap_or(all.len() as u64);
    }
    assert!(booked >= all.len() as u64);
    println!("{rounds} kills, {} acknowledged, {booked} booked, 0 missing, 0 twice", all.len());
}

#[test]
fn killing_whoever_posts_to_a_file_loses_nothing_and_doubles_nothing() {
    let place = Place::file();
    let url = format!("file:{}", place.path().display());
    kill_the_client(&place, &url, size(6, 1000));
}

#[cfg(feature = "postgres")]
#[test]
fn killing_whoever_posts_to_a_server_loses_nothing_and_doubles_nothing() {
    let place = Place::server();
    let Place::Server(database) = &place else { panic!("not a server") };
    kill_the_client(&place, &database.url(), size(6, 1000));
}

#[cfg(feature = "postgres")]
#[test]
fn killing_the_server_loses_nothing_and_doubles_nothing() {
    use crate::support::server::{Database, Server};
    let database = Database::on(std::sync::Arc::new(Server::start()));
    let url = database.url();
    let server = database.server.clone();
    let place = Place::Server(database);
    drop(funded(&place));
    let mut chance = Chance(seed());
    let mut child = start(&url, 0);
    let mut lines = BufReader::new(child.0.stdout.take().unwrap()).lines().map_while(Result::ok);
    let mut acks: Vec<u64> = Vec::new();
    let rounds = size(2, 100);
    for _ in 0..rounds {
        let until = acks.len() + 1 + usize::try_from(chance.below(40)).unwrap();
        while acks.len() < until {
            let line = lines.next().expect("whoever posts outlives the server");
            acks.extend(acknowledged(&line));
        }
        server.kill();
        server.launch();
    }
    child.0.kill().unwrap();
    acks.extend(lines.filter_map(|line| acknowledged(&line)));
    child.0.wait().unwrap();
    let booked = check(&*place.open(), &acks);
    println!("{rounds} kills of the server, {} acknowledged, {booked} booked", acks.len());
    assert!(booked <= acks.len() as u64 + THREADS, "only what was under way when it ended is unknown");
}

#[cfg(feature = "postgres")]
#[test]
fn a_failover_to_a_synchronous_standby_loses_nothing_and_doubles_nothing() {
    use crate::support::server::Database;
    let place = Place::Server(Database::replicated());
    let Place::Server(database) = &place else { panic!("not a server") };
    drop(funded(&place));
    let mut child = start(&database.url(), 0);
    let mut lines = BufReader::new(child.0.stdout.take().unwrap()).lines().map_while(Result::ok);
    let mut acks: Vec<u64> = Vec::new();
    for until in [20, 60] {
        while acks.len() < until {
            let line = lines.next().expect("whoever posts outlives the server");
            acks.extend(acknowledged(&line));
        }
        if until == 20 {
            database.fail_over();
        }
    }
    child.0.kill().unwrap();
    acks.extend(lines.filter_map(|line| acknowledged(&line)));
    child.0.wait().unwrap();
    let booked = check(&*place.open(), &acks);
    println!("one failover, {} acknowledged, {booked} booked", acks.len());
    assert!(booked <= acks.len() as u64 + 2 * THREADS, "only what was under way at either end is unknown");
}
