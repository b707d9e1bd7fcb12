//! A CA that is down, that limits rates, that refuses names, and that suggests when to renew.

use std::time::{SystemTime, UNIX_EPOCH};

use ron_transport::tls::testkit::{TestCa, write_file};

use super::{Habits, World, pebble::BLOCKED, serial, told, wait_for_failure};
use crate::support::{Node, eventually, free_addr, get};

/// A gateway in front of the CA, over which it is reached; it answers some requests in the CA's place.
struct Front {
    node: Node,
    ca_path: std::path::PathBuf,
    upstream: String,
}

impl Front {
    fn new(world: &World, answers: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let ca = TestCa::new("the front of the CA");
        let files = ca.server(&["127.0.0.1"]).write(dir.path(), "front");
        let ca_path = ca.write(dir.path(), "front");
        let upstream = format!(
            "quotas.per_ip_rps = 0\ndrr.rate_limit_rps = 0\n\
             tls = {{ cert_path = {:?}, key_path = {:?} }}\nupstream.ca = {{ endpoints = [\"https://{}\"], \
             tls = {{ ca_path = {:?} }} }}\n",
            files.cert_path,
            files.key_path,
            world.ca.addr(),
            world.ca.server_ca(),
        );
        let node = Node::start_in(dir, &Self::settings(&upstream, answers));
        Self { node, ca_path, upstream }
    }

    fn settings(upstream: &str, answers: &str) -> String {
        format!("{upstream}route = [{{ path = \"/\", upstream = \"ca\" }}{answers}]\n")
    }

    /// Answers other requests in the CA's place from now on.
    fn answer(&self, answers: &str) {
        self.node.reload(&Self::settings(&self.upstream, answers));
    }

    fn directory(&self) -> String {
        format!("https://{}/dir", self.node.gateway)
    }

    /// How many requests for a route have come.
    fn asked(&self, route: &str) -> f64 {
        let scrape = self.node.scrape();
        let lines = scrape.lines().filter(|line| {
            line.starts_with("http_requests_total") && line.contains(&format!("route=\"{route}\""))
        });
        lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
    }
}

/// `[gateway.acme]` settings by which the CA is reached over a front.
fn over(front: &Front) -> String {
    format!("acme.challenge = \"tls-alpn-01\"\nacme.ca_path = {:?}\n", front.ca_path)
}

/// The settings of a gateway that reaches the CA over a front.
fn settings(world: &World, front: &Front, hosts: &[&str]) -> String {
    let all = world.settings_at(&front.directory(), hosts, &over(front));
    let own = format!("acme.ca_path = {:?}\n", world.ca.server_ca());
    all.replacen(&own, "", 1)
}

/// A route of a front that limits new orders.
fn limit(seconds: u32) -> String {
    format!(
        ", {{ path = \"/order-plz\", name = \"orders\", respond = {{ status = 429, \
         content_type = \"application/problem+json\", body = '{{\"type\":\"urn:ietf:params:acme:error:rateLimited\",\
         \"detail\":\"too many certificates\\u001b[31m already issued\",\"status\":429}}' }}, \
         response_headers = {{ set = {{ retry-after = \"{seconds}\" }} }} }}"
    )
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

#[test]
fn a_rate_limit_is_told_and_kept_even_by_a_reload_and_its_end_is_waited_for() {
    let world = World::new(Habits::default());
    let front = Front::new(&world, &limit(3000));
    let node = world.start(&settings(&world, &front, &["one.test"]));
    let failed = wait_for_failure(&node, "one.test");
    assert!(failed["next_attempt"].as_u64().unwrap() > now() + 2900, "{failed}");
    let error = failed["last_error"].as_str().unwrap();
    assert!(error.contains("rateLimited: too many certificates [31m already issued"), "{error:?}");
    assert!(!node.log().contains('\u{1b}'), "what a CA says cannot colour a terminal");
    let asked = front.asked("orders");
    node.reload(&format!("{}max_conns = 1000\n", settings(&world, &front, &["one.test"])));
    assert!(told(&node, "one.test")["next_attempt"].as_u64().unwrap() > now() + 2900);
    assert_eq!(front.asked("orders").to_bits(), asked.to_bits(), "a reload does not ask again");
    // Another name is limited for a moment, and is served after it without anybody's doing.
    front.answer(&limit(3));
    node.reload(&settings(&world, &front, &["one.test", "two.test"]));
    wait_for_failure(&node, "two.test");
    front.answer("");
    world.wait_for("two.test");
    assert_eq!(serial(world.tls, "one.test"), None, "the first one still waits");
}

#[test]
fn a_restart_does_not_have_the_ca_asked_sooner() {
    let world = World::new(Habits::default());
    let front = Front::new(&world, &limit(3000));
    let mut node = world.start(&settings(&world, &front, &["one.test"]));
    wait_for_failure(&node, "one.test");
    eventually("the failure is remembered", || {
        std::fs::metadata(super::kept(&node).join("one.test.wait")).ok()
    });
    let asked = front.asked("orders");
    node.kill();
    node.start_again();
    let next = eventually("the name is followed", || told(&node, "one.test")["next_attempt"].as_u64());
    assert!(next > now() + 2900, "{next}");
    assert_eq!(front.asked("orders").to_bits(), asked.to_bits());
}

#[test]
fn a_ca_that_is_down_at_the_start_is_told_and_costs_the_other_names_nothing() {
    let mut world = World::new(Habits::default());
    world.ca.stop();
    let dir = tempfile::tempdir().unwrap();
    let own = TestCa::new("own");
    let files = own.server(&["own.test"]).write(dir.path(), "own");
    let trusted = own.write(dir.path(), "own");
    let sni = format!(
        "tls.sni = [{{ name = \"own.test\", cert_path = {:?}, key_path = {:?} }}]\n",
        files.cert_path, files.key_path
    );
    let settings = world.settings(&["one.test", "own.test"], &sni);
    let node = Node::start_at(world.tls, dir, &settings);
    assert_eq!(super::fetch(world.tls, "own.test", &trusted).as_deref(), Ok("/x"));
    wait_for_failure(&node, "one.test");
    assert_eq!(serial(world.tls, "one.test"), None, "there is nothing to show yet");
    let ready = get(node.admin, "/readyz").unwrap();
    assert_eq!(ready.status, 200);
    assert!(ready.body.contains("acme_failing") && ready.body.contains("one.test"), "{}", ready.body);
    world.ca.start_again();
    node.signal("HUP");
    world.wait_for("one.test");
    eventually("all is well", || {
        (!get(node.admin, "/readyz").ok()?.body.contains("acme_failing")).then_some(())
    });
    assert!(told(&node, "own.test").is_null(), "a name with a certificate of its own is not asked for");
}

#[test]
fn a_name_that_the_ca_refuses_is_told_in_its_words_and_the_others_are_served() {
    let world = World::new(Habits::default());
    let node = world.start(&world.settings(&[BLOCKED, "one.test"], ""));
    let failed = wait_for_failure(&node, BLOCKED);
    assert!(failed["last_error"].as_str().unwrap().contains("rejectedIdentifier"), "{failed}");
    world.wait_for("one.test");
    assert!(node.log().contains("certificate not obtained"));
    assert!(failed["next_attempt"].as_u64().unwrap() > now() + 600, "CAs count failures");
}

#[test]
fn a_hook_that_fails_or_hangs_is_told_and_ended() {
    let world = World::new(Habits::default());
    for (script, expected) in [
        (
            "#!/bin/sh\nyes no such zone | head -n 100000 >&2\nexit 3\n",
            "dns_hook add failed (exit status: 3): no such zone",
        ),
        ("#!/bin/sh\nexec sleep 600\n", "dns_hook add took longer than 1s"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let hook = write_file(dir.path(), "hook", script, 0o755);
        let acme = format!(
            "acme.challenge = \"dns-01\"\nacme.dns_hook = [{hook:?}]\nacme.dns_hook_timeout = \"1s\"\n"
        );
        let node = Node::start_at(free_addr(), dir, &world.settings(&["one.test"], &acme));
        let failed = wait_for_failure(&node, "one.test");
        let error = failed["last_error"].as_str().unwrap();
        assert!(error.contains(expected) && error.len() < 600, "{error}");
    }
}

#[test]
fn a_certificate_that_cannot_be_kept_is_not_ordered_again_and_again() {
    let world = World::new(Habits::default());
    let dir = tempfile::tempdir().unwrap();
    let folder = format!("127.0.0.1-{}-dir", world.ca.addr().port());
    let in_the_way = dir.path().join("data/acme").join(folder).join("one.test.pem");
    std::fs::create_dir_all(in_the_way).unwrap();
    let node = Node::start_at(world.tls, dir, &world.settings(&["one.test", "two.test"], ""));
    let failed = wait_for_failure(&node, "one.test");
    assert!(failed["last_error"].as_str().unwrap().contains("one.test.pem cannot be used"), "{failed}");
    assert!(failed["next_attempt"].as_u64().unwrap() > now() + 600, "CAs count what they issue: {failed}");
    world.wait_for("two.test");
}

#[test]
fn a_hook_that_hangs_is_ended_with_all_that_it_has_started() {
    let world = World::new(Habits::default());
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    std::fs::create_dir(&data).unwrap();
    let script = format!("#!/bin/sh\nsleep 600 &\necho $! > {}\nwait\n", data.join("child").display());
    let hook = write_file(dir.path(), "hook", &script, 0o755);
    let acme =
        format!("acme.challenge = \"dns-01\"\nacme.dns_hook = [{hook:?}]\nacme.dns_hook_timeout = \"1s\"\n");
    let node = Node::start_at(free_addr(), dir, &world.settings(&["one.test"], &acme));
    wait_for_failure(&node, "one.test");
    let child = std::fs::read_to_string(data.join("child")).unwrap();
    let stat = format!("/proc/{}/stat", child.trim());
    // One that has ended and that nobody has asked about yet is a zombie, `Z`.
    eventually("what the hook has started is ended", || match std::fs::read_to_string(&stat) {
        Ok(stat) => stat.contains(") Z ").then_some(()),
        Err(_) => Some(()),
    });
}

#[test]
fn a_ca_that_wants_to_be_left_alone_for_ever_harms_only_its_own_order() {
    let world = World::new(Habits::default());
    let front = Front::new(
        &world,
        ", { path = \"/my-order\", name = \"polls\", upstream = \"ca\", \
         response_headers = { set = { retry-after = \"18446744073709551615\" } } }",
    );
    let node = world.start(&settings(&world, &front, &["one.test"]));
    // Whether the order is ready at the first look or given up at the second is up to the CA.
    eventually("the order has ended", || {
        let told = told(&node, "one.test");
        (told["failures"].as_u64() > Some(0) || !told["expires"].is_null()).then_some(())
    });
    assert!(front.asked("polls") > 0.0);
    assert!(!node.log().contains("panic"), "{}", node.log());
}

#[test]
fn a_ca_that_suggests_an_earlier_renewal_is_followed() {
    let world = World::new(Habits::default());
    let front = Front::new(&world, "");
    let node = world.start(&settings(&world, &front, &["one.test"]));
    world.wait_for("one.test");
    let first = serial(world.tls, "one.test").unwrap();
    let at = front.node.gateway;
    let directory = format!(
        "{{\"newNonce\":\"https://{at}/nonce-plz\",\"newAccount\":\"https://{at}/sign-me-up\",\
         \"newOrder\":\"https://{at}/order-plz\",\"renewalInfo\":\"https://{at}/suggest\"}}"
    );
    let window =
        "{\"suggestedWindow\":{\"start\":\"2020-01-01T00:00:00Z\",\"end\":\"2020-01-02T00:00:00Z\"}}";
    let json = "content_type = \"application/json\"";
    front.answer(&format!(
        ", {{ path = \"/dir\", respond = {{ {json}, body = '{directory}' }} }}, \
         {{ path = \"/suggest\", name = \"suggest\", respond = {{ {json}, body = '{window}' }}, \
         response_headers = {{ set = {{ retry-after = \"21600\" }} }} }}"
    ));
    // The CA takes no notice of what a certificate replaces, so the order is repeated without that.
    node.reload(&format!("{}max_conns = 1000\n", settings(&world, &front, &["one.test"])));
    eventually("the CA was asked", || (front.asked("suggest") > 0.0).then_some(()));
    eventually("another certificate is shown", || serial(world.tls, "one.test").filter(|s| *s != first));
}
