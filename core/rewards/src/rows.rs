//! Rows of usage: one order, one text, one hash.

use types::ActorId;

use crate::{
    Metric,
    decimal::{self, NotDecimal},
    digest::{Digest, Domain},
    ids, json,
};

/// So many units of one thing, provided or used by one actor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Row<'a> {
    /// The actor that the usage is counted for.
    pub actor: &'a str,
    /// The metric that was counted.
    pub metric: &'a str,
    /// Number of units.
    pub units: u128,
}

/// What is wrong with a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RowFault {
    /// Rows stand in the order of their actors' bytes, then their metrics'.
    #[error("it belongs before the row above it")]
    Unsorted,
    /// An actor has one row per metric.
    #[error("its actor and metric are those of the row above it")]
    Duplicate,
    /// The actor's name is not one of 1 to 128 printable ASCII characters.
    #[error("its actor is not canonical")]
    Actor,
    /// The metric's name is not canonical.
    #[error("its metric is not canonical")]
    Metric,
    /// Nobody provides less than nothing.
    #[error("its units are negative")]
    NegativeUnits,
    /// More than 128 bits hold.
    #[error("its units are huge")]
    HugeUnits,
    /// The line is not the one text of a row.
    #[error("it is not written as rows are")]
    Malformed,
}

impl RowFault {
    /// The fault as one word.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Unsorted => "rows_unsorted",
            Self::Duplicate => "rows_duplicated",
            Self::Actor => "actor_not_canonical",
            Self::Metric => "metric_not_canonical",
            Self::NegativeUnits => "units_negative",
            Self::HugeUnits => "units_huge",
            Self::Malformed => "row_malformed",
        }
    }
}

/// Appends the line of a row, line feed included: `{"actor":"a","metric":"served.bytes","units":"7"}`.
pub fn write_row(out: &mut Vec<u8>, row: Row<'_>) {
    write_head(out, row.actor);
    write_rest(out, row);
}

/// What the lines of one actor begin with.
fn write_head(out: &mut Vec<u8>, actor: &str) {
    out.extend_from_slice(b"{\"actor\":");
    json::write_text(out, actor);
    out.extend_from_slice(b",\"metric\":\"");
}

fn write_rest(out: &mut Vec<u8>, row: Row<'_>) {
    out.extend_from_slice(row.metric.as_bytes());
    out.extend_from_slice(b"\",\"units\":\"");
    decimal::write(out, row.units);
    out.extend_from_slice(b"\"}\n");
}

/// Reads a line without its line feed. An actor with characters that JSON escapes is put into `room`.
///
/// # Errors
/// [`RowFault`], if the line is not exactly what [`write_row`] writes for some row.
pub fn read_row<'a>(line: &'a [u8], room: &'a mut String) -> Result<Row<'a>, RowFault> {
    let line = str::from_utf8(line).map_err(|_| RowFault::Malformed)?;
    let rest = line.strip_prefix("{\"actor\":\"").ok_or(RowFault::Malformed)?;
    let (actor, rest) = read_actor(rest, room).ok_or(RowFault::Malformed)?;
    let rest = rest.strip_prefix(",\"metric\":\"").ok_or(RowFault::Malformed)?;
    let (metric, rest) = rest.split_once('"').ok_or(RowFault::Malformed)?;
    let units = rest.strip_prefix(",\"units\":\"").and_then(|rest| rest.strip_suffix("\"}"));
    let units = decimal::read(units.ok_or(RowFault::Malformed)?.as_bytes()).map_err(|wrong| match wrong {
        NotDecimal::Negative => RowFault::NegativeUnits,
        NotDecimal::Huge => RowFault::HugeUnits,
        NotDecimal::Malformed => RowFault::Malformed,
    })?;
    Ok(Row { actor, metric, units })
}

/// The actor, and what follows its closing quote. Actors are printable ASCII, so two escapes are all there are.
pub(crate) fn read_actor<'a>(text: &'a str, room: &'a mut String) -> Option<(&'a str, &'a str)> {
    let special = |text: &str| text.find(['"', '\\']);
    let end = special(text)?;
    if text[end..].starts_with('"') {
        return Some((&text[..end], &text[end + 1..]));
    }
    room.clear();
    let mut rest = text;
    loop {
        let plain = special(rest)?;
        room.push_str(&rest[..plain]);
        rest = &rest[plain..];
        if let Some(after) = rest.strip_prefix('"') {
            return Some((room, after));
        }
        let escaped = rest.strip_prefix('\\')?;
        room.push_str(escaped.get(..1).filter(|c| matches!(*c, "\"" | "\\"))?);
        rest = &escaped[1..];
    }
}

/// Whether `name` names an actor, as [`ActorId::new`] would say, without taking it.
pub(crate) fn is_actor(name: &str) -> bool {
    (1..=ActorId::MAX_LEN).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Names a snapshot by its rows, while it checks that they are in order.
#[derive(Debug)]
pub struct RowsHasher {
    hasher: blake3::Hasher,
    pending: Vec<u8>,
    actor: String,
    /// What the lines of that actor begin with; empty until it is asked for.
    head: Vec<u8>,
    metric: String,
    rows: u64,
}

/// Lines are hashed so many bytes at a time: enough for BLAKE3 to work on several parts at once.
const PENDING: usize = 64 * 1024;

impl Default for RowsHasher {
    fn default() -> Self {
        let (hasher, pending) = (Domain::ROWS.hasher(), Vec::with_capacity(PENDING + 512));
        Self { hasher, pending, actor: String::new(), head: Vec::new(), metric: String::new(), rows: 0 }
    }
}

impl RowsHasher {
    /// Starts with no rows.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next row.
    ///
    /// # Errors
    /// [`RowFault`] if a name is not canonical or the row does not belong behind the last one.
    pub fn push(&mut self, row: Row<'_>) -> Result<(), RowFault> {
        self.follows(row)?;
        if self.head.is_empty() {
            write_head(&mut self.head, row.actor);
        }
        self.pending.extend_from_slice(&self.head);
        write_rest(&mut self.pending, row);
        self.taken();
        Ok(())
    }

    /// Takes the next row with the line that it was read from, which is the one text of it.
    pub(crate) fn push_line(&mut self, row: Row<'_>, line: &[u8]) -> Result<(), RowFault> {
        self.follows(row)?;
        self.pending.extend_from_slice(line);
        self.pending.push(b'\n');
        self.taken();
        Ok(())
    }

    fn taken(&mut self) {
        if self.pending.len() >= PENDING {
            self.hasher.update(&self.pending);
            self.pending.clear();
        }
        self.rows += 1;
    }

    /// The rows so far.
    #[must_use]
    pub const fn rows(&self) -> u64 {
        self.rows
    }

    /// The name of these rows.
    #[must_use]
    pub fn finish(mut self) -> Digest {
        self.hasher.update(&self.pending);
        self.hasher.finalize().into()
    }

    fn follows(&mut self, row: Row<'_>) -> Result<(), RowFault> {
        // Before the first row nobody's name stands here, which is no actor's.
        if row.actor != self.actor || row.actor.is_empty() {
            if !is_actor(row.actor) {
                return Err(RowFault::Actor);
            }
            if row.actor.as_bytes() < self.actor.as_bytes() {
                return Err(RowFault::Unsorted);
            }
            self.actor.clear();
            self.actor.push_str(row.actor);
            self.head.clear();
            self.metric.clear();
        }
        if !ids::is_name(row.metric) {
            return Err(RowFault::Metric);
        }
        match row.metric.cmp(self.metric.as_str()) {
            std::cmp::Ordering::Less => return Err(RowFault::Unsorted),
            std::cmp::Ordering::Equal => return Err(RowFault::Duplicate),
            std::cmp::Ordering::Greater => {}
        }
        self.metric.clear();
        self.metric.push_str(row.metric);
        Ok(())
    }
}

impl<'a> Row<'a> {
    /// A row of names that are known to be good.
    #[must_use]
    pub fn new(actor: &'a ActorId, metric: &'a Metric, units: u128) -> Self {
        Self { actor: actor.as_str(), metric: metric.as_str(), units }
    }
}
