//! Bodies from memory through the guard, and one through a connection to an upstream.

use std::{
    io::Write,
    os::unix::net::UnixStream,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use bytes::Bytes;
use flate2::{Compression, write::GzEncoder};
use futures_util::stream;
use http::{HeaderMap, HeaderValue};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use ron_kernel::{Kernel, metrics::Counter};
use ron_transport::{
    client::{Home, HttpConn},
    stream::Stream,
};
use tokio::io::AsyncReadExt;
use types::Moment;

use super::{decoded::FREE_STEPS, *};
use crate::tenant::{Class, TenantKey, TenantName, Tenants};

const MIB: usize = 1024 * 1024;

/// A budget that no test uses up.
fn ample() -> Arc<DecodeBudget> {
    budget(1 << 30)
}

fn budget(bytes: u64) -> Arc<DecodeBudget> {
    Arc::new(DecodeBudget::new(bytes, Counter::default()))
}

/// A body of unknown length, as a chunked one is.
fn chunked<'a>(chunks: impl IntoIterator<Item = &'a [u8]>) -> Body {
    let frames: Vec<_> =
        chunks.into_iter().map(|chunk| Ok(Frame::data(Bytes::copy_from_slice(chunk)))).collect();
    Body::streaming(StreamBody::new(stream::iter(frames)))
}

fn whole(bytes: &[u8]) -> Body {
    Bytes::copy_from_slice(bytes).into()
}

fn request(codings: &[&'static str], body: Body) -> Request {
    let mut request = Request::new(body);
    for coding in codings {
        request.headers_mut().append(CONTENT_ENCODING, HeaderValue::from_static(coding));
    }
    request
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).expect("a vector takes all");
    encoder.finish().expect("a vector takes all")
}

/// What a body gives until it ends or breaks; and that it stays broken.
#[derive(Debug, Default)]
struct Outcome {
    bytes: Vec<u8>,
    longest: usize,
    trailers: Option<HeaderMap>,
    broken: bool,
}

async fn read(mut body: Body) -> Outcome {
    let mut outcome = Outcome::default();
    loop {
        let said_to_end = body.is_end_stream();
        let Some(frame) = body.frame().await else {
            return outcome;
        };
        assert!(!said_to_end, "whoever believed it would miss a frame");
        let Ok(frame) = frame else {
            assert!(!body.is_end_stream(), "an error is not an end");
            assert!(matches!(body.frame().await, Some(Err(_))), "what broke does not mend");
            outcome.broken = true;
            return outcome;
        };
        match frame.into_data() {
            Ok(data) => {
                assert!(!data.is_empty() && outcome.trailers.is_none());
                outcome.longest = outcome.longest.max(data.len());
                outcome.bytes.extend_from_slice(&data);
            }
            Err(frame) => outcome.trailers = frame.into_trailers().ok(),
        }
    }
}

/// The outcome of a body and the reason it broke for.
async fn guarded(mut request: Request, limits: &BodyLimits) -> (Outcome, Option<Reason>) {
    let breach = guard(&mut request, limits, Payer::nobody(&ample())).expect("it is let in");
    let outcome = read(request.into_body()).await;
    let reason = breach.and_then(|breach| breach.refusal()).map(|refusal| refusal.reason);
    assert_eq!(outcome.broken, reason.is_some(), "a breach breaks the stream, and nothing else does here");
    (outcome, reason)
}

fn refused(mut request: Request, limits: &BodyLimits) -> Reason {
    guard(&mut request, limits, Payer::nobody(&ample())).map(|_| ()).expect_err("it is refused").reason
}

#[test]
fn what_needs_no_watching_stays_as_it_is() {
    let at_cap = vec![1; MIB];
    let unlimited = BodyLimits { max_body_bytes: u64::MAX, ..BodyLimits::default() };
    let table = [
        (request(&[], Body::empty()), BodyLimits::default()),
        (request(&["gzip"], Body::empty()), BodyLimits::default()),
        (request(&["unheard-of"], Body::empty()), BodyLimits::default()),
        (request(&[], whole(&at_cap)), BodyLimits::default()),
        (request(&["identity"], whole(b"body")), BodyLimits::default()),
        (request(&[], chunked([at_cap.as_slice(), b"more"])), unlimited),
    ];
    for (mut request, limits) in table {
        let kind = format!("{:?}", request.body());
        let breach = guard(&mut request, &limits, Payer::nobody(&ample())).expect("it is let in");
        assert!(breach.is_none());
        assert_eq!(format!("{:?}", request.body()), kind);
    }
}

#[test]
fn a_body_declared_too_large_is_refused_before_it_is_read() {
    let too_large = vec![1; MIB + 1];
    assert_eq!(refused(request(&[], whole(&too_large)), &BodyLimits::default()), Reason::BodyCap);
    assert_eq!(refused(request(&["gzip"], whole(&too_large)), &BodyLimits::default()), Reason::BodyCap);
}

#[test]
fn a_coding_that_is_not_decoded_is_refused() {
    for codings in [&["compress"][..], &["gzip, br"], &["gzip", "gzip"]] {
        assert_eq!(refused(request(codings, whole(b"body")), &BodyLimits::default()), Reason::Unsupported);
    }
}

#[tokio::test]
async fn a_chunked_body_breaks_at_the_byte_over_the_cap() {
    let limits = BodyLimits { max_body_bytes: 10, ..BodyLimits::default() };
    let (outcome, reason) = guarded(request(&[], chunked([b"01234".as_slice(), b"56789"])), &limits).await;
    assert_eq!((outcome.bytes.as_slice(), reason), (b"0123456789".as_slice(), None));
    let (outcome, reason) =
        guarded(request(&[], chunked([b"01234".as_slice(), b"56789", b"!"])), &limits).await;
    assert_eq!((outcome.bytes.as_slice(), reason), (b"0123456789".as_slice(), Some(Reason::BodyCap)));
}

#[tokio::test]
async fn a_compressed_body_is_held_to_the_cap_as_it_is_sent() {
    let sent = gzip(b"so small that it is larger when compressed");
    let limits = BodyLimits { max_body_bytes: sent.len() as u64 - 1, ..BodyLimits::default() };
    let (_, reason) = guarded(request(&["gzip"], chunked(sent.chunks(8))), &limits).await;
    assert_eq!(reason, Some(Reason::BodyCap));
}

#[tokio::test]
async fn a_compressed_body_is_passed_on_decoded_in_bounded_pieces() {
    let body: Vec<u8> = (0..200_000_u32).flat_map(|number| (number / 3).to_le_bytes()).collect();
    let sent = gzip(&body);
    let pieces =
        [whole(&sent), chunked([sent.as_slice()]), chunked(sent.chunks(1000)), chunked(sent.chunks(1))];
    for sent in pieces {
        let (outcome, reason) = guarded(request(&["gzip"], sent), &BodyLimits::default()).await;
        assert_eq!(reason, None);
        assert!(outcome.bytes == body, "it is not what was sent");
        assert!(outcome.longest <= decode::STEP_MAX);
    }
}

/// A compressed body of some MiB behind the guard, for this payer.
fn decoded(payer: Payer<'_>) -> Body {
    let body: Vec<u8> = (0..1_000_000_u32).flat_map(|number| (number / 3).to_le_bytes()).collect();
    let mut request = request(&["gzip"], whole(&gzip(&body)));
    let limits = BodyLimits { max_body_bytes: u64::MAX, ..BodyLimits::default() };
    guard(&mut request, &limits, payer).expect("it is let in");
    request.into_body()
}

fn poll(body: &mut Body) -> Poll<Option<bool>> {
    let polled = Pin::new(body).poll_frame(&mut Context::from_waker(Waker::noop()));
    polled.map(|frame| frame.map(|frame| frame.is_ok()))
}

#[test]
fn a_decoder_that_has_much_to_do_lets_other_tasks_have_their_turns() {
    let mut body = decoded(Payer::nobody(&ample()));
    let mut turns = 0;
    loop {
        match poll(&mut body) {
            Poll::Pending => turns += 1,
            Poll::Ready(Some(is_fine)) => assert!(is_fine),
            Poll::Ready(None) => break,
        }
    }
    assert!(turns > 0, "all of it was there, and no other task was let in");
}

#[test]
fn the_decoders_of_one_tenant_take_turns() {
    let kernel = Kernel::builder("test").build().expect("a kernel");
    let tenants = Tenants::new(8, &kernel.scope(&crate::TOPOLOGY), crate::fleet::Limits::default());
    let tenant = |name: &str| {
        let key = TenantKey { class: Class::Authed, name: TenantName::Named(name.into()) };
        tenants.get(&key, Moment::ORIGIN)
    };
    let (one, other, budget) = (tenant("one"), tenant("other"), ample());
    let mut bodies = [&one, &other].map(|tenant| decoded(Payer::tenant(&budget, tenant)));
    let step = Arc::clone(one.decoder_turns()).try_acquire_owned().expect("nobody makes one");
    for _ in 0..FREE_STEPS {
        assert_eq!(poll(&mut bodies[0]), Poll::Ready(Some(true)), "what a body begins with does not wait");
    }
    assert!(poll(&mut bodies[0]).is_pending() && poll(&mut bodies[0]).is_pending());
    assert_eq!(poll(&mut bodies[1]), Poll::Ready(Some(true)), "another tenant's does not wait");
    drop(step);
    assert_eq!(poll(&mut bodies[0]), Poll::Ready(Some(true)));
}

#[test]
fn what_spoke_of_the_compressed_bytes_is_taken_off_and_the_rest_is_kept() {
    let fields = [
        ("content-encoding", false),
        ("content-length", false),
        ("content-digest", false),
        ("repr-digest", false),
        ("content-md5", false),
        ("content-type", true),
        ("x-other", true),
    ];
    for (coding, compressed) in [("gzip", true), ("identity", false)] {
        let mut request = request(&[], chunked([gzip(b"body").as_slice()]));
        for (name, _) in fields {
            let value = if name == "content-encoding" { coding } else { "23" };
            request.headers_mut().insert(name, HeaderValue::from_static(value));
        }
        let breach =
            guard(&mut request, &BodyLimits::default(), Payer::nobody(&ample())).expect("it is let in");
        assert!(breach.is_some());
        for (name, stays) in fields {
            assert_eq!(request.headers().contains_key(name), stays || !compressed, "{name} of {coding}");
        }
    }
}

#[tokio::test]
async fn a_bomb_breaks_for_what_it_expands_to() {
    let bomb = gzip(&vec![0; 4 * MIB]);
    let (outcome, reason) = guarded(request(&["gzip"], whole(&bomb)), &BodyLimits::default()).await;
    assert_eq!(reason, Some(Reason::DecodedRatio));
    assert!(outcome.bytes.len() <= 10 * bomb.len() + 64 * 1024);

    let patient =
        BodyLimits { decode_ratio_max: 5000, decode_abs_cap_bytes: MIB as u64, ..BodyLimits::default() };
    let (outcome, reason) = guarded(request(&["gzip"], whole(&bomb)), &patient).await;
    assert_eq!(reason, Some(Reason::DecodedCap));
    assert!(outcome.bytes.len() <= MIB);
}

#[tokio::test]
async fn a_compressed_body_that_is_none_or_ends_early_is_malformed() {
    let sent = gzip(b"whole");
    for bad in [b"not compressed at all".as_slice(), &sent[..sent.len() - 1], &[&sent[..], b"more"].concat()]
    {
        let (_, reason) = guarded(request(&["gzip"], chunked([bad])), &BodyLimits::default()).await;
        assert_eq!(reason, Some(Reason::Malformed), "{bad:?}");
    }
}

#[tokio::test]
async fn trailers_follow_the_last_decoded_byte() {
    let trailers = HeaderMap::from_iter([(HeaderName::from_static("x-sum"), HeaderValue::from_static("7"))]);
    let with_trailers = |sent: &[u8]| {
        let data = Ok(Frame::data(Bytes::copy_from_slice(sent)));
        let frames = vec![data, Ok(Frame::trailers(trailers.clone()))];
        Body::streaming(StreamBody::new(stream::iter(frames)))
    };
    for (coding, sent) in [("identity", b"body".to_vec()), ("gzip", gzip(b"body"))] {
        let (outcome, _) = guarded(request(&[coding], with_trailers(&sent)), &BodyLimits::default()).await;
        assert_eq!(
            (outcome.bytes.as_slice(), outcome.trailers.as_ref()),
            (b"body".as_slice(), Some(&trailers))
        );
    }
    let cut = &gzip(b"body")[..12];
    let (outcome, reason) = guarded(request(&["gzip"], with_trailers(cut)), &BodyLimits::default()).await;
    assert_eq!((outcome.trailers, reason), (None, Some(Reason::Malformed)));
}

#[tokio::test]
async fn a_client_that_breaks_off_is_no_breach() {
    for coding in ["identity", "gzip"] {
        let frames = vec![Ok(Frame::data(Bytes::from(gzip(b"body")))), Err(BodyError::new("gone"))];
        let body = Body::streaming(StreamBody::new(stream::iter(frames)));
        let mut request = request(&[coding], body);
        let breach =
            guard(&mut request, &BodyLimits::default(), Payer::nobody(&ample())).expect("it is let in");
        let mut body = request.into_body();
        assert!(matches!(body.frame().await, Some(Ok(_))));
        assert!(matches!(body.frame().await, Some(Err(_))));
        assert!(breach.expect("it is watched").refusal().is_none());
    }
}

struct NoHome;

impl Home for NoHome {
    fn put_back(&self, _: HttpConn) {}
}

/// What an upstream reads of a request with this body, and whether the request failed.
async fn sent_upstream(body: Body) -> (Vec<u8>, bool) {
    let (ours, upstreams) = UnixStream::pair().expect("a pair of sockets");
    for end in [&ours, &upstreams] {
        end.set_nonblocking(true).expect("a setting that exists");
    }
    let ours = tokio::net::UnixStream::from_std(ours).expect("a runtime");
    let mut upstreams = tokio::net::UnixStream::from_std(upstreams).expect("a runtime");
    let conn = HttpConn::open(Stream::Unix(ours));
    let mut request = Request::new(body);
    request.headers_mut().insert("transfer-encoding", HeaderValue::from_static("chunked"));
    let mut seen = Vec::new();
    let reading = async {
        let mut piece = [0; 4096];
        while !seen.ends_with(b"0\r\n\r\n") {
            match upstreams.read(&mut piece).await {
                Ok(0) | Err(_) => break,
                Ok(len) => seen.extend_from_slice(&piece[..len]),
            }
        }
        drop(upstreams);
    };
    let (response, ()) = tokio::join!(conn.send(&mut request, Arc::new(NoHome)), reading);
    (seen, response.is_err())
}

#[tokio::test]
async fn a_breach_breaks_the_upstreams_request_off_without_its_final_chunk() {
    let chunks: Vec<Vec<u8>> = (0..40).map(|_| vec![b'x'; 1000]).collect();
    let body = || chunked(chunks.iter().map(Vec::as_slice));
    let limits = BodyLimits { max_body_bytes: 39_999, ..BodyLimits::default() };
    let mut guarded = request(&[], body());
    let breach = guard(&mut guarded, &limits, Payer::nobody(&ample())).expect("it is let in");
    let (seen, failed) = sent_upstream(guarded.into_body()).await;
    assert!(failed && !seen.ends_with(b"0\r\n\r\n"));
    let refusal = breach.and_then(|breach| breach.refusal()).expect("the reason was left");
    assert_eq!((refusal.reason.as_str(), refusal.reason.status()), ("body_cap", 413));

    let limits = BodyLimits { max_body_bytes: 40_000, ..BodyLimits::default() };
    let mut guarded = request(&[], body());
    let breach = guard(&mut guarded, &limits, Payer::nobody(&ample())).expect("it is let in");
    let (seen, _) = sent_upstream(guarded.into_body()).await;
    assert!(seen.ends_with(b"0\r\n\r\n"));
    assert!(breach.is_some_and(|breach| breach.refusal().is_none()));
}

fn brotli(bytes: &[u8]) -> Vec<u8> {
    let mut encoded = Vec::new();
    let params = brotli::enc::BrotliEncoderParams { quality: 2, lgwin: 22, ..Default::default() };
    brotli::BrotliCompress(&mut &*bytes, &mut encoded, &params).expect("a vector takes all");
    encoded
}

#[tokio::test]
async fn what_decoders_hold_is_taken_out_of_the_budget_and_given_back_with_the_body() {
    let budget = budget(MIB as u64);
    let mut bodies = Vec::new();
    let let_in = |budget: &Arc<DecodeBudget>| {
        let mut request = request(&["gzip"], chunked([]));
        guard(&mut request, &BodyLimits::default(), Payer::nobody(budget)).map(|_| request.into_body())
    };
    for _ in 0..16 {
        bodies.push(let_in(&budget).expect("16 times 64 KiB fit"));
    }
    assert_eq!(budget.held(), MIB as u64);
    let refusal = let_in(&budget).expect_err("the 17th does not");
    assert_eq!((refusal.reason, refusal.retry_after.is_some()), (Reason::Degraded, true));
    bodies.pop();
    bodies.push(let_in(&budget).expect("one was given back"));
    drop(bodies);
    assert_eq!(budget.held(), 0);
}

#[tokio::test]
async fn a_window_that_outgrows_the_budget_breaks_its_body_off_and_nothing_else() {
    let body: Vec<u8> = (0..3 * MIB).map(|at| (at % 251).to_le_bytes()[0]).collect();
    let limits = BodyLimits { decode_ratio_max: u32::MAX, ..BodyLimits::default() };
    let encoded = brotli(&body);
    for (bytes, fits) in [(8 * MIB, true), (2 * MIB, false)] {
        let budget = budget(bytes as u64);
        let mut request = request(&["br"], chunked(encoded.chunks(16 * 1024)));
        let breach =
            guard(&mut request, &limits, Payer::nobody(&budget)).expect("it is let in").expect("guarded");
        let outcome = read(request.into_body()).await;
        assert_eq!(outcome.broken, !fits, "{bytes}");
        if fits {
            assert_eq!(outcome.bytes, body);
            assert_eq!(breach.refusal(), None);
        } else {
            assert!(outcome.bytes.len() <= 2 * MIB && body.starts_with(&outcome.bytes));
            assert_eq!(breach.refusal().map(|refusal| refusal.reason), Some(Reason::Degraded));
        }
        assert_eq!(budget.held(), 0, "given back");
    }
}
