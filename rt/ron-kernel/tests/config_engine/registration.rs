//! Mistakes in the program that its first test run must show.

use ron_kernel::config::{Checks, Problems, Schema, Secret, Table};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::fixture::{Node, good};

/// Its secret has no default in the file: an empty table could not be read.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
struct NoDefault {
    token: Secret,
}

impl Table for NoDefault {
    const NAME: &'static str = "no_default";

    fn check(&self, _: &Checks, _: &mut Problems) {}
}

#[test]
#[should_panic(expected = "[no_default] does not read its own defaults: add #[serde(default)]")]
fn a_table_that_an_empty_file_cannot_give_is_refused() {
    let _ = Schema::new().table::<NoDefault>();
}

#[test]
#[should_panic(expected = "[node] is registered twice")]
fn a_name_can_be_registered_once() {
    let _ = Schema::new().table::<Node>().table::<Node>();
}

#[test]
#[should_panic(expected = "[no_default] is not part of this schema")]
fn a_table_nobody_registered_cannot_be_asked_for() {
    let _ = good("").get::<NoDefault>();
}
