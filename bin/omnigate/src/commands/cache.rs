//! `omnigate cache`: what the gateway of a running node has stored, and purging it, by way of the admin listener.

use clap::Subcommand;
use serde_json::{Value, json};

use super::overlay::admin_client::AdminClient;
use crate::{cli::ConfigArgs, failure::Failure};

/// What to do with the cache.
#[derive(Debug, Subcommand)]
pub(crate) enum CacheCommand {
    /// Remove stored responses from the gateway's cache, of all tenants and variants.
    ///
    /// When the command returns, the purge is durable, even across a crash.
    #[command(group = clap::ArgGroup::new("what").required(true))]
    Purge {
        #[command(flatten)]
        config: ConfigArgs,
        /// Purge this URL, as clients request it: scheme, host, path and query.
        #[arg(group = "what")]
        url: Option<String>,
        /// Purge all URLs with this prefix.
        #[arg(long, value_name = "URL", group = "what")]
        prefix: Option<String>,
        /// Purge responses with this tag in `Cache-Tag` or `Surrogate-Key`.
        #[arg(long, group = "what")]
        tag: Option<String>,
        /// Purge every stored response.
        #[arg(long, group = "what")]
        all: bool,
        /// Mark the responses stale instead of removing them: they are revalidated before they are fresh again, and
        /// can be used as stale responses until then.
        #[arg(long)]
        soft: bool,
        /// Print the result as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Show the state of the gateway's cache, or the stored responses of a URL.
    Show {
        #[command(flatten)]
        config: ConfigArgs,
        /// The URL, as clients request it: scheme, host, path and query.
        url: Option<String>,
        /// Print the result as JSON.
        #[arg(long)]
        json: bool,
    },
}

/// Asks the running node to purge or to list stored responses, and prints its answer.
pub(super) fn run(command: CacheCommand) -> Result<(), Failure> {
    match command {
        CacheCommand::Purge { config, url, prefix, tag, all, soft, json } => {
            let wanted = json!({ "url": url, "prefix": prefix, "tag": tag, "all": all, "soft": soft });
            let client = AdminClient::of(&config.resolve()?)?;
            let answer = client.post("/cache/purge", wanted.to_string().as_bytes())?;
            if json {
                return super::print(&format!("{answer}\n"));
            }
            let done = if soft { "marked stale" } else { "purged" };
            super::print(&format!("{done}: {} responses\n", answer["purged"]))
        }
        CacheCommand::Show { config, url, json } => {
            let client = AdminClient::of(&config.resolve()?)?;
            let path = url.map_or_else(|| "/cache".to_owned(), |url| format!("/cache?url={}", encoded(&url)));
            let report = client.get(&path)?;
            super::print(&if json { format!("{report:#}\n") } else { table(&report) })
        }
    }
}

/// Percent-encodes a text as the value of a query parameter.
fn encoded(text: &str) -> String {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~/:".contains(byte);
    let one = |byte: u8| if plain(&byte) { char::from(byte).to_string() } else { format!("%{byte:02x}") };
    text.bytes().map(one).collect()
}

/// Formats the node's report on its cache as a table for a terminal.
fn table(report: &Value) -> String {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let mut shown = String::new();
    for name in ["store", "targets", "memory_bytes", "disk_bytes", "disk_objects"] {
        shown.push_str(&format!("{:<14}{}\n", name.replace('_', " "), text(&report[name])));
    }
    let Some(responses) = report["responses"].as_array() else { return shown };
    shown.push_str(&format!("responses     {}\n", responses.len()));
    for response in responses {
        let list = |name: &str| {
            let items = response[name].as_array().into_iter().flatten().map(text);
            items.collect::<Vec<_>>().join(", ")
        };
        shown.push_str(&format!(
            "  {} of {} bytes, age {} s, fresh for {} s, {}, for {}\n",
            response["status"],
            response["len"],
            response["age"],
            response["ttl"],
            if response["on_disk"] == true { "on disk" } else { "in memory" },
            text(&response["tenant"]),
        ));
        for (name, items) in
            [("vary", list("vary")), ("tags", list("tags")), ("body", text(&response["body"]))]
        {
            if !items.is_empty() && items != "null" {
                shown.push_str(&format!("    {name} {items}\n"));
            }
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_survives_the_query() {
        assert_eq!(encoded("http://a/b?c=d&e#ü"), "http://a/b%3fc%3dd%26e%23%c3%bc");
    }
}
