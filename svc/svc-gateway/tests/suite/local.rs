//! Routes that lead to a service in the same process: everything but the upstream applies to them.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use crate::{support::Running, upstream_support::eventually};
use http_body_util::BodyExt;
use ron_kernel::Kernel;
use ron_transport::{ConnInfo, Request, Response, inherit::Inherited};
use svc_gateway::{
    Answering, AuthConfig, BuildError, Gateway, GatewayConfig, GatewaySettings, LocalService, LocalServices,
    RouteConfig, TOPOLOGY, check_services,
};
use types::{Reason, Refusal};

/// Tells what it was asked; counts how often, and how often nobody waited for the answer.
#[derive(Default)]
struct Teller {
    asked: AtomicUsize,
    given_up: AtomicUsize,
}

struct Unfinished<'a>(&'a AtomicUsize);

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl Teller {
    async fn answer(&self, conn: &ConnInfo, request: Request) -> Result<Response, Refusal> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let (head, body) = request.into_parts();
        match head.uri.path() {
            "/late" => {
                let _given_up = Unfinished(&self.given_up);
                std::future::pending().await
            }
            "/refused" => Err(Refusal::new(Reason::NotFound, "nothing of that name is kept")),
            path => {
                let body = body.collect().await.map_err(|_| Refusal::from(Reason::Malformed))?.to_bytes();
                let field = |name: &str| {
                    head.headers.get(name).map_or("-", |value| value.to_str().unwrap()).to_owned()
                };
                let told = format!(
                    "{} {path} core {} from {} within {} body {}",
                    head.method,
                    conn.core,
                    field("x-forwarded-for"),
                    field("x-request-timeout-ms"),
                    body.len()
                );
                Ok(Response::new(told.into()))
            }
        }
    }
}

struct Adapter(Arc<Teller>);

impl LocalService for Adapter {
    fn call<'a>(&'a self, conn: &'a ConnInfo, request: Request) -> Answering<'a> {
        Box::pin(self.0.answer(conn, request))
    }
}

fn to_teller(path: &str) -> RouteConfig {
    RouteConfig { path: path.into(), service: "teller".into(), ..RouteConfig::default() }
}

fn start(mut config: GatewayConfig) -> (Running, Arc<Teller>) {
    let teller = Arc::new(Teller::default());
    let services = LocalServices::default().with("teller", Arc::new(Adapter(Arc::clone(&teller))));
    if config.route.is_empty() {
        let timeout = Some(Duration::from_secs(5).into());
        config.route = vec![
            to_teller("/"),
            RouteConfig { strip_prefix: true, timeout, ..to_teller("/in/time") },
            crate::support::route("/echo"),
        ];
    }
    (Running::start_with(config, services), teller)
}

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n")
}

#[test]
fn a_route_leads_to_a_service_as_to_an_upstream() {
    let (gateway, teller) = start(GatewayConfig::default());
    let answer = gateway.ask(get("/a"));
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    assert!(
        answer.contains("GET /a core ") && answer.contains(" from 127.0.0.1 within - body 0"),
        "{answer}"
    );
    assert!(answer.contains("x-corr-id: "), "{answer}");
    let answer = gateway.ask(get("/in/time/b"));
    assert!(answer.contains("GET /b core ") && !answer.contains("within - "), "{answer}");
    assert!(gateway.ask(get("/echo")).contains("GET /echo HTTP/1.1"), "other routes are as they were");
    assert_eq!(teller.asked.load(Ordering::SeqCst), 2);
}

#[test]
fn what_a_service_refuses_is_told_and_counted_as_the_gateways_own() {
    let (gateway, _) = start(GatewayConfig::default());
    let answer = gateway.ask(get("/refused"));
    assert!(
        answer.starts_with("HTTP/1.1 404 ") && answer.contains("nothing of that name is kept"),
        "{answer}"
    );
    assert!(answer.contains("\"corr_id\":\""), "{answer}");
    assert_eq!(gateway.scope.metrics().rejected(Reason::NotFound).get(), 1);
}

#[test]
fn a_service_that_does_not_answer_in_time_is_given_up() {
    let (gateway, teller) = start(GatewayConfig::default());
    let answer = gateway.ask(get("/in/time/late"));
    assert!(answer.starts_with("HTTP/1.1 504 ") && answer.contains("downstream_timeout"), "{answer}");
    eventually("it is given up", || teller.given_up.load(Ordering::SeqCst) == 1);
}

#[test]
fn bodies_meet_the_limits_before_a_service_sees_them() {
    let mut config = GatewayConfig::default();
    config.limits.max_body_bytes = ron_kernel::config::ByteSize::bytes(10);
    let (gateway, teller) = start(config);
    let post = |length: usize, body: &str| {
        format!("POST /a HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}")
    };
    assert!(gateway.ask(post(10, "0123456789")).contains("body 10"));
    assert!(gateway.ask(post(11, "01234567890")).starts_with("HTTP/1.1 413 "));
    let chunked = "POST /a HTTP/1.1\r\nhost: a\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n\
                   6\r\n012345\r\n6\r\n012345\r\n0\r\n\r\n";
    let answer = gateway.ask(chunked);
    assert!(answer.starts_with("HTTP/1.1 413 ") && answer.contains("body_cap"), "{answer}");
    assert_eq!(teller.asked.load(Ordering::SeqCst), 1, "a small body is read before anybody is asked");
}

#[test]
fn a_service_that_is_not_there_is_an_error_that_says_which_are() {
    let config = GatewayConfig {
        listen: "127.0.0.1:0".parse().unwrap(),
        route: vec![crate::support::route("/x"), to_teller("/")],
        ..GatewayConfig::default()
    };
    let unknown = check_services(&config, ["edge", "rewarder"]).unwrap_err();
    assert_eq!(
        unknown.to_string(),
        "gateway.route[1].service: there is no service `teller` in this process; there are: edge, rewarder"
    );
    assert!(
        check_services(&config, [])
            .unwrap_err()
            .to_string()
            .ends_with("none is enabled that a route could lead to")
    );
    assert_eq!(check_services(&config, ["teller"]), Ok(()));
    let kernel = Kernel::builder("test").build().unwrap();
    let scope = kernel.scope(&TOPOLOGY);
    let settings = GatewaySettings { gateway: &config, auth: &AuthConfig::default(), data_dir: None };
    let mut inherited = Inherited::from_env().unwrap();
    let built = kernel.block_on(Gateway::build(&scope, settings, LocalServices::default(), &mut inherited));
    assert!(matches!(built, Err(BuildError::Service(_))), "{built:?}");
}
