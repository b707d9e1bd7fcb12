//! What was shown: a table for people, JSON for machines.

use std::{fmt, time::Duration};

use serde_json::{Value, json};

use super::scenario::{Bench, Case, Judge, Mode, Outcomes, share_of, victim};

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

#[derive(Debug)]
enum Shown {
    Victim { p50: Duration, p99: Duration, success: f64, share: f64 },
    Shares(Vec<(&'static str, f64, f64)>),
}

impl Row {
    pub(super) fn new(
        round: u32,
        bench: &Bench,
        case: &Case,
        mode: Mode,
        outcomes: &Outcomes,
        solo: Duration,
    ) -> Self {
        let shown = match &case.judge {
            Judge::Solo | Judge::Victim => {
                let of = |percent| victim(outcomes).map(|v| v.percentile(percent)).unwrap_or_default();
                Shown::Victim {
                    p50: of(50),
                    p99: of(99),
                    success: victim(outcomes).map_or(0.0, super::load::Outcome::success),
                    share: share_of(outcomes, "victim"),
                }
            }
            Judge::Shares(expected) => Shown::Shares(
                expected.iter().map(|(group, share)| (*group, *share, share_of(outcomes, group))).collect(),
            ),
        };
        let holds = (mode == Mode::Fair).then(|| case.judge.holds(bench, outcomes, solo));
        Self { round, test: case.test, case: case.name.clone(), mode, shown, holds }
    }

    fn json(&self) -> Value {
        let mut row = json!({
            "round": self.round, "test": self.test, "case": self.case, "mode": self.mode.name(), "holds": self.holds,
        });
        match &self.shown {
            Shown::Victim { p50, p99, success, share } => {
                row["victim"] = json!({ "p50_ms": millis(*p50), "p99_ms": millis(*p99), "success": success, "share": share });
            }
            Shown::Shares(shares) => {
                let shares = shares.iter().map(|(group, expected, got)| {
                    json!({ "group": group.trim_end_matches('-'), "expected": expected, "got": got })
                });
                row["shares"] = shares.collect();
            }
        }
        row
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
        writeln!(f, "test  case                  admission  victim p50    p99  served  share  verdict")?;
        for row in &self.0 {
            let verdict = match row.holds {
                Some(true) => "holds",
                Some(false) => "FAILS",
                None => "",
            };
            write!(f, "{:<5} {:<21} {:<10}", row.test, row.case, row.mode.name())?;
            match &row.shown {
                Shown::Victim { p50, p99, success, share } => writeln!(
                    f,
                    " {:>7.1} ms {:>7.1} ms {:>6.1}% {:>5.1}%  {verdict}",
                    millis(*p50),
                    millis(*p99),
                    success * 100.0,
                    share * 100.0,
                )?,
                Shown::Shares(shares) => {
                    let shown: Vec<String> = shares
                        .iter()
                        .map(|(group, expected, got)| {
                            let group = group.trim_end_matches('-');
                            format!("{group} {:.1}% of {:.1}%", got * 100.0, expected * 100.0)
                        })
                        .collect();
                    writeln!(f, " {}  {verdict}", shown.join(", "))?;
                }
            }
        }
        Ok(())
    }
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}
