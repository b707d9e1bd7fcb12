//! `omnigate config`: write, show and describe the configuration.

use std::{
    fs::OpenOptions,
    io::{self, Write},
    path::Path,
};

use ron_kernel::config::{Origin, Snapshot};
use serde_json::{Value, json};

use crate::{
    config_file::{ConfigSource, schema},
    failure::Failure,
};

/// How `config init` begins the file.
const TEMPLATE_HEAD: &str = "\
## Omnigate's configuration. A line that starts with `# ` shows a setting and its default: remove the mark to
## change it. `omnigate check` validates the file, and `omnigate config show` prints the values in force.

";

/// The introduction of the reference.
const REFERENCE_HEAD: &str = "\
# Configuration

Written by `omnigate config reference`; do not edit.

The configuration is one TOML file: the one that `--config` or `OMNIGATE_CONFIG` names, else `./omnigate.toml` if it
exists. Every key has a default. The sources of a value, in order of precedence, are: a flag
`--set gateway.max_conns=100`, an environment variable `OMNIGATE_GATEWAY__MAX_CONNS=100`, the file, the default.

When the file changes, or on SIGHUP, the settings whose column *reload* says live are applied; the others need a restart,
which `/readyz` reports. An invalid configuration is refused as a whole, and the old one stays in force.

Durations are written `\"5s\"` or `\"250ms\"`, sizes `\"1MiB\"` or as a number of bytes.

";

/// Widest path and value that are padded in `config show`; longer ones push their origin to the right.
const ALIGN_MAX: usize = 88;

/// Writes the commented template to `path`.
pub(super) fn init(path: &Path, force: bool) -> Result<(), Failure> {
    let shown = path.display();
    write_template(path, force).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => Failure::failed(format!("{shown} already exists"))
            .help("choose another path, or replace it with --force"),
        io::ErrorKind::NotFound => Failure::failed(format!("the folder of {shown} does not exist"))
            .help("create it, or choose another path"),
        _ => Failure::failed(format!("cannot write {shown}: {error}")),
    })?;
    super::print(&format!("wrote {shown}: every setting with its default, commented out\n"))
}

#[expect(clippy::disallowed_methods, reason = "a command that writes a file and ends; no runtime is running")]
fn write_template(path: &Path, force: bool) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true);
    if force {
        options.create(true).truncate(true);
    } else {
        options.create_new(true);
    }
    let template = format!("{TEMPLATE_HEAD}{}", schema().template());
    options.open(path)?.write_all(template.as_bytes())
}

/// Prints every resolved value with its origin.
pub(super) fn show(source: &ConfigSource, as_json: bool) -> Result<(), Failure> {
    let snapshot = source.load()?;
    if as_json {
        return super::print(&super::pretty(&listed(&snapshot, &source.name())));
    }
    let line = |(path, value, origin)| (format!("{path} = {value}"), origin_text(origin, &source.name()));
    let lines: Vec<(String, String)> = snapshot.entries().map(line).collect();
    let widths = lines.iter().map(|(setting, _)| setting.chars().count());
    let width = widths.filter(|width| *width <= ALIGN_MAX).max().unwrap_or(0);
    let text: String =
        lines.iter().map(|(setting, origin)| format!("{setting:width$}   # {origin}\n")).collect();
    super::print(&text)
}

/// Every resolved value of a configuration that was read from `file`, with its origin; secrets are hidden.
pub(crate) fn listed(snapshot: &Snapshot, file: &str) -> Value {
    let entry = |(path, value, origin): (&str, &str, &Origin)| json!({ "key": path, "value": json_value(value), "origin": origin_text(origin, file) });
    Value::Array(snapshot.entries().map(entry).collect())
}

/// Where a value came from, as an operator would look for it.
fn origin_text(origin: &Origin, file: &str) -> String {
    match origin {
        Origin::Default => "default".to_owned(),
        Origin::File { line } => format!("{file}:{line}"),
        Origin::Env(name) => format!("env {name}"),
        Origin::Flag(_) => "--set".to_owned(),
    }
}

/// A value written in TOML, as JSON.
fn json_value(toml: &str) -> Value {
    let parsed = toml::from_str::<toml::Table>(&format!("value = {toml}")).ok();
    let value = parsed.and_then(|mut table| table.remove("value"));
    value.and_then(|value| serde_json::to_value(value).ok()).unwrap_or_else(|| toml.into())
}

/// Prints the JSON schema.
pub(super) fn schema_json() -> Result<(), Failure> {
    super::print(&super::pretty(&schema().json_schema()))
}

/// Prints the reference.
pub(super) fn reference() -> Result<(), Failure> {
    super::print(&format!("{REFERENCE_HEAD}{}", schema().reference_markdown()))
}
