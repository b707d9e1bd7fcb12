//! What an origin says of an object beside what the edge says itself: kept with the object and passed on (RFC 9111, 3.1).
//!
//! | fields | what becomes of them |
//! |---|---|
//! | of the connection, and those that `Connection` names | end here |
//! | of the message that the edge makes: lengths, codings, tags, ages, `Date` | are rebuilt |
//! | that act on a whole site, such as `Set-Cookie`, `Service-Worker-Allowed` or `Strict-Transport-Security` | end here: the site is the edge's |
//! | hashes of the bytes as the origin sent them | are passed on with these bytes, and not with others: a part, or what was decoded |
//! | all others, such as `Content-Disposition`, `Content-Security-Policy`, `Link`, `Vary`, `Expires` | are passed on |

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};

/// The most bytes of fields that are kept with an object. An answer that has more is served and not stored.
pub(super) const MAX_BYTES: usize = 8 * 1024;

/// Fields that end here, in the order of their names.
const ENDING: [&str; 47] = [
    "accept-ch",
    "accept-ranges",
    "age",
    "alt-svc",
    "cache-control",
    "cache-status",
    "cdn-cache-control",
    "clear-site-data",
    "connection",
    "content-encoding",
    "content-length",
    "content-range",
    "content-type",
    "critical-ch",
    "date",
    "etag",
    "expect-ct",
    "keep-alive",
    "last-modified",
    "location",
    "nel",
    "origin-agent-cluster",
    "preference-applied",
    "proxy-authenticate",
    "proxy-authentication-info",
    "proxy-authorization",
    "proxy-connection",
    "public-key-pins",
    "public-key-pins-report-only",
    "referrer-policy",
    "refresh",
    "report-to",
    "reporting-endpoints",
    "retry-after",
    "server",
    "service-worker-allowed",
    "set-cookie",
    "set-cookie2",
    "sourcemap",
    "strict-transport-security",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "via",
    "www-authenticate",
    "x-content-type-options",
];

/// Beginnings of names that end here: who may read what across sites, and what is between a server and its proxy.
const ENDING_FAMILIES: [&str; 6] =
    ["access-control-", "surrogate-", "x-accel-", "x-corr-id", "x-omnigate-", "x-sendfile"];

/// Fields that tell a hash of the representation, in the coding that it was sent in.
const OF_REPRESENTATION: [&str; 2] = ["digest", "repr-digest"];

/// Fields that tell a hash of the content of one message.
const OF_CONTENT: [&str; 2] = ["content-digest", "content-md5"];

/// Fields that also go with an answer that has no body (304).
const WITHOUT_BODY: [HeaderName; 3] = [header::CONTENT_LOCATION, header::EXPIRES, header::VARY];

/// The fields of an origin's answer that are passed on, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fields(Box<[(HeaderName, HeaderValue)]>);

impl Fields {
    /// Selects the fields of a response that are stored.
    pub(super) fn of(headers: &HeaderMap) -> Self {
        let named: Vec<&[u8]> = headers
            .get_all(header::CONNECTION)
            .iter()
            .flat_map(|value| value.as_bytes().split(|byte| *byte == b','))
            .map(<[u8]>::trim_ascii)
            .collect();
        let codings = headers.get_all(header::CONTENT_ENCODING);
        let is_coded = codings.iter().any(|coding| !coding.as_bytes().eq_ignore_ascii_case(b"identity"));
        let passes = |name: &HeaderName| {
            let is_named = named.iter().any(|named| name.as_str().as_bytes().eq_ignore_ascii_case(named));
            let is_of_other_bytes = is_coded && is_hash(name);
            !(is_named || is_of_other_bytes || ends_here(name))
        };
        let fields = headers.iter().filter(|(name, _)| passes(name));
        Self(fields.map(|(name, value)| (name.clone(), value.clone())).collect())
    }

    /// The same after the origin has said that the object is still good: its new values replace the old ones.
    pub(super) fn validated(&self, headers: &HeaderMap) -> Self {
        let mut anew = Self::of(headers);
        // The answer has no content, and says of no coding whether the object was sent in it.
        anew.0 = anew.0.into_iter().filter(|(name, _)| !is_hash(name)).collect();
        let stay = self.0.iter().filter(|(name, _)| !anew.0.iter().any(|(other, _)| other == name));
        Self(stay.chain(&anew.0).cloned().collect())
    }

    /// Whether they can be kept with the object.
    pub(super) fn can_be_kept(&self) -> bool {
        self.len() <= MAX_BYTES && self.0.iter().all(|(_, value)| value.to_str().is_ok())
    }

    /// Returns the size of the fields in bytes.
    pub(super) fn len(&self) -> usize {
        self.0.iter().map(|(name, value)| name.as_str().len() + value.len() + 3).sum()
    }

    /// As text, a line for each; `None` if there are none.
    pub(super) fn text(&self) -> Option<String> {
        let line =
            |(name, value): &(HeaderName, HeaderValue)| Some(format!("{name}: {}\n", value.to_str().ok()?));
        let text: String = self.0.iter().filter_map(line).collect();
        (!text.is_empty()).then_some(text)
    }

    /// From such text. What was kept by an older version and would not be kept today ends here.
    pub(super) fn from_text(text: &str) -> Self {
        let field = |line: &str| {
            let (name, value) = line.split_once(": ")?;
            Some((name.parse().ok()?, HeaderValue::from_str(value).ok()?))
        };
        Self(text.lines().filter_map(field).filter(|(name, _)| !ends_here(name)).collect())
    }

    /// Adds them to an answer, behind what it says by itself.
    pub(crate) fn pass_on(&self, status: StatusCode, response: &mut HeaderMap) {
        let has_body = status == StatusCode::OK;
        let is_told = |name: &HeaderName| match status {
            StatusCode::NOT_MODIFIED => WITHOUT_BODY.contains(name),
            StatusCode::PARTIAL_CONTENT => !OF_CONTENT.contains(&name.as_str()),
            _ => has_body,
        };
        for (name, value) in self.0.iter().filter(|(name, _)| is_told(name)) {
            response.append(name, value.clone());
        }
    }
}

fn is_hash(name: &HeaderName) -> bool {
    OF_REPRESENTATION.iter().chain(&OF_CONTENT).any(|known| name == known)
}

fn ends_here(name: &HeaderName) -> bool {
    let name = name.as_str();
    ENDING.binary_search(&name).is_ok() || ENDING_FAMILIES.iter().any(|family| name.starts_with(family))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn headers(fields: &[(&str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(name.parse::<HeaderName>().unwrap(), value.parse().unwrap());
        }
        headers
    }

    fn text(fields: &[(&str, &str)]) -> String {
        Fields::of(&headers(fields)).text().unwrap_or_default()
    }

    #[test]
    fn what_protects_and_describes_is_passed_on_and_what_acts_on_the_site_is_not() {
        let sorted: Vec<&str> = ENDING.to_vec();
        assert!(sorted.is_sorted(), "names are looked up by halves");
        for (name, value) in [
            ("content-disposition", "attachment"),
            ("content-security-policy", "default-src 'none'"),
            ("content-language", "de"),
            ("link", "</a.css>; rel=preload"),
            ("expires", "Sun, 06 Nov 1994 08:49:37 GMT"),
            ("vary", "Accept-Encoding"),
            ("x-frame-options", "DENY"),
            ("cross-origin-resource-policy", "same-site"),
            ("permissions-policy", "camera=()"),
            ("x-robots-tag", "noindex"),
        ] {
            assert_eq!(text(&[(name, value)]), format!("{name}: {value}\n"));
        }
        for name in
            ENDING.into_iter().chain(["access-control-allow-origin", "x-omnigate-tenant", "x-accel-redirect"])
        {
            assert_eq!(text(&[(name, "x")]), "", "{name}");
        }
        let named = [("connection", "x-hop, close"), ("x-hop", "1"), ("x-kept", "2")];
        assert_eq!(text(&named), "x-kept: 2\n");
    }

    #[test]
    fn they_are_read_back_as_they_were_and_told_anew_by_validation() {
        let fields = Fields::of(&headers(&[("link", "a"), ("link", "b"), ("x-kept", "old")]));
        assert_eq!(Fields::from_text(&fields.text().unwrap()), fields);
        assert_eq!(
            Fields::from_text("set-cookie: a=b\nnonsense\nx-kept: 1\n").text().unwrap(),
            "x-kept: 1\n"
        );
        let validated = fields.validated(&headers(&[("x-kept", "new"), ("etag", "\"x\"")]));
        assert_eq!(validated.text().unwrap(), "link: a\nlink: b\nx-kept: new\n");
    }

    #[test]
    fn a_response_without_a_body_has_few_of_them() {
        let fields = Fields::of(&headers(&[("vary", "Accept-Encoding"), ("content-language", "de")]));
        let told = |status| {
            let mut response = HeaderMap::new();
            fields.pass_on(status, &mut response);
            response.len()
        };
        assert_eq!(told(StatusCode::OK), 2);
        assert_eq!((told(StatusCode::NOT_MODIFIED), told(StatusCode::PRECONDITION_FAILED)), (1, 0));
    }

    #[test]
    fn a_hash_goes_with_the_bytes_that_it_is_of_and_no_others() {
        let hashes = [("content-digest", "c"), ("repr-digest", "r"), ("digest", "d"), ("content-md5", "m")];
        let told = |fields: &Fields, status| {
            let mut response = HeaderMap::new();
            fields.pass_on(status, &mut response);
            let mut names: Vec<String> = response.keys().map(ToString::to_string).collect();
            names.sort_unstable();
            names
        };
        let plain = Fields::of(&headers(&hashes));
        assert_eq!(told(&plain, StatusCode::OK).len(), 4);
        assert_eq!(told(&plain, StatusCode::PARTIAL_CONTENT), ["digest", "repr-digest"]);
        let identity = [&hashes[..], &[("content-encoding", "identity")]].concat();
        assert_eq!(told(&Fields::of(&headers(&identity)), StatusCode::OK).len(), 4);
        let coded = [&hashes[..], &[("content-encoding", "gzip"), ("x-kept", "1")]].concat();
        let coded = Fields::of(&headers(&coded));
        assert_eq!(told(&coded, StatusCode::OK), ["x-kept"]);
        assert_eq!(told(&coded.validated(&headers(&hashes)), StatusCode::OK), ["x-kept"]);
        let confirmed = plain.validated(&headers(&[("content-digest", "of nothing")]));
        assert_eq!(confirmed, plain);
    }

    #[test]
    fn too_much_is_not_kept() {
        let of_len = |len: usize| Fields::of(&headers(&[("link", &"a".repeat(len))]));
        assert!(of_len(MAX_BYTES - 7).can_be_kept());
        assert!(!of_len(MAX_BYTES - 6).can_be_kept());
    }
}
