//! Clients that are not ours: schemathesis, which asks for everything that the interface describes, and for more.

use std::{path::Path, process::Command};

use super::ground::Serving;

/// Questions of each kind; enough to reach every status that is described.
const QUESTIONS: &str = "60";

#[test]
#[ignore = "needs Python packages: tools/check clients installs them and runs this"]
fn schemathesis_finds_no_answer_that_the_description_does_not_have() {
    let serving = Serving::start("epoch_duration = \"1h\"\nmax_conns = 1024\n");
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/tools/python/bin/schemathesis");
    let url = format!("http://{}/rewarder/openapi.json", serving.addr);
    let output = Command::new(program)
        .args([
            "run",
            &url,
            "--max-examples",
            QUESTIONS,
            "--seed",
            "1",
            "--workers",
            "1",
            "--phases",
            "examples,coverage,fuzzing",
        ])
        .args(["--exclude-checks", "positive_data_acceptance"])
        .current_dir(serving.node.path())
        .output()
        .unwrap();
    let told =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}");
    assert_eq!(serving.get("/rewarder/epochs").status, 200, "it still answers");
}

/// A third implementation of the page of formats, in JavaScript. Thousands of epochs are compared when
/// `OMNIGATE_ORACLE_EPOCHS` asks for them.
#[test]
#[ignore = "needs Node 20: tools/check clients installs it and runs this"]
fn an_implementation_in_javascript_agrees_on_random_epochs() {
    let epochs = std::env::var("OMNIGATE_ORACLE_EPOCHS").unwrap_or_else(|_| "120".to_owned());
    let oracle = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/oracle/oracle.mjs");
    let output = Command::new("node")
        .arg(oracle)
        .args(["compare", env!("CARGO_BIN_EXE_omnigate"), &epochs])
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), format!("{epochs} epochs agree\n"));
}

/// OpenZeppelin's own tree and a real EVM judge the claims that the program writes.
#[test]
#[ignore = "needs packages of npm: tools/check clients installs them and runs this"]
fn a_chain_pays_every_claim_once_and_none_that_was_changed() {
    let output = Command::new("node")
        .args(["tests/clients/claims_client.mjs", "target/tools/node", env!("CARGO_BIN_EXE_omnigate"), "40"])
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."))
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.starts_with("40 trees agree; the chain paid "), "{said}");
}
