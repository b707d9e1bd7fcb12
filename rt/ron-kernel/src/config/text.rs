//! Values as TOML text on one line.

use serde_json::Value;

use super::path;

/// A value as TOML writes it on one line.
pub(crate) fn inline(value: &Value) -> String {
    match value {
        Value::String(text) => quoted(text),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(inline).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Object(map) if map.is_empty() => "{}".to_owned(),
        Value::Object(map) => {
            let given = map.iter().filter(|(_, value)| !value.is_null());
            let pairs: Vec<String> =
                given.map(|(k, v)| format!("{} = {}", path::written_key(k), inline(v))).collect();
            format!("{{ {} }}", pairs.join(", "))
        }
        plain => plain.to_string(),
    }
}

/// A basic string. JSON's escapes are TOML's, but for the one control character JSON lets through.
pub(crate) fn quoted(text: &str) -> String {
    Value::String(text.to_owned()).to_string().replace('\u{7f}', "\\u007f")
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a failed step fails the test")]
    use super::*;

    proptest::proptest! {
        #[test]
        fn any_string_reads_back_as_itself(text in ".*") {
            let line = format!("{} = {}", path::written_key(&text), quoted(&text));
            let table: toml::Table = line.parse().unwrap();
            proptest::prop_assert_eq!(table[&text].as_str(), Some(text.as_str()));
        }
    }

    #[test]
    fn nested_values_stay_on_one_line_and_absent_ones_are_left_out() {
        let value = serde_json::json!({ "a": [1, 2.5, true], "b c": { "x": "y\nz" }, "none": null, "e": {} });
        assert_eq!(inline(&value), r#"{ a = [1, 2.5, true], "b c" = { x = "y\nz" }, e = {} }"#);
    }
}
