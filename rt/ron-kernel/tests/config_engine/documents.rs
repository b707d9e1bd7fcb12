//! The reference, the template and the JSON schema, each written from the tables.

use insta::assert_snapshot;

use crate::fixture::{Gateway, Node, good, schema};

#[test]
fn the_reference_lists_every_key_with_type_default_meaning_and_reload() {
    assert_snapshot!(schema().reference_markdown(), @r#"
    ## `[node]`

    What the node as a whole does.

    | key | type | default | meaning | reload |
    |---|---|---|---|---|
    | `name` | string | `""` | The name shown to people. | restart |
    | `danger_ok` | boolean | `false` | Lets protecting limits pass their safe maximum. | live |

    ## `[gateway]`

    The front door.

    It has two paragraphs | and a bar.

    | key | type | default | meaning | reload |
    |---|---|---|---|---|
    | `listen` | string | `"127.0.0.1:8080"` | Where to listen. | restart |
    | `max_conns` | integer | `1024` | Most connections at once. | live |
    | `read_timeout` | duration | `"5s"` | How long a read may take. | live |
    | `format` | "text" or "json" | `"text"` | How lines are written. | live |
    | `share` | number | `0.5` | A share of one. | live |
    | `greet` | list of string | `["you", "all"]` | Names to greet. | live |
    | `weights` | integer by name | `{ anon = 1, authed = 5 }` | Weights by class. | live |
    | `admin_token` | secret | unset | What outsiders must know. | live |
    | `banner` | string | unset | A banner, if any. | live |
    | `tls` | table | unset | Encryption, if any. | live |
    | `tls.cert` | string | required | The certificate. | live |
    | `tls.passphrase` | secret | required | The key's passphrase. | live |
    | `limits` | table |  | What a request may cost. | restart |
    | `limits.max_body_bytes` | size | `"1MiB"` | The largest body. | restart |
    | `limits.decode_ratio_max` | integer | `7` | Most bytes out per byte in. | restart |
    | `store` | table |  | Where the records go. | live |
    | `store.kind` | "memory" or "remote" | `"memory"` |  | live |
    | `store.entries` | integer | `16` |  | live |
    | `store.url` | string | unset |  | live |
    | `store.password` | secret | unset |  | live |
    | `route` | list of table | `[]` | Which path goes where. | live |
    | `route[].path` | string | required | The prefix. | live |
    | `route[].upstream` | string | required |  | live |
    | `route[].strip` | boolean | `false` |  | live |
    | `upstream` | table by name | `{}` | Who answers. | live |
    | `upstream.<name>.endpoints` | list of string or table | `[]` |  | live |
    | `upstream.<name>.endpoints[].url` | string | required |  | live |
    | `upstream.<name>.endpoints[].weight` | integer | required |  | live |
    | `upstream.<name>.timeout` | duration | `"0s"` |  | live |
    | `upstream.<name>.keys` | list of secret | unset |  | live |
    "#);
}

#[test]
fn the_template_shows_every_key_with_its_documentation() {
    assert_snapshot!(schema().template(), @r#"
    ## What the node as a whole does.
    [node]
    ## The name shown to people.
    # name = ""
    ## Lets protecting limits pass their safe maximum.
    # danger_ok = false

    ## The front door.
    ##
    ## It has two paragraphs | and a bar.
    [gateway]
    ## Where to listen.
    # listen = "127.0.0.1:8080"
    ## Most connections at once.
    # max_conns = 1024
    ## How long a read may take.
    # read_timeout = "5s"
    ## How lines are written.
    # format = "text"
    ## A share of one.
    # share = 0.5
    ## Names to greet.
    # greet = ["you", "all"]
    ## Weights by class.
    # weights = { anon = 1, authed = 5 }
    ## What outsiders must know.
    ## admin_token: secret, unset by default
    ## A banner, if any.
    ## banner: string, unset by default
    ## Where the records go.
    # store = { entries = 16, kind = "memory" }

    ## Encryption, if any.
    ##   [gateway.tls]
    ##   cert: string, required
    ##   passphrase: secret, required

    ## What a request may cost.
    [gateway.limits]
    ## The largest body.
    # max_body_bytes = "1MiB"
    ## Most bytes out per byte in.
    # decode_ratio_max = 7

    ## Which path goes where.
    ##   [[gateway.route]]
    ##   path: string, required
    ##   upstream: string, required
    ##   strip: boolean, false by default

    ## Who answers.
    ##   [gateway.upstream.<name>]
    ##   endpoints: list of string or table, [] by default
    ##   timeout: duration, "0s" by default
    ##   keys: list of secret
    "#);
}

#[test]
fn the_template_equals_the_defaults_as_it_is() {
    let snapshot = good(&schema().template());
    assert_eq!(*snapshot.get::<Node>(), Node::default());
    assert_eq!(*snapshot.get::<Gateway>(), Gateway::default());
}

#[test]
fn the_template_with_every_setting_uncommented_equals_the_defaults() {
    let template = schema().template();
    let uncommented: Vec<&str> = template
        .lines()
        .map(|line| line.strip_prefix("# ").or_else(|| line.strip_prefix('#')).unwrap_or(line))
        .collect();
    let settings = uncommented.iter().filter(|line| line.contains(" = ") && !line.starts_with('#')).count();
    assert_eq!(settings, 12, "the plain settings of the test tables that have a default");
    let snapshot = good(&uncommented.join("\n"));
    assert_eq!(*snapshot.get::<Node>(), Node::default());
    assert_eq!(*snapshot.get::<Gateway>(), Gateway::default());
    assert!(snapshot.diff(&good("")).is_empty());
}

#[test]
fn documents_are_the_same_every_time() {
    assert_eq!(schema().reference_markdown(), schema().reference_markdown());
    assert_eq!(schema().template(), schema().template());
    assert_eq!(schema().json_schema(), schema().json_schema());
}

#[test]
fn the_json_schema_covers_the_file_and_closes_its_tables() {
    let schema = schema().json_schema();
    assert_eq!(schema["additionalProperties"], false);
    assert_eq!(schema["properties"]["gateway"]["$ref"], "#/$defs/Gateway");
    let gateway = &schema["$defs"]["Gateway"];
    assert_eq!(gateway["additionalProperties"], false);
    assert_eq!(gateway["properties"]["admin_token"]["writeOnly"], true);
    assert_eq!(gateway["properties"]["max_conns"]["description"], "Most connections at once.");
}
