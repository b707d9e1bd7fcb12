//! Every lock of a service has a rank and a line on the service's page.

use crate::{
    Finding, Tree,
    rust_code::{code_only, word_offsets},
};

/// Where locks are ranked. The kernel's own are below all ranks, and those of `ron-sync` are model-checked.
const RANKED: [&str; 5] = [
    "svc/",
    "rt/ron-transport/src/",
    "rt/ron-traces/src/",
    "bin/omnigate/src/admin/",
    "bin/omnigate/src/node/",
];

/// Services and the transport use the kernel's `Ranked`, whose order debug builds assert, and no lock without a rank.
#[must_use]
pub fn ranked(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in product_code(tree) {
        let code = code_only(text);
        // What follows is the unit tests.
        let product = code.find("#[cfg(test)]\nmod ").map_or(code.as_str(), |tests| &code[..tests]);
        for lock in ["Mutex", "RwLock"] {
            let unranked = word_offsets(product, lock).filter(|at| !is_loom(&product[..*at]));
            findings.extend(unranked.map(|at| {
                Finding::at(path, text, at, "declare a `LockSpec` and use `ron_kernel::lock::Ranked`")
            }));
        }
    }
    findings
}

/// Each lock that is declared is on a list that a topology has: in a `locks.rs` or a `topology.rs`, beside its declaration.
#[must_use]
pub fn listed(tree: &Tree) -> Vec<Finding> {
    let lists: Vec<(&str, String)> = product_code(tree)
        .filter(|(path, _)| path.ends_with("/locks.rs") || path.ends_with("/topology.rs"))
        .map(|(path, text)| (path, without_imports(&code_only(text))))
        .collect();
    let mut findings = Vec::new();
    for (path, text) in product_code(tree) {
        let code = code_only(text);
        for (at, _) in code.match_indices(": LockSpec =") {
            let name = code[..at].rsplit([' ', '\n']).next().unwrap_or_default();
            let folder = crate_of(path);
            let named = lists.iter().filter(|(list, _)| list.starts_with(folder)).flat_map(|(list, code)| {
                let declares =
                    |found: &usize| *list == path && code[*found..].starts_with(&format!("{name}: LockSpec"));
                word_offsets(code, name).filter(move |found| !declares(found)).collect::<Vec<_>>()
            });
            if named.count() == 0 {
                findings.push(Finding::at(path, text, at, "list the lock among the locks of a topology"));
            }
        }
    }
    findings
}

fn product_code(tree: &Tree) -> impl Iterator<Item = (&str, &str)> {
    tree.ending(".rs").filter(|(path, _)| {
        RANKED.iter().any(|root| path.starts_with(root))
            && path.contains("/src/")
            && !path.ends_with("/tests.rs")
            && !path.contains("/tests/")
    })
}

/// The code without its `use` declarations: an import is no place on a list.
fn without_imports(code: &str) -> String {
    let mut kept = String::new();
    let mut in_import = false;
    for line in code.split_inclusive('\n') {
        in_import |= line.starts_with("use ");
        if !in_import {
            kept.push_str(line);
        }
        in_import &= !line.contains(';');
    }
    kept
}

/// `svc/svc-x/` of a path below it.
fn crate_of(path: &str) -> &str {
    let end = path.find("/src/").map_or(path.len(), |at| at + 1);
    &path[..end]
}

/// Whether the name that follows is imported from the model checker.
fn is_loom(before: &str) -> bool {
    before
        .rfind("use ")
        .is_some_and(|import| before[import..].starts_with("use loom::") && !before[import..].contains(';'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::places;

    #[test]
    fn a_lock_without_a_rank_is_found_in_services_and_the_transport() {
        let bare = "//! X.\nuse std::sync::Mutex;\nstruct A(Mutex<u8>);";
        let tree = Tree::of(&[
            ("svc/svc-a/src/lib.rs", bare),
            ("rt/ron-transport/src/x.rs", "struct A(std::sync::RwLock<u8>);"),
            ("rt/ron-sync/src/x.rs", bare),
            ("svc/svc-a/tests/x.rs", bare),
            (
                "svc/svc-a/src/b.rs",
                "struct B(Ranked<u8>);\n#[cfg(test)]\nmod tests { use std::sync::Mutex; }",
            ),
            ("svc/svc-a/src/c.rs", "use loom::sync::{Mutex as Lock, MutexGuard as Guard};"),
        ]);
        let expected =
            [("rt/ron-transport/src/x.rs", 1), ("svc/svc-a/src/lib.rs", 2), ("svc/svc-a/src/lib.rs", 3)];
        assert_eq!(places(&ranked(&tree)), expected);
    }

    #[test]
    fn a_lock_on_no_list_is_found() {
        let tree = Tree::of(&[
            ("svc/svc-a/src/x.rs", "pub const X: LockSpec = y;\npub const Y: LockSpec = y;"),
            ("svc/svc-a/src/locks.rs", "const Z: LockSpec = z;\nconst W: LockSpec = z;\nconst ALL: _ = [Z];"),
            (
                "svc/svc-a/src/topology.rs",
                "use crate::{\n    x::{X, Y},\n};\nconst LOCKS: [LockSpec; 1] = [X];",
            ),
            ("svc/svc-b/src/topology.rs", "const LOCKS: [LockSpec; 1] = [Y, W];"),
        ]);
        assert_eq!(places(&listed(&tree)), [("svc/svc-a/src/locks.rs", 2), ("svc/svc-a/src/x.rs", 2)]);
    }
}
