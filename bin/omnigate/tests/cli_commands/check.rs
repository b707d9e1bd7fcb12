//! `omnigate check`, and how a mistake is told.

use std::{fs, os::unix::fs::PermissionsExt};

use ron_transport::tls::testkit::TestCa;

use crate::{assert_clean, assert_refused, cli, omnigate, run};

/// Without one, a gateway that somebody has configured is warned of.
const A_ROUTE: &str = "[[gateway.route]]\npath = \"/\"\nupstream = \"a\"\n[gateway.upstream.a]\nendpoints = [\"http://127.0.0.1:9\"]\n";

#[test]
fn defaults_alone_are_right() {
    let dir = tempfile::tempdir().unwrap();
    let ran = cli(dir.path(), &["check"]);
    assert_clean(&ran);
    assert_eq!(ran.out, "ok: no file, defaults only\n");
}

#[test]
fn the_file_in_the_working_directory_is_used_unless_another_is_named() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("omnigate.toml"), "[node]\nname = \"a\"\n").unwrap();
    fs::write(dir.path().join("other.toml"), "[node]\nname = \"b\"\n").unwrap();
    assert_eq!(cli(dir.path(), &["check"]).out, "ok: omnigate.toml\n");
    assert_eq!(cli(dir.path(), &["check", "--config", "other.toml"]).out, "ok: other.toml\n");
    let mut by_variable = omnigate(dir.path(), &["check"]);
    by_variable.env("OMNIGATE_CONFIG", "other.toml");
    assert_eq!(run(by_variable).out, "ok: other.toml\n");
}

#[test]
fn a_named_file_that_is_missing_is_told_with_how_to_write_one() {
    let dir = tempfile::tempdir().unwrap();
    let words = "error: the configuration file nope.toml does not exist\n \
                 = help: write one with `omnigate config init nope.toml`, or correct the path\n";
    assert_refused(&cli(dir.path(), &["check", "--config", "nope.toml"]), 2, words);
}

#[test]
fn a_misspelt_key_is_shown_in_its_line_with_what_was_meant() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("omnigate.toml"), "[gateway]\nmax_cons = 3\n").unwrap();
    let words = "\
error: unknown key `max_cons`
 --> omnigate.toml:2:1
  |
2 | max_cons = 3
  | ^^^^^^^^
  |
  = help: did you mean `max_conns`?
";
    assert_refused(&cli(dir.path(), &["check"]), 2, words);
}

#[test]
fn every_mistake_is_told_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let args =
        ["check", "--set", "node.cores=9999", "--set", "node.name=two words", "--set", "log.level=inof"];
    let ran = cli(dir.path(), &args);
    assert_eq!(ran.code, Some(2));
    for key in ["`node.cores`", "`node.name`", "`log.level`: `inof` is not a level"] {
        assert!(ran.err.contains(key), "{key} is missing in\n{}", ran.err);
    }
}

#[test]
fn an_open_admin_listener_needs_a_token() {
    let dir = tempfile::tempdir().unwrap();
    let open = ["check", "--set", "admin.listen=0.0.0.0:9600"];
    let words = "error: `admin.listen`: 0.0.0.0:9600 can be reached from other machines, without a token\n\
                 --> flag admin.listen\n \
                 = help: set `admin.token` (in the file or as OMNIGATE_ADMIN__TOKEN), or listen on 127.0.0.1\n";
    assert_refused(&cli(dir.path(), &open), 2, words);
    let mut closed = omnigate(dir.path(), &open);
    closed.env("OMNIGATE_ADMIN__TOKEN", "0123456789abcdef");
    assert_clean(&run(closed));
}

#[test]
fn a_short_token_is_refused_and_not_repeated() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = omnigate(dir.path(), &["check"]);
    command.env("OMNIGATE_ADMIN__TOKEN", "hunter2hunter2");
    let ran = run(command);
    assert_eq!(ran.code, Some(2));
    assert!(ran.err.contains("at least 16 characters"), "{}", ran.err);
    assert!(!ran.err.contains("hunter2"), "{}", ran.err);
}

#[test]
fn the_drain_deadline_lies_between_a_second_and_a_minute() {
    let dir = tempfile::tempdir().unwrap();
    let with =
        |deadline: &str| cli(dir.path(), &["check", "--set", &format!("node.drain_deadline={deadline}")]);
    for right in ["1s", "60s"] {
        assert_clean(&with(right));
    }
    for wrong in ["999ms", "60s 1ms"] {
        assert_eq!(with(wrong).code, Some(2), "{wrong}");
    }
}

#[test]
fn an_accepted_danger_is_right_but_warned_about() {
    let dir = tempfile::tempdir().unwrap();
    let args = ["check", "--set", "node.drain_deadline=90s", "--set", "node.danger_ok=true"];
    let ran = cli(dir.path(), &args);
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), "ok: no file, defaults only\n"));
    let is_warned = ran.err.starts_with("warning: `node.drain_deadline`: ") && ran.err.contains(" is above ");
    assert!(is_warned, "{}", ran.err);
}

#[test]
fn certificates_are_loaded_and_their_keys_looked_at() {
    let dir = tempfile::tempdir().unwrap();
    let files = TestCa::new("ca").server(&["localhost"]).write(dir.path(), "srv");
    let tls = format!(
        "[gateway.tls]\ncert_path = {:?}\nkey_path = {:?}\n{A_ROUTE}",
        files.cert_path, files.key_path
    );
    fs::write(dir.path().join("omnigate.toml"), tls).unwrap();
    assert_clean(&cli(dir.path(), &["check"]));

    fs::set_permissions(&files.key_path, fs::Permissions::from_mode(0o644)).unwrap();
    let ran = cli(dir.path(), &["check"]);
    assert_eq!(ran.code, Some(2));
    assert!(ran.err.starts_with("error: gateway.tls: private key"), "{}", ran.err);
    assert!(ran.err.contains("run: chmod 600"), "{}", ran.err);

    fs::remove_file(&files.cert_path).unwrap();
    assert!(cli(dir.path(), &["check"]).err.contains("does not exist"));
    assert_clean(&cli(dir.path(), &["check", "--set", "gateway.enabled=false"]));
}

#[test]
fn what_upstreams_and_the_keys_issuer_are_trusted_by_is_loaded() {
    let dir = tempfile::tempdir().unwrap();
    let ca = TestCa::new("ca");
    let client = ca.server(&["client"]).write(dir.path(), "client");
    let trusted = ca.write(dir.path(), "trusted");
    let config = format!(
        "[gateway.upstream.up]\nendpoints = [\"https://127.0.0.1:9\"]\n\
         tls = {{ ca_path = {trusted:?}, cert_path = {:?}, key_path = {:?} }}\n\
         [auth]\njwks_url = \"https://id.example.org/jwks\"\njwks_ca_path = {trusted:?}\n\
         jwt_issuer = \"i\"\njwt_audience = \"a\"\n{A_ROUTE}",
        client.cert_path, client.key_path
    );
    fs::write(dir.path().join("omnigate.toml"), config).unwrap();
    assert_clean(&cli(dir.path(), &["check"]));

    let elsewhere = ["check", "--set", "auth.jwks_ca_path=nowhere.pem"];
    let ran = cli(dir.path(), &elsewhere);
    assert_eq!(ran.code, Some(2));
    assert!(
        ran.err.starts_with("error: auth: jwks_ca_path: ") && ran.err.contains("nowhere.pem"),
        "{}",
        ran.err
    );

    fs::set_permissions(&client.key_path, fs::Permissions::from_mode(0o644)).unwrap();
    let ran = cli(dir.path(), &["check"]);
    assert_eq!(ran.code, Some(2));
    assert!(ran.err.starts_with("error: gateway.upstream.up.tls: private key"), "{}", ran.err);

    fs::remove_file(&trusted).unwrap();
    let ran = cli(dir.path(), &["check"]);
    assert!(
        ran.err.starts_with("error: gateway.upstream.up.tls: ") && ran.err.contains("trusted.ca.pem"),
        "{}",
        ran.err
    );
}

#[test]
fn a_route_to_a_service_that_is_not_there_is_told() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("omnigate.toml"), "[[gateway.route]]\npath = \"/\"\nservice = \"nobody\"\n")
        .unwrap();
    let ran = cli(dir.path(), &["check"]);
    assert_eq!(ran.code, Some(2));
    assert!(ran.err.contains("gateway.route[0].service: there is no service `nobody`"), "{}", ran.err);
}

#[test]
fn a_variable_that_is_no_setting_is_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = omnigate(dir.path(), &["check"]);
    command.env("OMNIGATE_GATEWAY__MAX_CONS", "3");
    let ran = run(command);
    assert_eq!(ran.code, Some(2));
    assert!(ran.err.contains("OMNIGATE_GATEWAY__MAX_CONS"), "{}", ran.err);
}

#[test]
fn what_cannot_work_is_named_with_its_line_and_is_no_error() {
    let dir = tempfile::tempdir().unwrap();
    let file = "\
[gateway]
redirect_http = \"127.0.0.1:8089\"
[edge]
enabled = true
packs = [\"nope.pmtiles\"]
roots = [{ path = \"nowhere\" }, { path = \"omnigate.toml\" }]
[auth]
jwks_url = \"file:/no/such/keys.json\"
";
    fs::write(dir.path().join("omnigate.toml"), file).unwrap();
    let ran = cli(dir.path(), &["check"]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), "ok: omnigate.toml\n"), "{}", ran.err);
    for (message, line) in [
        ("`edge.packs[0]`: there is no file DIR/nope.pmtiles", "omnigate.toml:5"),
        ("`edge.roots[0]`: DIR/nowhere does not exist", "omnigate.toml:6"),
        ("`edge.roots[1]`: DIR/omnigate.toml is not a folder", "omnigate.toml:6"),
        (
            "`gateway.redirect_http`: clients are sent to HTTPS, which this gateway does not speak",
            "omnigate.toml:2",
        ),
        ("`auth.jwks_url`: there is no file /no/such/keys.json", "omnigate.toml:8"),
    ] {
        let message = message.replace("DIR", &dir.path().display().to_string());
        assert!(ran.err.contains(&format!("warning: {message}\n--> {line}\n")), "{message}: {}", ran.err);
    }
    assert!(ran.err.contains("`gateway.route`: there is no route"), "{}", ran.err);
    let there = dir.path().join("public");
    fs::create_dir(&there).unwrap();
    let fine = "[gateway.upstream.a]\nendpoints = [\"http://127.0.0.1:1\"]\n[[gateway.route]]\npath = \"/\"\nupstream = \"a\"\n\
                [edge]\nenabled = true\nroots = [\"public\"]\n";
    fs::write(dir.path().join("omnigate.toml"), fine).unwrap();
    assert_clean(&cli(dir.path(), &["check"]));
}

#[test]
fn certificates_that_cannot_be_obtained_are_warned_of_or_refused() {
    let dir = tempfile::tempdir().unwrap();
    let file = "\
[gateway]
listen = \"0.0.0.0:443\"
redirect_http = \"127.0.0.1:8089\"
acme = { agree_tos = true, names = [\"www.example.org\", \"app.example.org\"] }
upstream.a.endpoints = [\"http://127.0.0.1:1\"]
route = [{ path = \"/\", host = [\"www.example.org\"], upstream = \"a\" }]
";
    fs::write(dir.path().join("omnigate.toml"), file).unwrap();
    let ran = cli(dir.path(), &["check"]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), "ok: omnigate.toml\n"), "{}", ran.err);
    for message in [
        "`gateway.acme.names[1]`: no route has the host app.example.org",
        "`gateway.redirect_http`: no CA reaches 127.0.0.1:8089",
    ] {
        assert!(ran.err.contains(&format!("warning: {message}")), "{message}: {}", ran.err);
    }
    assert_eq!(ran.err.matches("warning:").count(), 2, "{}", ran.err);
    for (set, why) in [
        ("node.amnesia=true", "node.amnesia is on"),
        ("gateway.acme.ca_path=missing.pem", "missing.pem does not exist"),
        ("gateway.acme.agree_tos=false", "must be true"),
    ] {
        let ran = cli(dir.path(), &["check", "--set", set]);
        assert!(ran.code == Some(2) && ran.err.contains(why), "{set}: {}", ran.err);
    }
    assert!(!dir.path().join("data").exists(), "a check writes nothing");
}

#[test]
fn a_certificate_that_ends_soon_is_warned_of() {
    let dir = tempfile::tempdir().unwrap();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let ends = now + std::time::Duration::from_secs(5 * 24 * 60 * 60 + 600);
    TestCa::new("authority").server_until(&["www.test"], ends).write(dir.path(), "soon");
    let ran = cli(
        dir.path(),
        &[
            "check",
            "--set",
            "gateway.tls.cert_path=soon.cert.pem",
            "--set",
            "gateway.tls.key_path=soon.key.pem",
        ],
    );
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert!(ran.err.contains("expires in 5 days; renew it and reload"), "{}", ran.err);
}

#[test]
fn the_edge_refuses_a_folder_that_does_not_exist() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("file"), "").unwrap();
    let missing = cli(dir.path(), &["edge", "--dir", "nope"]);
    assert!(missing.code == Some(2) && missing.err.contains("there is no folder nope"), "{}", missing.err);
    let file = cli(dir.path(), &["edge", "--dir", "file"]);
    assert!(file.code == Some(2) && file.err.contains("file is not a folder"), "{}", file.err);
}

#[test]
fn relative_paths_start_at_the_folder_of_the_file_wherever_the_program_is_started() {
    let dir = tempfile::tempdir().unwrap();
    let conf = dir.path().join("conf");
    fs::create_dir(&conf).unwrap();
    let route =
        "[[gateway.route]]\npath = \"/\"\nupstream = \"a\"\nbasic_auth = { users_path = \"users\" }\n";
    let upstream = "[gateway.upstream.a]\nendpoints = [\"http+unix:run/app.sock\"]\n";
    fs::write(conf.join("omnigate.toml"), format!("{route}{upstream}")).unwrap();
    let args = ["check", "--config", "conf/omnigate.toml"];
    // What lies in the working folder does not count, and the message says where it was looked for.
    fs::write(dir.path().join("users"), "").unwrap();
    let ran = cli(dir.path(), &args);
    assert_eq!(ran.code, Some(2), "{}", ran.err);
    let tried = fs::canonicalize(&conf).unwrap().join("users");
    assert!(ran.err.contains(&tried.display().to_string()), "{}", ran.err);
    let hash = "$2y$05$abcdefghijklmnopqrstuuxlNWm9uHn9YMz1c8dzHJ8uPz9XDNxXO";
    fs::write(conf.join("users"), format!("ann:{hash}\n")).unwrap();
    assert_eq!(cli(dir.path(), &args).code, Some(0));
    let shown = cli(dir.path(), &["config", "show", "--config", "conf/omnigate.toml"]).out;
    let socket = fs::canonicalize(&conf).unwrap().join("run/app.sock");
    assert!(shown.contains(&format!("http+unix:{}", socket.display())), "{shown}");
    // A flag is typed in the working folder.
    let ran = cli(dir.path(), &["config", "show", "--set", "node.data_dir=here"]);
    let here = fs::canonicalize(dir.path()).unwrap().join("here");
    assert!(ran.out.contains(&format!("node.data_dir = \"{}\"", here.display())), "{}", ran.out);
}
