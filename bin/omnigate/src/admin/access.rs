//! Who may ask the admin listener for what.

use http::{HeaderMap, Uri, header, uri::Authority};
use ron_kernel::config::Secret;
use ron_transport::ConnInfo;
use types::{Reason, Refusal};

use crate::settings::{AdminConfig, Role};

/// A browser sends this header to another origin only after asking first, which nobody here answers.
const INTENT: &str = "x-omnigate";

/// Somebody who may ask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Operator {
    /// The name of the presented token; `None` for a local caller if no token is configured.
    pub(super) token: Option<String>,
    /// The role: `read` or `operate`.
    pub(super) role: Role,
}

/// The tokens in force.
#[derive(Debug, Default)]
pub(super) struct Tokens(Vec<(Secret, Operator)>);

impl Tokens {
    pub(super) fn of(config: &AdminConfig) -> Self {
        let named = |name: &str, role| Operator { token: Some(name.to_owned()), role };
        let one = config.token.iter().map(|token| (token.clone(), named("admin.token", Role::Operate)));
        let more = config.tokens.iter().map(|token| (token.token.clone(), named(&token.name, token.role)));
        Self(one.chain(more).collect())
    }

    /// Whose token a request carries. Looks at all of them, and takes as long for a wrong one as for a right one.
    fn shown_in(&self, headers: &HeaderMap) -> Option<&Operator> {
        let shown = bearer(headers).as_bytes();
        let is_shown = |token: &Secret| {
            aws_lc_rs::constant_time::verify_slices_are_equal(shown, token.expose().as_bytes()).is_ok()
        };
        self.0
            .iter()
            .fold(None, |found, (token, operator)| if is_shown(token) { Some(operator) } else { found })
    }
}

/// Admits an operator: a caller with a token or, if none is configured, a local caller.
pub(super) fn admit_operator(
    tokens: &Tokens,
    conn: &ConnInfo,
    uri: &Uri,
    headers: &HeaderMap,
) -> Result<Operator, Refusal> {
    if !tokens.0.is_empty() {
        let wanted = || Refusal::new(Reason::Unauth, "send the header `Authorization: Bearer <admin.token>`");
        return tokens.shown_in(headers).cloned().ok_or_else(wanted);
    }
    if !is_local(conn) {
        let detail = "without a token this is for the machine itself: set `admin.token`";
        return Err(Refusal::new(Reason::Forbidden, detail));
    }
    if names_stranger(uri, headers) {
        let detail =
            "without a token ask by address or as localhost, so that no web page can ask in your name";
        return Err(Refusal::new(Reason::Forbidden, detail));
    }
    Ok(Operator { token: None, role: Role::Operate })
}

/// Lets a request pass whose sender may do what it asks for.
pub(super) fn admit_role(operator: &Operator, needed: Role) -> Result<(), Refusal> {
    if operator.role >= needed {
        return Ok(());
    }
    let (has, needed) = (operator.role.as_str(), needed.as_str());
    Err(Refusal::new(Reason::Forbidden, format!("this needs a token with the role `{needed}`, not `{has}`")))
}

/// Lets a request pass that changes something, if no web page could have sent it unnoticed.
pub(super) fn admit_intent(headers: &HeaderMap) -> Result<(), Refusal> {
    match headers.get(INTENT) {
        Some(value) if value == "1" => Ok(()),
        _ => Err(Refusal::new(Reason::Forbidden, "send the header `X-Omnigate: 1` to confirm the request")),
    }
}

/// Lets a request pass unless a web page of somewhere else sent it. Browsers say so themselves: whoever is no browser
/// sends neither field. Following a link to here is no harm.
pub(super) fn admit_site(uri: &Uri, headers: &HeaderMap) -> Result<(), Refusal> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let from_elsewhere = match text("sec-fetch-site") {
        None | Some("same-origin" | "none") => false,
        Some(_) => text("sec-fetch-mode") != Some("navigate") || text("sec-fetch-dest") != Some("document"),
    };
    if from_elsewhere || !is_own_origin(uri, headers) {
        return Err(Refusal::new(Reason::Forbidden, "requests from web pages of other origins are refused"));
    }
    Ok(())
}

/// Whether the page that sent a request, if one did, is one of ours.
fn is_own_origin(uri: &Uri, headers: &HeaderMap) -> bool {
    let Some(origin) = headers.get(header::ORIGIN) else { return true };
    let origin = origin.to_str().ok().and_then(|origin| origin.split_once("://")).map(|(_, host)| host);
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    let asked = uri.authority().map(Authority::as_str).or(host);
    match (origin, asked) {
        (Some(origin), Some(asked)) => origin.eq_ignore_ascii_case(asked),
        _ => false,
    }
}

/// The token that a request carries; empty if it carries none.
fn bearer(headers: &HeaderMap) -> &str {
    headers
        .get(header::AUTHORIZATION)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.split_once(' '))
        .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
        .map_or("", |(_, shown)| shown.trim())
}

fn is_local(conn: &ConnInfo) -> bool {
    conn.peer.unix || conn.client().is_some_and(|addr| addr.ip().is_loopback())
}

/// Whether the request was addressed to a name other than localhost. A page whose name was made to resolve to this
/// machine is such a case; a client without `Host` is no browser.
fn names_stranger(uri: &Uri, headers: &HeaderMap) -> bool {
    let host_header = || {
        let host = headers.get(header::HOST)?;
        Some(host.to_str().ok().and_then(|host| host.parse::<Authority>().ok()))
    };
    let Some(asked) = uri.authority().map(|a| Some(a.clone())).or_else(host_header) else {
        return false;
    };
    !asked.is_some_and(|authority| is_address_or_localhost(authority.host()))
}

fn is_address_or_localhost(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    bare.parse::<std::net::IpAddr>().is_ok() || host.eq_ignore_ascii_case("localhost")
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::settings::AdminToken;
    use ron_transport::stream::Peer;

    fn conn(peer: Peer) -> ConnInfo {
        ConnInfo::new(peer, 0)
    }

    fn local() -> ConnInfo {
        conn(Peer::tcp("127.0.0.1:9".parse().unwrap()))
    }

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let parse = |(name, value): &(&'static str, &str)| {
            (http::HeaderName::from_static(name), value.parse().unwrap())
        };
        pairs.iter().map(parse).collect()
    }

    fn reason(token: Option<&str>, conn: &ConnInfo, pairs: &[(&'static str, &str)]) -> Option<Reason> {
        let config = AdminConfig { token: token.map(Secret::new), ..AdminConfig::default() };
        let uri = Uri::from_static("/metrics");
        let refusal = admit_operator(&Tokens::of(&config), conn, &uri, &headers(pairs)).err()?;
        Some(refusal.reason)
    }

    #[test]
    fn only_the_exact_token_opens() {
        let token = Some("0123456789abcdef");
        let stranger = conn(Peer::tcp("10.1.2.3:9".parse().unwrap()));
        for good in ["Bearer 0123456789abcdef", "bearer  0123456789abcdef"] {
            assert_eq!(reason(token, &stranger, &[("authorization", good)]), None, "{good}");
        }
        for bad in [
            "Bearer 0123456789abcdeF",
            "Bearer 0123456789abcde",
            "Bearer 0123456789abcdef0",
            "Basic 0123456789abcdef",
            "Bearer",
            "0123456789abcdef",
        ] {
            assert_eq!(reason(token, &local(), &[("authorization", bad)]), Some(Reason::Unauth), "{bad}");
        }
        assert_eq!(reason(token, &local(), &[]), Some(Reason::Unauth));
    }

    #[test]
    fn each_token_has_its_name_and_its_role() {
        let token = |name: &str, role, token: &str| AdminToken {
            name: name.to_owned(),
            role,
            token: Secret::new(token),
        };
        let tokens = Tokens::of(&AdminConfig {
            token: Some(Secret::new("0123456789abcdef")),
            tokens: vec![
                token("scraper", Role::Read, "read-0123456789a"),
                token("pager", Role::Operate, "oper-0123456789a"),
            ],
            ..AdminConfig::default()
        });
        let operator = |shown: &str| {
            let shown = headers(&[("authorization", &format!("Bearer {shown}"))]);
            let admitted = admit_operator(&tokens, &local(), &Uri::from_static("/"), &shown).ok()?;
            let may_operate = admit_role(&admitted, Role::Operate).is_ok();
            assert!(admit_role(&admitted, Role::Read).is_ok());
            Some((admitted.token?, may_operate))
        };
        assert_eq!(operator("0123456789abcdef"), Some(("admin.token".to_owned(), true)));
        assert_eq!(operator("read-0123456789a"), Some(("scraper".to_owned(), false)));
        assert_eq!(operator("oper-0123456789a"), Some(("pager".to_owned(), true)));
        assert_eq!(operator("oper-0123456789b"), None);
        assert_eq!(operator(""), None);
    }

    #[test]
    fn without_a_token_only_this_machine_may_ask_and_only_by_address() {
        let stranger = conn(Peer::tcp("10.1.2.3:9".parse().unwrap()));
        assert_eq!(reason(None, &stranger, &[]), Some(Reason::Forbidden));
        assert_eq!(reason(None, &conn(Peer::unix()), &[]), None);
        for host in ["127.0.0.1:9600", "localhost:9600", "[::1]:9600", "LOCALHOST", "10.0.0.1"] {
            assert_eq!(reason(None, &local(), &[("host", host)]), None, "{host}");
        }
        for host in ["evil.example:9600", "localhost.evil.example", "127.0.0.1.evil.example", ""] {
            assert_eq!(reason(None, &local(), &[("host", host)]), Some(Reason::Forbidden), "{host}");
        }
    }

    #[test]
    fn pages_of_other_origins_are_refused_and_our_own_and_programs_are_not() {
        let admit = |pairs: &[(&'static str, &str)]| {
            admit_site(&Uri::from_static("/metrics"), &headers(pairs)).is_ok()
        };
        let host = ("host", "127.0.0.1:9600");
        assert!(admit(&[]) && admit(&[host]), "a program");
        assert!(admit(&[host, ("origin", "http://127.0.0.1:9600"), ("sec-fetch-site", "same-origin")]));
        assert!(admit(&[host, ("sec-fetch-site", "none")]), "typed into the address bar");
        let link = [
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-mode", "navigate"),
            ("sec-fetch-dest", "document"),
        ];
        assert!(admit(&[host, link[0], link[1], link[2]]), "a link");
        for bad in [
            &[host, ("origin", "http://evil.example")][..],
            &[host, ("origin", "http://127.0.0.1:9601")],
            &[host, ("origin", "null")],
            &[("origin", "http://127.0.0.1:9600")],
            &[host, ("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "no-cors")],
            &[host, ("sec-fetch-site", "same-site")],
            &[host, ("sec-fetch-site", "cross-site"), link[1], ("sec-fetch-dest", "iframe")],
        ] {
            assert!(!admit(bad), "{bad:?}");
        }
    }

    #[test]
    fn a_change_needs_the_header_that_no_form_can_send() {
        assert!(admit_intent(&headers(&[("x-omnigate", "1")])).is_ok());
        assert!(admit_intent(&headers(&[("x-omnigate", "0")])).is_err());
        assert!(admit_intent(&headers(&[])).is_err());
    }
}
