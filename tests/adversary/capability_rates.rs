//! Capability tokens beyond their rate: one that was narrowed has no rate of its own.

use std::{path::Path, process::Command};

use crate::support::{Client, Node, Upstream};

/// Runs `omnigate token` and returns what it prints.
fn token(dir: &Path, args: &[&str]) -> String {
    let program = env!("CARGO_BIN_EXE_omnigate");
    let output = Command::new(program).arg("token").args(args).current_dir(dir).env_clear().output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

#[test]
fn a_capability_has_one_rate_with_all_that_were_narrowed_from_it() {
    let (upstream, dir) = (Upstream::start(), tempfile::tempdir().unwrap());
    token(dir.path(), &["keygen", "root.key"]);
    let mint = || token(dir.path(), &["mint", "--key", "root.key", "--tenant", "acme"]);
    let (greedy, other) = (mint(), mint());
    let narrowed: Vec<String> =
        (0..5).map(|_| token(dir.path(), &["attenuate", &greedy, "--path", "/x"])).collect();
    let settings = format!(
        "quotas = {{ per_ip_rps = 0, per_cap_rps = 1, burst = 5.0 }}\ndrr.rate_limit_rps = 0\n\
         route = [{{ path = \"/\", auth = \"always\", upstream = \"up\" }}]\n\
         upstream.up.endpoints = [\"http://{}\"]\n[auth]\nroot_keys = [\"{}/root.key\"]\n",
        upstream.addr,
        dir.path().display()
    );
    let node = Node::start_in(dir, &settings);
    // From several addresses: it is the token that counts.
    let ask = |from: u8, token: &str| {
        let request = format!("GET /x HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {token}\r\n\r\n");
        Client::connect_from(from, node.gateway).unwrap().ask(request).unwrap()
    };
    let refused = (0..1000).map(|_| ask(2, &greedy)).find(|answer| answer.status == 429);
    let refused = refused.expect("a rate of one a second is used up");
    assert!(refused.header("ratelimit").unwrap().starts_with("\"capability\""), "{refused:?}");
    // With a rate of its own each of them would be served five times.
    let served = narrowed.iter().flat_map(|token| (0..4).map(|_| ask(3, token).status)).filter(|s| *s == 200);
    let served = served.count();
    assert!(served < 20, "{served} of 20 requests were served");
    assert_eq!(ask(2, &other).status, 200, "another token has its own rate");
}
