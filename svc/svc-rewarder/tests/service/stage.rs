//! A rewarder by ruleset 3 that computes when it is asked to, with two nodes that count.

use rewards::{Action, Epoch, Manifest, Order, Policy, SignedOrder, SignedPolicy};
use ron_accounting::{SigningKey, Used, rows_of, seal_rows};
use types::ActorId;

use crate::support::{Running, Wish};

pub(crate) fn actor(name: &str) -> ActorId {
    ActorId::new(name).unwrap()
}

/// A rewarder by ruleset 3, which computes when it is asked to, and the keys of two nodes that count.
pub(crate) struct Stage {
    pub(crate) running: Running,
    pub(crate) nodes: [SigningKey; 2],
}

impl Stage {
    pub(crate) fn new(pool: u64, minimum: u64) -> Self {
        Self::with(Wish { pool, ..Wish::default() }, minimum)
    }

    pub(crate) fn with(wish: Wish, minimum: u64) -> Self {
        let nodes = [0, 1].map(|_| SigningKey::generate().unwrap());
        Self::within(tempfile::tempdir().unwrap(), nodes, wish, minimum, Vec::new())
    }

    /// In a folder of before, with nodes of before; policies may be signed by these keys too.
    pub(crate) fn within(
        dir: tempfile::TempDir,
        nodes: [SigningKey; 2],
        wish: Wish,
        minimum: u64,
        keys: Vec<String>,
    ) -> Self {
        Self::by_policy("default", (dir, nodes), wish, minimum, keys)
    }

    /// The same by a policy with another id.
    pub(crate) fn by_policy(
        id: &str,
        (dir, nodes): (tempfile::TempDir, [SigningKey; 2]),
        wish: Wish,
        minimum: u64,
        keys: Vec<String>,
    ) -> Self {
        let listed = nodes.iter().map(|key| key.node().to_string()).collect();
        let running = Running::within(dir, Wish { with_policy: false, ..wish }, |config| {
            config.accounting_nodes = listed;
            config.automatic = false;
            config.policy = id.to_owned();
            config.policy_keys.extend(keys);
        });
        let terms = format!(
            r#"{{"cap_ppm":1000000,"first_epoch":0,"format":"omnigate-policy/1","id":"{id}","last_epoch":null,
            "min_payout":"{minimum}","pool":"1000","residual":{{"rule":"keep"}},"ruleset":3,"version":1,
            "weights_ppm":{{"provided.bytes":1000000}}}}"#
        );
        let terms = Policy::read(terms.as_bytes()).unwrap();
        let signed = SignedPolicy::unsigned(terms).signed_by(&running.signer).to_bytes();
        assert_eq!(running.ask("PUT", &format!("/rewarder/policy/{id}"), &[], &signed).status, 200);
        Self { running, nodes }
    }

    /// In a folder of before, with the policies that are there and these keys that sign policies.
    pub(crate) fn trusting(
        (dir, nodes): (tempfile::TempDir, [SigningKey; 2]),
        wish: Wish,
        keys: Vec<String>,
    ) -> Self {
        let listed = nodes.iter().map(|key| key.node().to_string()).collect();
        let running = Running::within(dir, Wish { with_policy: false, ..wish }, |config| {
            config.accounting_nodes = listed;
            config.automatic = false;
            config.policy_keys = keys;
        });
        Self { running, nodes }
    }

    /// Stops it as a drain does; its folder and its nodes go on.
    pub(crate) fn stop(self) -> (tempfile::TempDir, [SigningKey; 2]) {
        (self.running.stop(), self.nodes)
    }

    /// Has the rewarder take in what a node counted in an epoch.
    pub(crate) fn give(&self, epoch: u64, node: usize, counted: &[(&str, u128)]) {
        let used = |(name, units): &(&str, u128)| Used {
            actor: actor(name),
            metric: "provided.bytes".to_owned(),
            units: *units,
        };
        let rows: Vec<_> = counted.iter().map(used).collect();
        let (file, root) = rows_of(&rows).unwrap();
        let document = seal_rows(&self.nodes[node], epoch, rows.len(), root).unwrap().to_bytes();
        let accepting = self.running.rewarder.accept_snapshot(document, file);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        assert!(runtime.block_on(accepting).unwrap());
    }

    pub(crate) fn compute(&self, epoch: u64, state: &str) -> Manifest {
        self.ask_for(epoch);
        self.running.wait_for(Some(epoch), state);
        self.manifest(epoch)
    }

    pub(crate) fn ask_for(&self, epoch: u64) {
        let asked = self.running.ask("POST", &format!("/rewarder/epochs/{epoch}/compute"), &[], b"");
        assert_eq!(asked.status, 202, "{asked:?}");
    }

    pub(crate) fn manifest(&self, epoch: u64) -> Manifest {
        Manifest::read(&self.file(epoch, "run.json").1).unwrap()
    }

    pub(crate) fn file(&self, epoch: u64, name: &str) -> (u16, Vec<u8>) {
        let answer = self.running.get(&format!("/rewarder/epochs/{epoch}/files/{name}"));
        (answer.status, answer.body)
    }

    pub(crate) fn order(&self, epoch: u64, action: Action) -> Vec<u8> {
        let order =
            Order { epoch: Epoch::new(epoch).unwrap(), action, reason: "its disk lost rows".to_owned() };
        SignedOrder::unsigned(order).signed_by(&self.running.signer).to_bytes()
    }

    pub(crate) fn submit_order(&self, epoch: u64, document: &[u8]) -> u16 {
        self.running.ask("POST", &format!("/rewarder/epochs/{epoch}/order"), &[], document).status
    }

    pub(crate) fn paid(&self) -> [i128; 2] {
        ["actor/alice", "actor/bob"].map(|account| self.running.balance(account))
    }
}
