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
    let dir = tempfile::tempdir().unwrap();
    let file = format!(
        "[admin]\nlisten = \"127.0.0.1:0\"\n[gateway]\nlisten = \"127.0.0.1:0\"\n\
         [gateway.upstream.app]\nendpoints = [\"http://{app}\"]\n\
         [gateway.upstream.auth]\nendpoints = [\"http://{auth}\"]\n\
         [[gateway.route]]\npath = \"/app\"\nupstream = \"app\"\nstrip_prefix = true\n\
         forward_auth = {{ upstream = \"auth\", path = \"/verify?app=1\", copy_headers = [\"X-User\"] }}\n"
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
