//! Help, versions, completions, manual pages and generated documents.

use std::fs;

use serde_json::Value;

use crate::{assert_clean, cli};

#[test]
fn help_lists_every_command_and_the_exit_codes() {
    let dir = tempfile::tempdir().unwrap();
    let ran = cli(dir.path(), &["--help"]);
    assert_clean(&ran);
    for word in
        ["up", "check", "token", "cas", "config", "docs", "completions", "man", "version", "Exit codes"]
    {
        assert!(ran.out.contains(word), "{word} is missing in\n{}", ran.out);
    }
}

#[test]
fn a_command_line_that_is_wrong_says_how_it_is_right() {
    let dir = tempfile::tempdir().unwrap();
    for (args, words) in [
        (&["up", "--bogus"][..], "unexpected argument '--bogus'"),
        (&["upp"], "similar subcommand"),
        (&[], "Usage: omnigate <COMMAND>"),
        (&["check", "--set", "nonsense"], "write a key and a value, such as gateway.max_conns=100"),
        (&["up", "--to", "localhost:3000"], "write http://localhost:3000 or https://localhost:3000"),
        (&["completions", "tcsh"], "possible values: bash"),
    ] {
        let ran = cli(dir.path(), args);
        assert_eq!((ran.code, ran.out.as_str()), (Some(2), ""), "{args:?}");
        assert!(ran.err.contains(words), "{words} is missing in\n{}", ran.err);
    }
}

#[test]
fn the_version_is_told_to_people_and_to_machines() {
    let dir = tempfile::tempdir().unwrap();
    let version = env!("CARGO_PKG_VERSION");
    let text = cli(dir.path(), &["version"]);
    assert_clean(&text);
    assert!(text.out.starts_with(&format!("omnigate {version} (")), "{}", text.out);
    assert_eq!(cli(dir.path(), &["--version"]).out, format!("omnigate {version}\n"));
    let about: Value = serde_json::from_str(&cli(dir.path(), &["version", "--json"]).out).unwrap();
    assert_eq!(about["name"], "omnigate");
    assert_eq!(about["version"], version);
    assert!(about["features"].is_array());
}

#[test]
fn every_shell_gets_a_completion_script() {
    let dir = tempfile::tempdir().unwrap();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let ran = cli(dir.path(), &["completions", shell]);
        assert_clean(&ran);
        assert!(ran.out.contains("omnigate"), "{shell}");
        assert!(ran.out.contains("completions"), "{shell}");
    }
}

#[test]
fn the_manual_is_one_page_on_a_terminal_and_one_per_command_in_a_folder() {
    let dir = tempfile::tempdir().unwrap();
    let page = cli(dir.path(), &["man"]);
    assert_clean(&page);
    assert!(page.out.contains(".TH omnigate 1"), "{}", page.out);
    assert_clean(&cli(dir.path(), &["man", "--dir", "pages"]));
    for name in ["omnigate.1", "omnigate-up.1", "omnigate-config-init.1"] {
        assert!(dir.path().join("pages").join(name).exists(), "{name}");
    }
    fs::write(dir.path().join("file"), "").unwrap();
    let ran = cli(dir.path(), &["man", "--dir", "file"]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.err.starts_with("error: cannot write manual pages to file: "), "{}", ran.err);
}

#[test]
fn the_concurrency_pages_are_written_and_a_changed_one_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let missing = cli(dir.path(), &["docs", "concurrency", "--check"]);
    assert_eq!(missing.code, Some(1));
    let ran = cli(dir.path(), &["docs", "concurrency"]);
    assert_clean(&ran);
    for service in ["kernel", "admin", "gateway"] {
        let path = format!("docs/concurrency/{service}.md");
        assert!(ran.out.contains(&format!("wrote {path}\n")), "{}", ran.out);
        let page = fs::read_to_string(dir.path().join(path)).unwrap();
        assert!(page.contains("```mermaid"), "{service}");
    }
    let check = ["docs", "concurrency", "--check"];
    assert_clean(&cli(dir.path(), &check));

    let admin = dir.path().join("docs/concurrency/admin.md");
    fs::write(&admin, "something else").unwrap();
    let ran = cli(dir.path(), &check);
    assert_eq!(ran.code, Some(1));
    let words = "error: out of date: docs/concurrency/admin.md\n \
                 = help: write them with `omnigate docs concurrency`\n";
    assert_eq!(ran.err, words);
    assert_eq!(fs::read_to_string(&admin).unwrap(), "something else");
}
