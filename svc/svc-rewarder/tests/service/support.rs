//! A rewarder, its ledger, a policy, and a client that says exactly what it means.

use std::{
    collections::BTreeMap,
    io::{Read, Write},
    net::TcpStream,
    path::Path,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use captoken::{KeyRing, RevocationList};
use rewards::{Policy, Sign, SignedPolicy};
use ron_accounting::SigningKey;
use ron_kernel::{Exit, Kernel, Scope};
use ron_ledger::{
    AccountId, Asset, Batch, Floor, Key, Ledger, Reference, SqliteLedger, Step, Terms, Transfer,
};
use ron_transport::{addr::ListenAddr, inherit::Inherited};
use svc_rewarder::{Authority, Rewarder, RewarderConfig, RewarderSettings, StorePlace, TOPOLOGY, WallClock};
use types::ActorId;

/// How long something may take before it counts as missing: far longer than it does on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Longer than since 1970.
const AGES: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// A running rewarder with a folder of its own; it stops when the test drops it.
pub(crate) struct Running {
    pub(crate) scope: Scope,
    pub(crate) rewarder: Arc<Rewarder>,
    pub(crate) ledger: Arc<dyn Ledger>,
    pub(crate) signer: SigningKey,
    pub(crate) dir: Option<tempfile::TempDir>,
    conductor: Option<thread::JoinHandle<Exit>>,
}

/// An answer, as it came.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }

    pub(crate) fn reason(&self) -> String {
        self.json()["reason"].as_str().unwrap_or_default().to_owned()
    }
}

/// How a rewarder is to be.
pub(crate) struct Wish {
    pub(crate) ledger: Arc<dyn Ledger>,
    pub(crate) amnesia: bool,
    pub(crate) with_policy: bool,
    pub(crate) pool: u64,
    pub(crate) checkpoint_keys: Vec<[u8; 32]>,
    /// The wall clock; the machine's unless a test has its own.
    pub(crate) wall_clock: Option<WallClock>,
    pub(crate) drain_deadline: Duration,
}

impl Default for Wish {
    fn default() -> Self {
        Self {
            ledger: Arc::new(SqliteLedger::in_memory().unwrap()),
            amnesia: false,
            with_policy: true,
            pool: 1_000_000,
            checkpoint_keys: Vec::new(),
            wall_clock: None,
            drain_deadline: PATIENCE,
        }
    }
}

impl Running {
    /// A rewarder with epochs of a second, a policy that pays a thousand for each, and a pool that is funded.
    pub(crate) fn start() -> Self {
        Self::with(Wish::default(), |_| {})
    }

    pub(crate) fn with(wish: Wish, settings: impl FnOnce(&mut RewarderConfig)) -> Self {
        Self::within(tempfile::tempdir().unwrap(), wish, settings)
    }

    pub(crate) fn within(
        dir: tempfile::TempDir,
        wish: Wish,
        settings: impl FnOnce(&mut RewarderConfig),
    ) -> Self {
        let kernel = Kernel::builder("test").drain_deadline(wish.drain_deadline).build().unwrap();
        let scope = kernel.scope(&TOPOLOGY);
        let signer = SigningKey::from_pkcs8(SIGNER).unwrap_or_else(|_| SigningKey::generate().unwrap());
        let mut config = RewarderConfig {
            listen: "127.0.0.1:0".parse().unwrap(),
            epoch_duration: Duration::from_secs(1).into(),
            max_epoch_skew: Duration::ZERO.into(),
            // Epochs of tests are long over.
            max_epoch_age: AGES.into(),
            policy_keys: vec![signer.public_key().to_string()],
            // A slow machine is no outage.
            read_timeout: PATIENCE.into(),
            ..RewarderConfig::default()
        };
        if wish.with_policy {
            let path = dir.path().join("policy.json");
            std::fs::write(&path, policy(&signer, 1, 1000)).unwrap();
            config.policy_files.push(path);
        }
        settings(&mut config);
        if wish.pool > 0 {
            fund(&*wish.ledger, "fund/1", wish.pool);
        }
        let data = dir.path().join("data");
        let nobody =
            || Authority { ring: KeyRing::new(Vec::new()).unwrap(), revoked: RevocationList::default() };
        let clock = scope.clock();
        let settings = RewarderSettings {
            rewarder: &config,
            data_dir: (!wish.amnesia).then_some(data.as_path()),
            store: StorePlace::Local,
            ledger: Arc::clone(&wish.ledger),
            checkpoint_keys: &wish.checkpoint_keys,
            authority: nobody(),
            load_authority: Arc::new(move |_| Ok(nobody())),
            wall_clock: wish.wall_clock.clone().unwrap_or_else(|| Arc::new(move || clock.wall())),
            announce: None,
        };
        let mut inherited = Inherited::from_env().unwrap();
        let rewarder = kernel.block_on(Rewarder::build(&scope, settings, &mut inherited)).unwrap();
        let conductor = thread::spawn(move || kernel.run().unwrap());
        Self { scope, rewarder, ledger: wish.ledger, signer, dir: Some(dir), conductor: Some(conductor) }
    }

    /// Books usage, as a service would.
    pub(crate) fn book(&self, actor: &str, units: u64) {
        self.scope.meters().meter(&ActorId::new(actor).unwrap(), "provided.bytes").add(units);
    }

    /// Stops it as a drain does, and gives its folder back.
    pub(crate) fn stop(mut self) -> tempfile::TempDir {
        self.scope.shutdown().request("the test goes on");
        self.conductor.take().unwrap().join().unwrap();
        self.dir.take().unwrap()
    }

    #[track_caller]
    pub(crate) fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, &[], b"")
    }

    /// Asks a listener that may be going away: an error of the connection, or an end of it before the answer, is told.
    pub(crate) fn try_ask(&self, method: &str, path: &str) -> std::io::Result<Option<Answer>> {
        let ListenAddr::Tcp(addr) = self.rewarder.local_addr() else { panic!("a TCP address") };
        let mut stream = TcpStream::connect(addr)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.write_all(
            format!("{method} {path} HTTP/1.1\r\nhost: {addr}\r\nconnection: close\r\n\r\n").as_bytes(),
        )?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        Ok((!answer.is_empty()).then(|| parse(&answer)))
    }

    #[track_caller]
    pub(crate) fn ask(&self, method: &str, path: &str, fields: &[(&str, &str)], body: &[u8]) -> Answer {
        let ListenAddr::Tcp(addr) = self.rewarder.local_addr() else { panic!("a TCP address") };
        let mut stream = TcpStream::connect(addr).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut head = format!("{method} {path} HTTP/1.1\r\nhost: {addr}\r\nconnection: close\r\n");
        fields.iter().for_each(|(name, value)| head.push_str(&format!("{name}: {value}\r\n")));
        if !body.is_empty() {
            head.push_str(&format!("content-length: {}\r\n", body.len()));
        }
        stream.write_all(format!("{head}\r\n").as_bytes()).unwrap();
        let _ = stream.write_all(body);
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        parse(&answer)
    }

    /// Waits until an epoch, the first that is listed unless it is known, is in a state.
    #[track_caller]
    pub(crate) fn wait_for(&self, epoch: Option<u64>, state: &str) -> serde_json::Value {
        let mut last = serde_json::Value::Null;
        let began = Instant::now();
        while began.elapsed() < PATIENCE {
            let epoch = epoch.or_else(|| self.epochs().first().and_then(|epoch| epoch["epoch"].as_u64()));
            if let Some(epoch) = epoch {
                last = self.get(&format!("/rewarder/epochs/{epoch}")).json();
                if last["state"] == state {
                    return last;
                }
            }
            thread::sleep(Duration::from_millis(20));
        }
        panic!("no epoch is {state}: {last}");
    }

    /// The epochs, the oldest first.
    pub(crate) fn epochs(&self) -> Vec<serde_json::Value> {
        let mut all = self.get("/rewarder/epochs?limit=100").json()["epochs"].as_array().unwrap().clone();
        all.reverse();
        all
    }

    pub(crate) fn balance(&self, account: &str) -> i128 {
        let account = self.ledger.account(&AccountId::new(account).unwrap()).unwrap();
        account.map_or(0, |account| account.balance)
    }

    pub(crate) fn standing(&self) -> String {
        let all = self.scope.readiness().standing(Some("rewarder"));
        all.iter().map(|one| format!("{}: {}\n", one.name, one.reason)).collect()
    }

    #[track_caller]
    pub(crate) fn metric(&self, start: &str) -> f64 {
        metric_of(&self.scope, start)
    }
}

/// The value of the first series whose line begins like this; there has to be one.
#[track_caller]
pub(crate) fn metric_of(scope: &Scope, start: &str) -> f64 {
    let text = scope.all_metrics().prometheus_text();
    let line = text.lines().find(|line| line.starts_with(start));
    let value = line.and_then(|line| line.rsplit(' ').next()?.parse().ok());
    value.unwrap_or_else(|| panic!("no {start} in\n{text}"))
}

impl Drop for Running {
    fn drop(&mut self) {
        self.scope.shutdown().request("the test is over");
        self.conductor.take().map(thread::JoinHandle::join);
    }
}

/// A fixed key in PKCS#8, so that a restarted rewarder trusts the same policies.
const SIGNER: &[u8] = &[
    0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20, 7, 7, 7,
    7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
];

/// A signed policy that pays so much for each epoch, by bytes provided.
pub(crate) fn policy(signer: &dyn Sign, version: u64, pool: u64) -> Vec<u8> {
    let terms = format!(
        r#"{{"cap_ppm":1000000,"first_epoch":0,"format":"omnigate-policy/1","id":"default","last_epoch":null,
        "min_payout":"0","pool":"{pool}","residual":{{"rule":"keep"}},"ruleset":1,"version":{version},
        "weights_ppm":{{"provided.bytes":1000000}}}}"#
    );
    SignedPolicy::unsigned(Policy::read(terms.as_bytes()).unwrap()).signed_by(signer).to_bytes()
}

/// Gives the pool money out of a source without a floor.
pub(crate) fn fund(ledger: &dyn Ledger, key: &str, amount: u64) {
    let account = |name| AccountId::new(name).unwrap();
    let asset = Asset::new("CREDIT").unwrap();
    let open = |name, floor| Step::Open(Terms { account: account(name), asset, floor });
    let transfer = Transfer { from: account("source"), to: account("pool/rewards"), amount: amount.into() };
    let steps =
        vec![open("source", Floor::Unlimited), open("pool/rewards", Floor::ZERO), Step::Transfer(transfer)];
    let batch = Batch::new(Key::new(key).unwrap(), Reference::new("test").unwrap(), 1, steps).unwrap();
    ledger.post(&batch).unwrap();
}

/// Waits until something is so.
#[track_caller]
pub(crate) fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < PATIENCE, "{what}");
        thread::sleep(Duration::from_millis(20));
    }
}

pub(crate) fn names_in(folder: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

fn parse(answer: &[u8]) -> Answer {
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n").expect("a whole head");
    let head = String::from_utf8(answer[..end].to_vec()).unwrap();
    let mut lines = head.lines();
    let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
    let pair = |line: &str| line.split_once(": ").map(|(name, value)| (name.to_owned(), value.to_owned()));
    Answer { status, headers: lines.filter_map(pair).collect(), body: answer[end + 4..].to_vec() }
}
