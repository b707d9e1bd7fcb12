//! Settings that name files: a relative path in a configuration file starts at the folder of that file.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::Value;

use super::memo::Memo;
use super::tree::{Body, Node};

/// The schema keyword of settings that name files: a list of what may precede the path, such as `unix:`.
pub(crate) const PATH_KEYWORD: &str = "x-path";

/// Describes a setting whose whole value is a path: `#[schemars(with = "PathSetting")]` on a field of another type.
#[derive(Debug)]
pub struct PathSetting;

impl JsonSchema for PathSetting {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Path".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "x-path": [""] })
    }
}

/// Has every relative path in a node, and below it, start at `folder`.
pub(crate) fn start_at(folder: &Path, node: &mut Node, shape: &Memo<'_>) {
    match &mut node.body {
        Body::Table(map) => {
            for (key, below) in map {
                if let Some(shape) = shape.child(key) {
                    start_at(folder, below, &shape);
                }
            }
        }
        Body::Array(items) => {
            let Some(shape) = shape.items() else { return };
            items.iter_mut().for_each(|item| start_at(folder, item, &shape));
        }
        Body::Leaf(Value::String(text)) => {
            if let Some(absolute) = absolute(folder, text, &shape.path_prefixes()) {
                *text = absolute;
            }
        }
        Body::Leaf(_) => {}
    }
}

/// The text with its relative path started at `folder`; nothing if it names no such path.
fn absolute(folder: &Path, text: &str, prefixes: &[&str]) -> Option<String> {
    let (prefix, path) = text.split_at(path_in(text, prefixes)?);
    // Neither the name of an abstract socket nor `sqlite::memory:` is a path.
    if path.starts_with(['@', ':']) || Path::new(path).is_absolute() {
        return None;
    }
    if folder.as_os_str().is_empty() {
        return None;
    }
    // Without the dots that mean nothing.
    let absolute: PathBuf = folder.join(path).components().collect();
    Some(format!("{prefix}{}", absolute.to_str()?))
}

/// Where the path begins in a text that names one. A prefix that begins with `@` may be after a name.
pub(crate) fn path_in(text: &str, prefixes: &[&str]) -> Option<usize> {
    let mut starts = prefixes.iter().filter_map(|prefix| match text.find(prefix)? {
        0 => Some(prefix.len()),
        at if prefix.starts_with('@') => Some(at + prefix.len()),
        _ => None,
    });
    starts.find(|start| *start < text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relative_paths_start_at_the_folder_and_other_texts_stay_as_they_are() {
        let moved = |text, prefixes: &[&str]| absolute(Path::new("/etc/node"), text, prefixes);
        assert_eq!(moved("tls/./key.pem", &[""]).as_deref(), Some("/etc/node/tls/key.pem"));
        assert_eq!(moved("../key.pem", &[""]).as_deref(), Some("/etc/node/../key.pem"));
        assert_eq!(moved("unix:a.sock", &["unix:"]).as_deref(), Some("unix:/etc/node/a.sock"));
        assert_eq!(moved("b3:00@unix:a.sock", &["@unix:"]).as_deref(), Some("b3:00@unix:/etc/node/a.sock"));
        assert_eq!(
            moved("https+unix:a", &["http+unix:", "https+unix:"]).as_deref(),
            Some("https+unix:/etc/node/a")
        );
        for (text, prefix) in [
            ("/key.pem", ""),
            ("", ""),
            ("unix:", "unix:"),
            ("unix:@abstract", "unix:"),
            ("sqlite::memory:", "sqlite:"),
            ("postgres://host/a", "sqlite:"),
            ("127.0.0.1:80", "unix:"),
        ] {
            assert_eq!(moved(text, &[prefix]), None, "{text}");
        }
    }
}
