//! What an actor is due by ruleset 3: its share, what was carried over, credits, less debits; paid, or carried on.

use types::ActorId;

use crate::{
    Amount, Brought, Carried, Quarantine,
    allocation::{Entry, Rule},
    brought::Ask,
    inputs::InputSet,
    run::Scored,
};

/// What an actor's payout is made of, besides its share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Due {
    /// What was carried over to this epoch.
    pub carried_in: Amount,
    /// What is carried over to the next, because it is below the minimum.
    pub carried_out: Amount,
    /// The amount that corrections add.
    pub credit: Amount,
    /// What corrections take off: no more than the actor is due.
    pub debit: Amount,
}

/// What a run of ruleset 3 has besides its scores and shares.
#[derive(Clone, Debug)]
pub(crate) struct TakenOver {
    pub(crate) brought: Brought,
    /// Actors that have no row in this epoch; their places follow those of the usage table.
    pub(crate) absent: Vec<ActorId>,
    /// One for each line.
    pub(crate) dues: Vec<Due>,
    /// What is carried over to the next epoch.
    pub(crate) carried_out: Carried,
    pub(crate) credited: Amount,
    pub(crate) deducted: Amount,
}

/// Lines in the making.
struct Merge<'a> {
    inputs: &'a InputSet,
    minimum: u128,
    scored: Vec<Scored>,
    absent: Vec<ActorId>,
    dues: Vec<Due>,
}

/// Puts what is taken over beside the scores, which are in the order of actors: the lines of the run.
pub(crate) fn take_over(
    inputs: &InputSet,
    scored: Vec<Scored>,
    brought: &Brought,
    minimum: u128,
) -> Result<(Vec<Scored>, TakenOver), Quarantine> {
    let mut asks = brought.asks()?.into_iter().peekable();
    let room = scored.len() + asks.len();
    let mut merge = Merge {
        inputs,
        minimum,
        scored: Vec::with_capacity(room),
        absent: Vec::new(),
        dues: Vec::with_capacity(room),
    };
    for one in scored {
        let name = inputs.usage().name(one.place as usize);
        while let Some((actor, ask)) = asks.next_if(|(actor, _)| actor.as_str() < name) {
            merge.absent(actor, ask)?;
        }
        let ask = asks.next_if(|(actor, _)| actor.as_str() == name).map(|(_, ask)| ask);
        merge.line(one, ask.unwrap_or_default(), name == ActorId::other().as_str())?;
    }
    for (actor, ask) in asks {
        merge.absent(actor, ask)?;
    }
    merge.finish(brought)
}

impl Merge<'_> {
    /// The line of an actor that has no score in this epoch.
    fn absent(&mut self, actor: &ActorId, ask: Ask) -> Result<(), Quarantine> {
        // An actor may be among the inputs and have no score: then it has a place there.
        let place = match self.inputs.usage().find(actor.as_str()) {
            Some(place) => place,
            None => {
                self.absent.push(actor.clone());
                self.inputs.usage().actors() + self.absent.len() - 1
            }
        };
        let place = u32::try_from(place).map_err(|_| Quarantine::TooMany("actors"))?;
        let entry = Entry { share: 0, extra: false, paid: 0, rule: Rule::Full };
        self.line(Scored { place, score: 0, entry }, ask, false)
    }

    fn line(&mut self, mut scored: Scored, ask: Ask, is_nobody: bool) -> Result<(), Quarantine> {
        let due = if is_nobody {
            (scored.entry.paid, scored.entry.rule) = (0, Rule::Nobody);
            Due::default()
        } else {
            settle(&mut scored.entry, ask, self.minimum)?
        };
        self.scored.push(scored);
        self.dues.push(due);
        Ok(())
    }

    fn finish(self, brought: &Brought) -> Result<(Vec<Scored>, TakenOver), Quarantine> {
        let Self { inputs, scored, absent, dues, .. } = self;
        let mut carried = Vec::new();
        let (mut credited, mut deducted) = (Amount::ZERO, Amount::ZERO);
        let overflow = || Quarantine::Overflow("payouts");
        for (one, due) in scored.iter().zip(&dues) {
            credited = credited.checked_add(due.credit).ok_or_else(overflow)?;
            deducted = deducted.checked_add(due.debit).ok_or_else(overflow)?;
            if due.carried_out > Amount::ZERO {
                let name = name_of(inputs, &absent, one.place);
                let actor = ActorId::new(name).expect("actors were checked when they were taken in");
                carried.push((actor, due.carried_out));
            }
        }
        let carried_out = Carried::new(carried).map_err(|_| overflow())?;
        let brought = brought.clone();
        Ok((scored, TakenOver { brought, absent, dues, carried_out, credited, deducted }))
    }
}

/// The name of the actor at a place: among the inputs, or behind them.
pub(crate) fn name_of<'a>(inputs: &'a InputSet, absent: &'a [ActorId], place: u32) -> &'a str {
    let (place, actors) = (place as usize, inputs.usage().actors());
    if place < actors { inputs.usage().name(place) } else { absent[place - actors].as_str() }
}

/// What is paid and what is carried on. The entry comes with its share, or the cap, as what is paid.
fn settle(entry: &mut Entry, ask: Ask, minimum: u128) -> Result<Due, Quarantine> {
    let overflow = || Quarantine::Overflow("payouts");
    let asked = entry.paid.checked_add(ask.carried).and_then(|sum| sum.checked_add(ask.credit));
    let asked = asked.ok_or_else(overflow)?;
    let debit = ask.debit.min(asked);
    let due = asked - debit;
    let (paid, carried_out, rule) = if due == 0 && debit > 0 {
        (0, 0, Rule::Deducted)
    } else if due < minimum {
        (0, due, Rule::Carried)
    } else {
        (due, 0, entry.rule)
    };
    (entry.paid, entry.rule) = (paid, rule);
    let amount = |minor| Amount::new(minor).ok_or_else(overflow);
    amount(paid)?;
    Ok(Due {
        carried_in: amount(ask.carried)?,
        carried_out: amount(carried_out)?,
        credit: amount(ask.credit)?,
        debit: amount(debit)?,
    })
}
