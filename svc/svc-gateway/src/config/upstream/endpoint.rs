//! One server of an upstream, written as text or as a table.

use std::{borrow::Cow, fmt, str::FromStr};

use ron_kernel::config::Problems;
use ron_transport::addr::{Endpoint, EndpointError};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{self, MapAccess, Visitor, value::MapAccessDeserializer},
};

/// The largest weight: shares finer than a thousandth need more requests than anybody looks at.
const MAX_WEIGHT: u32 = 1000;

/// One server: `"http://127.0.0.1:9001"`, or `{ url = "http://127.0.0.1:9001", weight = 3 }`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointConfig {
    /// The server's URL.
    pub url: Endpoint,
    /// The server's weight relative to the other servers, from 1 to 1000.
    pub weight: u32,
}

/// The longer way to write it.
#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Weighted {
    /// The server's URL.
    url: Endpoint,
    /// The server's weight relative to the other servers, from 1 to 1000.
    #[serde(default = "one")]
    weight: u32,
}

const fn one() -> u32 {
    1
}

impl EndpointConfig {
    pub(super) fn check(&self, at: &str, problems: &mut Problems) {
        if !(1..=MAX_WEIGHT).contains(&self.weight) {
            problems.at(format!("{at}.weight"), format!("must be from 1 to {MAX_WEIGHT}"));
        }
    }
}

impl From<Endpoint> for EndpointConfig {
    fn from(url: Endpoint) -> Self {
        Self { url, weight: one() }
    }
}

impl From<Weighted> for EndpointConfig {
    fn from(Weighted { url, weight }: Weighted) -> Self {
        Self { url, weight }
    }
}

impl FromStr for EndpointConfig {
    type Err = EndpointError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(|url: Endpoint| url.into())
    }
}

impl Serialize for EndpointConfig {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.weight == one() {
            return self.url.serialize(serializer);
        }
        Weighted { url: self.url.clone(), weight: self.weight }.serialize(serializer)
    }
}

// By hand, because a derived choice between forms forgets what was wrong with each.
impl<'de> Deserialize<'de> for EndpointConfig {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = EndpointConfig;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(
                    "an endpoint such as \"http://127.0.0.1:9001\", or a table with `url` and `weight`",
                )
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<EndpointConfig, E> {
                text.parse().map_err(E::custom)
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<EndpointConfig, A::Error> {
                Weighted::deserialize(MapAccessDeserializer::new(map)).map(Into::into)
            }
        }
        deserializer.deserialize_any(Reader)
    }
}

impl JsonSchema for EndpointConfig {
    fn schema_name() -> Cow<'static, str> {
        "EndpointConfig".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let text = Endpoint::json_schema(generator);
        let table = Weighted::json_schema(generator);
        schemars::json_schema!({ "anyOf": [text, table] })
    }
}
