//! How a rewarder starts, what it tells, and what strangers make of its files.

use super::ground::{Ground, Place, Serving, omnigate};
use crate::{metrics::compare_with_golden, support::ask};

#[test]
fn the_scrape_of_a_rewarder_has_the_series_of_the_golden_file() {
    let serving = Serving::start("epoch_duration = \"1h\"\n");
    assert_eq!(serving.get("/rewarder/epochs").status, 200);
    compare_with_golden(&serving.node, "metrics-rewarder.txt");
}

#[test]
fn an_epochs_folder_is_a_bundle_that_verifies_offline() {
    let mut ground = Ground::new(Place::Files, 1);
    ground.book_epoch();
    ground.finish();
    ground.check();
    let bundle = ground.path().join("node-0/rewards").join(ground.epochs[0].to_string());
    let bundle = bundle.to_str().unwrap();
    let config = ground.config(0);
    let config = config.to_str().unwrap();
    let verified = omnigate(&["epoch", "verify", bundle, "--config", config, "--actor", "actor-00007"]);
    let told = String::from_utf8(verified.stdout).unwrap();
    assert!(told.contains(": verified\n") && told.contains("actor-00007"), "{told}");
    let proof = omnigate(&["epoch", "prove", bundle, "actor-00007"]).stdout;
    assert!(proof.len() < 2048, "{}", proof.len());
}

#[test]
fn without_root_keys_a_web_page_may_not_ask() {
    let serving = Serving::start("epoch_duration = \"1h\"\n");
    let request = "POST /rewarder/epochs/1/compute HTTP/1.1\r\nhost: localhost\r\norigin: http://evil.example\r\n\
                   content-length: 0\r\n\r\n";
    let answer = ask(serving.addr, request).unwrap();
    assert_eq!((answer.status, answer.json()["reason"].as_str()), (403, Some("forbidden")));
}

#[test]
fn a_forgetful_rewarder_needs_a_ledger_that_may_end() {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("omnigate.toml");
    let text = "[node]\namnesia = true\n[gateway]\nenabled = false\n[admin]\nlisten = \"127.0.0.1:0\"\n\
                [rewarder]\nenabled = true\nlisten = \"127.0.0.1:0\"\n";
    std::fs::write(&config, text).unwrap();
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_omnigate"))
        .args(["rewarder", "--config", config.to_str().unwrap()])
        .current_dir(dir.path())
        .env_clear()
        .output()
        .unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && told.contains("ledger.url"), "{told}");
    assert!(!dir.path().join("data").exists(), "it wrote something");
}
