//! Objects by their content id, `GET /v1/o/b3:…`: HTTP on this side, whoever has them on the other.

use std::{ops::Range, pin::Pin};

use http::{
    HeaderMap, HeaderValue, Method, StatusCode,
    header::{
        ACCEPT_RANGES, ALLOW, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG,
        X_CONTENT_TYPE_OPTIONS,
    },
};
use httprules::{
    etag::ETag,
    precondition::{Current, Outcome, decide},
    range::ContentRange,
};
use ron_transport::{Body, ConnInfo, Request, Response, problem};
use types::{ObjectId, Reason, Refusal};

use crate::local::{Answering, LocalService};

/// The name by which routes lead to objects: `service = "objects"`.
pub const OBJECTS: &str = "objects";

/// What a name stands for never changes. Whether others may keep it is not said: it may have taken a token to get it.
const FOR_EVER: HeaderValue = HeaderValue::from_static("max-age=31536000, immutable");
const BYTES: HeaderValue = HeaderValue::from_static("application/octet-stream");
const NOSNIFF: HeaderValue = HeaderValue::from_static("nosniff");

/// An answer of a source in progress.
pub type Finding<'a, T> = Pin<Box<dyn Future<Output = Result<T, Refusal>> + Send + 'a>>;

/// Where objects come from. Its futures are dropped when the client goes away or its deadline passes.
pub trait ObjectSource: Send + Sync {
    /// Looks for an object; [`None`] if nobody has it.
    fn open(&self, id: ObjectId) -> Finding<'_, Option<Box<dyn FoundObject>>>;
}

/// An object that was found.
pub trait FoundObject: Send {
    /// Its length, proven and not only said.
    fn length(&self) -> u64;

    /// A part of an object, which is not empty and inside of it. The first bytes are here and checked before this
    /// resolves; whatever is found to be wrong later breaks the body off, so that no wrong byte is passed on.
    ///
    /// [`Reason::BadGateway`] says that the bytes which came were not the object's.
    fn read(self: Box<Self>, range: Range<u64>) -> Finding<'static, Body>;
}

/// Answers for a source as a service that routes lead to. The last segment of the path names the object.
#[derive(Debug)]
pub struct ObjectBridge<S>(S);

impl<S: ObjectSource> ObjectBridge<S> {
    /// A bridge to this source.
    pub fn new(source: S) -> Self {
        Self(source)
    }

    async fn answer(&self, request: Request) -> Result<Response, Refusal> {
        let (head, _) = request.into_parts();
        if head.method != Method::GET && head.method != Method::HEAD {
            return Ok(not_allowed());
        }
        let id = object_id(head.uri.path())?;
        let found = self.0.open(id).await?;
        let Some(object) = found else {
            return Err(Refusal::new(Reason::NotFound, "nobody here has this object"));
        };
        match plan(&head.method, &head.headers, id, object.length()) {
            Plan::Done(response) => Ok(response),
            Plan::Send(mut response, range) => {
                response.headers_mut().insert(CONTENT_LENGTH, (range.end - range.start).into());
                *response.body_mut() = object.read(range).await?;
                Ok(response)
            }
        }
    }
}

impl<S: ObjectSource> LocalService for ObjectBridge<S> {
    fn call<'a>(&'a self, _: &'a ConnInfo, request: Request) -> Answering<'a> {
        Box::pin(self.answer(request))
    }
}

/// What becomes of a request for an object.
enum Plan {
    /// The response is complete.
    Done(Response),
    /// The response still lacks these bytes, which are never none.
    Send(Response, Range<u64>),
}

fn plan(method: &Method, headers: &HeaderMap, id: ObjectId, len: u64) -> Plan {
    let etag = HeaderValue::try_from(format!("\"{id}\"")).expect("names of objects are ASCII");
    let current =
        Current { etag: ETag::parse(etag.as_bytes()), last_modified: None, dates_are_strong: false, len };
    // There are no dates to be judged by, so it does not matter what time it is.
    match decide(method, headers, &current, 0) {
        Outcome::NotModified => Plan::Done(response(StatusCode::NOT_MODIFIED, etag.clone())),
        Outcome::Failed => Plan::Done(response(StatusCode::PRECONDITION_FAILED, etag.clone())),
        Outcome::Unsatisfiable => Plan::Done(unsatisfiable(len)),
        Outcome::Part(part) => {
            let mut response = with_content(StatusCode::PARTIAL_CONTENT, etag.clone());
            response.headers_mut().insert(CONTENT_RANGE, content_range(Some(part.clone()), len));
            Plan::Send(response, part)
        }
        Outcome::Whole => {
            let mut response = with_content(StatusCode::OK, etag.clone());
            if method == Method::HEAD || len == 0 {
                response.headers_mut().insert(CONTENT_LENGTH, len.into());
                return Plan::Done(response);
            }
            Plan::Send(response, 0..len)
        }
    }
}

fn response(status: StatusCode, etag: HeaderValue) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(ETAG, etag);
    headers.insert(CACHE_CONTROL, FOR_EVER);
    response
}

fn with_content(status: StatusCode, etag: HeaderValue) -> Response {
    let mut response = response(status, etag);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, BYTES);
    headers.insert(X_CONTENT_TYPE_OPTIONS, NOSNIFF);
    headers.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    response
}

fn not_allowed() -> Response {
    let refusal = Refusal::new(Reason::MethodNotAllowed, "objects can only be read");
    let mut response = problem::response(&refusal);
    response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
    response
}

fn unsatisfiable(len: u64) -> Response {
    let refusal = Refusal::new(Reason::InvalidRange, "the object has no such part");
    let mut response = problem::response(&refusal);
    response.headers_mut().insert(CONTENT_RANGE, content_range(None, len));
    response
}

fn content_range(part: Option<Range<u64>>, len: u64) -> HeaderValue {
    HeaderValue::try_from(ContentRange { part, len }.to_string()).expect("numbers are ASCII")
}

/// The object that a path names. The colon may be written as it has to be in other parts of an address.
fn object_id(path: &str) -> Result<ObjectId, Refusal> {
    let name = path.rsplit('/').next().unwrap_or_default();
    let escaped = name.strip_prefix("b3%3A").or_else(|| name.strip_prefix("b3%3a"));
    let id = escaped.map_or_else(|| name.parse(), ObjectId::from_hex);
    id.map_err(|_| Refusal::new(Reason::Malformed, "an object is requested by b3: and 64 hex digits"))
}
