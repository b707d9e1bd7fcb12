//! What bad input gets: a typed refusal, or a quarantine, and never a payment.

use rewards::{Policy, SignedPolicy};
use ron_accounting::{FileFault, SigningKey, SnapshotError, Used, rows_of, seal_rows};
use svc_rewarder::RewarderError;
use types::ActorId;

use crate::support::{Running, Wish, eventually, policy};

fn without_policy() -> Running {
    Running::with(Wish { with_policy: false, ..Wish::default() }, |_| {})
}

#[test]
fn policies_that_cannot_be_trusted_or_understood_are_refused() {
    let running = without_policy();
    let put = |path: &str, body: &[u8]| {
        let answer = running.ask("PUT", path, &[("content-type", "application/json")], body);
        (answer.status, answer.json()["reason"].as_str().unwrap_or("taken").to_owned())
    };
    let good = policy(&running.signer, 2, 1000);
    let text = String::from_utf8(good.clone()).unwrap();
    let stranger = SigningKey::generate().unwrap();
    let unsigned = SignedPolicy::unsigned(Policy::read(&terms(&text)).unwrap()).to_bytes();
    let forged = text.replace("\"pool\":\"1000\"", "\"pool\":\"9999\"");
    let future = text.replace("\"ruleset\":1", "\"ruleset\":77");
    let negative = text.replace("\"pool\":\"1000\"", "\"pool\":\"-1\"");
    let huge = text.replace("\"pool\":\"1000\"", &format!("\"pool\":\"{}\"", u128::MAX));
    let path = "/rewarder/policy/default";
    for (what, path, body, expected) in [
        ("not JSON", path, b"policy".as_slice(), (400, "malformed")),
        ("unsigned", path, unsigned.as_slice(), (403, "forbidden")),
        ("signed by a stranger", path, policy(&stranger, 2, 1000).as_slice(), (403, "forbidden")),
        ("altered", path, forged.as_bytes(), (403, "forbidden")),
        ("of an unknown ruleset", path, future.as_bytes(), (415, "unsupported")),
        ("a negative pool", path, negative.as_bytes(), (400, "malformed")),
        ("a huge pool", path, huge.as_bytes(), (400, "malformed")),
        ("under another id", "/rewarder/policy/other", good.as_slice(), (400, "malformed")),
        ("as it should be", path, good.as_slice(), (200, "taken")),
        ("the same again", path, good.as_slice(), (200, "taken")),
        (
            "the same version with other terms",
            path,
            policy(&running.signer, 2, 7).as_slice(),
            (409, "conflict"),
        ),
        ("an older version", path, policy(&running.signer, 1, 1000).as_slice(), (409, "conflict")),
    ] {
        let (status, reason) = put(path, body);
        assert_eq!((status, reason.as_str()), expected, "{what}");
    }
    assert_eq!(running.get(path).body, good, "what was taken stands");
    assert_eq!(running.get("/rewarder/policy/other").status, 404);
}

/// The terms within a signed policy.
fn terms(signed: &str) -> Vec<u8> {
    let document: serde_json::Value = serde_json::from_str(signed).unwrap();
    document["policy"].to_string().into_bytes()
}

/// A snapshot of one row, as another node would announce it.
fn snapshot(key: &SigningKey, epoch: u64, actor: &str) -> (Vec<u8>, Vec<u8>) {
    let used = [Used { actor: ActorId::new(actor).unwrap(), metric: "provided.bytes".to_owned(), units: 7 }];
    let (rows, root) = rows_of(&used).unwrap();
    (seal_rows(key, epoch, 1, root).unwrap().to_bytes(), rows)
}

fn accept(running: &Running, document: &[u8], rows: &[u8]) -> Result<bool, RewarderError> {
    let accepting = running.rewarder.accept_snapshot(document.to_vec(), rows.to_vec());
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(accepting)
}

#[test]
fn snapshots_that_are_not_what_their_node_sealed_are_refused() {
    let other = SigningKey::generate().unwrap();
    let listed = other.node().to_string();
    let running = Running::with(Wish::default(), |config| config.accounting_nodes = vec![listed]);
    let (document, rows) = snapshot(&other, 5, "alice");
    let (stranger, _) = snapshot(&SigningKey::generate().unwrap(), 5, "alice");
    let text = String::from_utf8(document.clone()).unwrap();
    let altered = text.replace("\"epoch\":5", "\"epoch\":6");
    // As rows were kept before they were Parquet.
    let row = "{\"actor\":\"alice\",\"metric\":\"provided.bytes\",\"units\":\"7\"}\n";
    let twice = format!("{row}{row}");
    let unsorted = format!("{row}{}", row.replace("alice", "aaa"));
    let has_row =
        |at: u64| move |error: &SnapshotError| matches!(error, SnapshotError::Row { row, .. } if *row == at);
    let check =
        |what: &str, document: &[u8], rows: &[u8], is_it: &dyn Fn(&SnapshotError) -> bool| match accept(
            &running, document, rows,
        ) {
            Err(RewarderError::Snapshot(error)) if is_it(&error) => {}
            other => panic!("{what}: {other:?}"),
        };
    check("no document", b"{}", &rows, &|error| matches!(error, SnapshotError::Malformed(_)));
    check("of a stranger", &stranger, &rows, &|error| matches!(error, SnapshotError::UnknownNode(_)));
    check("altered", altered.as_bytes(), &rows, &|error| *error == SnapshotError::BadSignature);
    let other_rows = row.replace("\"7\"", "\"8\"");
    check("other rows", &document, other_rows.as_bytes(), &|error| *error == SnapshotError::RowsDiffer);
    check("no rows", &document, b"", &|error| *error == SnapshotError::RowsDiffer);
    check("a row twice", &document, twice.as_bytes(), &has_row(1));
    check("unsorted rows", &document, unsorted.as_bytes(), &has_row(1));
    check("a negative row", &document, row.replace("\"7\"", "\"-7\"").as_bytes(), &has_row(0));
    check("an actor with a space", &document, row.replace("alice", "al ice").as_bytes(), &has_row(0));
    check("a line without an end", &document, row.trim_end().as_bytes(), &has_row(0));
    check("half a file", &document, &rows[..rows.len() / 2], &|error| {
        *error == SnapshotError::File(FileFault::Footer)
    });
    let (_, others) = snapshot(&other, 5, "alicf");
    check("another file", &document, &others, &|error| *error == SnapshotError::RowsDiffer);
    assert!(accept(&running, &document, &rows).unwrap(), "as it should be");
    assert!(accept(&running, &document, &rows).unwrap(), "twice is once");
    let (second, other_rows) = snapshot(&other, 5, "bob");
    assert!(!accept(&running, &second, &other_rows).unwrap(), "of one node and epoch the first one stays");
    running.wait_for(Some(5), "settled");
    assert_eq!((running.balance("actor/alice"), running.balance("actor/bob")), (1000, 0));
}

#[test]
fn a_snapshot_that_comes_late_is_listed_and_does_not_count() {
    let nodes: Vec<SigningKey> = (0..2).map(|_| SigningKey::generate().unwrap()).collect();
    let listed = nodes.iter().map(|node| node.node().to_string()).collect();
    let running = Running::with(Wish::default(), |config| config.accounting_nodes = listed);
    let (document, rows) = snapshot(&nodes[0], 5, "alice");
    assert!(accept(&running, &document, &rows).unwrap());
    let before = running.wait_for(Some(5), "settled");
    let (document, rows) = snapshot(&nodes[1], 5, "bob");
    assert!(accept(&running, &document, &rows).unwrap());
    let after = running.get("/rewarder/epochs/5").json();
    let counts = |of: &serde_json::Value| {
        let snapshots = of["snapshots"].as_array().unwrap().iter();
        snapshots.filter(|snapshot| snapshot["counts"] == true).count()
    };
    assert_eq!((after["snapshots"].as_array().unwrap().len(), counts(&after)), (2, 1));
    assert_eq!(before["commitment"], after["commitment"]);
    assert_eq!(running.balance("actor/bob"), 0);
}

#[test]
fn a_snapshot_whose_rows_are_lines_is_taken_as_it_was_before_they_were_parquet() {
    let other = SigningKey::generate().unwrap();
    let listed = other.node().to_string();
    let running = Running::with(Wish::default(), |config| config.accounting_nodes = vec![listed]);
    let (document, _) = snapshot(&other, 5, "alice");
    let line = b"{\"actor\":\"alice\",\"metric\":\"provided.bytes\",\"units\":\"7\"}\n";
    assert!(accept(&running, &document, line).unwrap());
    running.wait_for(Some(5), "settled");
    assert_eq!(running.balance("actor/alice"), 1000);
}

#[test]
fn an_epoch_is_not_computed_with_other_inputs_than_it_was_closed_with() {
    let running = Running::start();
    running.book("alice", 1);
    let epoch = running.wait_for(None, "settled");
    let path = format!("/rewarder/epochs/{}/compute", epoch["epoch"]);
    let json = [("content-type", "application/json")];
    let ask = |body: serde_json::Value| running.ask("POST", &path, &json, body.to_string().as_bytes());
    assert_eq!(ask(serde_json::json!({ "inputs": epoch["inputs"], "policy": epoch["policy"] })).status, 200);
    let other = format!("b3k:{}", "0".repeat(64));
    for wrong in [serde_json::json!({ "inputs": other }), serde_json::json!({ "policy": other })] {
        let answer = ask(wrong);
        assert_eq!((answer.status, answer.reason().as_str()), (409, "conflict"));
    }
}

#[test]
fn a_request_that_names_other_inputs_or_another_policy_changes_nothing() {
    let other = SigningKey::generate().unwrap();
    let listed = other.node().to_string();
    let running = Running::with(Wish::default(), |config| {
        config.accounting_nodes = vec![listed];
        config.automatic = false;
    });
    let (document, rows) = snapshot(&other, 5, "alice");
    assert!(accept(&running, &document, &rows).unwrap());
    let compute = |body: serde_json::Value| {
        let json = [("content-type", "application/json")];
        running.ask("POST", "/rewarder/epochs/5/compute", &json, body.to_string().as_bytes())
    };
    let counted = rewards::SnapshotSeal::read(&document).unwrap().snapshot;
    let epoch = counted.epoch;
    let inputs = rewards::InputSet::unchecked(epoch, vec![counted], rewards::Usage::new(1, 1)).root();
    let signed = SignedPolicy::read(&policy(&running.signer, 1, 1000)).unwrap();
    let policy = signed.policy().hash().to_string();
    let wrong = "b3k:0000000000000000000000000000000000000000000000000000000000000000";
    for body in [
        serde_json::json!({ "inputs": wrong }),
        serde_json::json!({ "policy": wrong }),
        serde_json::json!({ "inputs": inputs.to_string(), "policy": wrong }),
        serde_json::json!({ "inputs": wrong, "policy": policy }),
    ] {
        let answer = compute(body.clone());
        assert_eq!((answer.status, answer.reason().as_str()), (409, "conflict"), "{body}");
        let epoch = running.get("/rewarder/epochs/5").json();
        assert_eq!((&epoch["state"], &epoch["inputs"]), (&"open".into(), &serde_json::Value::Null), "{body}");
        assert!(running.epochs().iter().all(|epoch| epoch["state"] == "open"), "{body}");
    }
    assert_eq!(running.balance("pool/rewards"), 1_000_000);
    let answer = compute(serde_json::json!({ "inputs": inputs.to_string(), "policy": policy }));
    assert_eq!(answer.status, 202, "{answer:?}");
    running.wait_for(Some(5), "settled");
    assert_eq!(running.balance("actor/alice"), 1000);
}

#[test]
fn an_epoch_whose_sums_overflow_is_quarantined_and_nobody_is_paid() {
    let other = SigningKey::generate().unwrap();
    let listed = other.node().to_string();
    let running = Running::with(Wish::default(), |config| config.accounting_nodes = vec![listed]);
    let used = ["a", "b"].map(|actor| Used {
        actor: ActorId::new(actor).unwrap(),
        metric: "provided.bytes".to_owned(),
        units: u128::MAX / 1_000_000,
    });
    let (rows, root) = rows_of(&used).unwrap();
    let document = seal_rows(&other, 5, 2, root).unwrap().to_bytes();
    assert!(accept(&running, &document, &rows).unwrap());
    let epoch = running.wait_for(Some(5), "quarantined");
    assert!(epoch["reason"].as_str().unwrap().contains("overflow"), "{epoch}");
    let again = running.ask("POST", "/rewarder/epochs/5/compute", &[], b"");
    assert_eq!((again.status, again.reason().as_str()), (409, "conflict"));
    assert_eq!(running.balance("pool/rewards"), 1_000_000, "nothing left the pool");
    let file = "/rewarder/epochs/5/files/quarantine.json";
    // First the store says so, then everything else.
    eventually("it is written down", || running.get(file).status == 200);
    let notice = rewards::QuarantineNotice::read(&running.get(file).body).unwrap();
    assert_eq!((notice.epoch.number(), notice.intents.get(), notice.reason.as_str()), (5, 0, "overflow"));
    assert_eq!(epoch["reason"], format!("{}: {}", notice.reason, notice.detail), "one truth, told twice");
    eventually("readiness tells", || running.standing().contains("quarantine: epoch 5"));
    let counted = "quarantine_total{node=\"test\",service=\"rewarder\",epoch=\"5\"}";
    eventually("it is counted", || running.scope.all_metrics().prometheus_text().contains(counted));
    assert_eq!(running.metric(counted), 1.0);
}

#[test]
fn an_epoch_that_is_set_aside_is_told_of_after_a_restart() {
    let other = SigningKey::generate().unwrap();
    let listed = other.node().to_string();
    let first = Running::with(Wish::default(), |config| config.accounting_nodes = vec![listed.clone()]);
    for (epoch, actors) in [(5, ["a", "b"]), (6, ["c", "d"])] {
        let used = actors.map(|actor| Used {
            actor: ActorId::new(actor).unwrap(),
            metric: "provided.bytes".to_owned(),
            units: u128::MAX / 1_000_000,
        });
        let (rows, root) = rows_of(&used).unwrap();
        assert!(accept(&first, &seal_rows(&other, epoch, 2, root).unwrap().to_bytes(), &rows).unwrap());
        first.wait_for(Some(epoch), "quarantined");
    }
    let dir = first.stop();
    let second = Running::within(dir, Wish::default(), |config| config.accounting_nodes = vec![listed]);
    eventually("readiness tells", || {
        let standing = second.standing();
        standing.contains("quarantine: epoch 6: overflow") && standing.contains("; also 5")
    });
}

#[test]
fn without_a_policy_epochs_wait_and_readiness_says_so() {
    let running = without_policy();
    running.book("alice", 1);
    eventually("readiness tells", || running.standing().contains("policy: "));
    assert!(running.epochs().iter().all(|epoch| epoch["state"] == "open"));
    let put = running.ask("PUT", "/rewarder/policy/default", &[], &policy(&running.signer, 1, 1000));
    assert_eq!(put.status, 200);
    running.wait_for(None, "settled");
}
