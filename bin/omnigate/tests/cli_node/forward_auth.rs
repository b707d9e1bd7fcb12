//! Routes with `forward_auth`: who passes, what servers learn, and that nothing passes unasked.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
};

use crate::{
    http::{self, Reply},
    node::Node,
    ports::free_port,
};

/// What a server was sent: each request as it came, its body included.
pub(crate) type Heard = Arc<Mutex<Vec<String>>>;

/// A server that answers as `answer` says, and keeps what it hears.
fn server(answer: impl Fn(&str) -> String + Send + 'static) -> (String, Heard) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (addr, heard) = (listener.local_addr().unwrap().to_string(), Heard::default());
    let kept = Arc::clone(&heard);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let Some(request) = request(&stream) else { continue };
            let answer = answer(&request);
            kept.lock().unwrap().push(request);
            // The other side may have left.
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    (addr, heard)
}

/// A request and its body; nothing of a connection that is not used.
fn request(stream: &TcpStream) -> Option<String> {
    let (mut from, mut text) = (BufReader::new(stream), String::new());
    while !text.ends_with("\r\n\r\n") {
        if from.read_line(&mut text).ok()? == 0 {
            return None;
        }
    }
    let lower = text.to_lowercase();
    let length = lower.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    from.read_exact(&mut body).ok()?;
    Some(text + &String::from_utf8(body).unwrap())
}

/// Lets those with a session pass, and sends others to a page where they get one.
fn doorkeeper(request: &str) -> String {
    if request.to_lowercase().contains("cookie: session=ann") {
        "HTTP/1.1 204 No Content\r\nX-User: ann\r\nX-Secret: not for the server\r\nConnection: close\r\n\r\n"
            .to_owned()
    } else {
        "HTTP/1.1 302 Found\r\nLocation: https://login.test/\r\nSet-Cookie: state=1\r\nContent-Length: 8\r\n\
         Connection: close\r\n\r\nlog in\r\n"
            .to_owned()
    }
}

fn node(auth: &str, app: &str) -> Node {
    node_with(auth, app, "")
}

/// The same, with more lines behind those of the route.
fn node_with(auth: &str, app: &str, more: &str) -> Node {
    let dir = tempfile::tempdir().unwrap();
    let file = format!(
        "[admin]\nlisten = \"127.0.0.1:0\"\n[gateway]\nlisten = \"127.0.0.1:0\"\n\
         [gateway.upstream.app]\nendpoints = [\"http://{app}\"]\n\
         [gateway.upstream.auth]\nendpoints = [\"http://{auth}\"]\n\
         [[gateway.route]]\npath = \"/app\"\nupstream = \"app\"\nstrip_prefix = true\n\
         forward_auth = {{ upstream = \"auth\", path = \"/verify?app=1\", copy_headers = [\"X-User\"] }}\n{more}\n"
    );
    fs::write(dir.path().join("omnigate.toml"), file).unwrap();
    Node::from_file(dir)
}

pub(crate) fn app() -> (String, Heard) {
    server(|_| "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok".to_owned())
}

fn ask(node: &Node, method: &str, path: &str, headers: &[&str]) -> Reply {
    http::ask(&node.gateway, method, path, headers)
}

pub(crate) fn lines(request: &str, name: &str) -> Vec<String> {
    let name = format!("{name}:");
    request.lines().map(str::to_lowercase).filter(|line| line.starts_with(&name)).collect()
}

#[test]
fn a_request_that_may_pass_has_what_was_said_of_its_client_and_not_what_the_client_says() {
    let ((auth, asked), (app, heard)) = (server(doorkeeper), app());
    let node = node(&auth, &app);
    let fields = ["Cookie: session=ann", "X-User: admin", "X_User: admin", "X-Forwarded-Uri: /public"];
    let reply = ask(&node, "GET", "/app/orders?id=7", &fields);
    assert_eq!((reply.status, reply.body.as_str()), (200, "ok"));
    let question = asked.lock().unwrap()[0].clone();
    assert!(question.starts_with("GET /verify?app=1 HTTP/1.1\r\n"), "{question}");
    assert_eq!(lines(&question, "x-forwarded-method"), ["x-forwarded-method: get"]);
    assert_eq!(lines(&question, "x-forwarded-uri"), ["x-forwarded-uri: /app/orders?id=7"]);
    assert!(lines(&question, "x-user").is_empty(), "{question}");
    let request = heard.lock().unwrap()[0].clone();
    assert!(request.starts_with("GET /orders?id=7 HTTP/1.1\r\n"), "{request}");
    assert_eq!(lines(&request, "x-user"), ["x-user: ann"]);
    assert!(lines(&request, "x_user").is_empty() && lines(&request, "x-secret").is_empty(), "{request}");
}

#[test]
fn the_question_has_the_clients_credentials_and_nothing_that_the_route_adds_for_its_server() {
    let ((auth, asked), (app, heard)) = (server(doorkeeper), app());
    let rules = "request_headers = { set = { authorization = \"Bearer backend\" }, remove = [\"cookie\"] }";
    let node = node_with(&auth, &app, rules);
    let fields = ["Cookie: session=ann", "Authorization: Bearer client", "If-None-Match: *"];
    assert_eq!(ask(&node, "GET", "/app/orders", &fields).status, 200);
    let question = asked.lock().unwrap()[0].clone();
    assert_eq!(lines(&question, "authorization"), ["authorization: bearer client"]);
    assert_eq!(lines(&question, "cookie"), ["cookie: session=ann"]);
    assert!(lines(&question, "if-none-match").is_empty(), "{question}");
    let request = heard.lock().unwrap()[0].clone();
    assert_eq!(lines(&request, "authorization"), ["authorization: bearer backend"]);
    assert!(lines(&request, "cookie").is_empty(), "{request}");
    assert_eq!(lines(&request, "if-none-match"), ["if-none-match: *"]);
}

#[test]
fn no_other_route_to_the_server_lets_a_client_say_who_it_is() {
    let ((auth, _), (app, heard)) = (server(doorkeeper), app());
    let node = node_with(&auth, &app, "[[gateway.route]]\npath = \"/public\"\nupstream = \"app\"");
    assert_eq!(ask(&node, "GET", "/public", &["X-User: admin", "X_User: admin"]).status, 200);
    let request = heard.lock().unwrap()[0].clone();
    assert!(lines(&request, "x-user").is_empty() && lines(&request, "x_user").is_empty(), "{request}");
}

#[test]
fn a_write_that_is_denied_invalidates_nothing() {
    let (auth, _) = server(doorkeeper);
    let (app, heard) = server(|_| {
        "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"
            .to_owned()
    });
    let dir = tempfile::tempdir().unwrap();
    let file = format!(
        "[admin]\nlisten = \"127.0.0.1:0\"\n[gateway]\nlisten = \"127.0.0.1:0\"\n\
         [gateway.upstream.app]\nendpoints = [\"http://{app}\"]\n\
         [gateway.upstream.auth]\nendpoints = [\"http://{auth}\"]\n\
         [[gateway.route]]\npath = \"/\"\nupstream = \"app\"\nmethods = [\"GET\"]\ncache = {{ }}\n\
         [[gateway.route]]\npath = \"/\"\nupstream = \"app\"\nmethods = [\"POST\"]\n\
         forward_auth = {{ upstream = \"auth\", path = \"/verify\" }}\n"
    );
    fs::write(dir.path().join("omnigate.toml"), file).unwrap();
    let node = Node::from_file(dir);
    assert_eq!(ask(&node, "GET", "/page", &[]).status, 200);
    http::eventually("it is stored", || {
        let reply = ask(&node, "GET", "/page", &[]);
        reply.header("cache-status").is_some_and(|said| said.contains("hit")).then_some(())
    });
    let before = heard.lock().unwrap().len();
    assert_eq!(ask(&node, "POST", "/page", &[]).status, 302);
    let reply = ask(&node, "GET", "/page", &[]);
    assert!(reply.header("cache-status").is_some_and(|said| said.contains("hit")), "{reply:?}");
    assert_eq!(heard.lock().unwrap().len(), before, "neither the write nor the page was asked for");
    assert_eq!(ask(&node, "POST", "/page", &["Cookie: session=ann"]).status, 200);
    let reply = ask(&node, "GET", "/page", &[]);
    assert!(reply.header("cache-status").is_some_and(|said| !said.contains("hit")), "{reply:?}");
}

#[test]
fn questions_whose_clients_have_left_keep_their_slots() {
    const SLOTS: usize = 4;
    let busy = Arc::new(Mutex::new((0_usize, 0_usize)));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (auth, counts) = (listener.local_addr().unwrap(), Arc::clone(&busy));
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (stream, counts) = (stream.unwrap(), Arc::clone(&counts));
            std::thread::spawn(move || {
                if request(&stream).is_none() {
                    return;
                }
                {
                    let mut counts = counts.lock().unwrap();
                    counts.0 += 1;
                    counts.1 = counts.1.max(counts.0);
                }
                std::thread::sleep(std::time::Duration::from_secs(2));
                counts.lock().unwrap().0 -= 1;
            });
        }
    });
    let (app, _) = app();
    let dir = tempfile::tempdir().unwrap();
    let file = format!(
        "[admin]\nlisten = \"127.0.0.1:0\"\n[gateway]\nlisten = \"127.0.0.1:0\"\n\
         [gateway.fair_queue]\nmax_inflight = {SLOTS}\n[gateway.quotas]\nper_ip_rps = 0\n\
         [gateway.upstream.app]\nendpoints = [\"http://{app}\"]\n\
         [gateway.upstream.auth]\nendpoints = [\"http://{auth}\"]\n\
         [[gateway.route]]\npath = \"/\"\nupstream = \"app\"\n\
         forward_auth = {{ upstream = \"auth\", path = \"/verify\" }}\n"
    );
    fs::write(dir.path().join("omnigate.toml"), file).unwrap();
    let node = Node::from_file(dir);
    for _ in 0..30 {
        let mut stream = TcpStream::connect(&node.gateway).unwrap();
        write!(stream, "GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    // A slot is kept for `finish_abandoned`, and the server may work for longer.
    let most = busy.lock().unwrap().1;
    assert!((1..=SLOTS * 2).contains(&most), "{most} questions at once with {SLOTS} slots");
}

#[test]
fn the_body_waits_for_the_decision_and_arrives_whole() {
    let ((auth, asked), (app, heard)) = (server(doorkeeper), app());
    let node = node(&auth, &app);
    let mut stream = TcpStream::connect(&node.gateway).unwrap();
    let fields = "Host: a\r\nCookie: session=ann\r\nContent-Length: 9\r\nConnection: close\r\n";
    write!(stream, "POST /app/orders HTTP/1.1\r\n{fields}\r\nsome text").unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    assert!(reply.starts_with("HTTP/1.1 200 "), "{reply}");
    let question = asked.lock().unwrap()[0].clone();
    assert!(question.ends_with("\r\n\r\n") && lines(&question, "content-length").is_empty(), "{question}");
    assert_eq!(lines(&question, "x-forwarded-method"), ["x-forwarded-method: post"]);
    assert!(heard.lock().unwrap()[0].ends_with("some text"));
}

#[test]
fn a_request_that_may_not_pass_gets_the_answer_of_the_server_that_decides() {
    let ((auth, _), (app, heard)) = (server(doorkeeper), app());
    let node = node(&auth, &app);
    let reply = ask(&node, "GET", "/app/", &[]);
    assert_eq!((reply.status, reply.header("location")), (302, Some("https://login.test/")));
    assert_eq!((reply.header("set-cookie"), reply.body.as_str()), (Some("state=1"), "log in\r\n"));
    assert!(heard.lock().unwrap().is_empty(), "the server is not asked");
}

#[test]
fn nothing_passes_if_nobody_can_be_asked() {
    let (app, heard) = app();
    let node = node(&format!("127.0.0.1:{}", free_port()), &app);
    for _ in 0..3 {
        assert_eq!(ask(&node, "GET", "/app/", &["Cookie: session=ann"]).status, 502);
    }
    assert!(heard.lock().unwrap().is_empty(), "the server is not asked");
}

#[test]
fn a_cached_route_cannot_have_one_and_it_needs_an_upstream() {
    let dir = tempfile::tempdir().unwrap();
    let file = "[gateway.upstream.a]\nendpoints = [\"http://127.0.0.1:1\"]\n[[gateway.route]]\npath = \"/\"\nupstream = \"a\"\n\
                cache = { }\nforward_auth = { upstream = \"nope\", path = \"verify\", copy_headers = [\"host\"] }\n";
    fs::write(dir.path().join("omnigate.toml"), file).unwrap();
    let ran = crate::cli_run::run(crate::cli_run::omnigate(dir.path(), &["check"]));
    assert_eq!(ran.code, Some(2));
    for words in [
        "would answer without asking",
        "there is no upstream `nope`",
        "is not a path",
        "`host` is not a field",
    ] {
        assert!(ran.err.contains(words), "{words}: {}", ran.err);
    }
}
