//! A fleet of rewarders on one machine: their data, their policy, their ledger, and processes that may die.

use std::{
    fs,
    net::SocketAddr,
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use rewards::{Action, Epoch, Order, Policy, Sign, SignedOrder, SignedPolicy, ed25519::SecretKey};
use ron_ledger::{
    AccountId, Asset, Batch, EntryKind, Floor, Key, Ledger, PostgresLedger, Reference, Scrutiny,
    SqliteLedger, Step, Terms, Transfer, verify,
};

use super::server::Database;
use crate::support::{Client, be_patient, free_addr, get};

/// Actors of each epoch: two batches of a thousand transfers at most.
pub(super) const ACTORS: usize = 1_100;
/// What each of them is paid for an epoch.
pub(super) const PAYOUT: u128 = 4;
/// Actors that are paid in every third epoch, because their shares are below the minimum.
const SMALL: usize = 50;
/// What a small actor's share of an epoch is, and the least that is paid.
const SMALL_SHARE: u128 = 1;
const MINIMUM: u128 = 3;
/// What the pool has at the start.
const FUNDS: u64 = 1 << 50;

/// Waits as long as dozens of epochs may take on a busy machine. What is waited for costs a look at the ledger, so it is
/// not asked for all the time.
#[track_caller]
pub(super) fn patiently<T>(what: &str, mut probe: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + Duration::from_secs(180);
    loop {
        if let Some(found) = probe() {
            return found;
        }
        assert!(Instant::now() < end, "gave up waiting until {what}");
        thread::park_timeout(Duration::from_millis(20));
    }
}

/// Where the ledger and the epochs of a ground are.
pub(super) enum Place {
    /// In files of the only node.
    Files,
    /// On a server that all nodes share.
    Postgres(Database),
}

/// The data of one or more nodes with one ledger.
pub(super) struct Ground {
    dir: tempfile::TempDir,
    place: Place,
    nodes: usize,
    /// Where each node's rewarder listens.
    addrs: Vec<SocketAddr>,
    pub(super) epochs: Vec<u64>,
    /// Epochs that the first node was told to hold and is to release, each with how many were booked then.
    held: Vec<(u64, usize)>,
}

impl Ground {
    /// Nodes that have nothing to do yet, and a pool that is funded.
    pub(super) fn new(place: Place, nodes: usize) -> Self {
        let addrs = (0..nodes).map(|_| free_addr()).collect();
        let (dir, epochs, held) = (tempfile::tempdir().unwrap(), Vec::new(), Vec::new());
        let ground = Self { dir, place, nodes, addrs, epochs, held };
        let signer = signer();
        let terms = format!(
            r#"{{"cap_ppm":1000000,"first_epoch":0,"format":"omnigate-policy/1","id":"default","last_epoch":null,
            "min_payout":"{MINIMUM}","pool":"{}","residual":{{"rule":"keep"}},"ruleset":3,"version":1,
            "weights_ppm":{{"provided.bytes":1000000}}}}"#,
            ACTORS as u128 * PAYOUT + SMALL as u128 * SMALL_SHARE
        );
        let policy = SignedPolicy::unsigned(Policy::read(terms.as_bytes()).unwrap()).signed_by(&signer);
        fs::write(ground.dir.path().join("policy.json"), policy.to_bytes()).unwrap();
        (0..nodes).for_each(|node| fs::create_dir_all(ground.data(node)).unwrap());
        // Once without nodes listed, to learn what the first is called: its usage counts for all.
        let key = signer.public_key().to_string();
        ground.configure(0, &key, &[]);
        let counts = [ground.id(0)];
        (0..nodes).for_each(|node| ground.configure(node, &key, &counts));
        ground.fund();
        ground
    }

    fn data(&self, node: usize) -> PathBuf {
        self.dir.path().join(format!("node-{node}"))
    }

    pub(super) fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Where a node's rewarder listens.
    pub(super) fn addr(&self, node: usize) -> SocketAddr {
        self.addrs[node]
    }

    pub(super) fn config(&self, node: usize) -> PathBuf {
        self.dir.path().join(format!("node-{node}.toml"))
    }

    pub(super) fn ledger_url(&self) -> String {
        match &self.place {
            Place::Files => format!("sqlite:{}", self.data(0).join("ledger.db").display()),
            Place::Postgres(database) => {
                let settings = database.url();
                let setting = |name: &str| {
                    let found =
                        settings.split(' ').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
                    found.unwrap().to_owned()
                };
                // Several hosts are separated by commas; a slash in one is not the end of it.
                let hosts = setting("host").replace('/', "%2F");
                format!("postgres://{}@{hosts}/{}", setting("user"), setting("dbname"))
            }
        }
    }

    fn configure(&self, node: usize, policy_key: &str, nodes: &[String]) {
        let text = format!(
            "[node]\nname = \"n{node}\"\ndata_dir = \"{data}\"\ncores = 1\n[log]\nlevel = \"warn\"\n\
             [admin]\nlisten = \"127.0.0.1:0\"\n[gateway]\nenabled = false\n[ledger]\nurl = \"{ledger}\"\n\
             [rewarder]\nenabled = true\nlisten = \"{listen}\"\nepoch_duration = \"1m\"\nmax_epoch_skew = \"0s\"\n\
             max_epoch_age = \"100years\"\n\
             policy_files = [\"{policy}\"]\npolicy_keys = [\"{policy_key}\"]\naccounting_nodes = {nodes:?}\n",
            data = self.data(node).display(),
            listen = self.addrs[node],
            ledger = self.ledger_url(),
            policy = self.dir.path().join("policy.json").display(),
        );
        fs::write(self.config(node), text).unwrap();
    }

    fn id(&self, node: usize) -> String {
        let output = omnigate(&["node", "id", "--config", self.config(node).to_str().unwrap()]);
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    pub(super) fn ledger(&self) -> Arc<dyn Ledger> {
        match &self.place {
            Place::Files => {
                Arc::new(SqliteLedger::open(&self.data(0).join("ledger.db"), &Scrutiny::Nothing).unwrap())
            }
            Place::Postgres(database) => {
                Arc::new(PostgresLedger::open(&database.url(), &Scrutiny::Nothing).unwrap())
            }
        }
    }

    /// Has the standby of the server take over.
    pub(super) fn fail_over(&self) {
        match &self.place {
            Place::Files => panic!("files have no standby"),
            Place::Postgres(database) => database.fail_over(),
        }
    }

    fn fund(&self) {
        let account = |name| AccountId::new(name).unwrap();
        let open = |name, floor| {
            Step::Open(Terms { account: account(name), asset: Asset::new("CREDIT").unwrap(), floor })
        };
        let transfer =
            Transfer { from: account("source"), to: account("pool/rewards"), amount: FUNDS.into() };
        let steps = vec![
            open("source", Floor::Unlimited),
            open("pool/rewards", Floor::ZERO),
            Step::Transfer(transfer),
        ];
        let batch = Batch::new(Key::new("fund").unwrap(), Reference::new("test").unwrap(), 1, steps).unwrap();
        self.ledger().post(&batch).unwrap();
    }

    /// Books one more epoch of usage, as an earlier process of the first node would have.
    pub(super) fn book_epoch(&mut self) {
        let epoch = 1_000 + self.epochs.len() as u64;
        self.epochs.push(epoch);
        let path = self.data(0).join(ron_accounting::Accounts::JOURNAL);
        let mut journal = ron_accounting::Journal::open(&path, Duration::from_secs(60)).unwrap();
        let one = |name: String, units| (types::ActorId::new(&name).unwrap(), "provided.bytes", units);
        let large = (0..ACTORS).map(|actor| one(format!("actor-{actor:05}"), 20));
        let small = (0..SMALL).map(|actor| one(format!("small-{actor:05}"), 5));
        let page = ron_accounting::Page { epoch, units: large.chain(small).collect() };
        journal.book(ron_accounting::BootId::new([9; 16]), &[page]).unwrap();
    }

    /// Has the first node hold the epoch before the last one, and release those that were held when others were booked. A node
    /// that is not up, dies meanwhile, or has settled the epoch does not; it is asked again as long as nobody knows.
    pub(super) fn repair(&mut self) {
        let booked = self.epochs.len();
        if booked > 1 && booked.is_multiple_of(2) {
            let epoch = self.epochs[booked - 2];
            let is_new = self.held.iter().all(|(other, _)| *other != epoch);
            if is_new && self.order(epoch, Action::Hold).is_some() {
                self.held.push((epoch, booked));
            }
        }
        let held = std::mem::take(&mut self.held);
        let is_held = |(epoch, then): &(u64, usize)| *then == booked || self.is_held(*epoch);
        self.held = held.into_iter().filter(is_held).collect();
    }

    /// Has the first node release an epoch. Says whether it may still be held.
    fn is_held(&self, epoch: u64) -> bool {
        // What the store or the ledger did not answer may or may not have been done.
        !self
            .order(epoch, Action::Release)
            .flatten()
            .is_some_and(|status| matches!(status, 200 | 202 | 404 | 409))
    }

    /// Sends an order about an epoch to the first node. Returns the status of its answer, if one came; `None` if the node is not
    /// up.
    fn order(&self, epoch: u64, action: Action) -> Option<Option<u16>> {
        let order =
            Order { epoch: Epoch::new(epoch).unwrap(), action, reason: "somebody looks at it".to_owned() };
        let document = SignedOrder::unsigned(order).signed_by(&signer()).to_bytes();
        let (addr, length) = (self.addrs[0], document.len());
        let head = format!(
            "POST /rewarder/epochs/{epoch}/order HTTP/1.1\r\nhost: {addr}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n"
        );
        let mut client = Client::connect(addr).ok()?;
        Some(client.ask([head.into_bytes(), document].concat()).ok().map(|answer| answer.status))
    }

    /// Starts a node that dies at a point, if one is given.
    pub(super) fn start(&self, node: usize, crash_at: Option<&str>) -> Process {
        let log = fs::File::options().create(true).append(true).open(self.path().join("log")).unwrap();
        let mut command = Command::new(program());
        command.args(["rewarder", "--config"]).arg(self.config(node)).current_dir(self.path()).env_clear();
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        be_patient(&mut command, &fs::read_to_string(self.config(node)).unwrap());
        if let Some(point) = crash_at {
            command.env("OMNIGATE_CRASH_AT", point);
        }
        Process(command.spawn().unwrap())
    }

    /// How many epochs are settled, as the ledger has it: the last batch of an epoch is there.
    pub(super) fn settled(&self) -> usize {
        let ledger = self.ledger();
        let last = ACTORS.div_ceil(1000) - 1;
        let is_paid = |epoch: &&u64| {
            ledger.request(&Key::new(&format!("reward/{epoch}/{last}")).unwrap()).unwrap().is_some()
        };
        self.epochs.iter().filter(is_paid).count()
    }

    /// Runs every node, undisturbed, until all epochs are settled.
    pub(super) fn finish(&mut self) {
        let running: Vec<_> = (0..self.nodes).map(|node| self.start(node, None)).collect();
        patiently("what was held is released", || {
            let held = std::mem::take(&mut self.held);
            self.held = held.into_iter().filter(|(epoch, _)| self.is_held(*epoch)).collect();
            self.held.is_empty().then_some(())
        });
        patiently("every epoch is settled", || (self.settled() == self.epochs.len()).then_some(()));
        drop(running);
    }

    /// Nothing was paid twice, and nothing is missing.
    #[track_caller]
    pub(super) fn check(&self) {
        let ledger = self.ledger();
        let mut snapshot = ledger.snapshot().unwrap();
        verify(&mut *snapshot, &[]).unwrap();
        let mut paid = std::collections::BTreeMap::<String, u128>::new();
        let (mut transfers, mut after) = (0, 0);
        loop {
            let entries = snapshot.entries(after, 10_000).unwrap();
            let Some(last) = entries.last() else { break };
            after = last.number;
            for entry in entries {
                if let EntryKind::Move(transfer) = entry.kind
                    && transfer.from.as_str() == "pool/rewards"
                {
                    transfers += 1;
                    *paid.entry(transfer.to.to_string()).or_default() += transfer.amount.get().unsigned_abs();
                }
            }
        }
        let thirds = self.epochs.len() / 3;
        let expected = self.epochs.len() * ACTORS + thirds * SMALL;
        assert_eq!(transfers, expected, "one transfer for each actor and epoch, or each third");
        assert_eq!(paid.len(), ACTORS + if thirds > 0 { SMALL } else { 0 });
        let (each, small) = (PAYOUT * self.epochs.len() as u128, MINIMUM * thirds as u128);
        let is_right =
            |(account, sum): (&String, &u128)| *sum == if account.contains("small") { small } else { each };
        assert!(paid.iter().all(is_right), "each actor was paid {each} or {small}: {paid:?}");
    }

    pub(super) fn log(&self) -> String {
        fs::read_to_string(self.path().join("log")).unwrap_or_default()
    }
}

/// Who signs policies and orders.
fn signer() -> SecretKey {
    SecretKey::from_seed(&[7; 32])
}

/// A node's process. Killed when dropped.
pub(super) struct Process(Child);

impl Process {
    /// Waits for it to die by itself, as `kill -9` would have it. Meanwhile something may be done again and again.
    #[track_caller]
    pub(super) fn wait_for_death(mut self, what: &str, mut meanwhile: impl FnMut()) {
        let status = patiently(what, || {
            meanwhile();
            self.0.try_wait().unwrap()
        });
        assert_eq!(status.signal(), Some(9), "{what}: {status}");
    }

    /// Whether it has died.
    pub(super) fn is_dead(&mut self) -> bool {
        self.0.try_wait().unwrap().is_some()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The program, or another build of it.
pub(super) fn program() -> String {
    std::env::var("OMNIGATE_BIN").unwrap_or_else(|_| env!("CARGO_BIN_EXE_omnigate").to_owned())
}

/// Runs a command to its end.
pub(super) fn omnigate(args: &[&str]) -> Output {
    let output = Command::new(program()).args(args).env_clear().output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

/// A node that serves its interface, for those who ask it.
pub(super) struct Serving {
    pub(super) node: crate::support::Node,
    pub(super) addr: SocketAddr,
}

impl Serving {
    /// A node with `[rewarder]` settings (TOML lines).
    pub(super) fn start(settings: &str) -> Self {
        let addr = free_addr();
        let rewarder = format!("[rewarder]\nenabled = true\nlisten = \"{addr}\"\n{settings}");
        let node = crate::support::Node::start(&format!("enabled = false\n[node]\ncores = 2\n{rewarder}"));
        Self { node, addr }
    }

    #[track_caller]
    pub(super) fn get(&self, path: &str) -> crate::support::Answer {
        get(self.addr, path).unwrap_or_else(|error| panic!("{path}: {error}"))
    }
}
