//! A pack's description in the TileJSON format, version 3.0.0.

use arc_swap::ArcSwapOption;
use b3tree::Builder;
use bytes::Bytes;
use packs::PackInfo;
use serde_json::{Map, Value, json};
use types::ObjectId;

use super::Kind;

/// The fields of a pack's own metadata that are passed on, because clients know them.
const PASSED_ON: [&str; 7] =
    ["name", "description", "attribution", "version", "legend", "vector_layers", "fillzoom"];

/// The longest field that is passed on, in bytes of JSON. Whoever asks for the description has all of it written and hashed.
const MAX_FIELD: usize = 256 * 1024;

/// The description of a pack, all but where its tiles are: that depends on how the client names this server.
#[derive(Debug)]
pub(crate) struct TileJson {
    name: Box<str>,
    /// What paths to its tiles end with.
    extension: &'static str,
    /// All other fields, as they stand in a JSON object behind its first field.
    rest: Box<str>,
    /// The one that was asked for last.
    last: ArcSwapOption<Described>,
}

#[derive(Debug)]
struct Described {
    base: Box<str>,
    text: Bytes,
    id: ObjectId,
}

impl TileJson {
    /// The description of a pack of this name.
    pub(crate) fn new(name: &str, info: &PackInfo) -> Self {
        let extension = Kind::of(info.tile_type).extension();
        let mut fields = Map::new();
        fields.insert("tilejson".into(), json!("3.0.0"));
        fields.insert("scheme".into(), json!("xyz"));
        fields.insert("minzoom".into(), json!(info.min_zoom));
        fields.insert("maxzoom".into(), json!(info.max_zoom));
        fields.insert("bounds".into(), json!(info.bounds));
        if let Some((longitude, latitude, zoom)) = info.center {
            fields.insert("center".into(), json!([longitude, latitude, zoom]));
        }
        fields.insert("name".into(), json!(name));
        fields.insert("format".into(), json!(extension));
        fields.insert("tile_count".into(), json!(info.tiles));
        fields.insert("id".into(), json!(info.id));
        for (key, value) in &info.metadata {
            if PASSED_ON.contains(&key.as_str()) && value.to_string().len() <= MAX_FIELD {
                fields.insert(key.clone(), value.clone());
            }
        }
        let rest = Value::Object(fields).to_string();
        let rest = rest.strip_prefix('{').unwrap_or(&rest).into();
        Self { name: name.into(), extension, rest, last: ArcSwapOption::empty() }
    }

    /// The description of a pack whose tiles are under `base`, which ends with a slash; and its content id.
    pub(crate) fn at(&self, base: &str) -> (Bytes, ObjectId) {
        if let Some(last) = self.last.load().as_ref().filter(|last| *last.base == *base) {
            return (last.text.clone(), last.id);
        }
        let tiles = json!([format!("{base}{}/{{z}}/{{x}}/{{y}}.{}", self.name, self.extension)]);
        let text = Bytes::from(format!("{{\"tiles\":{tiles},{}", self.rest));
        let id = Builder::new().update(&text).finish().root();
        self.last.store(Some(Described { base: base.into(), text: text.clone(), id }.into()));
        (text, id)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, clippy::disallowed_methods, reason = "tests")]
mod tests {
    use super::*;
    use packs::{Coord, MountOptions, Pack};
    use pmtiles::{Settings, Writer};

    #[test]
    fn a_field_that_is_too_long_is_left_out_and_each_client_gets_its_own_addresses() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.pmtiles");
        for (len, is_passed_on) in [(MAX_FIELD - 2, true), (MAX_FIELD - 1, false)] {
            let metadata =
                json!({ "attribution": "us", "description": "x".repeat(len), "other": 1 }).to_string();
            let mut writer = Writer::new(Settings { metadata, ..Settings::default() });
            writer.push(Coord::new(0, 0, 0).unwrap().id(), b"tile").unwrap();
            std::fs::write(&path, writer.finish().unwrap()).unwrap();
            let pack = Pack::mount(&path, MountOptions::default()).unwrap();
            let tilejson = TileJson::new("world", pack.info());
            for base in ["http://a/edge/tiles/", "http://b/\"/", "http://b/\"/", "http://a/edge/tiles/"] {
                let (text, id) = tilejson.at(base);
                let told: Value = serde_json::from_slice(&text).unwrap();
                assert_eq!(
                    told["tiles"],
                    json!([format!("{base}world/{{z}}/{{x}}/{{y}}.{}", tilejson.extension)])
                );
                assert_eq!((&told["tilejson"], &told["attribution"]), (&json!("3.0.0"), &json!("us")));
                assert_eq!(told.get("description").is_some(), is_passed_on);
                assert!(told.get("other").is_none());
                assert_eq!(id.as_bytes(), blake3::hash(&text).as_bytes());
            }
        }
    }
}
