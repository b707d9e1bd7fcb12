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

/// The short file that `config init` writes: one route, and the settings that most nodes need.
const STARTER: &str = "\
# Omnigate's configuration. `omnigate check` validates this file, `omnigate up` runs it, and saving it applies a
# change. `omnigate config init --full` writes every setting with its default; docs/CONFIG.md lists them too.
# Relative paths start at the folder of this file.

# Everything goes to your application:
[[gateway.route]]
path = \"/\"
upstream = \"app\"

[gateway.upstream.app]
endpoints = [\"http://127.0.0.1:3000\"]

# Answered by the gateway itself: curl http://127.0.0.1:8080/hello
[[gateway.route]]
path = \"/hello\"
respond = { body = \"Omnigate works.\\n\" }

[gateway]
listen = \"127.0.0.1:8080\"             # \"0.0.0.0:8080\" for other machines

[admin]
listen = \"127.0.0.1:9600\"             # status, metrics and the console; keep it private
";

/// How `config init --full` begins the file.
const TEMPLATE_HEAD: &str = "\
## Omnigate's configuration. A line that starts with `# ` shows a setting and its default: remove the mark to
## change it. `omnigate check` validates the file, and `omnigate config show` prints the values in force.

";

/// The introduction of the reference.
const REFERENCE_HEAD: &str = "\
# Configuration

Written by `omnigate config reference`; do not edit.

The configuration is a TOML file: the one that `--config` or `OMNIGATE_CONFIG` names, else `./omnigate.toml` if it
exists. Every key has a default. The sources of a value, in order of precedence, are: a flag
`--set gateway.max_conns=100`, an environment variable `OMNIGATE_GATEWAY__MAX_CONNS=100`, the file, the default.

When the file changes, or on SIGHUP, the settings whose column *reload* says live are applied; the others need a restart,
which `/readyz` reports. An invalid configuration is refused as a whole, and the old one stays in force.

Durations are written `\"5s\"` or `\"250ms\"`, sizes `\"1MiB\"` or as a number of bytes.

**Paths.** A relative path in a file starts at the folder of that file. This applies to files, folders, Unix sockets
(`unix:app.sock`), `file:` and `sqlite:` URLs, and `${file:…}`. A relative path in a flag or a variable starts at the working folder, and
so does the default of `node.data_dir`. `sslrootcert` in `ledger.url` works as in PostgreSQL's own programs. Messages
name the full path that was tried.

**Other files.** `include = [\"conf.d/*.toml\"]`, before the first table, adds the settings of other files. `*` and `?` are
wildcards in the name of the file; matching files are read in the order of their names. A name without a wildcard must
exist. Tables are merged and lists of tables, such as `[[gateway.route]]`, are appended, the first file first. Any other
setting may be in one file only. Included files may include others, up to 4 levels deep, 256 files in total, 1 MiB each
and 4 MiB together. Changes of included files, and new files that match, are applied like changes of the main file.

**References.** `${NAME}` in a string is an environment variable, `${NAME:-text}` one with a default, and `${file:PATH}`
the content of a file; `$${` is a plain `${`. Their values are never shown.

";

/// Widest path and value that are padded in `config show`; longer ones push their origin to the right.
const ALIGN_MAX: usize = 88;

/// Writes a short file to `path`, or with `full` every setting, commented out.
pub(super) fn init(path: &Path, full: bool, force: bool) -> Result<(), Failure> {
    let shown = path.display();
    let text = if full { format!("{TEMPLATE_HEAD}{}", schema().template()) } else { STARTER.to_owned() };
    write_new(path, &text, force).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => Failure::failed(format!("{shown} already exists"))
            .help("choose another path, or replace it with --force"),
        io::ErrorKind::NotFound => Failure::failed(format!("the folder of {shown} does not exist"))
            .help("create it, or choose another path"),
        _ => Failure::failed(format!("cannot write {shown}: {error}")),
    })?;
    let what = if full { "every setting with its default, commented out" } else { "a route to start from" };
    super::print(&format!("wrote {shown}: {what}\n"))
}

#[expect(clippy::disallowed_methods, reason = "a command that writes a file and ends; no runtime is running")]
fn write_new(path: &Path, text: &str, force: bool) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true);
    if force {
        options.create(true).truncate(true);
    } else {
        options.create_new(true);
    }
    options.open(path)?.write_all(text.as_bytes())
}

/// Prints every resolved value with its origin.
pub(super) fn show(source: &ConfigSource, as_json: bool) -> Result<(), Failure> {
    let snapshot = source.load()?;
    if as_json {
        return super::print(&super::pretty(&listed(&snapshot)));
    }
    let line = |(path, value, origin)| (format!("{path} = {value}"), origin_text(origin));
    let lines: Vec<(String, String)> = snapshot.entries().map(line).collect();
    let widths = lines.iter().map(|(setting, _)| setting.chars().count());
    let width = widths.filter(|width| *width <= ALIGN_MAX).max().unwrap_or(0);
    let text: String =
        lines.iter().map(|(setting, origin)| format!("{setting:width$}   # {origin}\n")).collect();
    super::print(&text)
}

/// Every resolved value of a configuration with its origin; secrets are hidden.
pub(crate) fn listed(snapshot: &Snapshot) -> Value {
    let entry = |(path, value, origin): (&str, &str, &Origin)| json!({ "key": path, "value": json_value(value), "origin": origin_text(origin) });
    Value::Array(snapshot.entries().map(entry).collect())
}

/// Where a value came from, as an operator would look for it.
fn origin_text(origin: &Origin) -> String {
    match origin {
        Origin::Default => "default".to_owned(),
        Origin::File { file, line } => format!("{file}:{line}"),
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
