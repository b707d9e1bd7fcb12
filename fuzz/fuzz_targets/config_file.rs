//! A configuration file of any content: it loads, or every problem is told in a bounded report; the same file loads
//! the same way twice.

#![no_main]

use libfuzzer_sys::fuzz_target;
use ron_kernel::config::{
    ByteSize, Checks, HumanDuration, Loader, MAX_PROBLEMS, Problems, Schema, Secret, Sources, Table,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, sync::LazyLock, time::Duration};

static LOADER: LazyLock<Loader> = LazyLock::new(|| Loader::new(Schema::new().table::<Fuzzed>(), "FUZZ_"));

fuzz_target!(|input: &str| {
    check(input.to_owned());
    // Chance alone would rarely write the name of the table.
    check(format!("[fuzzed]\n{input}"));
});

fn check(text: String) {
    let sources = Sources { file: Some(("fuzz.toml".into(), text)), ..Sources::default() };
    match (LOADER.load(sources.clone()), LOADER.load(sources)) {
        (Ok(first), Ok(second)) => assert!(first.diff(&second).is_empty()),
        (Err(report), Err(again)) => {
            assert!((1..=MAX_PROBLEMS).contains(&report.problems().len()));
            assert_eq!(report.render(false), again.render(false));
        }
        _ => panic!("the same file was accepted once and refused once"),
    }
}

/// A table with a setting of every kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
struct Fuzzed {
    enabled: bool,
    count: u16,
    ratio: f64,
    name: String,
    wait: HumanDuration,
    size: ByteSize,
    key: Option<Secret>,
    list: Vec<String>,
    inner: Inner,
    named: BTreeMap<String, Inner>,
}

/// A table inside a table.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
struct Inner {
    mode: Mode,
    limit: Option<u32>,
}

/// A choice among given values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Mode {
    #[default]
    First,
    Second,
}

impl Default for Fuzzed {
    fn default() -> Self {
        Self {
            enabled: true,
            count: 1,
            ratio: 0.5,
            name: "fuzz".to_owned(),
            wait: Duration::from_secs(5).into(),
            size: 65_536.into(),
            key: None,
            list: Vec::new(),
            inner: Inner::default(),
            named: BTreeMap::new(),
        }
    }
}

impl Table for Fuzzed {
    const NAME: &'static str = "fuzzed";

    fn check(&self, checks: &Checks, problems: &mut Problems) {
        problems.guard("count", self.count, 1000, checks.danger_ok());
        if self.list.len() > 8 {
            problems.at("list", "has more than 8 entries").help("shorten it");
        }
    }
}
