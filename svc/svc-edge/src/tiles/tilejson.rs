//! A pack's description in the TileJSON format, version 3.0.0.

use packs::PackInfo;
use serde_json::{Map, Value, json};

use super::Kind;

/// The fields of a pack's own metadata that are passed on, because clients know them.
const PASSED_ON: [&str; 7] =
    ["name", "description", "attribution", "version", "legend", "vector_layers", "fillzoom"];

/// Describes a pack whose tiles are under `base`, which ends with a slash.
pub(crate) fn tilejson(name: &str, info: &PackInfo, base: &str) -> Value {
    let kind = Kind::of(info.tile_type);
    let mut fields = Map::new();
    fields.insert("tilejson".into(), json!("3.0.0"));
    fields.insert("tiles".into(), json!([format!("{base}{name}/{{z}}/{{x}}/{{y}}.{}", kind.extension())]));
    fields.insert("scheme".into(), json!("xyz"));
    fields.insert("minzoom".into(), json!(info.min_zoom));
    fields.insert("maxzoom".into(), json!(info.max_zoom));
    fields.insert("bounds".into(), json!(info.bounds));
    if let Some((longitude, latitude, zoom)) = info.center {
        fields.insert("center".into(), json!([longitude, latitude, zoom]));
    }
    fields.insert("name".into(), json!(name));
    fields.insert("format".into(), json!(kind.extension()));
    fields.insert("tile_count".into(), json!(info.tiles));
    fields.insert("id".into(), json!(info.id));
    for (key, value) in &info.metadata {
        if PASSED_ON.contains(&key.as_str()) {
            fields.insert(key.clone(), value.clone());
        }
    }
    Value::Object(fields)
}
