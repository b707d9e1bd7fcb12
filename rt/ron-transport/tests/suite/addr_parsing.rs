//! Addresses in text: what is read, what it is written back as, and what the refusals advise.

use std::path::{Path, PathBuf};

use ron_transport::addr::{
    Endpoint, EndpointError, Host, ListenAddr, ListenAddrError, Scheme, Target, UNIX_PATH_MAX, UnixPathError,
};

#[test]
fn listen_addresses_are_read_and_written_back_unchanged() {
    let long_path = format!("unix:/{}", "p".repeat(UNIX_PATH_MAX - 1));
    let long_name = format!("inherit:{}", "n".repeat(ListenAddr::INHERITED_NAME_MAX));
    for text in [
        "127.0.0.1:8080",
        "0.0.0.0:0",
        "[::]:80",
        "[::1]:65535",
        "unix:/run/x.sock",
        "unix:./x.sock",
        "inherit:web",
        "inherit:omnigate.socket",
        &long_path,
        &long_name,
    ] {
        let addr: ListenAddr = text.parse().unwrap();
        assert_eq!(addr.to_string(), text);
    }
    assert_eq!("unix:/run/x.sock".parse(), Ok(ListenAddr::Unix(PathBuf::from("/run/x.sock"))));
    assert_eq!("inherit:web".parse(), Ok(ListenAddr::Inherited("web".to_owned())));
}

#[test]
fn a_refused_listen_address_says_what_to_write() {
    for (text, message) in [
        ("", "the address is empty: write one such as 127.0.0.1:8080"),
        ("8080", "`8080` has no host: write 127.0.0.1:8080 or 0.0.0.0:8080"),
        (":8080", "`:8080` has no host: write 127.0.0.1:8080 or 0.0.0.0:8080"),
        ("127.0.0.1", "`127.0.0.1` has no port: write 127.0.0.1:8080"),
        ("[::1]", "`[::1]` has no port: write [::1]:8080"),
        ("::1", "`::1` is an IPv6 address outside brackets: write [address]:port, such as [::1]:8080"),
        ("::1:80", "`::1:80` is an IPv6 address outside brackets: write [address]:port, such as [::1]:8080"),
        ("127.0.0.1:65536", "`65536` is not a port: write a number from 0 to 65535"),
        ("127.0.0.1:+80", "`+80` is not a port: write a number from 0 to 65535"),
        ("127.0.0.1:", "`` is not a port: write a number from 0 to 65535"),
        ("*:80", "`*` is not an address: write 0.0.0.0:80 for IPv4 or [::]:80 for IPv4 and IPv6"),
        (
            "localhost:80",
            "`localhost` is not an IP address: write the address to listen on, such as 127.0.0.1:80",
        ),
        (
            "http://127.0.0.1:80",
            "a URL is not an address to listen on: write only host and port, such as 127.0.0.1:8080",
        ),
        ("unix:", "no path is given: write the socket's path after the colon, as in unix:/run/app.sock"),
        (
            "unix:@x",
            "`@x` names an abstract socket, which no file mode protects: use a path such as /run/app.sock",
        ),
        (
            "inherit:a:b",
            "`a:b` cannot name an inherited listener: use 1 to 255 visible ASCII characters, no colon",
        ),
        (
            "localhost",
            "`localhost` is not an address: write 127.0.0.1:8080, [::]:8080, unix:/run/app.sock or inherit:name",
        ),
    ] {
        let refused = text.parse::<ListenAddr>().unwrap_err();
        assert_eq!(refused.to_string(), message, "for {text:?}");
    }
}

#[test]
fn paths_and_names_one_byte_too_long_are_refused() {
    let path = format!("/{}", "p".repeat(UNIX_PATH_MAX));
    assert_eq!(
        format!("unix:{path}").parse::<ListenAddr>(),
        Err(ListenAddrError::UnixPath(UnixPathError::TooLong { path, len: UNIX_PATH_MAX + 1 }))
    );
    assert_eq!("unix:/a\0b".parse::<ListenAddr>(), Err(ListenAddrError::UnixPath(UnixPathError::Nul)));
    for name in [String::new(), "n".repeat(ListenAddr::INHERITED_NAME_MAX + 1), "a b".to_owned()] {
        assert_eq!(format!("inherit:{name}").parse::<ListenAddr>(), Err(ListenAddrError::BadName(name)));
    }
}

#[test]
fn addresses_travel_as_strings_and_their_schema_says_so() {
    let addr: ListenAddr = serde_json::from_str("\"[::1]:80\"").unwrap();
    assert_eq!(serde_json::to_string(&addr).unwrap(), "\"[::1]:80\"");
    let refused = serde_json::from_str::<ListenAddr>("\"8080\"").unwrap_err().to_string();
    assert!(refused.contains("has no host"), "{refused}");

    let endpoint: Endpoint = serde_json::from_str("\"https://API.example\"").unwrap();
    assert_eq!(serde_json::to_string(&endpoint).unwrap(), "\"https://api.example:443\"");

    for schema in [schemars::schema_for!(ListenAddr), schemars::schema_for!(Endpoint)] {
        let examples = schema.get("examples").unwrap().as_array().unwrap();
        assert_eq!(schema.get("type").unwrap(), "string");
        assert!(!examples.is_empty());
    }
    let examples = schemars::schema_for!(ListenAddr).get("examples").cloned().unwrap();
    for example in examples.as_array().unwrap() {
        example.as_str().unwrap().parse::<ListenAddr>().unwrap();
    }
}

#[test]
fn endpoints_are_read_with_the_schemes_port() {
    for (text, written, authority) in [
        ("http://127.0.0.1:9001", "http://127.0.0.1:9001", "127.0.0.1:9001"),
        ("http://127.0.0.1:9001/", "http://127.0.0.1:9001", "127.0.0.1:9001"),
        ("https://api.example", "https://api.example:443", "api.example"),
        ("https://api.example:443", "https://api.example:443", "api.example"),
        ("https://api.example:80", "https://api.example:80", "api.example:80"),
        ("http://[::1]", "http://[::1]:80", "[::1]"),
        ("http://[::1]:1", "http://[::1]:1", "[::1]:1"),
        ("http://a_b.internal.:65535", "http://a_b.internal.:65535", "a_b.internal.:65535"),
        ("http+unix:/run/app.sock", "http+unix:/run/app.sock", "localhost"),
        ("https+unix:/run/app.sock", "https+unix:/run/app.sock", "localhost"),
        ("http+unix:///run/app.sock", "http+unix:/run/app.sock", "localhost"),
    ] {
        let endpoint: Endpoint = text.parse().unwrap();
        assert_eq!(endpoint.to_string(), written);
        assert_eq!(endpoint.authority(), authority);
        assert_eq!(written.parse::<Endpoint>().unwrap(), endpoint);
    }
    let endpoint: Endpoint = "https://Api.Example:8443".parse().unwrap();
    assert_eq!(endpoint.scheme(), Scheme::Https);
    assert_eq!(*endpoint.target(), Target::Tcp { host: Host::Name("api.example".to_owned()), port: 8443 });
}

#[test]
fn an_endpoint_ends_after_host_and_port() {
    let bare = |text: &str| EndpointError::NotBare(text.to_owned());
    for (text, refused) in [
        ("http://a:1/path", bare("http://a:1")),
        ("http://a:1/?q=secret", bare("http://a:1")),
        ("http://a:1?q=secret", bare("http://a:1")),
        ("http://a:1#f", bare("http://a:1")),
        ("http://user:secret@a:1", EndpointError::UserInfo),
        ("user:secret@a", EndpointError::UserInfo),
        ("", EndpointError::Empty),
        ("a.example:80", EndpointError::NoScheme("a.example:80".to_owned())),
        ("a.example", EndpointError::NoScheme("a.example".to_owned())),
        ("ftp://a", EndpointError::Scheme("ftp".to_owned())),
        ("http://", EndpointError::Unrecognised("http://".to_owned())),
        ("http://a b", EndpointError::Unrecognised("http://a b".to_owned())),
        ("http+unix:", EndpointError::UnixPath(UnixPathError::Empty)),
    ] {
        let error = text.parse::<Endpoint>().unwrap_err();
        assert_eq!(error, refused, "for {text:?}");
        assert!(!error.to_string().contains("secret"), "{error}");
    }
}

#[test]
fn ports_that_cannot_be_dialled_are_refused_and_not_replaced() {
    for port in ["0", "65536", "99999999999", "", "+1"] {
        let error = format!("http://a:{port}").parse::<Endpoint>().unwrap_err();
        assert!(
            matches!(&error, EndpointError::BadPort(shown) if shown == port)
                || matches!(error, EndpointError::Unrecognised(_)),
            "for {port:?}: {error:?}"
        );
    }
    assert!(Endpoint::tcp(Scheme::Http, Host::Name("a".to_owned()), 0).is_err());
    assert!(Endpoint::unix(Scheme::Http, Path::new("")).is_err());
}

#[test]
fn hosts_are_addresses_or_names_but_not_in_between() {
    let longest_label = "l".repeat(63);
    let longest_name = ["l".repeat(63), "l".repeat(63), "l".repeat(63), "l".repeat(61)].join(".");
    for host in ["a", "a-b.c", "1a.example", "a.1b", &longest_label, &longest_name] {
        assert_eq!(host.parse(), Ok(Host::Name(host.to_owned())));
    }
    let long_label = "l".repeat(64);
    let long_name = format!("{longest_name}l");
    for host in [
        "",
        ".",
        "a..b",
        "-a",
        "a-",
        "127.1",
        "1.2.3.4.5",
        "300.0.0.1",
        "[::1",
        "[a]",
        &long_label,
        &long_name,
    ] {
        assert_eq!(host.parse::<Host>(), Err(EndpointError::BadHost(host.to_owned())));
    }
}
