//! How the gateway tells tenants apart: `tenant_from` and its entries.

use std::{borrow::Cow, fmt, str::FromStr};

use http::HeaderName;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// One way to learn which tenant a request is from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum TenantSource {
    /// The tenant of a verified capability.
    Capability,
    /// A claim of a verified JWT, such as `sub`.
    Jwt(String),
    /// A header that the network in front sets. Any client that reaches the gateway can set it too.
    Header(HeaderName),
    /// The client's certificate: its first URI, else its first DNS name, else its common name. That of a trusted proxy
    /// names nobody.
    Cert,
    /// The tenant is the client's address.
    Ip,
}

/// The text names no source of tenants.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a source of tenants: write capability, cert, ip, header:<name> or jwt:<claim>")]
pub struct UnknownSource(String);

impl FromStr for TenantSource {
    type Err = UnknownSource;

    fn from_str(text: &str) -> Result<Self, UnknownSource> {
        let unknown = || UnknownSource(text.to_owned());
        match text.split_once(':') {
            None if text == "capability" => Ok(Self::Capability),
            None if text == "cert" => Ok(Self::Cert),
            None if text == "ip" => Ok(Self::Ip),
            Some(("header", name)) => name.parse().map(Self::Header).map_err(|_| unknown()),
            Some(("jwt", claim)) if !claim.is_empty() => Ok(Self::Jwt(claim.to_owned())),
            _ => Err(unknown()),
        }
    }
}

impl TryFrom<String> for TenantSource {
    type Error = UnknownSource;

    fn try_from(text: String) -> Result<Self, UnknownSource> {
        text.parse()
    }
}

impl From<TenantSource> for String {
    fn from(source: TenantSource) -> Self {
        source.to_string()
    }
}

impl fmt::Display for TenantSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Capability => f.write_str("capability"),
            Self::Jwt(claim) => write!(f, "jwt:{claim}"),
            Self::Header(name) => write!(f, "header:{name}"),
            Self::Cert => f.write_str("cert"),
            Self::Ip => f.write_str("ip"),
        }
    }
}

impl JsonSchema for TenantSource {
    fn schema_name() -> Cow<'static, str> {
        "TenantSource".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": "^(capability|cert|ip|header:.+|jwt:.+)$" })
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn every_source_reads_back_as_it_is_written() {
        for text in ["capability", "cert", "ip", "header:x-tenant", "jwt:sub"] {
            assert_eq!(text.parse::<TenantSource>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn anything_else_is_refused_with_what_is_allowed() {
        for text in ["", "cookie", "header:", "header:two words", "jwt:", "ip:1"] {
            let error = text.parse::<TenantSource>().unwrap_err().to_string();
            assert!(error.contains("header:<name>"), "{error}");
        }
    }
}
