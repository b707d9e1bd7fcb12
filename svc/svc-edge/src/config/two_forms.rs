//! Settings that are written as a text, or as a table when there is more to say.

use std::{borrow::Cow, fmt, marker::PhantomData};

use ron_kernel::config::PathSetting;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{self, DeserializeOwned, MapAccess, Visitor, value::MapAccessDeserializer},
};

/// A setting with a short and a long form.
pub(super) trait TwoForms: Clone + PartialEq + From<String> + From<Self::Table> {
    /// The long form of the setting, a table.
    type Table: Serialize + DeserializeOwned + JsonSchema + From<Self>;

    /// Whether the short form is the path of a file or a folder.
    const IS_PATH: bool;

    /// The allowed forms, for the error message.
    const EXPECTED: &'static str;

    /// What the short form would have to be.
    fn text(&self) -> Cow<'_, str>;
}

/// Writes the short form if it says everything.
pub(super) fn serialize<T: TwoForms, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
    let text = value.text();
    if T::from(text.clone().into_owned()) == *value {
        return text.serialize(serializer);
    }
    T::Table::from(value.clone()).serialize(serializer)
}

/// Reads either form. By hand, because a derived choice between forms forgets what was wrong with each.
pub(super) fn deserialize<'de, T: TwoForms, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    deserializer.deserialize_any(Reader(PhantomData))
}

/// The schema of both.
pub(super) fn schema<T: TwoForms>(generator: &mut SchemaGenerator) -> Schema {
    let text = if T::IS_PATH { PathSetting::json_schema(generator) } else { String::json_schema(generator) };
    let table = T::Table::json_schema(generator);
    schemars::json_schema!({ "anyOf": [text, table] })
}

struct Reader<T>(PhantomData<T>);

impl<'de, T: TwoForms> Visitor<'de> for Reader<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(T::EXPECTED)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        Ok(T::from(text.to_owned()))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
        T::Table::deserialize(MapAccessDeserializer::new(map)).map(Into::into)
    }
}

/// The impls that serde and the schema ask for, which only a macro can write for every such type.
macro_rules! two_forms {
    ($type:ident) => {
        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                super::two_forms::serialize(self, serializer)
            }
        }

        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                super::two_forms::deserialize(deserializer)
            }
        }

        impl schemars::JsonSchema for $type {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($type).into()
            }

            fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
                super::two_forms::schema::<Self>(generator)
            }
        }
    };
}
pub(super) use two_forms;
