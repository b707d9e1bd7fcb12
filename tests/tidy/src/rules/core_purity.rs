//! `core/` decides and never acts: no runtime, no sockets, no files, no clock, no chance of its own.

use crate::{
    Finding, Tree, Workspace,
    rust_code::{code_only, word_offsets},
};

/// What core crates may depend on besides each other, with the reason why that keeps them pure.
pub const DEPENDENCIES: &[(&str, &str)] = &[
    ("aws-lc-rs", "arithmetic on bytes as used here: HMAC and comparison in constant time"),
    ("base64", "text to bytes and back"),
    ("blake3", "arithmetic on bytes: hashes and trees of them"),
    ("bytes", "memory that is shared: reference counts, nothing else"),
    ("brotli-decompressor", "a codec: bytes in, bytes out"),
    ("flate2", "a codec: bytes in, bytes out"),
    ("http", "names and values: methods, statuses and maps of fields"),
    ("serde", "says how a value reads as text, nothing else"),
    ("sha3", "arithmetic on bytes: the hashes of chains"),
    ("thiserror", "derives the error types, nothing at run time"),
    ("zeroize", "wipes memory, nothing else"),
    ("zstd", "a codec: bytes in, bytes out"),
];

/// What their tests may use as well.
pub const DEV_DEPENDENCIES: &[(&str, &str)] = &[
    ("brotli", "compresses what the decoder is given"),
    ("governor", "the rate limiter ours is compared with, on its fake clock"),
    ("proptest", "seeded examples; a failing seed is printed"),
    ("serde_json", "reads test vectors that other implementations read too"),
];

/// Names that only acting code needs, with what pure code does instead.
const NAMES: &[(&str, &str)] = &[
    ("std::fs", "take the bytes as an argument"),
    ("std::net", "take the bytes as an argument; address types are in core::net"),
    ("std::process", "leave processes to the shell"),
    ("std::env", "take the value as an argument"),
    ("Instant::now", "take the moment as an argument"),
    ("SystemTime", "take the moment as an argument"),
    ("thread::sleep", "return a timer event"),
    ("thread::spawn", "leave threads to the kernel"),
    ("rand", "take seeded randomness as an argument"),
    ("fastrand", "take seeded randomness as an argument"),
    ("RandomState", "iteration order must not be left to chance"),
    ("tokio", "leave tasks to the shell"),
];

/// Core crates depend on core crates and on what is allowed here by name.
#[must_use]
pub fn depends_on_nothing_that_acts(workspace: &Workspace) -> Vec<Finding> {
    let mut findings = Vec::new();
    for member in workspace.members.iter().filter(|member| member.layer() == "core") {
        for dependency in member.dependencies() {
            let listed = |list: &[(&str, &str)]| list.iter().any(|(name, _)| *name == dependency.name);
            let allowed = listed(DEPENDENCIES) || dependency.dev && listed(DEV_DEPENDENCIES);
            let sibling = workspace.member(&dependency.name).is_some_and(|other| other.layer() == "core");
            if !allowed && !sibling {
                let what =
                    format!("core crates may not depend on `{}` (see core_purity.rs)", dependency.name);
                findings.push(Finding::new(&member.manifest_path(), 1, what));
            }
        }
    }
    findings
}

/// Core sources do not name what acts, tests and benchmarks included.
#[must_use]
pub fn names_nothing_that_acts(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.ending(".rs").filter(|(path, _)| path.starts_with("core/")) {
        let code = code_only(text);
        for (name, instead) in NAMES {
            let what = format!("pure code does not use `{name}`: {instead}");
            let plain = word_offsets(&code, name);
            let grouped = name.strip_prefix("std::").map(|module| grouped_in_std(&code, module));
            let offsets = plain.chain(grouped.into_iter().flatten());
            findings.extend(offsets.map(|at| Finding::at(path, text, at, what.as_str())));
        }
    }
    findings
}

/// The places where `module` stands directly inside the braces of a `std::{...}`.
fn grouped_in_std(code: &str, module: &str) -> Vec<usize> {
    let mut found = Vec::new();
    for (start, head) in code.match_indices("std::{") {
        let (mut depth, inside) = (0_usize, start + head.len());
        for (at, byte) in code.bytes().enumerate().skip(inside) {
            match byte {
                b'{' => depth += 1,
                b'}' if depth == 0 => break,
                b'}' => depth -= 1,
                _ if depth == 0 && code[at..].starts_with(module) => {
                    let opens_item = code[..at].trim_end().ends_with([',', '{']);
                    let ends_name =
                        !code[at + module.len()..].starts_with(|c: char| c.is_alphanumeric() || c == '_');
                    found.extend((opens_item && ends_name).then_some(at));
                }
                _ => {}
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::places;

    fn workspace(manifest: &str) -> Workspace {
        let root = "[workspace]\nmembers = [\"core/a\", \"core/b\", \"rt/c\"]";
        let free = "[dependencies]\ntokio = \"1\"";
        let files = [("core/a/Cargo.toml", manifest), ("core/b/Cargo.toml", ""), ("rt/c/Cargo.toml", free)];
        Workspace::read(&Tree::of(&[&[("Cargo.toml", root)], &files[..]].concat())).expect("manifests parse")
    }

    #[test]
    fn a_core_crate_with_a_dependency_that_acts_is_found() {
        let pure = "[dependencies]\nb.workspace = true\nthiserror.workspace = true\n[dev-dependencies]\nproptest = \"1\"";
        assert_eq!(depends_on_nothing_that_acts(&workspace(pure)), []);
        let bad = [
            "[dependencies]\ntokio.workspace = true",
            "[dependencies]\nc.workspace = true",
            "[dependencies]\nproptest = \"1\"",
            "[dev-dependencies]\nrand = \"1\"",
            "[target.'cfg(unix)'.dependencies]\nsocket2 = \"1\"",
        ];
        for manifest in bad {
            let findings = depends_on_nothing_that_acts(&workspace(manifest));
            assert_eq!(places(&findings), [("core/a/Cargo.toml", 1)], "{manifest}");
        }
    }

    #[test]
    fn a_core_source_that_names_what_acts_is_found() {
        let bad = [
            "use std::fs;",
            "fn f() -> std::net::TcpStream",
            "use std::{collections::BTreeMap, fs};",
            "use std::{\n    fmt, net::TcpStream};",
            "let now = Instant::now();",
            "use std::time::SystemTime;",
            "thread::sleep(x);",
            "rand::random();",
            "fastrand::u8(..);",
            "tokio::spawn(x);",
        ];
        for code in bad {
            let found = names_nothing_that_acts(&Tree::of(&[("core/a/src/lib.rs", code)]));
            assert_eq!(found.len(), 1, "{code}: {found:?}");
            assert_eq!(names_nothing_that_acts(&Tree::of(&[("rt/a/src/lib.rs", code)])), [], "{code}");
        }
    }

    #[test]
    fn a_core_source_that_only_sounds_like_it_is_left_alone() {
        let good = [
            "use std::{fmt, time::{Duration, Instant}};",
            "use std::{collections::{BTreeMap, fs_like}, netting};",
            "// std::fs would block\nfn offset(operand: u8, brand: u8) {}",
            "use core::net::IpAddr;",
        ];
        for code in good {
            assert_eq!(names_nothing_that_acts(&Tree::of(&[("core/a/src/lib.rs", code)])), [], "{code}");
        }
    }
}
