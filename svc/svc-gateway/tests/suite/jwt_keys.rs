//! How the keys that sign tokens are fetched, kept and replaced, with real servers and files.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener},
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

use crate::jwt_support::{Issuer, document, issuer};
use jsonwebtoken::Algorithm;
use ron_kernel::{Exit, ExitCode, Kernel, Scope, topology::Topology};
use ron_transport::{
    resolve::Resolver,
    tls::{
        ServerTls, ServerTlsConfig,
        testkit::{HANDSHAKE_LIMIT, TestCa},
    },
};
use serde_json::json;
use svc_gateway::{
    AuthConfig,
    jwt::{
        IssuerPolicy, JwksSettings, JwtError, KeyRefresher, Policy, SettingsError, VERIFIER_KEY_REFRESHER,
        Verifier,
    },
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Longer than anything here takes on a busy machine: only a hanging test meets it.
const PATIENCE: Duration = Duration::from_secs(60);

static TOPOLOGY: Topology = Topology {
    service: "t",
    purpose: "refreshes keys",
    last_reviewed: "2026-01-01",
    invariants: &[],
    tasks: &[VERIFIER_KEY_REFRESHER],
    children: &[],
    queues: &[],
    locks: &[],
    timeouts: &[],
    metrics: &[],
    trade_offs: &[],
};

/// A node with a verifier and the task that keeps its keys.
struct Node {
    scope: Scope,
    verifier: Arc<Verifier>,
    refresher: KeyRefresher,
    conductor: thread::JoinHandle<Exit>,
}

impl Node {
    fn start(settings: impl IntoIterator<Item = JwksSettings>) -> Self {
        Self::start_with(Policy { issuers: vec![IssuerPolicy::default()], ..Policy::default() }, settings)
    }

    fn start_with(policy: Policy, settings: impl IntoIterator<Item = JwksSettings>) -> Self {
        let kernel = Kernel::builder("test").drain_deadline(PATIENCE).build().unwrap();
        let scope = kernel.scope(&TOPOLOGY);
        let verifier = Arc::new(Verifier::new(policy, scope.clock()));
        let settings = settings.into_iter().collect();
        let refresher = KeyRefresher::start(&scope, &Resolver::new(&scope), &verifier, settings);
        let conductor = thread::spawn(move || kernel.run().unwrap());
        Self { scope, verifier, refresher, conductor }
    }

    fn believes(&self, issuer: &Issuer) -> bool {
        self.judges(issuer).is_ok()
    }

    fn judges(&self, issuer: &Issuer) -> Result<(), JwtError> {
        let exp = self.scope.clock().unix().as_secs() + 3600;
        self.verifier.verify(&issuer.token(&json!({ "exp": exp }))).map(drop)
    }

    /// Why the keys are stale, if they are said to be.
    fn stale(&self) -> Option<String> {
        let standing = self.scope.readiness().standing(Some("t"));
        standing
            .into_iter()
            .find(|condition| condition.name == "jwks_stale")
            .map(|condition| condition.reason)
    }

    fn stop(self) {
        self.scope.shutdown().request("the test is over");
        assert_eq!(self.conductor.join().unwrap().code, ExitCode::Clean);
    }
}

/// Waits until `holds`, which some other thread brings about.
#[track_caller]
fn eventually(what: &str, holds: impl Fn() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < PATIENCE, "waited in vain: {what}");
        thread::sleep(Duration::from_millis(2));
    }
}

/// A server that answers whatever it was last told to, one connection per request.
#[derive(Clone)]
struct Server(Arc<Mutex<Script>>, SocketAddr);

struct Script {
    status: u16,
    body: String,
    /// What to answer first, if the issuer stumbles.
    failures_left: usize,
    requests: Vec<String>,
}

impl Server {
    fn publishing(issuers: &[&Issuer]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let script = Script { status: 200, body: document(issuers), failures_left: 0, requests: Vec::new() };
        let server = Self(Arc::new(Mutex::new(script)), listener.local_addr().unwrap());
        let serving = server.clone();
        thread::spawn(move || {
            for mut stream in listener.incoming().map_while(Result::ok) {
                let mut head = [0; 4096];
                let read = stream.read(&mut head).unwrap_or(0);
                let answer = serving.answer(&String::from_utf8_lossy(&head[..read]));
                let _ = stream.write_all(answer.as_bytes());
            }
        });
        server
    }

    fn answer(&self, request: &str) -> String {
        let mut script = self.0.lock().unwrap();
        script.requests.push(request.to_owned());
        if script.failures_left > 0 {
            script.failures_left -= 1;
            return "HTTP/1.1 500 Oops\r\ncontent-length: 0\r\n\r\n".to_owned();
        }
        let (status, body) = (script.status, &script.body);
        format!("HTTP/1.1 {status} Status\r\ncontent-length: {}\r\n\r\n{body}", body.len())
    }

    fn now(&self, change: impl FnOnce(&mut Script)) {
        change(&mut self.0.lock().unwrap());
    }

    fn requests(&self) -> usize {
        self.0.lock().unwrap().requests.len()
    }

    fn settings(&self) -> JwksSettings {
        let source = format!("http://{}/keys.json?v=1", self.1).parse().unwrap();
        JwksSettings { timeout: PATIENCE, ..JwksSettings::new(source) }
    }

    /// Asks again and again, without a pause worth the name.
    fn eager(&self) -> JwksSettings {
        JwksSettings { every: Duration::from_millis(20), ..self.settings() }
    }
}

#[test]
fn keys_are_fetched_at_once_and_no_more_often_than_asked() {
    let mine = issuer(Algorithm::EdDSA);
    let server = Server::publishing(&[mine]);
    let node = Node::start(Some(server.settings()));
    eventually("the keys arrive", || node.verifier.has_keys(""));
    assert!(node.believes(mine));
    assert_eq!(node.judges(issuer(Algorithm::ES256)), Err(JwtError::UnknownKey));
    let requests = server.0.lock().unwrap().requests.clone();
    assert_eq!(requests.len(), 1, "{requests:?}");
    let request = requests[0].to_ascii_lowercase();
    assert!(request.starts_with("get /keys.json?v=1 http/1.1\r\n"), "{request}");
    assert!(request.contains(&format!("host: {}\r\n", server.1)), "{request}");
    node.stop();
}

#[test]
fn a_server_that_stumbles_is_tried_again_at_once() {
    let mine = issuer(Algorithm::EdDSA);
    let server = Server::publishing(&[mine]);
    server.now(|script| script.failures_left = 2);
    let node = Node::start(Some(server.settings()));
    eventually("the keys arrive", || node.believes(mine));
    assert_eq!(server.requests(), 3);
    assert_eq!(node.scope.metrics().retries("jwks").get(), 2);
    assert_eq!(node.stale(), None);
    node.stop();
}

#[test]
fn old_keys_serve_while_the_issuer_is_down_and_readiness_tells_until_it_is_back() {
    let mine = issuer(Algorithm::EdDSA);
    let server = Server::publishing(&[mine]);
    let node = Node::start(Some(server.eager()));
    eventually("the keys arrive", || node.believes(mine));
    server.now(|script| script.status = 503);
    eventually("readiness tells", || node.stale().is_some());
    assert!(node.stale().unwrap().contains("answered 503"), "{:?}", node.stale());
    assert!(node.believes(mine));
    server.now(|script| script.status = 200);
    eventually("readiness tells no more", || node.stale().is_none());
    assert!(node.believes(mine));
    node.stop();
}

#[test]
fn a_document_that_is_no_key_set_or_too_large_leaves_the_old_keys_alone() {
    let mine = issuer(Algorithm::EdDSA);
    let server = Server::publishing(&[mine]);
    let node = Node::start(Some(server.eager()));
    eventually("the keys arrive", || node.believes(mine));
    let good = document(&[mine]);
    let padded = |len: usize| format!("{}{}", " ".repeat(len - good.len()), good);
    for (body, words) in [
        (String::new(), "no JSON Web Key Set"),
        (r#"{"keys":[]"#.to_owned(), "no JSON Web Key Set"),
        (r#"{"error":"try later"}"#.to_owned(), "no JSON Web Key Set"),
        (r#"{"keys":null}"#.to_owned(), "no JSON Web Key Set"),
        (r#"{"keys":[null,"a"]}"#.to_owned(), "none of the set's 2 entries"),
        ("<html>".to_owned(), "no JSON Web Key Set"),
        (padded(256 * 1024 + 1), "length limit exceeded"),
    ] {
        server.now(|script| script.body = body);
        eventually(words, || node.stale().is_some_and(|reason| reason.contains(words)));
        assert!(node.believes(mine), "{words}");
    }
    server.now(|script| script.body = padded(256 * 1024));
    eventually("the largest document is read", || node.stale().is_none());
    node.stop();
}

/// Key sets without a key that can be used: empty, and with keys for other signatures.
const WITHOUT_KEYS: [&str; 2] =
    [r#"{"keys":[]}"#, r#"{"keys":[{"kty":"AKP","alg":"ML-DSA-65","pub":"AAAA"}]}"#];

#[test]
fn a_key_set_without_keys_withdraws_those_of_before_and_readiness_tells() {
    let mine = issuer(Algorithm::EdDSA);
    let server = Server::publishing(&[mine]);
    let node = Node::start(Some(server.eager()));
    for empty in WITHOUT_KEYS {
        server.now(|script| script.body = document(&[mine]));
        eventually("the keys arrive", || node.believes(mine));
        eventually("readiness tells no more", || node.stale().is_none());
        server.now(|script| script.body = empty.to_owned());
        eventually("the key is refused", || node.judges(mine) == Err(JwtError::NoKeys));
        eventually("readiness tells", || {
            node.stale().is_some_and(|reason| reason.contains("has no key for"))
        });
        server.now(|script| script.status = 503);
        eventually("readiness tells of the failure", || {
            node.stale().is_some_and(|reason| reason.contains("503"))
        });
        assert_eq!(node.judges(mine), Err(JwtError::NoKeys), "a failure does not bring the keys back");
        server.now(|script| script.status = 200);
    }
    node.stop();
}

#[test]
fn a_token_with_an_unknown_key_has_the_keys_fetched_before_their_time() {
    let (old, new) = (issuer(Algorithm::EdDSA), issuer(Algorithm::ES256));
    let server = Server::publishing(&[old]);
    let gap = Duration::from_millis(50);
    let node = Node::start(Some(JwksSettings { unknown_key_gap: gap, ..server.settings() }));
    eventually("the keys arrive", || node.believes(old));
    server.now(|script| script.body = document(&[new]));
    assert_eq!(node.judges(new), Err(JwtError::UnknownKey));
    eventually("the new keys arrive", || node.believes(new));
    assert_eq!(node.judges(old), Err(JwtError::UnknownKey), "the old key is withdrawn");
    node.stop();
}

#[test]
fn tokens_with_unknown_keys_cannot_make_a_node_flood_the_issuer() {
    let (mine, unknown) = (issuer(Algorithm::EdDSA), issuer(Algorithm::ES256));
    let server = Server::publishing(&[mine]);
    // Longer than the test takes on any machine.
    let unknown_key_gap = PATIENCE * 10;
    let node = Node::start(Some(JwksSettings { unknown_key_gap, ..server.settings() }));
    eventually("the keys arrive", || node.believes(mine));
    for _ in 0..200 {
        assert_eq!(node.judges(unknown), Err(JwtError::UnknownKey));
        thread::yield_now();
    }
    assert_eq!(server.requests(), 1);
    node.stop();
}

#[test]
fn a_server_that_says_nothing_is_given_up_and_a_node_can_stop_meanwhile() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let source = format!("http://{}/", silent.local_addr().unwrap()).parse().unwrap();
    let hasty = JwksSettings { timeout: Duration::from_millis(50), ..JwksSettings::new(source) };
    let node = Node::start(Some(hasty.clone()));
    eventually("readiness tells", || node.stale().is_some());
    assert!(node.stale().unwrap().contains("did not arrive within 50ms"), "{:?}", node.stale());
    node.refresher.follow(vec![JwksSettings { timeout: PATIENCE, ..hasty }]);
    node.stop();
}

#[test]
fn an_issuer_that_says_nothing_does_not_keep_the_keys_of_another_away() {
    let mine = issuer(Algorithm::EdDSA);
    let (server, silent) = (Server::publishing(&[mine]), TcpListener::bind("127.0.0.1:0").unwrap());
    let policy = |name: &str| IssuerPolicy { issuer: name.into(), ..IssuerPolicy::default() };
    let policy = Policy { issuers: vec![policy("silent"), policy("mine")], ..Policy::default() };
    let source = format!("http://{}/", silent.local_addr().unwrap()).parse().unwrap();
    // Longer than the test takes on any machine.
    let silent =
        JwksSettings { issuer: "silent".into(), timeout: PATIENCE * 10, ..JwksSettings::new(source) };
    let node =
        Node::start_with(policy, [silent, JwksSettings { issuer: "mine".into(), ..server.settings() }]);
    eventually("the keys arrive", || node.verifier.has_keys("mine"));
    let exp = node.scope.clock().unix().as_secs() + 3600;
    let judged = |iss: &str| node.verifier.verify(&mine.token(&json!({ "exp": exp, "iss": iss }))).map(drop);
    assert_eq!(judged("mine"), Ok(()));
    assert_eq!(judged("silent"), Err(JwtError::NoKeys), "the keys of one issuer are not another's");
    assert_eq!(judged("stranger"), Err(JwtError::Issuer));
    node.stop();
}

/// The policy of tokens from any of these issuers.
fn issued_by(names: &[&str]) -> Policy {
    let policy = |name: &&str| IssuerPolicy { issuer: (*name).into(), ..IssuerPolicy::default() };
    Policy { issuers: names.iter().map(policy).collect(), ..Policy::default() }
}

#[test]
fn an_issuer_that_says_nothing_delays_neither_a_withdrawal_nor_a_new_key_of_another() {
    let (old, new) = (issuer(Algorithm::EdDSA), issuer(Algorithm::ES256));
    let (server, silent) = (Server::publishing(&[old]), TcpListener::bind("127.0.0.1:0").unwrap());
    let source = format!("http://{}/", silent.local_addr().unwrap()).parse().unwrap();
    // Longer than the test takes on any machine.
    let silent =
        JwksSettings { issuer: "silent".into(), timeout: PATIENCE * 10, ..JwksSettings::new(source) };
    let gap = Duration::from_millis(50);
    let mine = JwksSettings { issuer: "mine".into(), unknown_key_gap: gap, ..server.settings() };
    let settings = vec![silent, mine];
    let node = Node::start_with(issued_by(&["silent", "mine"]), settings.clone());
    let exp = node.scope.clock().unix().as_secs() + 3600;
    let judged =
        |of: &Issuer| node.verifier.verify(&of.token(&json!({ "exp": exp, "iss": "mine" }))).map(drop);
    eventually("the keys arrive", || judged(old).is_ok());

    server.now(|script| script.body = document(&[new]));
    assert_eq!(judged(new), Err(JwtError::UnknownKey));
    eventually("the new key arrives", || judged(new).is_ok());
    assert_eq!(judged(old), Err(JwtError::UnknownKey));

    server.now(|script| script.body = document(&[old]));
    node.refresher.follow(settings);
    eventually("the new key is withdrawn", || judged(new) == Err(JwtError::UnknownKey));
    node.stop();
}

#[test]
fn an_unknown_key_has_only_the_keys_of_its_own_issuer_fetched() {
    let (mine, unknown) = (issuer(Algorithm::EdDSA), issuer(Algorithm::ES256));
    let (asked, spared) = (Server::publishing(&[mine]), Server::publishing(&[mine]));
    let unknown_key_gap = Duration::from_millis(1);
    let settings = |name: &str, server: &Server| JwksSettings {
        issuer: name.into(),
        unknown_key_gap,
        ..server.settings()
    };
    let node = Node::start_with(
        issued_by(&["spared", "asked"]),
        [settings("spared", &spared), settings("asked", &asked)],
    );
    eventually("the keys arrive", || node.verifier.has_keys("spared") && node.verifier.has_keys("asked"));
    let exp = node.scope.clock().unix().as_secs() + 3600;
    let token = unknown.token(&json!({ "exp": exp, "iss": "asked" }));
    eventually("the issuer is asked again and again", || {
        assert_eq!(node.verifier.verify(&token).map(drop), Err(JwtError::UnknownKey));
        asked.requests() >= 4
    });
    assert_eq!(spared.requests(), 1);
    node.stop();
}

#[test]
fn keys_can_come_from_a_file() {
    let (old, new) = (issuer(Algorithm::EdDSA), issuer(Algorithm::ES256));
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("keys.json");
    std::fs::write(&path, document(&[old])).unwrap();
    let settings = JwksSettings::new(format!("file:{}", path.display()).parse().unwrap());
    let node = Node::start(Some(JwksSettings { every: Duration::from_millis(20), ..settings }));
    eventually("the keys arrive", || node.believes(old));
    std::fs::write(&path, " ".repeat(256 * 1024 + 1)).unwrap();
    eventually("readiness tells", || {
        node.stale().is_some_and(|reason| reason.contains("longer than 262144"))
    });
    std::fs::write(&path, document(&[new])).unwrap();
    eventually("the new keys arrive", || node.believes(new));
    std::fs::remove_file(&path).unwrap();
    eventually("readiness tells", || node.stale().is_some_and(|reason| reason.contains("cannot be read")));
    assert!(node.believes(new));
    std::fs::write(&path, "").unwrap();
    eventually("readiness tells", || {
        node.stale().is_some_and(|reason| reason.contains("no JSON Web Key Set"))
    });
    assert!(node.believes(new), "the file is being written");
    for empty in WITHOUT_KEYS {
        std::fs::write(&path, empty).unwrap();
        eventually("the key is refused", || node.judges(new) == Err(JwtError::NoKeys));
        std::fs::write(&path, document(&[new])).unwrap();
        eventually("the key is back", || node.believes(new));
    }
    node.stop();
}

#[test]
fn the_keys_of_a_source_that_is_no_longer_trusted_go_once_its_successor_has_had_its_chance() {
    let (old, new) = (issuer(Algorithm::EdDSA), issuer(Algorithm::ES256));
    let (first, second) = (Server::publishing(&[old]), Server::publishing(&[new]));
    second.now(|script| script.status = 404);
    let node = Node::start(None);
    assert_eq!(node.judges(old), Err(JwtError::NoKeys));
    node.refresher.follow(vec![first.settings()]);
    eventually("the first keys arrive", || node.believes(old));
    node.refresher.follow(vec![second.eager()]);
    eventually("the old keys go", || node.judges(old) == Err(JwtError::NoKeys));
    eventually("readiness tells", || node.stale().is_some());
    second.now(|script| script.status = 200);
    eventually("the second keys arrive", || node.believes(new));
    node.refresher.follow(Vec::new());
    eventually("all keys go", || node.judges(new) == Err(JwtError::NoKeys));
    eventually("readiness tells no more", || node.stale().is_none());
    node.stop();
}

/// A server over TLS whose certificate `ca` signed for `name`; the folder keeps its key.
fn tls_server(ca: &TestCa, name: &str, issuer: &Issuer) -> (SocketAddr, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let files = ca.server(&[name]).write(dir.path(), "server");
    let tls = ServerTls::load(&ServerTlsConfig::new(files)).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (addr, keys) = (listener.local_addr().unwrap(), document(&[issuer]));
    listener.set_nonblocking(true).unwrap();
    let serve = async move {
        let listener = tokio::net::TcpListener::from_std(listener).unwrap();
        while let Ok((stream, _)) = listener.accept().await {
            let Ok(mut stream) = tls.accept(stream, HANDSHAKE_LIMIT).await else { continue };
            let _ = stream.read(&mut [0; 4096]).await;
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", keys.len());
            let _ = stream.write_all(format!("{head}{keys}").as_bytes()).await;
            let _ = stream.shutdown().await;
        }
    };
    thread::spawn(move || {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(serve);
    });
    (addr, dir)
}

#[test]
fn a_server_over_tls_must_prove_to_be_who_it_should_be() {
    let (mine, ca, other) = (issuer(Algorithm::EdDSA), TestCa::new("ours"), TestCa::new("other"));
    let (addr, dir) = tls_server(&ca, "127.0.0.1", mine);
    let trusting = |ca: &TestCa, stem: &str| {
        let jwks_ca_path = ca.write(dir.path(), stem);
        let jwks_url = format!("https://{addr}/keys.json");
        let loaded = JwksSettings::load(&AuthConfig { jwks_url, jwks_ca_path, ..AuthConfig::default() });
        loaded.unwrap().into_iter().map(|settings| JwksSettings { timeout: PATIENCE, ..settings })
    };
    let node = Node::start(trusting(&other, "other"));
    eventually("readiness tells", || node.stale().is_some());
    assert_eq!(node.judges(mine), Err(JwtError::NoKeys));
    node.refresher.follow(trusting(&ca, "ours").collect());
    eventually("the keys arrive", || node.believes(mine));
    eventually("readiness tells no more", || node.stale().is_none());
    node.stop();
}

#[test]
fn settings_that_cannot_be_used_are_refused_when_they_are_loaded() {
    let with = |jwks_url: &str, ca: &str| {
        let jwks_url = jwks_url.to_owned();
        JwksSettings::load(&AuthConfig { jwks_url, jwks_ca_path: ca.into(), ..AuthConfig::default() })
    };
    assert!(with("", "").unwrap().is_empty());
    assert!(with("file:/keys.json", "").unwrap()[0].tls.is_none());
    assert!(with("http://127.0.0.1/", "/nowhere.pem").unwrap()[0].tls.is_none());
    assert!(matches!(with("https://id.example/", "/nowhere.pem"), Err(SettingsError::Tls(_))));
    assert!(matches!(with("keys.json", ""), Err(SettingsError::Source(_))));
}
