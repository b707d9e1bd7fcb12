//! The JSON schema of the whole configuration file, one document for all tables.

use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use super::include::INCLUDE;
use super::table::Registered;

/// Describes all tables together, so that a type they share is described once.
pub(crate) fn document(tables: &[Registered]) -> Value {
    let mut generator = SchemaSettings::draft2020_12().into_generator();
    let included = (INCLUDE.to_owned(), include_schema());
    let properties: Map<String, Value> = tables
        .iter()
        .map(|table| (table.name.to_owned(), (table.describe)(&mut generator).to_value()))
        .chain([included])
        .collect();
    let mut definitions = generator.take_definitions(true);
    close(&mut definitions);
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": properties,
        "additionalProperties": false,
        "$defs": definitions,
    })
}

fn include_schema() -> Value {
    json!({
        "type": "array",
        "items": { "type": "string" },
        "description": "Further files whose settings count as if they were written here: [\"conf.d/*.toml\"].",
    })
}

/// Tells editors that a struct has no other keys, as the loader does.
///
/// A struct that an enum extends with its tag stays open: closed, it would refuse the tag beside it.
fn close(definitions: &mut Map<String, Value>) {
    let mut extended = Vec::new();
    definitions.values().for_each(|definition| find_extended(definition, &mut extended));
    for (name, definition) in definitions {
        let Some(definition) = definition.as_object_mut() else {
            continue;
        };
        let composed =
            ["$ref", "allOf", "anyOf", "oneOf"].iter().any(|keyword| definition.contains_key(*keyword));
        if definition.contains_key("properties") && !composed && !extended.contains(name) {
            definition.entry("additionalProperties").or_insert(Value::Bool(false));
        }
    }
}

/// Finds the names of definitions that are referred to with more properties beside the reference.
fn find_extended(schema: &Value, found: &mut Vec<String>) {
    match schema {
        Value::Object(map) => {
            if let (Some(Value::String(target)), true) = (map.get("$ref"), map.contains_key("properties")) {
                found.extend(target.strip_prefix("#/$defs/").map(str::to_owned));
            }
            map.values().for_each(|below| find_extended(below, found));
        }
        Value::Array(items) => items.iter().for_each(|below| find_extended(below, found)),
        _ => {}
    }
}
