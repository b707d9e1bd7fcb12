//! What was shown: a table for people, JSON for machines.

use std::{fmt, time::Duration};

use serde_json::{Value, json};

use super::{
    judge::Shown,
    scenario::{Case, Mode},
};

/// All rows of a proof.
#[derive(Debug, Default)]
pub(crate) struct Report(Vec<Row>);

/// One case in one mode.
#[derive(Debug)]
pub(super) struct Row {
    round: u32,
    test: &'static str,
    case: String,
    mode: Mode,
    shown: Shown,
    /// Whether it is as it must be; only fair admission is held to anything.
    holds: Option<bool>,
}

impl Row {
    pub(super) fn new(round: u32, case: &Case, mode: Mode, shown: Shown, holds: bool) -> Self {
        let holds = mode.is_judged().then_some(holds);
        Self { round, test: case.test, case: case.name.clone(), mode, shown, holds }
    }

    fn json(&self) -> Value {
        let mut row = json!({
            "round": self.round, "test": self.test, "case": self.case, "mode": self.mode.name(), "holds": self.holds,
        });
        let (kind, shown) = self.shown.json();
        row[kind] = shown;
        row
    }
}

impl Shown {
    /// What it is, and its figures.
    fn json(&self) -> (&'static str, Value) {
        match self {
            Self::Victim { p50, p99, success, share, untimed } => (
                "victim",
                json!({
                    "p50_ms": millis(*p50), "p99_ms": millis(*p99), "success": success, "share": share, "untimed": untimed,
                }),
            ),
            Self::Shares(shares) => {
                let shares = shares.iter().map(|(group, expected, got)| {
                    json!({ "group": group.trim_end_matches('-'), "expected": expected, "got": got })
                });
                ("shares", shares.collect())
            }
            Self::Goodput { per_second, busy, refused, refused_p99 } => (
                "goodput",
                json!({
                    "per_second": per_second, "busy": busy,
                    "refused": refused, "refused_p99_ms": millis(*refused_p99),
                }),
            ),
            Self::Welcome { returned, welcome } => {
                ("welcome", json!({ "returned": returned, "served": welcome }))
            }
            Self::Reloads { p99, success, reloads, failed } => (
                "reloads",
                json!({
                    "reloads": reloads, "failed": failed, "victim_p99_ms": millis(*p99), "victim_success": success,
                }),
            ),
        }
    }
}

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Victim { p50, p99, success, share, untimed } => write!(
                f,
                "{:>10} {:>10} {:>6.1}% {:>5.1}% {untimed:>8}",
                timed(*p50),
                timed(*p99),
                success * 100.0,
                share * 100.0,
            ),
            Self::Shares(shares) => {
                let shown = shares.iter().map(|(group, expected, got)| {
                    let group = group.trim_end_matches('-');
                    format!("{group} {:.1}% of {:.1}%", got * 100.0, expected * 100.0)
                });
                f.write_str(&shown.collect::<Vec<_>>().join(", "))
            }
            Self::Goodput { per_second, busy, refused, refused_p99 } => write!(
                f,
                "{per_second:.0}/s served, server {:.1}% busy; {refused} refused, p99 {:.1} ms",
                busy * 100.0,
                millis(*refused_p99),
            ),
            Self::Welcome { returned, welcome } => {
                write!(f, "{returned} came back as told, {:.1}% of them served at once", welcome * 100.0)
            }
            Self::Reloads { p99, success, reloads, failed } => write!(
                f,
                "{reloads} reloads, {failed} failed; victim p99 {:.1} ms, served {:.1}%",
                millis(*p99),
                success * 100.0,
            ),
        }
    }
}

impl Report {
    pub(super) fn add(&mut self, row: Row) {
        self.0.push(row);
    }

    /// Whether everything that must hold does.
    pub(crate) fn holds(&self) -> bool {
        !self.0.is_empty() && self.0.iter().all(|row| row.holds != Some(false))
    }

    /// The rows as JSON.
    pub(crate) fn json(&self) -> Value {
        json!({ "holds": self.holds(), "rows": self.0.iter().map(Row::json).collect::<Vec<_>>() })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.0.iter().map(|row| row.case.chars().count()).max().unwrap_or(0).max("case".len());
        let figures = "admission  victim p50       p99  served  share  untimed  verdict";
        writeln!(f, "test  {:<width$} {figures}", "case")?;
        for row in &self.0 {
            let verdict = match row.holds {
                Some(true) => "holds",
                Some(false) => "FAILS",
                None => "",
            };
            let (test, case, mode) = (row.test, &row.case, row.mode.name());
            writeln!(f, "{test:<5} {case:<width$} {mode:<10} {}  {verdict}", row.shown)?;
        }
        Ok(())
    }
}

/// A time that was measured; nobody was served in no time.
fn timed(duration: Duration) -> String {
    if duration.is_zero() { "–".to_owned() } else { format!("{:.1} ms", millis(duration)) }
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}
