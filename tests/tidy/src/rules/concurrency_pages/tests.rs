//! Bad pages, and the findings they cause.

use super::*;
use crate::places;

const PAGE: &str = "docs/concurrency/gateway.md";
const GOOD: &str =
    "---\nowner: maintainers\nstatus: stable\nmsrv: \"1.89\"\nlast-reviewed: 2026-01-01\n---\n# Gateway\n";

fn tree(files: &[(&str, &str)]) -> Tree {
    let root = "[workspace]\nmembers = [\"svc/svc-gateway\"]\n[workspace.package]\nrust-version = \"1.89\"";
    Tree::of(&[&[("Cargo.toml", root), ("svc/svc-gateway/Cargo.toml", "")], files].concat())
}

fn workspace() -> Workspace {
    Workspace::read(&tree(&[])).expect("manifests parse")
}

#[test]
fn a_service_without_a_page_is_found() {
    for page in [PAGE, "docs/concurrency/svc-gateway.md"] {
        assert_eq!(cover_every_service(&tree(&[(page, GOOD)]), &workspace()), [], "{page}");
    }
    for pages in [&[][..], &[("docs/concurrency/edge.md", GOOD)], &[("docs/gateway.md", GOOD)]] {
        let findings = cover_every_service(&tree(pages), &workspace());
        assert_eq!(places(&findings), [("docs/concurrency/svc-gateway.md", 1)]);
    }
}

#[test]
fn each_missing_or_wrong_entry_of_the_front_matter_is_found() {
    let check = |text: &str| places_of(&state_who_when_and_what(&tree(&[(PAGE, text)])));
    assert_eq!(check(GOOD), []);
    assert_eq!(check("# Gateway\n"), [1, 1, 1, 1]);
    for key in KEYS {
        let without: Vec<_> = GOOD.lines().filter(|line| !line.starts_with(key)).collect();
        assert_eq!(check(&without.join("\n")), [1], "{key}");
    }
    assert_eq!(check(&GOOD.replace("maintainers", "")), [1]);
    assert_eq!(check(&GOOD.replace("2026-01-01", "last week")), [5]);
    assert_eq!(check(&GOOD.replace("1.89", "1.80")), [4]);
}

#[test]
fn a_page_reviewed_too_long_before_the_newest_change_is_found() {
    let check = |page: &str, changed: &str| {
        let changed = (!changed.is_empty()).then(|| changed.parse().expect("a day"));
        let newest = |folder: &str| changed.filter(|_| folder == "svc/svc-gateway");
        places_of(&are_reviewed(&tree(&[(page, GOOD)]), &workspace(), newest))
    };
    assert_eq!(check(PAGE, "2026-04-01"), [], "90 days after the review");
    assert_eq!(check(PAGE, "2026-04-02"), [5], "91 days after the review");
    assert_eq!(check(PAGE, "2025-01-01"), [], "reviewed since");
    assert_eq!(check(PAGE, ""), [], "no history");
    assert_eq!(check("docs/concurrency/edge.md", ""), [1], "no such service");
    let part = "docs/concurrency/gateway_part.md";
    assert_eq!((check(part, "2026-04-01"), check(part, "2026-04-02")), (vec![], vec![5]), "a part of one");
    assert_eq!(check("docs/concurrency/edge_part.md", ""), [1], "of no such service");
}

#[test]
fn days_count_through_leap_years() {
    for (text, days) in
        [("1970-01-01", 0), ("1970-12-31", 364), ("2000-02-29", 11_016), ("2026-03-01", 20_513)]
    {
        let day: Day = text.parse().expect("a day");
        assert_eq!((day, day.to_string()), (Day(days), text.to_owned()));
    }
    for bad in [
        "",
        "2026-02-29",
        "2026-13-01",
        "2026-00-10",
        "2026-1-1",
        "2026-01-01-01",
        "2026-01-00",
        "1969-12-31",
    ] {
        assert_eq!(bad.parse::<Day>(), Err(()), "{bad}");
    }
}

fn places_of(findings: &[Finding]) -> Vec<usize> {
    places(findings).into_iter().map(|(_, line)| line).collect()
}
