//! The results: rows of ours, the bare one's and their ratio, as a table or as JSON.

use serde::Serialize;

use crate::{Failure, paired::Pair};

/// All rows measured so far.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Report {
    rows: Vec<Row>,
}

#[derive(Debug, Serialize)]
struct Row {
    group: &'static str,
    case: String,
    unit: &'static str,
    against: &'static str,
    #[serde(flatten)]
    pair: Pair,
    /// The highest ratio we are content with.
    goal: Option<f64>,
}

/// What is measured, in which unit, against what.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Group {
    pub(crate) name: &'static str,
    pub(crate) unit: &'static str,
    pub(crate) against: &'static str,
    pub(crate) goal: Option<f64>,
}

impl Report {
    /// Adds a case, and says on standard error that it is done: a full run takes minutes.
    pub(crate) fn add(&mut self, group: Group, case: impl Into<String>, pair: Pair) {
        let row = Row {
            group: group.name,
            case: case.into(),
            unit: group.unit,
            against: group.against,
            pair,
            goal: group.goal,
        };
        eprintln!("{:10} {}", row.group, row.case);
        self.rows.push(row);
    }

    /// Prints all results.
    pub(crate) fn print(&self, json: bool) -> Result<(), Failure> {
        if json {
            println!("{}", serde_json::to_string_pretty(self)?);
            return Ok(());
        }
        println!(
            "{:10} {:48} {:>12} {:>9} {:>9}  {:>6} {:>13}  goal  against",
            "group", "case", "unit", "ours", "bare", "ratio", "quartiles"
        );
        for row in &self.rows {
            println!("{}", row.line());
        }
        Ok(())
    }
}

impl Row {
    fn line(&self) -> String {
        let Pair { ours, bare, ratio } = &self.pair;
        let goal = match self.goal {
            None => String::new(),
            Some(goal) if ratio.median <= goal => format!("≤{goal}"),
            Some(goal) => format!("≤{goal} MISSED"),
        };
        format!(
            "{:10} {:48} {:>12} {:>9.2} {:>9.2}  {:>6.3} {:>6.3}-{:>6.3}  {goal:5} {}",
            self.group,
            self.case,
            self.unit,
            ours.median,
            bare.median,
            ratio.median,
            ratio.lower,
            ratio.upper,
            self.against
        )
    }
}
