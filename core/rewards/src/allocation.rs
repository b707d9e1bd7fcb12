//! What one actor is paid, and the line of `allocations.jsonl` that says why.

use std::collections::BTreeMap;

use types::ActorId;

use crate::{
    Amount, DocumentError, Due, Json, Metric, Row, decimal,
    json::{self, fields::Fields},
};

/// The rule that a payout came by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// The share is paid.
    Full,
    /// The cap is paid.
    Capped,
    /// The share is below the minimum; nothing is paid.
    BelowMinimum,
    /// What the actor is due is below the minimum; it is carried over to the next epoch.
    Carried,
    /// Corrections take off everything that the actor is due; nothing is paid.
    Deducted,
    /// The actor is the crowd called `other`, which has no account; nothing is paid.
    Nobody,
}

/// What the rules say of one score, in minor units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) share: u128,
    pub(crate) extra: bool,
    pub(crate) paid: u128,
    pub(crate) rule: Rule,
}

/// The payout of one actor, with the amounts that led to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allocation<'a> {
    /// The actor that is paid.
    pub actor: &'a str,
    /// Units times weights, added up.
    pub score: u128,
    /// The part of the pool that the score has, with the extra unit.
    pub share: Amount,
    /// Whether a unit was added to the share for its remainder.
    pub extra: bool,
    /// The amount that is paid.
    pub payout: Amount,
    /// The rule that decided the amount.
    pub rule: Rule,
    /// What the payout is made of besides the share; `None` in runs of rulesets that take nothing over.
    pub due: Option<Due>,
}

impl Rule {
    const ALL: [Self; 6] =
        [Self::Full, Self::Capped, Self::BelowMinimum, Self::Carried, Self::Deducted, Self::Nobody];

    /// The rule as one word.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Capped => "capped",
            Self::BelowMinimum => "below_minimum",
            Self::Carried => "carried",
            Self::Deducted => "deducted",
            Self::Nobody => "nobody",
        }
    }

    fn from_name(name: &str) -> Result<Self, ()> {
        Self::ALL.into_iter().find(|rule| rule.name() == name).ok_or(())
    }
}

impl Allocation<'_> {
    /// Appends the line, without a line feed, in canonical JSON. `units` are those that count, by metric.
    pub(crate) fn write<'a>(&self, out: &mut Vec<u8>, units: impl Iterator<Item = Row<'a>>) {
        out.extend_from_slice(b"{\"actor\":");
        json::write_text(out, self.actor);
        if let Some(due) = &self.due {
            write_number(out, b",\"carried_in\":\"", due.carried_in.minor());
            write_number(out, b",\"carried_out\":\"", due.carried_out.minor());
            write_number(out, b",\"credit\":\"", due.credit.minor());
            write_number(out, b",\"debit\":\"", due.debit.minor());
        }
        out.extend_from_slice(if self.extra { b",\"extra\":1" } else { b",\"extra\":0" });
        write_number(out, b",\"payout\":\"", self.payout.minor());
        out.extend_from_slice(b",\"rule\":\"");
        out.extend_from_slice(self.rule.name().as_bytes());
        out.push(b'"');
        write_number(out, b",\"score\":\"", self.score);
        write_number(out, b",\"share\":\"", self.share.minor());
        out.extend_from_slice(b",\"units\":{");
        for (at, row) in units.enumerate() {
            out.extend_from_slice(if at == 0 { b"\"" } else { b",\"" });
            out.extend_from_slice(row.metric.as_bytes());
            write_number(out, b"\":\"", row.units);
        }
        out.extend_from_slice(b"}}");
    }
}

fn write_number(out: &mut Vec<u8>, before: &[u8], number: u128) {
    out.extend_from_slice(before);
    decimal::write(out, number);
    out.push(b'"');
}

/// A line of `allocations.jsonl`, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllocationLine {
    /// The actor that is paid.
    pub actor: ActorId,
    /// Units times weights, added up.
    pub score: u128,
    /// The part of the pool that the score has, with the extra unit.
    pub share: Amount,
    /// Whether a unit was added to the share for its remainder.
    pub extra: bool,
    /// The amount that is paid.
    pub payout: Amount,
    /// The rule that decided the amount.
    pub rule: Rule,
    /// The units that count.
    pub units: BTreeMap<Metric, u128>,
    /// What the payout is made of besides the share; `None` in runs of rulesets that take nothing over.
    pub due: Option<Due>,
}

impl AllocationLine {
    /// Reads a line without its line feed.
    ///
    /// # Errors
    /// [`DocumentError`], if it is not canonical or not an allocation.
    pub fn read(line: &[u8]) -> Result<Self, DocumentError> {
        Self::from_json(Json::read_canonical(line)?)
    }

    pub(crate) fn from_json(json: Json) -> Result<Self, DocumentError> {
        let mut fields = Fields::of(json, "allocation")?;
        let due = if fields.has("carried_in") { Some(read_due(&mut fields)?) } else { None };
        let line = Self {
            actor: fields.text("actor", ActorId::new)?,
            score: fields.text("score", number)?,
            share: fields.parsed("share")?,
            extra: match fields.int("extra")?.get() {
                0 => false,
                1 => true,
                _ => return Err(DocumentError::Wrong("extra")),
            },
            payout: fields.parsed("payout")?,
            rule: fields.text("rule", Rule::from_name)?,
            units: fields.map("units")?.rest().map(one_metric).collect::<Result<_, _>>()?,
            due,
        };
        fields.end()?;
        Ok(line)
    }

    /// The rows that it names.
    pub fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        self.units.iter().map(|(metric, units)| Row::new(&self.actor, metric, *units))
    }

    /// The line again, without a line feed.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let Self { actor, score, share, extra, payout, rule, units: _, due } = self;
        let allocation = Allocation {
            actor: actor.as_str(),
            score: *score,
            share: *share,
            extra: *extra,
            payout: *payout,
            rule: *rule,
            due: *due,
        };
        let mut out = Vec::new();
        allocation.write(&mut out, self.rows());
        out
    }
}

fn read_due(fields: &mut Fields) -> Result<Due, DocumentError> {
    Ok(Due {
        carried_in: fields.parsed("carried_in")?,
        carried_out: fields.parsed("carried_out")?,
        credit: fields.parsed("credit")?,
        debit: fields.parsed("debit")?,
    })
}

fn number(text: &str) -> Result<u128, ()> {
    decimal::read(text.as_bytes()).map_err(|_| ())
}

fn one_metric(
    (name, units): (std::borrow::Cow<'static, str>, Json),
) -> Result<(Metric, u128), DocumentError> {
    let wrong = DocumentError::Wrong("units");
    let Json::Text(units) = units else { return Err(wrong) };
    match (Metric::new(&name), number(&units)) {
        (Ok(metric), Ok(units)) => Ok((metric, units)),
        _ => Err(wrong),
    }
}
