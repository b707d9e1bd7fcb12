//! Included files: found by pattern, bounded, merged without a setting being set twice.

use std::{collections::BTreeMap, path::Path};

use ron_kernel::config::{
    Included, Loader, MAX_ALL_BYTES, MAX_INCLUDE_DEPTH, MAX_INCLUDED, Report, Shelf, Snapshot, Sources,
};

use crate::fixture::{Gateway, Node, schema};

/// Files in memory.
#[derive(Default)]
struct Files(BTreeMap<String, String>);

impl Files {
    fn of(files: &[(&str, &str)]) -> Self {
        Self(files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect())
    }

    fn load(&self) -> Result<Snapshot, Report> {
        let (path, text) = (Path::new("/etc/node.toml"), self.0["/etc/node.toml"].clone());
        let included = Included::gather(path, &text, self);
        let file = Some((path.to_owned(), text));
        Loader::new(schema(), "OMNIGATE_").load(Sources { file, included, ..Sources::default() })
    }

    #[track_caller]
    fn refused(&self) -> String {
        self.load().map(|_| ()).expect_err("the files should be refused").render(false)
    }
}

impl Shelf for Files {
    fn names(&self, folder: &Path) -> Result<Vec<String>, String> {
        let here = self.0.keys().filter(|path| Path::new(path).parent() == Some(folder));
        let names: Vec<String> =
            here.filter_map(|path| Some(Path::new(path).file_name()?.to_str()?.to_owned())).rev().collect();
        if names.is_empty() {
            Err(format!("the folder {} cannot be read", folder.display()))
        } else {
            Ok(names)
        }
    }

    fn read(&self, file: &Path) -> Result<String, String> {
        let text = file.to_str().and_then(|path| self.0.get(path));
        text.cloned().ok_or_else(|| format!("{} does not exist", file.display()))
    }
}

const ROUTE: &str = "upstream = \"api\"\n";
const API: &str = "[gateway.upstream.api]\nkeys = []\n";

#[test]
fn tables_are_merged_and_lists_of_tables_appended_in_the_order_of_the_names() {
    let files = Files::of(&[
        (
            "/etc/node.toml",
            &format!(
                "include = [\"conf.d/*.toml\"]\n[gateway]\nmax_conns = 7\n{API}[[gateway.route]]\npath = \"/0\"\n{ROUTE}"
            ),
        ),
        ("/etc/conf.d/20.toml", &format!("[[gateway.route]]\npath = \"/2\"\n{ROUTE}")),
        (
            "/etc/conf.d/10.toml",
            &format!(
                "[node]\nname = \"n\"\n[gateway]\nshare = 0.25\n[[gateway.route]]\npath = \"/1\"\n{ROUTE}"
            ),
        ),
        ("/etc/conf.d/30.toml~", "this is no TOML"),
        ("/etc/conf.d/.40.toml", "neither is this"),
    ]);
    let snapshot = files.load().unwrap_or_else(|report| panic!("{report}"));
    let gateway = snapshot.get::<Gateway>();
    let paths: Vec<&str> = gateway.route.iter().map(|route| route.path.as_str()).collect();
    assert_eq!(paths, ["/0", "/1", "/2"]);
    assert_eq!((gateway.max_conns, gateway.share, snapshot.get::<Node>().name.as_str()), (7, 0.25, "n"));
    assert_eq!(snapshot.origin("node.name").to_string(), "/etc/conf.d/10.toml, line 2");
    assert_eq!(snapshot.included_folders(), [Path::new("/etc/conf.d")]);
}

#[test]
fn a_setting_in_two_files_is_refused_with_both_places() {
    let files = Files::of(&[
        ("/etc/node.toml", "include = [\"more.toml\"]\n[gateway]\nmax_conns = 7\n"),
        ("/etc/more.toml", "# more\n[gateway]\nmax_conns = 7\n"),
    ]);
    let told = files.refused();
    assert!(told.contains("`gateway.max_conns` is set twice: here, and in /etc/node.toml, line 3"), "{told}");
    assert!(told.contains("--> /etc/more.toml:3:1"), "{told}");
    let lists = Files::of(&[
        ("/etc/node.toml", "include = [\"more.toml\"]\n[gateway]\ngreet = [\"a\"]\n"),
        ("/etc/more.toml", "[gateway]\ngreet = [\"b\"]\n"),
    ]);
    assert!(lists.refused().contains("`gateway.greet` is set twice"), "only lists of tables are appended");
}

#[test]
fn mistakes_are_told_with_their_file_and_line_and_secrets_stay_hidden() {
    let files = Files::of(&[
        (
            "/etc/node.toml",
            "include = [\"a.toml\", \"b.toml\"]\n[gateway]\nadmin_token = \"hunter2\"\nmax_cons = 1\n",
        ),
        ("/etc/a.toml", "[node]\nname = 1\n"),
        ("/etc/b.toml", "[gateway]\nadmin_tokn = \"hunter3\"\n"),
    ]);
    let told = files.refused();
    for place in ["/etc/node.toml:4:1", "/etc/a.toml:2:8", "/etc/b.toml:2:1"] {
        assert!(told.contains(place), "{place} is missing in\n{told}");
    }
    assert!(!told.contains("hunter"), "{told}");
    let broken = Files::of(&[
        ("/etc/node.toml", "include = [\"a.toml\"]\n"),
        ("/etc/a.toml", "[gateway]\nadmin_token = \"hunter2\nmax_conns = 1\n"),
    ]);
    let told = broken.refused();
    assert!(told.contains("not valid TOML") && told.contains("/etc/a.toml:2"), "{told}");
    assert!(!told.contains("hunter"), "{told}");
}

#[test]
fn files_include_others_from_their_own_folder_up_to_a_depth() {
    let nested = Files::of(&[
        ("/etc/node.toml", "include = [\"a/1.toml\"]\n"),
        ("/etc/a/1.toml", "include = [\"b/2.toml\"]\n"),
        ("/etc/a/b/2.toml", "[node]\nname = \"deep\"\n"),
    ]);
    assert_eq!(nested.load().unwrap().get::<Node>().name, "deep");
    let mut chain = Files::default();
    chain.0.insert("/etc/node.toml".to_owned(), "include = [\"0.toml\"]\n".to_owned());
    for depth in 0..MAX_INCLUDE_DEPTH {
        let text = format!("include = [\"{}.toml\"]\n", depth + 1);
        chain.0.insert(format!("/etc/{depth}.toml"), text);
    }
    chain.0.insert(format!("/etc/{MAX_INCLUDE_DEPTH}.toml"), "[node]\nname = \"n\"\n".to_owned());
    let told = chain.refused();
    assert!(told.contains("through more than") && told.contains("/etc/3.toml:1:12"), "{told}");
    let last = format!("/etc/{}.toml", MAX_INCLUDE_DEPTH - 1);
    chain.0.insert(last, "[node]\nname = \"n\"\n".to_owned());
    assert!(chain.load().is_ok());
}

#[test]
fn a_circle_a_missing_file_and_wrong_lists_are_refused_at_their_place() {
    for (list, words) in [
        ("[\"node.toml\"]", "/etc/node.toml is included twice"),
        ("[\"a.toml\", \"*.toml\"]", "is included twice"),
        ("[\"nowhere.toml\"]", "/etc/nowhere.toml does not exist"),
        ("[\"nowhere/*.toml\"]", "the folder /etc/nowhere cannot be read"),
        ("[\"*/a.toml\"]", "has a wildcard in a folder's name"),
        ("[\"${HOME}/a.toml\"]", "references are not filled in here"),
        ("[\"\"]", "names no file"),
        ("\"a.toml\"", "`include` is a list of files"),
        ("[1]", "`include` is a list of files"),
    ] {
        let files =
            Files::of(&[("/etc/node.toml", &format!("include = {list}\n")), ("/etc/a.toml", "[node]\n")]);
        let told = files.refused();
        assert!(told.contains(words) && told.contains("/etc/node.toml:1:"), "{list}: {told}");
    }
    let nothing = Files::of(&[("/etc/node.toml", "include = [\"*.nothing\"]\n")]);
    assert!(nothing.load().is_ok(), "a pattern may match nothing");
}

#[test]
fn included_files_are_bounded_in_number_and_size() {
    let mut many = Files::of(&[("/etc/node.toml", "include = [\"d/*\"]\n")]);
    for index in 0..MAX_INCLUDED {
        many.0.insert(format!("/etc/d/{index:04}"), "# nothing\n".to_owned());
    }
    assert!(many.load().is_ok());
    many.0.insert("/etc/d/more".to_owned(), "# nothing\n".to_owned());
    assert!(many.refused().contains("more than 256 files are included"));
    let line = "#".repeat(1023) + "\n";
    let mut large = Files::of(&[("/etc/node.toml", "include = [\"d/*\"]\n")]);
    large.0.insert("/etc/d/0".to_owned(), line.repeat(1025));
    assert!(large.refused().contains("/etc/d/0 is larger than"));
    for index in 0..MAX_ALL_BYTES >> 20 {
        large.0.insert(format!("/etc/d/{index}"), line.repeat(1024));
    }
    assert!(large.load().is_ok());
    large.0.insert("/etc/d/more".to_owned(), "#\n".to_owned());
    assert!(large.refused().contains("bytes together"));
}

#[test]
fn only_files_include_files() {
    let flags = vec![("include".to_owned(), "[\"a.toml\"]".to_owned())];
    let refused = Loader::new(schema(), "OMNIGATE_").load(Sources { flags, ..Sources::default() });
    assert!(
        refused
            .map(|_| ())
            .unwrap_err()
            .render(false)
            .contains("can only be written in a configuration file")
    );
}
