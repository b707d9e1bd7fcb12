//! The `[gateway.acme]` table: certificates that the gateway obtains and renews itself.

use std::{collections::BTreeSet, path::PathBuf, time::Duration};

use base64::{
    Engine as _,
    alphabet::URL_SAFE,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use ron_kernel::config::{HumanDuration, PathSetting, Problems, Secret};
use ron_transport::addr::{HttpUrl, ListenAddr};
use rustls_pki_types::DnsName;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::GatewayConfig;
use crate::router::host::HostPattern;

/// Directories that have a name.
const KNOWN: [(&str, &str); 2] = [
    ("letsencrypt", "https://acme-v02.api.letsencrypt.org/directory"),
    ("letsencrypt-staging", "https://acme-staging-v02.api.letsencrypt.org/directory"),
];
/// Most names: each has a certificate of its own, of about 5 KiB.
const MAX_NAMES: usize = 100;
/// The longest that a hook may take.
const MAX_HOOK: Duration = Duration::from_secs(600);
/// Keys of external accounts come with padding and without.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &URL_SAFE,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Certificates from a CA that speaks ACME (RFC 8555), such as Let's Encrypt: obtained and renewed by the gateway itself,
/// and stored in `acme` of `node.data_dir`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct AcmeConfig {
    /// Whether certificates are obtained; true says that you agree to the CA's terms of service.
    pub agree_tos: bool,
    /// The CA: `letsencrypt`, `letsencrypt-staging` for tests, or the URL of another CA's directory.
    pub directory: String,
    /// The address at which the CA may reach you; empty for none. It is sent when the account is created, and when it changes.
    pub email: String,
    /// The DNS names, each with a certificate of its own, 100 at most; `*.example.org` needs `dns-01`. Empty for the
    /// exact host names of the routes.
    pub names: Vec<String>,
    /// How the CA checks that a name is yours: `http-01` (on port 80, by `redirect_http`), `tls-alpn-01` (on port 443, by
    /// `listen`) or `dns-01` (by `dns_hook`).
    pub challenge: AcmeChallenge,
    /// The program that changes your DNS zone, with its arguments. It is started with three more: `add` or `remove`, the
    /// name of the TXT record, and its value. It must return when the record can be seen.
    pub dns_hook: Vec<String>,
    /// Timeout for one run of `dns_hook`; 10m at most.
    pub dns_hook_timeout: HumanDuration,
    /// PEM bundle of the CA certificates for the directory's server; empty for the system's.
    #[schemars(with = "PathSetting")]
    pub ca_path: PathBuf,
    /// The key id of an account at the CA that the ACME account is bound to (external account binding); empty for none.
    pub eab_key_id: String,
    /// The HMAC key that belongs to `eab_key_id`, in base64url.
    pub eab_hmac_key: Secret,
    /// How long before its end a certificate is renewed; `0s` for a third of its lifetime. It is never renewed in the
    /// first half of its lifetime. If the CA suggests an earlier time (RFC 9773), that time is used.
    pub renew_before: HumanDuration,
}

/// How a CA checks that a name is ours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum AcmeChallenge {
    /// A file on the plain HTTP server of the name.
    #[default]
    #[serde(rename = "http-01")]
    Http01,
    /// A certificate in a TLS handshake with the server of the name.
    #[serde(rename = "tls-alpn-01")]
    TlsAlpn01,
    /// A TXT record of the name.
    #[serde(rename = "dns-01")]
    Dns01,
}

impl Default for AcmeConfig {
    fn default() -> Self {
        Self {
            agree_tos: false,
            directory: KNOWN[0].0.to_owned(),
            email: String::new(),
            names: Vec::new(),
            challenge: AcmeChallenge::default(),
            dns_hook: Vec::new(),
            dns_hook_timeout: HumanDuration::from_secs(120),
            ca_path: PathBuf::new(),
            eab_key_id: String::new(),
            eab_hmac_key: Secret::default(),
            renew_before: HumanDuration::from_secs(0),
        }
    }
}

impl AcmeConfig {
    /// The URL of the CA's directory.
    #[must_use]
    pub fn directory_url(&self) -> &str {
        KNOWN.iter().find(|(name, _)| *name == self.directory).map_or(&self.directory, |(_, url)| url)
    }

    /// The HMAC key of the account at the CA; `None` if it cannot be read, or there is none.
    pub(crate) fn hmac_key(&self) -> Option<Vec<u8>> {
        BASE64.decode(self.eab_hmac_key.expose().replace('+', "-").replace('/', "_")).ok()
    }

    fn check(&self, problems: &mut Problems) {
        match self.directory_url().parse::<HttpUrl>() {
            Err(error) => {
                problems
                    .at("acme.directory", format!("is not the URL of a directory: {error}"))
                    .help("write \"letsencrypt\", \"letsencrypt-staging\", or https://host/path");
            }
            Ok(url) if url.is_exposed() => {
                problems.at("acme.directory", "must be an https: URL");
            }
            Ok(_) => {}
        }
        let is_address = |email: &str| {
            email.split_once('@').is_some_and(|(user, host)| !user.is_empty() && !host.is_empty())
                && email.bytes().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b',' | b'?'))
        };
        if !self.email.is_empty() && !is_address(&self.email) {
            problems.at("acme.email", "must be one e-mail address");
        }
        match (self.eab_key_id.is_empty(), self.eab_hmac_key.is_empty()) {
            (true, false) => drop(problems.at("acme.eab_key_id", "must be set with `eab_hmac_key`")),
            (false, true) => drop(problems.at("acme.eab_hmac_key", "must be set with `eab_key_id`")),
            (false, false) if self.hmac_key().is_none() => {
                problems.at("acme.eab_hmac_key", "is not base64url");
            }
            _ => {}
        }
        self.check_hook(problems);
    }

    fn check_hook(&self, problems: &mut Problems) {
        let is_needed = self.challenge == AcmeChallenge::Dns01;
        match self.dns_hook.first() {
            None if is_needed => {
                problems
                    .at("acme.dns_hook", "must name a program that sets the TXT record")
                    .help("write dns_hook = [\"/etc/omnigate/dns-hook\"]");
            }
            Some(_) if !is_needed => {
                problems
                    .at("acme.dns_hook", "is not used with this `challenge`")
                    .help("set challenge = \"dns-01\"");
            }
            Some(program) if !program.starts_with('/') => {
                problems.at("acme.dns_hook", "must begin with the absolute path of a program");
            }
            _ => {}
        }
        let timeout = self.dns_hook_timeout.as_duration();
        if timeout.is_zero() || timeout > MAX_HOOK {
            problems.at("acme.dns_hook_timeout", "must be longer than nothing, and 10m at most");
        }
    }
}

impl GatewayConfig {
    /// Whether the gateway obtains certificates itself.
    #[must_use]
    pub fn has_acme(&self) -> bool {
        self.enabled && self.acme.agree_tos
    }

    /// Whether the listener speaks TLS.
    #[must_use]
    pub fn has_tls(&self) -> bool {
        self.acme.agree_tos || self.tls.server_config().is_some()
    }

    /// The names that certificates are obtained for, in lower case, each once.
    #[must_use]
    pub fn acme_names(&self) -> Vec<String> {
        let named = self.acme.names.iter().map(|name| name.to_ascii_lowercase());
        if !self.acme.names.is_empty() {
            return named.collect::<BTreeSet<_>>().into_iter().collect();
        }
        let has_certificate =
            |name: &String| self.tls.sni.iter().any(|sni| sni.name.eq_ignore_ascii_case(name));
        let hosts = self.route.iter().flat_map(|route| &route.host).map(|host| host.to_ascii_lowercase());
        let wanted = hosts.filter(|host| is_public_name(host) && !has_certificate(host));
        wanted.collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// Whether a route answers requests for a host, or for any.
    #[must_use]
    pub fn has_route_for(&self, host: &str) -> bool {
        let covers = |pattern: &String| {
            pattern.eq_ignore_ascii_case(host)
                || pattern.parse().is_ok_and(|pattern: HostPattern| pattern.covers(host))
        };
        self.route.iter().any(|route| route.host.is_empty() || route.host.iter().any(covers))
    }

    /// Says what is wrong with the table, as the key `acme`.
    pub(super) fn check_acme(&self, problems: &mut Problems) {
        if !self.acme.agree_tos {
            if self.acme != AcmeConfig::default() {
                problems
                    .at("acme.agree_tos", "must be true: no certificate is obtained otherwise")
                    .help("read the CA's terms of service, and set agree_tos = true");
            }
            return;
        }
        self.acme.check(problems);
        self.check_acme_names(problems);
        if self.acme.challenge == AcmeChallenge::Http01 && self.redirect_http.is_none() {
            problems
                .at(
                    "acme.challenge",
                    "`http-01` needs a listener without TLS, on which the CA checks the names",
                )
                .help("set gateway.redirect_http = \"0.0.0.0:80\", or challenge = \"tls-alpn-01\"");
        }
        if self.acme.challenge == AcmeChallenge::TlsAlpn01 && matches!(self.listen, ListenAddr::Unix(_)) {
            problems.at("acme.challenge", "`tls-alpn-01` needs `listen` on a port");
        }
    }

    fn check_acme_names(&self, problems: &mut Problems) {
        let names = self.acme_names();
        if names.is_empty() {
            problems
                .at("acme.names", "there is no name: no route has an exact `host` that a public CA certifies")
                .help("write names = [\"www.example.org\"], or give the routes a host");
        }
        if names.len() > MAX_NAMES {
            problems.at("acme.names", format!("there are more than {MAX_NAMES} names"));
        }
        for (index, name) in self.acme.names.iter().enumerate() {
            let at = format!("acme.names.{index}");
            let bare = name.strip_prefix("*.");
            if !is_name(bare.unwrap_or(name)) {
                problems.at(at, "must be a DNS name in ASCII, or `*.` and a DNS name");
            } else if bare.is_some() && self.acme.challenge != AcmeChallenge::Dns01 {
                problems
                    .at(at, "a CA certifies names with `*` by `dns-01` alone")
                    .help("set challenge = \"dns-01\" and dns_hook");
            } else if self.tls.sni.iter().any(|sni| sni.name.eq_ignore_ascii_case(name)) {
                problems.at(at, "has a certificate in `tls.sni` already");
            }
        }
    }
}

/// Whether a text is a DNS name that is no address.
fn is_name(name: &str) -> bool {
    let is_address = name.parse::<std::net::IpAddr>().is_ok();
    !is_address && !name.ends_with('.') && DnsName::try_from(name).is_ok()
}

/// Whether a public CA would certify the host of a route: a DNS name with a dot.
fn is_public_name(host: &str) -> bool {
    host.contains('.') && is_name(host)
}
