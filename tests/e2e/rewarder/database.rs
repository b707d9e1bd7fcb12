//! PostgreSQL that is down, refuses, or gives the role too little: the node starts, says what is missing, and waits.

use std::sync::Arc;

use super::server::{Database, Server};
use crate::support::{Node, UNLIMITED, eventually, free_addr, get};

/// A gateway and a rewarder with epochs and ledger in a database.
struct Shared {
    node: Node,
    rewarder: std::net::SocketAddr,
}

impl Shared {
    /// Starts a node, and waits until it is ready: its gateway needs no database.
    fn start(database: &Database, role: &str) -> Self {
        let url = address(database, role);
        let rewarder = free_addr();
        let node = Node::start(&format!(
            "{UNLIMITED}[rewarder]\nenabled = true\nlisten = \"{rewarder}\"\n[ledger]\nurl = \"{url}\"\n"
        ));
        Self { node, rewarder }
    }

    /// What the rewarder answers to somebody who asks for its epochs.
    fn epochs(&self) -> u16 {
        get(self.rewarder, "/rewarder/epochs").map_or(0, |answer| answer.status)
    }

    /// The status of the node, or of one of its services, and what stands.
    fn ready(&self, service: &str) -> (u16, String) {
        let answer = get(self.node.admin, &format!("/readyz{service}")).unwrap();
        (answer.status, answer.body)
    }
}

/// The address of a database for a role, as a URL.
fn address(database: &Database, role: &str) -> String {
    let settings = database.url();
    let setting = |name: &str| {
        let found = settings.split(' ').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
        found.unwrap().to_owned()
    };
    format!("postgres:///{}?host={}&user={role}", setting("dbname"), setting("host"))
}

/// A database with a role that may connect and no more.
fn with_role(database: &Database, role: &str) {
    let statements = format!("DROP ROLE IF EXISTS {role}; CREATE ROLE {role} LOGIN");
    database.connect().batch_execute(&statements).unwrap();
}

#[test]
fn a_role_that_may_create_nothing_in_public_has_its_tables_in_a_schema_of_their_own() {
    let database = Database::new();
    with_role(&database, "own_schema");
    let name: String = database.connect().query_one("SELECT current_database()::text", &[]).unwrap().get(0);
    let grant =
        format!("GRANT CREATE ON DATABASE {name} TO own_schema; REVOKE CREATE ON SCHEMA public FROM PUBLIC");
    database.connect().batch_execute(&grant).unwrap();
    let shared = Shared::start(&database, "own_schema");
    eventually("epochs can be asked for", || (shared.epochs() == 200).then_some(()));
    let find = "SELECT count(*) FROM pg_tables WHERE schemaname = 'omnigate_ledger'";
    let tables: i64 = database.connect().query_one(find, &[]).unwrap().get(0);
    assert_eq!(tables, 16, "all of the ledger's and of the epochs'");
    assert!(!shared.node.log().contains("panicked"), "{}", shared.node.log());
}

#[test]
fn a_role_that_may_create_nothing_is_told_what_it_misses_and_waited_for() {
    let database = Database::new();
    with_role(&database, "too_little");
    let shared = Shared::start(&database, "too_little");
    let grants = "GRANT USAGE, CREATE ON SCHEMA omnigate_ledger TO \\\"too_little\\\"";
    eventually("readiness tells what is missing", || shared.ready("").1.contains(grants).then_some(()));
    assert_eq!(shared.epochs(), 503);
    let told = "CREATE SCHEMA omnigate_ledger; GRANT USAGE, CREATE ON SCHEMA omnigate_ledger TO too_little";
    database.connect().batch_execute(told).unwrap();
    eventually("it goes on by itself", || (shared.epochs() == 200).then_some(()));
    eventually("and says so", || (!shared.ready("").1.contains("epoch_store")).then_some(()));
}

#[test]
fn a_node_starts_without_its_database_and_only_the_rewarder_is_not_ready() {
    let server = Arc::new(Server::start());
    let database = Database::on(Arc::clone(&server));
    server.kill();
    let shared = Shared::start(&database, "omnigate");
    eventually("the rewarder is not ready", || (shared.ready("/rewarder").0 == 503).then_some(()));
    let (status, told) = shared.ready("");
    assert_eq!(status, 200, "the gateway needs no database: {told}");
    assert!(told.contains("epoch_store") && told.contains("service_down"), "{told}");
    assert_eq!(shared.ready("/gateway").0, 200);
    server.launch();
    eventually("it goes on by itself", || (shared.epochs() == 200).then_some(()));
    eventually("and says so", || (shared.ready("/rewarder").0 == 200).then_some(()));
    server.kill();
    eventually("an outage later is the same", || (shared.ready("/rewarder").0 == 503).then_some(()));
    assert_eq!(shared.ready("").0, 200);
    server.launch();
    eventually("and its end", || (shared.ready("/rewarder").0 == 200).then_some(()));
}

#[test]
fn a_node_that_cannot_start_with_a_database_says_why_and_does_not_panic() {
    let database = Database::new();
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("policy.json"), "{}").unwrap();
    let key = format!("ed25519:{}", "c3".repeat(32));
    let text = format!(
        "[admin]\nlisten = \"127.0.0.1:0\"\n[gateway]\nenabled = false\n[ledger]\nurl = \"{}\"\n\
         [rewarder]\nenabled = true\nlisten = \"127.0.0.1:0\"\npolicy_files = [\"policy.json\"]\npolicy_keys = [\"{key}\"]\n",
        address(&database, "omnigate")
    );
    std::fs::write(dir.path().join("omnigate.toml"), text).unwrap();
    let output = std::process::Command::new(super::ground::program())
        .args(["rewarder", "--config", "omnigate.toml"])
        .current_dir(dir.path())
        .env_clear()
        .output()
        .unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(told.contains("policy.json") && !told.contains("panicked"), "{told}");
    assert_eq!(output.status.code(), Some(1), "{told}");
}

/// The tables of epochs as they were before they had a schema of their own, with a settled epoch.
const OLDER_TABLES: &str = "
    CREATE TABLE rewarder_numbers (name TEXT PRIMARY KEY, value BIGINT NOT NULL);
    INSERT INTO rewarder_numbers VALUES ('version', 1), ('epoch_millis', 3600000);
    CREATE TABLE rewarder_snapshots (
        epoch BIGINT NOT NULL, node TEXT NOT NULL, document TEXT NOT NULL, object TEXT NOT NULL,
        PRIMARY KEY (epoch, node)
    );
    CREATE TABLE rewarder_rows (object TEXT PRIMARY KEY, epoch BIGINT NOT NULL, bytes BYTEA NOT NULL);
    CREATE TABLE rewarder_policies (
        id TEXT NOT NULL, version BIGINT NOT NULL, digest TEXT NOT NULL, document TEXT NOT NULL,
        PRIMARY KEY (id, version)
    );
    CREATE TABLE rewarder_epochs (
        epoch BIGINT PRIMARY KEY, state TEXT NOT NULL, reason TEXT, inputs TEXT NOT NULL, policy TEXT NOT NULL,
        input_document TEXT NOT NULL, policy_document TEXT NOT NULL,
        run_key TEXT, commitment TEXT, batches BIGINT NOT NULL, posted BIGINT NOT NULL
    );
    CREATE INDEX rewarder_epochs_by_state ON rewarder_epochs (state, epoch);
    INSERT INTO rewarder_epochs VALUES (7, 'settled', NULL, 'i', 'p', '', '', 'k', 'c', 0, 0);";

#[test]
fn epochs_of_an_older_program_move_into_the_schema() {
    let database = Database::new();
    database.connect().batch_execute(OLDER_TABLES).unwrap();
    let shared = Shared::start(&database, "omnigate");
    eventually("epochs can be asked for", || (shared.epochs() == 200).then_some(()));
    let listed = get(shared.rewarder, "/rewarder/epochs").unwrap().json();
    assert_eq!(listed["epochs"][0]["epoch"], 7, "{listed}");
    let find = "SELECT count(*) FROM pg_tables WHERE schemaname = 'public' AND tablename LIKE 'rewarder%'";
    let left: i64 = database.connect().query_one(find, &[]).unwrap().get(0);
    assert_eq!(left, 0);
}
