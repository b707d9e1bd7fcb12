//! What every Rust file keeps to.

use crate::{
    Finding, Tree,
    rust_code::{code_only, word_offsets},
};

/// The most lines a Rust file may have; most have 100 to 300.
pub const MAX_LINES: usize = 600;

/// Files above [`MAX_LINES`], each with the reason why it is one piece.
pub const LONG_FILES: &[(&str, &str)] = &[];

/// Each file opens with a `//!` line that says what it is for.
#[must_use]
pub fn opens_with_its_purpose(tree: &Tree) -> Vec<Finding> {
    let states_it = |text: &str| text.strip_prefix("//! ").is_some_and(|rest| !rest.starts_with('\n'));
    let silent = tree.ending(".rs").filter(|(_, text)| !states_it(text));
    silent
        .map(|(path, _)| Finding::new(path, 1, "open the file with a `//!` line that says its purpose"))
        .collect()
}

/// Nothing is left to be written.
#[must_use]
pub fn finished(tree: &Tree) -> Vec<Finding> {
    let unfinished = ["todo!", "unimplemented!", "dbg!"];
    unfinished.iter().flat_map(|word| uses(tree, word, &format!("`{word}` is unfinished work"))).collect()
}

/// The one crate that exists to hold unsafe code; its lints differ for that reason.
pub(super) const UNSAFE_CRATE: &str = "rt/ron-alloc";

/// Nothing else is unsafe, not even where the compiler's own ban was forgotten.
#[must_use]
pub fn safe(tree: &Tree) -> Vec<Finding> {
    let what = "unsafe code needs a crate of its own and a reason";
    uses_where(tree, "unsafe", what, |path, _, _| !path.starts_with(UNSAFE_CRATE))
}

/// Exceptions to lints are expectations, which complain once they are no longer needed. One cannot be: of a module
/// that several test programs share, each uses a part, so what is dead in one is alive in the next.
#[must_use]
pub fn expects_instead_of_allowing(tree: &Tree) -> Vec<Finding> {
    let what = "use `#[expect(lint, reason = \"...\")]`: it goes away when its cause does";
    let in_tests = |path: &str| path.starts_with("tests/") || path.contains("/tests/");
    let shared_by_tests = |path: &str| in_tests(path) && path.ends_with("/mod.rs");
    uses_where(tree, "allow(", what, |path, code, at| {
        let forms = ["allow(dead_code, reason = ", "allow(dead_code, unused_imports, reason = "];
        let partly_used = shared_by_tests(path) && forms.iter().any(|form| code[at..].starts_with(form));
        in_attribute(&code[..at]) && !partly_used
    })
}

/// Whether an attribute was opened and not closed, and what follows is one of its own or under a `cfg_attr`.
fn in_attribute(before: &str) -> bool {
    let opened = before.rfind("#[").max(before.rfind("#!["));
    let attribute = opened.map_or("", |from| before[from..].trim_end());
    matches!(attribute, "#[" | "#![") || attribute.contains("cfg_attr") && !attribute.contains(']')
}

/// An ignored test says why.
#[must_use]
pub fn ignores_no_test_silently(tree: &Tree) -> Vec<Finding> {
    uses(tree, "#[ignore]", "say why: `#[ignore = \"...\"]`")
}

/// No file is longer than [`MAX_LINES`], but for those in `long_files`, which in turn must still be that long.
#[must_use]
pub fn short_enough(tree: &Tree, long_files: &[(&str, &str)]) -> Vec<Finding> {
    let reason = |path: &str| long_files.iter().any(|(long, reason)| *long == path && !reason.is_empty());
    let lines = |text: &str| text.lines().count();
    let too_long = tree.ending(".rs").filter(|(path, text)| lines(text) > MAX_LINES && !reason(path));
    let too_long = too_long.map(|(path, text)| {
        Finding::new(
            path,
            MAX_LINES,
            format!("{} lines: split it, or give the reason in LONG_FILES", lines(text)),
        )
    });
    let stale =
        long_files.iter().filter(|(path, _)| tree.text(path).is_none_or(|text| lines(text) <= MAX_LINES));
    let stale = stale.map(|(path, _)| Finding::new(path, 1, "no longer long: take it off LONG_FILES"));
    too_long.chain(stale).collect()
}

fn uses(tree: &Tree, word: &str, what: &str) -> Vec<Finding> {
    uses_where(tree, word, what, |_, _, _| true)
}

fn uses_where(
    tree: &Tree,
    word: &str,
    what: &str,
    counts: impl Fn(&str, &str, usize) -> bool,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.ending(".rs") {
        let code = code_only(text);
        let offsets = word_offsets(&code, word).filter(|at| counts(path, &code, *at));
        findings.extend(offsets.map(|at| Finding::at(path, text, at, what)));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::places;

    #[test]
    fn a_file_without_a_purpose_is_found() {
        let tree = Tree::of(&[
            ("a.rs", "//! Purpose.\nfn a() {}"),
            ("b.rs", "fn b() {}"),
            ("c.rs", "//! \n"),
            ("d.rs", "\n//! Late."),
            ("e.md", "text"),
        ]);
        assert_eq!(places(&opens_with_its_purpose(&tree)), [("b.rs", 1), ("c.rs", 1), ("d.rs", 1)]);
    }

    #[test]
    fn unfinished_code_is_found_and_talk_about_it_is_not() {
        let tree = Tree::of(&[
            ("a.rs", "fn a() {\n    todo!()\n}"),
            ("b.rs", "fn b() { unimplemented!(\"x\") }\nfn c() { dbg!(1); }"),
            ("c.rs", "// todo!()\nconst A: &str = \"dbg!\"; my_todo!();"),
        ]);
        assert_eq!(places(&finished(&tree)), [("a.rs", 2), ("b.rs", 1), ("b.rs", 2)]);
    }

    #[test]
    fn unsafe_code_is_found_and_its_ban_is_not() {
        let tree = Tree::of(&[
            ("a.rs", "#![forbid(unsafe_code)]\nfn a() {}"),
            ("b.rs", "fn b() {\n    unsafe { c() }\n}"),
            ("c.rs", "#[unsafe(no_mangle)]\nfn c() {}"),
        ]);
        assert_eq!(places(&safe(&tree)), [("b.rs", 2), ("c.rs", 1)]);
        let apart = Tree::of(&[("rt/ron-alloc/src/lib.rs", "fn a() { unsafe { b() } }")]);
        assert_eq!(places(&safe(&apart)), []);
    }

    #[test]
    fn an_allowed_lint_is_found_in_every_form_of_attribute() {
        let tree = Tree::of(&[
            ("a.rs", "#[expect(dead_code, reason = \"x\")]\nfn allow(x: u8) { allow(1) }"),
            ("b.rs", "#[allow(dead_code)]\nfn b() {}"),
            ("c.rs", "#![allow(dead_code)]"),
            ("d.rs", "\n#[cfg_attr(test, allow(dead_code))]\nfn d() {}"),
            ("e.rs", "#[cfg_attr(test, expect(dead_code))]\nfn e() { if allow(1) {} }"),
            ("f.rs", "#[test]\nfn f() {}\n#![cfg_attr(test, allow(dead_code))]"),
        ]);
        assert_eq!(
            places(&expects_instead_of_allowing(&tree)),
            [("b.rs", 1), ("c.rs", 1), ("d.rs", 2), ("f.rs", 3)]
        );
    }

    #[test]
    fn only_a_module_that_test_programs_share_may_have_dead_parts() {
        let reasoned = "#![allow(dead_code, reason = \"each test uses its part\")]";
        let tree = Tree::of(&[
            ("rt/a/src/mod.rs", reasoned),
            ("rt/a/tests/b.rs", reasoned),
            ("rt/a/tests/support/mod.rs", reasoned),
            ("tests/a/support/mod.rs", "#![allow(dead_code, unused_imports, reason = \"x\")]"),
            ("rt/b/tests/support/mod.rs", "#![allow(dead_code)]"),
            ("rt/c/tests/support/mod.rs", "#![allow(unused, reason = \"x\")]"),
        ]);
        let expected = [
            ("rt/a/src/mod.rs", 1),
            ("rt/a/tests/b.rs", 1),
            ("rt/b/tests/support/mod.rs", 1),
            ("rt/c/tests/support/mod.rs", 1),
        ];
        assert_eq!(places(&expects_instead_of_allowing(&tree)), expected);
    }

    #[test]
    fn a_silently_ignored_test_is_found() {
        let tree = Tree::of(&[
            ("a.rs", "#[test]\n#[ignore = \"needs an hour\"]\nfn a() {}"),
            ("b.rs", "#[test]\n#[ignore]\nfn b() {}"),
        ]);
        assert_eq!(places(&ignores_no_test_silently(&tree)), [("b.rs", 2)]);
    }

    #[test]
    fn a_long_file_needs_a_reason_and_a_reason_needs_a_long_file() {
        let (fits, long) = ("x\n".repeat(MAX_LINES), "x\n".repeat(MAX_LINES + 1));
        let tree = Tree::of(&[("fits.rs", &fits), ("long.rs", &long), ("why.rs", &long), ("mute.rs", &long)]);
        let listed = [("why.rs", "one table"), ("mute.rs", ""), ("fits.rs", "once long"), ("gone.rs", "x")];
        let expected = [("long.rs", MAX_LINES), ("mute.rs", MAX_LINES), ("fits.rs", 1), ("gone.rs", 1)];
        assert_eq!(places(&short_enough(&tree, &listed)), expected);
    }
}
