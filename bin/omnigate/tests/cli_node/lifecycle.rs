//! Starting, refusing to start, serving and stopping.

use std::{
    fs,
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    os::unix::fs::PermissionsExt,
    path::Path,
};

use ron_transport::{
    inherit::hand_over,
    listen::{BindOptions, Listener},
    tls::testkit::TestCa,
};
use rustix::process::Signal;
use serde_json::Value;

use crate::{
    cli_run::{omnigate, run},
    http,
    manager::Manager,
    node::Node,
};

#[test]
fn a_bad_configuration_ends_before_anything_is_opened() {
    let dir = tempfile::tempdir().unwrap();
    // Were the listener opened first, its port would be the complaint.
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let listen = format!("listen = \"{}\"\n", taken.local_addr().unwrap());
    fs::write(dir.path().join("omnigate.toml"), format!("[gateway]\n{listen}max_conns = 0\n")).unwrap();
    let ran = run(omnigate(dir.path(), &["up"]));
    assert_eq!((ran.code, ran.out.as_str()), (Some(2), ""));
    assert!(
        ran.err.starts_with("error: `gateway.max_conns`: must be at least 1\n --> omnigate.toml:3:13\n"),
        "{}",
        ran.err
    );
}

#[test]
fn a_port_in_use_is_named_with_what_to_do_about_it() {
    let dir = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = taken.local_addr().unwrap();
    for service in ["gateway", "admin"] {
        let other = if service == "gateway" { "admin" } else { "gateway" };
        let args = [
            "up".to_owned(),
            "--set".to_owned(),
            format!("{service}.listen={addr}"),
            "--set".to_owned(),
            format!("{other}.listen=127.0.0.1:0"),
        ];
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let ran = run(omnigate(dir.path(), &args));
        assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""), "{}", ran.err);
        let own = if service == "admin" {
            ", such as `--set admin.listen=127.0.0.1:0` for a second node on this machine"
        } else {
            ""
        };
        let words = format!(
            "error: {service}: port {} is in use ({addr}): stop the other process (`ss -ltnp` shows it) \
             or change `listen`{own}\n",
            addr.port()
        );
        assert!(ran.err.ends_with(&words), "{}", ran.err);
    }
}

#[test]
fn a_node_that_is_told_to_stop_says_why_and_ends_cleanly() {
    for (signal, name) in [(Signal::TERM, "SIGTERM"), (Signal::INT, "SIGINT")] {
        let mut node = Node::start(&[]);
        node.signal(signal);
        assert_eq!(node.wait(), Some(0));
        let log = node.log();
        assert!(log.contains("stopped in "), "{log}");
        assert!(log.contains(&format!("received {name}")), "{log}");
    }
}

/// The head of the first request that a server gets behind a node with these flags, which is answered.
fn asked_behind(flags: &[&str]) -> String {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", server.local_addr().unwrap());
    let answering = std::thread::spawn(move || {
        let mut head = [0; 1024];
        // Before it starts, the program looks whether anybody is there, and asks nothing.
        let (mut stream, read) = server
            .incoming()
            .map(|stream| stream.unwrap())
            .find_map(|mut stream| {
                stream.read(&mut head).ok().filter(|read| *read > 0).map(|read| (stream, read))
            })
            .unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello").unwrap();
        String::from_utf8_lossy(&head[..read]).into_owned()
    });
    let node = Node::start(&[&["--to", &url], flags].concat());
    let reply = http::get(&node.gateway, "/some/path?q=1");
    assert_eq!((reply.status, reply.body.as_str()), (200, "hello"));
    answering.join().unwrap()
}

#[test]
fn one_flag_is_enough_to_pass_everything_to_a_server() {
    assert!(asked_behind(&[]).starts_with("GET /some/path?q=1 HTTP/1.1"));
}

#[test]
fn the_server_of_one_flag_has_a_minute_unless_a_setting_says_otherwise() {
    for (flags, seconds) in [(&[][..], 60), (&["--set", "gateway.upstream.to.timeout=7s"], 7)] {
        let head = asked_behind(flags);
        let told = head.lines().find_map(|line| line.strip_prefix("x-request-timeout-ms: ")).unwrap();
        assert_eq!(told.parse::<u32>().unwrap().div_ceil(1000), seconds, "{head}");
    }
}

#[test]
fn an_ordinary_app_may_change_the_protocol_and_take_large_uploads_behind_one_flag() {
    const UPLOAD: usize = 3 * 1024 * 1024;
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", server.local_addr().unwrap());
    std::thread::spawn(move || {
        for mut stream in server.incoming().map_while(Result::ok) {
            std::thread::spawn(move || -> std::io::Result<()> {
                let (mut read, mut piece) = (Vec::new(), [0; 65536]);
                while !read.windows(4).any(|end| end == b"\r\n\r\n") {
                    let n = stream.read(&mut piece)?;
                    if n == 0 {
                        return Ok(());
                    }
                    read.extend_from_slice(&piece[..n]);
                }
                if read.starts_with(b"GET") {
                    let head = "HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\n";
                    return stream.write_all(head.as_bytes());
                }
                while read.len() < UPLOAD {
                    let n = stream.read(&mut piece)?;
                    read.extend_from_slice(&piece[..n]);
                }
                stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
            });
        }
    });
    let node = Node::start(&["--to", &url]);
    let first_line = |request: Vec<u8>| {
        let mut stream = TcpStream::connect(&node.gateway).unwrap();
        stream.write_all(&request).unwrap();
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).unwrap();
        String::from_utf8_lossy(&answer).into_owned()
    };
    let upgrade = "GET / HTTP/1.1\r\nhost: a\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\n";
    assert_eq!(first_line(upgrade.into()), "HTTP/1.1 101");
    let head = format!("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: {UPLOAD}\r\n\r\n");
    assert_eq!(first_line([head.into_bytes(), vec![b'x'; UPLOAD]].concat()), "HTTP/1.1 200");
}

#[test]
fn the_log_is_json_when_asked_and_off_when_asked() {
    let (code, log) = Node::start(&["--set", "log.format=json"]).stop();
    assert_eq!(code, Some(0));
    let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let last = lines.last().unwrap();
    assert!(last["message"].as_str().unwrap().starts_with("stopped in "), "{last}");

    let (code, log) = Node::start(&["--set", "log.level=off"]).stop();
    assert_eq!((code, log.as_str()), (Some(0), ""));
}

#[test]
fn a_service_manager_hears_when_the_node_is_ready_and_when_it_stops() {
    let manager = Manager::start();
    let node = Node::start_with(&[], |_, command| manager.want_news(command));
    assert_eq!(manager.heard(), "READY=1\n");
    assert_eq!(node.stop().0, Some(0));
    assert_eq!(manager.heard(), "STOPPING=1\n");
    manager.assert_heard_all();
}

#[test]
fn a_key_that_others_can_read_or_a_broken_certificate_ends_before_anything_is_opened() {
    let dir = tempfile::tempdir().unwrap();
    let files = TestCa::new("ca").server(&["localhost"]).write(dir.path(), "srv");
    // Were a listener opened first, its port would be the complaint.
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let listen = format!("listen = \"{}\"\n", taken.local_addr().unwrap());
    let tls = format!("cert_path = {:?}\nkey_path = {:?}\n", files.cert_path, files.key_path);
    let config = format!("[admin]\n{listen}[gateway]\n{listen}[gateway.tls]\n{tls}");
    fs::write(dir.path().join("omnigate.toml"), config).unwrap();
    let refused = |path: &Path, words: &str| {
        let ran = run(omnigate(dir.path(), &["up"]));
        assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""), "{}", ran.err);
        for word in [path.to_str().unwrap(), words] {
            assert!(ran.err.contains(word), "`{word}` is missing in\n{}", ran.err);
        }
        assert!(!ran.err.contains("in use"), "{}", ran.err);
    };

    fs::set_permissions(&files.key_path, fs::Permissions::from_mode(0o644)).unwrap();
    refused(&files.key_path, "chmod 600");

    fs::set_permissions(&files.key_path, fs::Permissions::from_mode(0o600)).unwrap();
    let broken = "-----BEGIN CERTIFICATE-----\nbm90aGluZw==\n-----END CERTIFICATE-----\n";
    fs::write(&files.cert_path, broken).unwrap();
    refused(&files.cert_path, "certificate");
}

#[test]
fn sockets_of_the_service_manager_are_used_by_name_and_spare_ones_are_closed() {
    let bind = || Listener::bind(&"127.0.0.1:0".parse().unwrap(), BindOptions::default()).unwrap();
    let (web, spare) = (bind(), bind());
    let node = Node::start_with(&["--set", "gateway.listen=inherit:web"], |_, command| {
        hand_over(command, &[("web", &web), ("spare", &spare)]).unwrap();
        // A service manager is nobody's predecessor.
        command.env_remove("RON_PREDECESSOR_PID");
    });
    assert_eq!(node.gateway, web.local_addr().to_string());
    assert_eq!(http::get(&node.gateway, "/").status, 404);
    let (code, log) = node.stop();
    assert_eq!(code, Some(0));
    assert!(log.contains("nothing is configured to use") && log.contains("spare"), "{log}");
    web.release();
    spare.release();
}

#[test]
fn an_inherited_admin_socket_that_strangers_can_reach_needs_a_token() {
    let dir = tempfile::tempdir().unwrap();
    let open = Listener::bind(&"0.0.0.0:0".parse().unwrap(), BindOptions::default()).unwrap();
    let args = ["up", "--set", "admin.listen=inherit:ops", "--set", "gateway.enabled=false"];
    let mut command = omnigate(dir.path(), &args);
    hand_over(&mut command, &[("ops", &open)]).unwrap();
    command.env_remove("RON_PREDECESSOR_PID");
    let ran = run(command);
    assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""));
    assert!(ran.err.contains("set `admin.token`"), "{}", ran.err);
    open.release();
}
