//! Views over real servers: what is put together, what is left out and named, and what is refused.

use std::{
    collections::BTreeMap,
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

use http::Method;
use http_body_util::BodyExt;
use ron_kernel::{
    Clock,
    config::{Loader, Schema, Sources},
};
use ron_transport::{
    Body, Request, Response,
    client::{Home, HttpConn},
    stream::Stream,
};
use serde_json::{Value, json};
use svc_gateway::{
    GatewayConfig, ViewConfig,
    views::{MAX_PART_BYTES, MAX_VIEW_BYTES, UpstreamSender, Views},
};
use types::{Deadline, Reason, Refusal};

/// Longer than anything here takes on a busy machine: only a hanging test meets it.
const PATIENCE: Duration = Duration::from_secs(60);

/// Servers by their upstreams' names, which write down what they are asked.
#[derive(Clone, Default)]
struct Upstreams {
    servers: BTreeMap<String, SocketAddr>,
    asked: Arc<Mutex<Vec<String>>>,
}

/// What a server does with a request, besides reading it.
type Answer = fn(&str, TcpStream);

impl Upstreams {
    /// One upstream, `api`.
    fn answering(answer: Answer) -> Self {
        Self::default().and("api", answer)
    }

    fn and(mut self, name: &str, answer: Answer) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        self.servers.insert(name.to_owned(), listener.local_addr().unwrap());
        let asked = Arc::clone(&self.asked);
        thread::spawn(move || {
            for mut stream in listener.incoming().map_while(Result::ok) {
                let mut head = [0; 8192];
                let read = stream.read(&mut head).unwrap_or(0);
                let head = String::from_utf8_lossy(&head[..read]).into_owned();
                asked.lock().unwrap().push(head.clone());
                thread::spawn(move || answer(head.split(' ').nth(1).unwrap_or_default(), stream));
            }
        });
        self
    }

    /// What was asked for a path.
    fn asked_for(&self, path: &str) -> String {
        let asked = self.asked.lock().unwrap();
        asked
            .iter()
            .find(|head| head.split(' ').nth(1) == Some(path))
            .unwrap_or_else(|| panic!("{asked:?}"))
            .clone()
    }
}

struct Nowhere;

impl Home for Nowhere {
    fn put_back(&self, _: HttpConn) {}
}

impl UpstreamSender for Upstreams {
    async fn send(&self, upstream: &str, mut request: Request, _: Deadline) -> Result<Response, Refusal> {
        let failed = |error: &dyn std::fmt::Display| Refusal::new(Reason::BadGateway, error.to_string());
        let Some(addr) = self.servers.get(upstream) else {
            return Err(Refusal::new(Reason::Degraded, "no server").retry_after(Duration::from_secs(3)));
        };
        let stream = tokio::net::TcpStream::connect(addr).await.map_err(|error| failed(&error))?;
        let conn = HttpConn::open(Stream::Tcp(stream));
        conn.send(&mut request, Arc::new(Nowhere)).await.map_err(|error| failed(&error))
    }

    fn reserve(&self, _: usize) -> bool {
        true
    }

    fn give_back(&self, _: usize) {}
}

/// Views that were loaded from a configuration with `parts`.
fn view(parts: &str) -> Views {
    Views::new(&load(&format!("parts = [{parts}]")).unwrap())
}

/// The views of a configuration; an error is the whole report.
fn load(lines: &str) -> Result<BTreeMap<String, ViewConfig>, String> {
    let loader = Loader::new(Schema::new().table::<GatewayConfig>(), "TEST_");
    let upstream = |name: &str| format!("[gateway.upstream.{name}]\nendpoints = [\"http://127.0.0.1:1\"]\n");
    let text = format!("{}{}[gateway.view.home]\n{lines}\n", upstream("api"), upstream("feeds"));
    let loaded = loader.load(Sources { file: Some(("test.toml".into(), text)), ..Sources::default() });
    loaded.map(|snapshot| snapshot.get::<GatewayConfig>().view.clone()).map_err(|report| report.render(false))
}

fn part(name: &str, more: &str) -> String {
    // Whatever a test does not say has all the time that a busy machine may need.
    let patient = if more.contains("budget") { "" } else { PATIENT };
    format!("{{ name = \"{name}\", upstream = \"api\", path = \"/{name}\"{more}{patient} }},")
}

const OPTIONAL: &str = ", optional = true";
const PATIENT: &str = ", budget = \"60s\"";

fn get(uri: &str) -> http::request::Builder {
    http::Request::get(uri).header("host", "www.example")
}

/// The answer to a request for the view, on a thread of its own as in a node.
async fn ask_with(
    views: Views,
    upstreams: &Upstreams,
    builder: http::request::Builder,
    budget: Duration,
) -> Result<Response, Refusal> {
    let (parts, _) = builder.body(Body::empty()).unwrap().into_parts();
    let (upstreams, clock) = (upstreams.clone(), Clock::start());
    let asking = async move {
        let view = Arc::clone(views.find(parts.uri.path()).unwrap());
        view.answer(&parts, &upstreams, clock, clock.within(budget)).await
    };
    tokio::spawn(asking).await.unwrap()
}

async fn ask(views: Views, upstreams: &Upstreams) -> Result<Response, Refusal> {
    ask_with(views, upstreams, get("/v1/views/home"), PATIENCE).await
}

async fn text(response: Response) -> String {
    String::from_utf8(response.into_body().collect().await.unwrap().to_bytes().into()).unwrap()
}

async fn json(response: Response) -> Value {
    serde_json::from_str(&text(response).await).unwrap()
}

fn write_json(mut stream: TcpStream, json: &str) {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json; charset=utf-8\r\n";
    let _ = write!(stream, "{head}content-length: {}\r\n\r\n{json}", json.len());
}

/// Says nothing until the other side is gone.
fn say_nothing(mut stream: TcpStream) {
    let _ = stream.set_read_timeout(Some(PATIENCE));
    let _ = stream.read(&mut [0; 1]);
}

/// Behaves as the path says.
fn as_the_path_says(path: &str, mut stream: TcpStream) {
    let whole =
        |head: &str, body: &str| format!("HTTP/1.1 {head}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    let typed = |content: &str, body: &str| whole(&format!("200 OK\r\ncontent-type: {content}"), body);
    let answer = match path {
        "/silent" => return say_nothing(stream),
        "/stalled" => {
            let _ = stream.write_all(
                b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 9\r\n\r\n[1,",
            );
            return say_nothing(stream);
        }
        "/half" => {
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 9\r\n\r\n[1,".to_owned()
        }
        "/garbage" => "what?\r\n\r\n".to_owned(),
        "/closes" => String::new(),
        "/unavailable" => whole("503 No\r\ncontent-type: application/json", "{}"),
        "/not_found" => whole("404 No\r\ncontent-type: application/json", "{}"),
        "/moved" => whole("302 Found\r\nlocation: /user", ""),
        "/empty" => whole("204 No Content", ""),
        "/html" => typed("text/html", "<p>1</p>"),
        "/untyped" => whole("200 OK", "1"),
        "/gzip" => typed("application/json\r\ncontent-encoding: gzip", "1"),
        "/broken" => typed("application/json", "{\"a\":}"),
        "/two" => typed("application/json", "1 2"),
        "/nothing" => typed("application/json", ""),
        "/breakout" => typed("application/json", "1},\"admin\":{"),
        "/largest" => return write_json(stream, &padded(MAX_PART_BYTES)),
        "/larger" => return write_json(stream, &padded(MAX_PART_BYTES + 1)),
        "/larger_unannounced" => {
            let json = padded(MAX_PART_BYTES + 1);
            format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: application/json\r\n\r\n{json}")
        }
        "/bytes" => {
            let head =
                b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 3\r\n\r\n\"\xff\"";
            let _ = stream.write_all(head);
            return;
        }
        path => return write_json(stream, &format!("{{\"path\":\"{path}\"}}")),
    };
    let _ = stream.write_all(answer.as_bytes());
}

fn padded(len: usize) -> String {
    format!("\"{}\"", "x".repeat(len - 2))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_view_is_its_parts_as_they_came_in_their_order() {
    let upstreams = Upstreams::answering(as_the_path_says)
        .and("feeds", |_, stream| write_json(stream, " [1.50, \"é\"]\n"));
    let feed = format!("{{ name = \"feed\", upstream = \"feeds\", path = \"/f\"{PATIENT} }},");
    let response =
        ask(view(&format!("{}{feed}{}", part("user", ""), part("ads", OPTIONAL))), &upstreams).await.unwrap();
    assert_eq!(response.status(), 200);
    assert_eq!(response.headers()["content-type"], "application/json");
    assert_eq!(response.headers()["cache-control"], "no-store");
    let expected = "{\"user\":{\"path\":\"/user\"},\"feed\": [1.50, \"é\"]\n,\"ads\":{\"path\":\"/ads\"},\"_partial\":[]}";
    assert_eq!(text(response).await, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn parts_are_asked_for_at_the_same_time() {
    /// Each waits until both have come.
    static BOTH: std::sync::Barrier = std::sync::Barrier::new(2);
    let upstreams = Upstreams::answering(|_, stream| {
        BOTH.wait();
        write_json(stream, "1");
    });
    let views = view(&format!("{}{}", part("one", PATIENT), part("two", PATIENT)));
    assert_eq!(
        json(ask(views, &upstreams).await.unwrap()).await,
        json!({ "one": 1, "two": 1, "_partial": [] })
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_optional_part_is_null_and_named_with_its_reason() {
    let upstreams = Upstreams::answering(as_the_path_says);
    let hasty = ", optional = true, budget = \"50ms\"";
    for (name, settings, entry) in [
        ("silent", hasty, json!({ "reason": "downstream_timeout" })),
        ("stalled", hasty, json!({ "reason": "downstream_timeout" })),
        ("unavailable", OPTIONAL, json!({ "reason": "bad_gateway", "status": 503 })),
        ("not_found", OPTIONAL, json!({ "reason": "bad_gateway", "status": 404 })),
        ("moved", OPTIONAL, json!({ "reason": "bad_gateway", "status": 302 })),
        ("half", OPTIONAL, json!({ "reason": "bad_gateway" })),
        ("garbage", OPTIONAL, json!({ "reason": "bad_gateway" })),
        ("closes", OPTIONAL, json!({ "reason": "bad_gateway" })),
        ("empty", OPTIONAL, json!({ "reason": "bad_gateway" })),
        ("html", OPTIONAL, json!({ "reason": "bad_gateway" })),
        ("untyped", OPTIONAL, json!({ "reason": "bad_gateway" })),
        ("gzip", OPTIONAL, json!({ "reason": "bad_gateway" })),
        ("broken", OPTIONAL, json!({ "reason": "bad_gateway" })),
        ("two", OPTIONAL, json!({ "reason": "bad_gateway" })),
        ("nothing", OPTIONAL, json!({ "reason": "bad_gateway" })),
        ("breakout", OPTIONAL, json!({ "reason": "bad_gateway" })),
        ("bytes", OPTIONAL, json!({ "reason": "bad_gateway" })),
    ] {
        let views = view(&format!("{}{}", part("user", PATIENT), part(name, settings)));
        let mut expected = json!({ "user": { "path": "/user" }, name: null, "_partial": [entry] });
        expected["_partial"][0]["part"] = name.into();
        assert_eq!(json(ask(views, &upstreams).await.unwrap()).await, expected);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_required_part_is_a_refusal_that_names_it_and_does_not_wait_for_the_others() {
    let upstreams = Upstreams::answering(as_the_path_says);
    for (name, settings, reason, words) in [
        ("silent", ", budget = \"50ms\"", Reason::DownstreamTimeout, "part `silent`: did not come in time"),
        ("unavailable", "", Reason::BadGateway, "part `unavailable`: the upstream answered 503"),
        ("html", "", Reason::BadGateway, "part `html`: is not application/json"),
    ] {
        // Were the other part waited for, the test would fail by the clock of its own server.
        let views = view(&format!("{}{}", part("stalled", PATIENT), part(name, settings)));
        let refusal = ask(views, &upstreams).await.unwrap_err();
        assert_eq!((refusal.reason, &*refusal.detail), (reason, words));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_upstream_group_refuses_keeps_its_reason_and_its_wait() {
    let unserved = "{ name = \"feed\", upstream = \"feeds\", path = \"/\" },";
    let refusal = ask(view(unserved), &Upstreams::default()).await.unwrap_err();
    assert_eq!((refusal.reason, refusal.retry_after), (Reason::Degraded, Some(Duration::from_secs(3))));
    let optional = unserved.replace(" },", ", optional = true },");
    let answer = json(ask(view(&optional), &Upstreams::default()).await.unwrap()).await;
    assert_eq!(answer, json!({ "feed": null, "_partial": [{ "part": "feed", "reason": "degraded" }] }));
}

#[tokio::test(flavor = "multi_thread")]
async fn no_budget_outlasts_the_request() {
    let upstreams = Upstreams::answering(as_the_path_says);
    let views = view(&part("silent", ", optional = true, budget = \"60s\""));
    let short = Duration::from_millis(50);
    let answer = json(ask_with(views, &upstreams, get("/v1/views/home"), short).await.unwrap()).await;
    assert_eq!(answer["_partial"], json!([{ "part": "silent", "reason": "downstream_timeout" }]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_part_and_all_parts_together_are_bounded() {
    let upstreams = Upstreams::answering(as_the_path_says);
    for (path, fits) in [("largest", true), ("larger", false), ("larger_unannounced", false)] {
        let answer =
            json(ask(view(&part(path, ", optional = true, budget = \"60s\"")), &upstreams).await.unwrap())
                .await;
        assert_eq!(answer[path].is_string(), fits, "{path}");
    }
    let largest = |index: usize| {
        format!(
            "{{ name = \"p{index}\", upstream = \"api\", path = \"/largest\", optional = true, budget = \"60s\" }},"
        )
    };
    let most = MAX_VIEW_BYTES / MAX_PART_BYTES;
    for (parts, missing) in [(most, 0), (most + 1, 1)] {
        let parts: String = (0..parts).map(largest).collect();
        let answer = json(ask(view(&parts), &upstreams).await.unwrap()).await;
        assert_eq!(answer["_partial"].as_array().unwrap().len(), missing);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn parts_learn_who_asks_and_nothing_else() {
    let upstreams = Upstreams::answering(as_the_path_says);
    let request = get("/v1/views/home?page=2")
        .header("authorization", "Bearer token")
        .header("accept-language", "de")
        .header("x-corr-id", "c-1")
        .header("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
        .header("x-forwarded-for", "192.0.2.7")
        .header("x-forwarded-proto", "https")
        .header("cookie", "session=1")
        .header("if-none-match", "\"etag\"")
        .header("range", "bytes=0-1")
        .header("accept-encoding", "gzip")
        .header("accept", "text/html")
        .header("x-other", "1");
    let fixed = format!("{{ name = \"fixed\", upstream = \"api\", path = \"/fixed?role=user\"{PATIENT} }},");
    ask_with(view(&format!("{}{fixed}", part("user", ""))), &upstreams, request, PATIENCE).await.unwrap();
    upstreams.asked_for("/fixed?role=user");
    let asked = upstreams.asked_for("/user?page=2").to_ascii_lowercase();
    let mut lines: Vec<_> = asked.trim_end().split("\r\n").collect();
    lines.sort_unstable();
    let expected = [
        "accept-encoding: identity",
        "accept-language: de",
        "accept: application/json",
        "authorization: bearer token",
        "get /user?page=2 http/1.1",
        "host: www.example",
        "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "x-corr-id: c-1",
        "x-forwarded-for: 192.0.2.7",
        "x-forwarded-proto: https",
    ];
    assert_eq!(lines, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_view_can_only_be_read() {
    let upstreams = Upstreams::answering(as_the_path_says);
    for (method, allowed) in
        [(Method::GET, true), (Method::HEAD, true), (Method::POST, false), (Method::DELETE, false)]
    {
        let request = get("/v1/views/home").method(method.clone());
        let answer = ask_with(view(&part("user", "")), &upstreams, request, PATIENCE).await;
        let refused = answer.err().map(|refusal| refusal.reason);
        assert_eq!(refused, (!allowed).then_some(Reason::MethodNotAllowed), "{method}");
    }
    // Whatever the client's method is, parts are read whole.
    assert!(upstreams.asked.lock().unwrap().iter().all(|head| head.starts_with("GET /user ")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_goes_away_ends_every_exchange() {
    let (gone, left) = std::sync::mpsc::sync_channel(2);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let servers = [("api".to_owned(), listener.local_addr().unwrap())].into();
    let upstreams = Upstreams { servers, ..Upstreams::default() };
    let (parts, _) = get("/v1/views/home").body(Body::empty()).unwrap().into_parts();
    let (clock, views) = (Clock::start(), view(&format!("{}{}", part("one", PATIENT), part("two", PATIENT))));
    let asking = tokio::spawn(async move {
        let view = Arc::clone(views.find(parts.uri.path()).unwrap());
        view.answer(&parts, &upstreams, clock, Deadline::NEVER).await
    });
    let streams = tokio::task::spawn_blocking(move || {
        (0..2)
            .map(|_| {
                let (mut stream, _) = listener.accept().unwrap();
                assert!(stream.read(&mut [0; 8192]).unwrap() > 0);
                stream
            })
            .collect::<Vec<_>>()
    });
    for mut stream in streams.await.unwrap() {
        let gone = gone.clone();
        thread::spawn(move || {
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            gone.send(stream.read(&mut [0; 1]).unwrap_or(1)).unwrap();
        });
    }
    asking.abort();
    let ends = tokio::task::spawn_blocking(move || [left.recv().unwrap(), left.recv().unwrap()]);
    assert_eq!(ends.await.unwrap(), [0, 0], "both connections are closed");
}

#[test]
fn only_the_paths_of_views_are_theirs() {
    let views = view(&part("user", ""));
    assert!(views.find("/v1/views/home").is_some());
    for path in
        ["/", "/v1/views", "/v1/views/", "/v1/views/home/", "/v1/views/home/x", "/v1/views/other", "/home"]
    {
        assert!(views.find(path).is_none(), "{path}");
    }
    assert!(Views::default().find("/v1/views/home").is_none());
}

#[track_caller]
fn assert_refused(lines: &str, words: &[&str]) {
    let report = load(lines).expect_err(lines);
    for word in words {
        assert!(report.contains(word), "{lines}: `{word}` is missing in\n{report}");
    }
}

#[test]
fn what_is_wrong_with_a_view_is_told_with_its_line() {
    let with = |more: &str| format!("parts = [{}]", part("user", more));
    assert!(load(&with("")).is_ok());
    assert_refused(&with(", budget = \"0s\""), &["test.toml:6", "must be longer than nothing"]);
    assert!(load(&with(", budget = \"60s\"")).is_ok());
    assert_refused(&with(", budget = \"61s\""), &["above the safe maximum"]);
    assert_refused(&with(", retries = 3"), &["retries"]);
    let renamed = |name: &str| with("").replace("\"user\"", &format!("\"{name}\""));
    assert!(load(&renamed("user-2_x")).is_ok());
    assert_refused(&renamed("_user"), &["must not begin with `_`"]);
    for bad in ["", "two words", "a.b", "é", "a\\\"b", &"x".repeat(65)] {
        assert_refused(&renamed(bad), &["letters, digits, `-` and `_`"]);
    }
    let elsewhere = with("").replace("\"api\"", "\"users\"");
    assert_refused(
        &elsewhere,
        &["test.toml:6", "there is no upstream `users`", "known upstreams: api, feeds"],
    );
    for bad in ["user", "", "/user#me", "/us er"] {
        assert_refused(&with("").replace("\"/user\"", &format!("\"{bad}\"")), &["test.toml:6", "is no path"]);
    }
    let twice = format!("parts = [{}{}]", part("user", ""), part("user", ""));
    assert_refused(&twice, &["there are two parts `user`"]);
}

#[test]
fn a_view_has_one_part_at_least_and_sixteen_at_most() {
    let with = |count: usize| {
        let parts: String = (0..count).map(|index| part(&format!("p{index}"), "")).collect();
        format!("parts = [{parts}]")
    };
    assert!(load(&with(1)).is_ok() && load(&with(16)).is_ok());
    assert_refused(&with(0), &["must have at least one part"]);
    assert_refused(&with(17), &["17 parts are more than 16"]);
    assert_refused("parts = []\n[gateway.view.\"a/b\"]", &["a view's name is 1 to 64 letters"]);
}
