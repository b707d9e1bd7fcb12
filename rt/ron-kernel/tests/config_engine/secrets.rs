//! No path leads from a secret to anything that is shown.

use insta::assert_snapshot;
use proptest::prelude::*;
use ron_kernel::config::{HIDDEN, Secret, Snapshot};

use crate::fixture::{Gateway, bad, good, load, schema};

/// In every secret of every test here; must be in no output.
const NEEDLE: &str = "hunter2";

fn all_output(snapshot: &Snapshot) -> String {
    let entries: Vec<String> =
        snapshot.entries().map(|(path, value, origin)| format!("{path} {value} {origin}")).collect();
    let tables = format!(
        "{:?} {}",
        snapshot.get::<Gateway>(),
        serde_json::to_string(&*snapshot.get::<Gateway>()).unwrap()
    );
    format!("{}\n{tables}\n{snapshot:?}\n{}", entries.join("\n"), snapshot.warnings())
}

#[test]
fn a_secret_is_used_but_never_shown() {
    let file = "[gateway]\nadmin_token = \"hunter2\"\ntls = { cert = \"c\", passphrase = \"hunter2\" }\n\
                upstream.api.keys = [\"hunter2\"]\n";
    let snapshot = good(file);
    assert_eq!(snapshot.get::<Gateway>().admin_token.expose(), NEEDLE);
    assert_eq!(snapshot.get::<Gateway>().upstream["api"].keys[0].expose(), NEEDLE);
    let shown = all_output(&snapshot);
    assert!(!shown.contains(NEEDLE), "{shown}");
    assert!(shown.contains("gateway.admin_token \"<hidden>\" omnigate.toml, line 2"), "{shown}");
}

#[test]
fn a_secrets_own_default_is_kept_and_hidden() {
    let snapshot = good("[gateway]\nmax_conns = 1\n");
    assert_eq!(snapshot.get::<Gateway>().admin_token.expose(), "default-secret");
    let schema = schema();
    for text in [
        all_output(&snapshot),
        schema.template(),
        schema.reference_markdown(),
        schema.json_schema().to_string(),
    ] {
        assert!(!text.contains("default-secret"), "{text}");
    }
}

#[test]
fn a_line_with_a_secret_is_shown_masked_and_still_underlined_in_place() {
    assert_snapshot!(bad("[gateway]\ntls = { passphrase = \"hunter2 and long\", cert = 1, crt = 2 }\n"), @r"
    error: `gateway.tls.cert`: expected a string, found an integer
     --> omnigate.toml:2:39
      |
    2 | tls = { passphrase = <hidden>, cert = 1, crt = 2 }
      |                                       ^

    error: unknown key `crt`
     --> omnigate.toml:2:42
      |
    2 | tls = { passphrase = <hidden>, cert = 1, crt = 2 }
      |                                          ^^^
      |
      = help: did you mean `cert`?
    ");
}

#[test]
fn no_mistake_shows_the_secret_beside_it() {
    let mistakes = [
        // of the wrong type
        "[gateway]\nadmin_token = [\"hunter2\"]\n",
        "[gateway]\nadmin_token = { hunter2 = \"hunter2\" }\n",
        "[gateway]\ntls = \"hunter2\"\n",
        "[gateway]\nstore = \"hunter2\"\n",
        "[gateway]\nupstream.api.keys = \"hunter2\"\n",
        "[gateway]\nupstream.api.keys = [[\"hunter2\"]]\n",
        // under a name that is not quite right, or not there at all
        "[gateway]\nadmin_tokn = \"hunter2\"\n",
        "[gateway]\nadmin_tokens = [\"hunter2\"]\n",
        "[gateway]\ntls = { cert = \"\", pasphrase = \"hunter2\" }\n",
        "[gatewy]\nx = 1\n[nod]\nauth = { password = \"hunter2\" }\n",
        "gatewy = { admin_token = \"hunter2\" }\n",
        "[gateway.store]\nkind = \"remote\"\npassword = \"hunter2\"\n",
        "[gateway.store]\nkind = \"memory\"\npassword = \"hunter2\"\n",
        // and with other mistakes on its line, or around it
        "[gateway]\ntls = { cert = 1, passphrase = \"hunter2\" }\n",
        "[gateway]\nadmin_token = \"\"\"\nhunter2\nhunter2\"\"\" # ok\nfoo = 1\n",
        "[gateway]\nadmin_token = \"hunter2\"\nmax_conns = 99999\n",
    ];
    for file in mistakes {
        let shown = bad(file);
        let values = shown.replace("`gateway.admin_token.hunter2`", "").replace("`hunter2`", "");
        assert!(!values.contains("hunter2\""), "{file}\n{shown}");
    }
}

#[test]
fn a_file_that_cannot_be_parsed_hides_its_secrets_too() {
    let mistakes = [
        "[gateway]\nadmin_token = \"hunter2\n",
        "[gateway]\nadmin_token = hunter2\n",
        "[gateway]\nadmin_token: \"hunter2\"\n",
        "[gateway]\nadmin_token \"hunter2\"\n",
        "[gateway]\nadmin_token = 2020-01-01hunter2\n",
        "[gateway]\nadmin_token = \"\"\"a\nhunter2 \\q hunter2\n\"\"\"\n",
        "[gateway]\nupstream.api.keys = [\n\"a\",\n\"hunter2\\q\"]\n",
        "[gateway]\ntls = { passphrase = \"hunter2\", cert = }\n",
        "[gateway]\nadmin_tokn = \"hunter2\" \"hunter2\"\n",
        "[gateway]\n\"admin_token\" = \"hunter2\" x\n",
        "[gateway.passwords]\nalice = hunter2\n",
        "[gateway] admin_token = \"hunter2\"\n",
        "[gateway]\nadmin_t=ken = \"hunter2\"\n",
        "[gateway.store]\nkind = \"remote\"\npassword = 'hunter2\n",
    ];
    for file in mistakes {
        let shown = bad(file);
        assert!(!shown.contains(NEEDLE), "{file}\n{shown}");
        assert!(shown.contains("omnigate.toml:"), "{file}\n{shown}");
    }
    assert_snapshot!(bad(mistakes[1]), @r"
    error: not valid TOML: string values must be quoted, expected literal string
     --> omnigate.toml:2:15
      |
    2 | admin_token = <hidden>
      |               ^^^^^^^^
    ");
}

#[test]
fn a_secret_written_as_a_value_no_setting_can_hold_is_hidden() {
    assert_snapshot!(bad("[gateway]\nadmin_token = 99999999999999999999\n"), @r"
    error: this integer does not fit in 64 bits
     --> omnigate.toml:2:15
      |
    2 | admin_token = <hidden>
      |               ^^^^^^^^
    ");
}

#[test]
fn a_variable_or_flag_with_a_mistake_does_not_show_its_value() {
    let values = [("OMNIGATE_GATEWAY__TLS", "hunter2"), ("OMNIGATE_GATEWAY__ADMIN_TOKN", "hunter2")];
    let report =
        load("", &values, &[("gateway.tls.passphras", "hunter2"), ("gateway.store", "hunter2")]).unwrap_err();
    assert_eq!(report.problems().len(), 4);
    assert!(!report.render(true).contains(NEEDLE), "{report}");
    assert!(!format!("{report:?}").contains(NEEDLE));
}

#[test]
fn credentials_in_a_url_are_hidden_wherever_they_are() {
    for file in [
        "[gateway]\nlisten = \"https://me:hunter2@a.example/x\"\nbad = 1\n",
        "[gateway]\nlisten = \"https://hunter2@a.example\"\nbad = 1\n",
        "[gateway]\nlisten = \"https://me:hunter2@a.example/x\"\nbad = = 1\n",
        "[gateway]\n# was https://me:hunter2@[::1]:80/\nbad = 1\n",
        "gateway = { listen = \"https://me:hunter2@a.example/x\", bad = 1 }\n",
        // Those that should have been escaped are why such a URL is refused.
        "gateway = { listen = \"https://me:a/hunter2@a.example\", bad = 1 }\n",
        "gateway = { listen = \"https://me:a?hunter2@a.example\", bad = 1 }\n",
        "gateway = { listen = \"https://me:a#hunter2@a.example\", bad = 1 }\n",
        // And so are those with a slip in them.
        "gateway = { listen = \"htp://me:hunter2@a.example\", bad = 1 }\n",
        "gateway = { listen = \"http:/me:hunter2@a.example\", bad = 1 }\n",
        "gateway = { listen = \"http//me:hunter2@a.example\", bad = 1 }\n",
        "gateway = { listen = \"me:hunter2@a.example\", bad = 1 }\n",
        "gateway = { listen = \"https://a.example/x?key=hunter2\", bad = 1 }\n",
        "gateway = { listen = \"http:/a.example?a=1&key=hunter2\", bad = 1 }\n",
        // Messages repeat values, and keys.
        "gateway = { max_conns = \"http:/me:hunter2@a.example\" }\n",
        "[gateway]\n\"http:/me:hunter2@a.example\" = 1\n",
    ] {
        let report = bad(file);
        assert!(!report.contains(NEEDLE), "{report}");
    }
}

#[test]
fn a_changed_secret_is_a_change() {
    let file =
        |secret: &str| format!("[gateway]\nadmin_token = \"{secret}\"\nupstream.api.keys = [\"{secret}\"]\n");
    let (one, two) = (good(&file("hunter2")), good(&file("hunter22")));
    let changed: Vec<String> = two.diff(&one).into_iter().map(|change| change.path).collect();
    assert_eq!(changed, ["gateway.admin_token", "gateway.upstream.api.keys"]);
    assert!(one.diff(&good(&file("hunter2"))).is_empty());
}

#[test]
fn a_secret_speaks_of_itself_only_when_exposed() {
    let secret = Secret::new(NEEDLE);
    let shown = [
        format!("{secret:?}"),
        secret.to_string(),
        serde_json::to_value(&secret).unwrap().as_str().unwrap().into(),
    ];
    assert!(shown.iter().all(|text| text == HIDDEN));
    let error = serde_json::from_str::<Secret>("[\"hunter2\"]").unwrap_err().to_string();
    assert!(!error.contains(NEEDLE), "{error}");
    assert!(Secret::default().is_empty() && !secret.is_empty());
}

const FILE: &str = r#"[node]
name = "ü"
[gateway]
max_conns = 5
admin_token = "hunter2" # it
upstream.api.keys = ["hunter2", 'hunter2']
tls = { cert = "c", passphrase = """
hunter2""" }
"#;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn one_slip_anywhere_shows_no_secret_and_never_panics(at in 0..FILE.len(), slip in "[\\[\\]{}\"'=.,:#\\n ü\\\\-]?", cut in 0..2_usize) {
        let (from, to) = (floor(at), floor((at + cut).min(FILE.len())));
        let file = format!("{}{slip}{}", &FILE[..from], &FILE[to..]);
        if let Err(report) = load(&file, &[], &[]) {
            let shown = report.render(false);
            prop_assert!(!shown.contains(NEEDLE), "{}\n{}", file, shown);
        }
    }

    #[test]
    fn no_text_makes_the_loader_panic(file in "([\\[\\]{}\"'=.,:#\\n\\\\]|gateway|node|name|admin_token|ü|1|[a-z ]){0,40}") {
        if let Err(report) = load(&file, &[], &[]) {
            prop_assert!(!report.render(true).is_empty());
        }
    }
}

/// The start of the character that holds a byte.
fn floor(at: usize) -> usize {
    (0..=at).rev().find(|at| FILE.is_char_boundary(*at)).unwrap_or(0)
}
