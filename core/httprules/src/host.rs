//! Which hosts a request may name: what all servers read in the same way (RFC 9110, 7.2; RFC 9112, 3.2).
//!
//! | the request | verdict |
//! |---|---|
//! | HTTP/1.0 without a `Host` | sound |
//! | HTTP/1.1 with one `Host` that is a name or an address, perhaps with a port | sound |
//! | a target with a host of its own, and no `Host` or the same | sound |
//! | no `Host`, two, one that is anything else, or one that differs from the target's | refused |

use core::net::Ipv6Addr;

use http::{HeaderMap, HeaderValue, Uri, Version, header::HOST};

/// Why the host of a request is not sound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unsound {
    /// There is no `Host`, more than one, or one that is no host.
    #[error("a request needs exactly one Host")]
    Field,
    /// The target's host is no host.
    #[error("the target's host is more than a name and a port")]
    Target,
    /// The target names one host and the field another.
    #[error("the target and the Host differ")]
    Differ,
}

/// Judges the host of a request.
///
/// # Errors
/// [`Unsound`] if two servers could read two different hosts out of it.
pub fn check(version: Version, uri: &Uri, headers: &HeaderMap) -> Result<(), Unsound> {
    let mut fields = headers.get_all(HOST).iter();
    let field = fields.next();
    if fields.next().is_some() {
        return Err(Unsound::Field);
    }
    let Some(authority) = uri.authority() else {
        return match field {
            None if version == Version::HTTP_10 => Ok(()),
            Some(host) if host.to_str().is_ok_and(is_sound) => Ok(()),
            None | Some(_) => Err(Unsound::Field),
        };
    };
    if !is_sound(authority.as_str()) {
        return Err(Unsound::Target);
    }
    let port = if uri.scheme_str() == Some("https") { ":443" } else { ":80" };
    let bare = |host: &str| str::strip_suffix(host, port).unwrap_or(host).to_ascii_lowercase();
    let is_same =
        |field: &HeaderValue| field.to_str().is_ok_and(|field| bare(field) == bare(authority.as_str()));
    if field.is_none_or(is_same) { Ok(()) } else { Err(Unsound::Differ) }
}

/// Whether a `Host` is a name, an IPv4 address or an IPv6 address in brackets, perhaps with a port. Servers disagree about
/// the rest.
#[must_use]
pub fn is_sound(host: &str) -> bool {
    let (name, port) = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, rest)) if address.parse::<Ipv6Addr>().is_ok() => (None, rest),
        Some(_) => return false,
        None => {
            let end = host.find(':').unwrap_or(host.len());
            (Some(&host[..end]), &host[end..])
        }
    };
    name.is_none_or(is_name) && (port.is_empty() || port.strip_prefix(':').is_some_and(is_port))
}

/// A sound host as all names of it are written: in lower case, and without a port that its scheme has anyway (RFC 9110, 4.2.3).
/// `None` if it is written so.
#[must_use]
pub fn normal(host: &str, is_https: bool) -> Option<String> {
    let address = host.rfind(']').map_or(0, |end| end + 1);
    let (name, port) = match host[address..].find(':') {
        Some(colon) => (&host[..address + colon], &host[address + colon..]),
        None => (host, ""),
    };
    let usual = if is_https { 443 } else { 80 };
    let normal_port = match port.strip_prefix(':').map(str::parse::<u16>) {
        Some(Ok(number)) if number == usual => String::new(),
        Some(Ok(number)) => format!(":{number}"),
        Some(Err(_)) | None => port.to_owned(),
    };
    if port == normal_port && !name.bytes().any(|byte| byte.is_ascii_uppercase()) {
        return None;
    }
    Some(name.to_ascii_lowercase() + &normal_port)
}

/// Labels of letters, digits and a few signs with dots between; a dot may stand at the end.
fn is_name(name: &str) -> bool {
    let is_sign = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'~');
    let labels = name.strip_suffix('.').unwrap_or(name);
    labels.split('.').all(|label| !label.is_empty() && label.bytes().all(is_sign))
}

fn is_port(digits: &str) -> bool {
    let is_number = (1..=5).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number && digits.parse::<u16>().is_ok()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn a_request_names_one_host_that_everybody_reads_in_the_same_way() {
        let judge = |version, uri: &str, hosts: &[&str]| {
            let mut headers = HeaderMap::new();
            for host in hosts {
                headers.append(HOST, HeaderValue::from_bytes(host.as_bytes()).unwrap());
            }
            check(version, &uri.parse().unwrap(), &headers)
        };
        let (old, usual) = (Version::HTTP_10, Version::HTTP_11);
        for (version, uri, hosts) in [
            (usual, "/", &["a.example"][..]),
            (usual, "/", &["a.example:8080"]),
            (usual, "/", &["[::1]:80"]),
            (old, "/", &[]),
            (old, "/", &["a"]),
            (usual, "http://a.example/", &[]),
            (usual, "http://a.example:80/", &["A.example"]),
            (Version::HTTP_2, "https://a.example/", &["a.example:443"]),
        ] {
            assert_eq!(judge(version, uri, hosts), Ok(()), "{version:?} {uri} {hosts:?}");
        }
        for (version, uri, hosts, wrong) in [
            (usual, "/", &[][..], Unsound::Field),
            (usual, "/", &[""], Unsound::Field),
            (usual, "/", &["a", "a"], Unsound::Field),
            (usual, "/", &["a", "b"], Unsound::Field),
            (old, "/", &["a", "b"], Unsound::Field),
            (usual, "/", &["a b"], Unsound::Field),
            (usual, "/", &["a@b"], Unsound::Field),
            (usual, "/", &["a/b"], Unsound::Field),
            (usual, "/", &["a,b"], Unsound::Field),
            (usual, "/", &["\u{e4}"], Unsound::Field),
            (usual, "http://u@a.example/", &["a.example"], Unsound::Target),
            (usual, "http://a.example/", &["b.example"], Unsound::Differ),
            (usual, "http://a.example/", &["a.example", "a.example"], Unsound::Field),
        ] {
            assert_eq!(judge(version, uri, hosts), Err(wrong), "{version:?} {uri} {hosts:?}");
        }
    }

    #[test]
    fn a_host_has_one_normal_form() {
        for (host, plain, secure) in [
            ("a", "a", "a"),
            ("A.b", "a.b", "a.b"),
            ("a:80", "a", "a:80"),
            ("a:0080", "a", "a:80"),
            ("a:443", "a:443", "a"),
            ("a:8080", "a:8080", "a:8080"),
            ("a:08080", "a:8080", "a:8080"),
            ("A:0", "a:0", "a:0"),
            ("A:x", "a:x", "a:x"),
            ("[::A]:80", "[::a]", "[::a]:80"),
            ("[::1]", "[::1]", "[::1]"),
            ("a.", "a.", "a."),
            ("", "", ""),
        ] {
            for (is_https, expected) in [(false, plain), (true, secure)] {
                let normal = normal(host, is_https);
                assert_eq!(normal.as_deref().unwrap_or(host), expected, "{host}");
                assert_eq!(normal.is_none(), host == expected, "{host}");
            }
        }
    }

    #[test]
    fn a_host_is_a_name_or_an_address_with_or_without_a_port() {
        for host in
            ["a", "a.b", "a.b.", "a_b~c-d", "127.0.0.1", "a:0", "a:80", "a:65535", "[::1]", "[::1]:80"]
        {
            assert!(is_sound(host), "{host}");
        }
        for host in [
            "",
            ".",
            ".a",
            "a..b",
            "a%2e",
            "a:",
            "a:x",
            "a:65536",
            "a:000080",
            "a:+1",
            "a:80:80",
            ":80",
            "::1",
            "[",
            "]",
            "[]",
            "[::1",
            "::1]",
            "[::1]a",
            "[::1]:",
            "[::1]:x",
            "[a]",
            "[127.0.0.1]",
            "[::1%25eth0]",
            "a[::1]",
        ] {
            assert!(!is_sound(host), "{host}");
        }
    }
}
