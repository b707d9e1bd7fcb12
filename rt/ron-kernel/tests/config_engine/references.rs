//! References to environment variables and files: filled in where they stand, of any type, and never shown.

use std::{path::Path, sync::Arc};

use ron_kernel::config::{Loader, Lookup, Reference, Report, Snapshot, Sources};

use crate::fixture::{Gateway, Node, schema};

fn lookup() -> Lookup {
    Arc::new(|reference| match reference {
        Reference::Variable("NAME") => Ok(Some("edge-7".to_owned())),
        Reference::Variable("EMPTY") => Ok(Some(String::new())),
        Reference::Variable("CONNS") => Ok(Some("77".to_owned())),
        Reference::Variable("ODD") => Ok(Some("hunter2 \"quoted\"".to_owned())),
        Reference::File(path) if path == Path::new("secrets/token") => Ok(Some("hunter2".to_owned())),
        Reference::File(path) if path == Path::new("locked") => {
            Err("locked cannot be read: permission denied".to_owned())
        }
        Reference::Variable(_) | Reference::File(_) => Ok(None),
    })
}

fn load(file: &str) -> Result<Snapshot, Report> {
    let file = Some(("omnigate.toml".into(), file.to_owned()));
    Loader::new(schema(), "OMNIGATE_").load(Sources {
        file,
        references: Some(lookup()),
        ..Sources::default()
    })
}

fn name(written: &str) -> String {
    load(&format!("[node]\nname = '{written}'\n")).unwrap().get::<Node>().name.clone()
}

#[test]
fn variables_are_filled_in_wherever_they_stand_in_a_string() {
    assert_eq!(name("${NAME}"), "edge-7");
    assert_eq!(name("a-${NAME}-${NAME}-b"), "a-edge-7-edge-7-b");
    assert_eq!(name("${MISSING:-spare}"), "spare");
    assert_eq!(name("${MISSING:-}"), "");
    assert_eq!(name("${NAME:-spare}"), "edge-7");
    assert_eq!(name("${EMPTY:-spare}"), "", "an empty variable is set");
    assert_eq!(name("${file:secrets/token}"), "hunter2");
}

#[test]
fn two_dollars_are_one_and_others_are_left_alone() {
    for (written, expected) in [
        ("$${NAME}", "${NAME}"),
        ("$NAME", "$NAME"),
        ("$$", "$$"),
        ("a$${b${NAME}", "a${bedge-7"),
        ("{NAME}", "{NAME}"),
    ] {
        assert_eq!(name(written), expected, "{written}");
    }
}

#[test]
fn a_value_may_be_of_any_type_and_anywhere() {
    let file = "[gateway]\nmax_conns = \"${CONNS}\"\ngreet = [\"me\", \"${NAME}\"]\nroute = [{ path = \"/${NAME}\", upstream = \"a\" }]\n\
                upstream.a.keys = []\nupstream.\"${NAME}\".keys = []\n";
    let gateway = load(file).unwrap().get::<Gateway>();
    assert_eq!(gateway.max_conns, 77);
    assert_eq!(gateway.greet, ["me", "edge-7"]);
    assert_eq!(gateway.route[0].path, "/edge-7");
    assert!(gateway.upstream.contains_key("${NAME}"), "keys are not values");
}

#[test]
fn what_cannot_be_filled_in_is_told_with_its_line() {
    for (written, told) in [
        ("${MISSING}", "`node.name`: the environment variable MISSING is not set"),
        ("${file:nowhere}", "`node.name`: the file nowhere is not there"),
        ("${file:locked}", "`node.name`: locked cannot be read: permission denied"),
        ("${file:}", "`node.name`: `${file:}` names no file"),
        ("${NAME", "`node.name`: a reference `${` has no `}`"),
        ("${}", "`node.name`: `${}` is no reference"),
        ("${7UP}", "`node.name`: `${7UP}` is no reference"),
        ("${A B}", "`node.name`: `${A B}` is no reference"),
    ] {
        let report = load(&format!("[node]\nname = '{written}'\n")).err().unwrap().to_string();
        assert!(report.contains(told) && report.contains("omnigate.toml:2:8"), "{written}: {report}");
    }
}

#[test]
fn what_a_reference_stands_for_is_never_shown() {
    let snapshot =
        load("[node]\nname = \"${file:secrets/token} x\"\n[gateway]\ngreet = [\"${ODD}\", \"me\"]\n")
            .unwrap();
    let shown: String = snapshot.entries().map(|(path, value, _)| format!("{path} = {value}\n")).collect();
    assert!(shown.contains("node.name = \"${file:secrets/token} x\"\n"), "{shown}");
    assert!(shown.contains("gateway.greet = [\"${ODD}\", \"me\"]\n"), "{shown}");
    let told = snapshot.warnings().to_string();
    assert!(told.contains("node.name"), "the warning about the space is still there: {told}");
    for text in [shown, told, format!("{snapshot:?}")] {
        assert!(!text.contains("hunter2"), "{text}");
    }
    for bad in [
        "[gateway]\nmax_conns = \"${ODD}\"\n",
        "[gateway]\nformat = \"${ODD}\"\n",
        "[gateway]\nlisten = \"${ODD}\"\n",
    ] {
        let report = load(bad).err().unwrap().to_string();
        assert!(!report.contains("hunter2"), "{report}");
    }
    assert_eq!(snapshot.referenced_files(), [Path::new("secrets/token")]);
}

#[test]
fn a_change_of_what_a_reference_stands_for_is_a_change() {
    let with = |value: &'static str| {
        let file = Some(("omnigate.toml".into(), "[gateway]\nbanner = \"${B}\"\n".to_owned()));
        let references: Lookup = Arc::new(move |_| Ok(Some(value.to_owned())));
        Loader::new(schema(), "OMNIGATE_")
            .load(Sources { file, references: Some(references), ..Sources::default() })
            .unwrap()
    };
    let changed = with("two").diff(&with("one"));
    assert_eq!(changed.iter().map(|change| change.path.as_str()).collect::<Vec<_>>(), ["gateway.banner"]);
    assert!(with("one").diff(&with("one")).is_empty());
}
