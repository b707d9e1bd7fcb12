//! `docs/concurrency/`: one page per service, with its front matter, reviewed while it still told the truth.

use crate::{Finding, Tree, Workspace, workspace::Member};
use std::{fmt, path::Path, process::Command, str::FromStr};
use toml::{Table, Value};

/// Where the pages are.
const FOLDER: &str = "docs/concurrency/";

/// What the front matter of a page states.
const KEYS: [&str; 4] = ["owner", "status", "msrv", "last-reviewed"];

/// How far a review may lie behind the newest change of its service.
pub const REVIEW_EVERY_DAYS: i64 = 90;

/// Every service has its page.
#[must_use]
pub fn cover_every_service(tree: &Tree, workspace: &Workspace) -> Vec<Finding> {
    let services = workspace.members.iter().filter(|member| member.layer() == "svc");
    let bare = services.filter(|service| !pages(tree).any(|(path, _)| describes(path, service)));
    let page = |service: &Member| format!("{FOLDER}{}.md", service.name());
    bare.map(|service| Finding::new(&page(service), 1, "is missing: every service describes its concurrency"))
        .collect()
}

/// Every page states its owner, its status, the compiler it was checked with, and the day of its last review.
#[must_use]
pub fn state_who_when_and_what(tree: &Tree) -> Vec<Finding> {
    let rust_version = rust_version(tree);
    let mut findings = Vec::new();
    for (path, text) in pages(tree) {
        for key in KEYS.into_iter().filter(|key| entry(text, key).is_none_or(|(_, value)| value.is_empty())) {
            findings.push(Finding::new(path, 1, format!("the front matter lacks `{key}:`")));
        }
        if let Some((line, day)) = entry(text, "last-reviewed").filter(|(_, day)| day.parse::<Day>().is_err())
        {
            findings.push(Finding::new(path, line, format!("`{day}` is no day: write YYYY-MM-DD")));
        }
        if let Some((line, msrv)) = entry(text, "msrv").filter(|(_, msrv)| *msrv != rust_version) {
            findings.push(Finding::new(
                path,
                line,
                format!("msrv is `{msrv}`, the manifest says `{rust_version}`"),
            ));
        }
    }
    findings
}

/// No page was last reviewed more than [`REVIEW_EVERY_DAYS`] before the newest change of its service's folder, as told
/// by `newest_change`. A folder without a known change cannot be late.
pub fn are_reviewed(
    tree: &Tree,
    workspace: &Workspace,
    newest_change: impl Fn(&str) -> Option<Day>,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in pages(tree) {
        let is_about = |member: &&Member| describes(path, member) || describes_part(path, member);
        let Some(service) = workspace.members.iter().find(is_about) else {
            findings.push(Finding::new(path, 1, "describes no crate of the workspace: name it after one"));
            continue;
        };
        let Some((line, Ok(reviewed))) =
            entry(text, "last-reviewed").map(|(line, day)| (line, day.parse::<Day>()))
        else {
            continue; // Another rule's finding.
        };
        if let Some(changed) =
            newest_change(&service.folder).filter(|day| day.0 - reviewed.0 > REVIEW_EVERY_DAYS)
        {
            let what =
                format!("{} changed on {changed}: review the page and update the date", service.folder);
            findings.push(Finding::new(path, line, what));
        }
    }
    findings
}

/// The day of the newest commit that touched `folder`, where git's history is at hand.
#[must_use]
pub fn newest_commit(root: &Path, folder: &str) -> Option<Day> {
    let log = ["log", "-1", "--format=%cs", "--", folder];
    let output = Command::new("git").args(log).current_dir(root).output().ok()?;
    String::from_utf8(output.stdout).ok()?.trim().parse().ok()
}

/// A day of the calendar, counted from 1970-01-01.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Day(i64);

impl FromStr for Day {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let mut parts = text.split('-').map(str::parse::<i64>);
        let (Some(Ok(year)), Some(Ok(month)), Some(Ok(day)), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(());
        };
        let written =
            text.len() == "YYYY-MM-DD".len() && (1970..=9999).contains(&year) && (1..=12).contains(&month);
        // A day counts only if it comes back the same, so February 30 is refused.
        let counted = Self(days_before(year, month) + day - 1);
        if written && counted.to_string() == text { Ok(counted) } else { Err(()) }
    }
}

impl fmt::Display for Day {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let year = (1970..).take_while(|year| days_before(*year, 1) <= self.0).last().unwrap_or(1970);
        let month = (1..=12).take_while(|month| days_before(year, *month) <= self.0).last().unwrap_or(1);
        write!(f, "{year:04}-{month:02}-{:02}", self.0 - days_before(year, month) + 1)
    }
}

/// Days from 1970-01-01 to the first day of the month.
fn days_before(year: i64, month: i64) -> i64 {
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let lengths = [31, if leap { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let leap_days = |year: i64| year / 4 - year / 100 + year / 400;
    let years = (year - 1970) * 365 + leap_days(year - 1) - leap_days(1969);
    years + lengths.iter().zip(1..month).map(|(days, _)| days).sum::<i64>()
}

fn pages(tree: &Tree) -> impl Iterator<Item = (&str, &str)> {
    let index = format!("{FOLDER}README.md");
    tree.ending(".md").filter(move |(path, _)| path.starts_with(FOLDER) && *path != index)
}

/// `gateway.md` and `svc-gateway.md` both describe `svc/svc-gateway`.
fn describes(page: &str, member: &Member) -> bool {
    let stem = page.strip_prefix(FOLDER).and_then(|name| name.strip_suffix(".md")).unwrap_or_default();
    let (name, short) = (member.name(), member.name().split_once('-').map(|(_, short)| short));
    // The program is a service too: its admin listener.
    name == stem || short == Some(stem) || (stem == "admin" && name == "omnigate")
}

/// `overlay_api.md` describes a part of `svc/svc-overlay` that is a service to itself.
fn describes_part(page: &str, member: &Member) -> bool {
    page.rsplit_once('_').is_some_and(|(service, _)| describes(&format!("{service}.md"), member))
}

/// The line and the value of `key` in the front matter.
fn entry<'a>(text: &'a str, key: &str) -> Option<(usize, &'a str)> {
    let matter = text.strip_prefix("---\n")?.split_once("\n---").map(|(matter, _)| matter)?;
    let value = |line: &'a str| Some(line.strip_prefix(key)?.strip_prefix(':')?.trim().trim_matches('"'));
    matter.lines().enumerate().find_map(|(at, line)| Some((at + 2, value(line)?)))
}

fn rust_version(tree: &Tree) -> String {
    let manifest = tree.text("Cargo.toml").and_then(|text| text.parse::<Table>().ok()).unwrap_or_default();
    let package = manifest.get("workspace").and_then(|workspace| workspace.get("package"));
    let version = package.and_then(|package| package.get("rust-version")).and_then(Value::as_str);
    version.unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests;
