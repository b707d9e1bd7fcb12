//! Random batches against the plainest model there is, in every store.

use std::collections::BTreeMap;

use ron_ledger::{Batch, Floor, LedgerError, Step, verify};

use crate::support::{Chance, Place, batch, hold, id, open, pay, seed, size};

on_every_store!(random_batches_do_what_a_naive_model_does);

/// Balances, what is held, floors; open holds; keys with their steps. Checked after every step by adding up again.
#[derive(Clone, Debug, Default)]
struct Model {
    accounts: BTreeMap<String, (i128, i128, Option<i128>)>,
    holds: BTreeMap<u64, (String, String, i128)>,
    /// Those of the batch that is being posted: nobody can know their numbers yet, so a guess settles nothing.
    new_holds: BTreeMap<u64, (String, String, i128)>,
    keys: BTreeMap<String, Vec<Step>>,
    entries: u64,
}

impl Model {
    fn post(&mut self, batch: &Batch) -> Result<bool, &'static str> {
        match self.keys.get(batch.key().as_str()) {
            Some(steps) if steps == batch.steps() => return Ok(false),
            Some(_) => return Err("conflict"),
            None => {}
        }
        let mut next = self.clone();
        batch.steps().iter().try_for_each(|step| next.step(step))?;
        let new_holds = std::mem::take(&mut next.new_holds);
        next.holds.extend(new_holds);
        next.keys.insert(batch.key().to_string(), batch.steps().to_vec());
        let sum: i128 = next.accounts.values().map(|account| account.0).sum();
        assert_eq!(sum, 0);
        *self = next;
        Ok(true)
    }

    fn step(&mut self, step: &Step) -> Result<(), &'static str> {
        match step {
            Step::Open(terms) => {
                let (name, floor) = (terms.account.to_string(), terms.floor.lowest());
                match self.accounts.get(&name) {
                    Some(known) if known.2 == floor => return Ok(()),
                    Some(_) => return Err("other_terms"),
                    None => drop(self.accounts.insert(name, (0, 0, floor))),
                }
            }
            Step::Transfer(moved) => {
                self.spend(moved.from.as_str(), moved.to.as_str(), moved.amount.get())?;
                self.shift(moved.from.as_str(), moved.to.as_str(), moved.amount.get());
            }
            Step::Hold(moved) => {
                let (from, to) = (moved.from.to_string(), moved.to.to_string());
                self.spend(&from, &to, moved.amount.get())?;
                self.accounts.get_mut(&from).unwrap().1 += moved.amount.get();
                self.new_holds.insert(self.entries + 1, (from, to, moved.amount.get()));
            }
            Step::Settle(number) | Step::Void(number) => {
                let (from, to, amount) = self.holds.remove(number).ok_or("no_open_hold")?;
                self.accounts.get_mut(&from).unwrap().1 -= amount;
                if matches!(step, Step::Settle(_)) {
                    self.shift(&from, &to, amount);
                }
            }
        }
        self.entries += 1;
        Ok(())
    }

    fn spend(&self, from: &str, to: &str, amount: i128) -> Result<(), &'static str> {
        let (balance, held, floor) = self.accounts.get(from).ok_or("unknown_account")?;
        self.accounts.get(to).ok_or("unknown_account")?;
        match floor {
            Some(floor) if balance - held - amount < *floor => Err("insufficient"),
            _ => Ok(()),
        }
    }

    fn shift(&mut self, from: &str, to: &str, amount: i128) {
        self.accounts.get_mut(from).unwrap().0 -= amount;
        self.accounts.get_mut(to).unwrap().0 += amount;
    }
}

fn random_step(chance: &mut Chance, model: &Model) -> Step {
    let name = |number: u64| format!("account/{number}");
    let from = chance.below(6);
    let to = (from + 1 + chance.below(5)) % 6;
    let amount = 1 + chance.below(60);
    match chance.below(10) {
        0 => open(
            &name(from),
            if from == 0 { Floor::Unlimited } else { Floor::Overdraft((from % 2 * 20).into()) },
        ),
        1 => open(&name(from), Floor::Overdraft(99.into())),
        2..=6 => pay(&name(from), &name(to), amount),
        7 => hold(&name(from), &name(to), amount),
        kind => {
            let open: Vec<u64> = model.holds.keys().copied().collect();
            let number = match chance.below(4) {
                0 => chance.below(model.entries + 2),
                _ if open.is_empty() => 1,
                _ => open[usize::try_from(chance.below(open.len() as u64)).unwrap()],
            };
            if kind == 8 { Step::Settle(number) } else { Step::Void(number) }
        }
    }
}

fn random_batches_do_what_a_naive_model_does(place: &Place) {
    let mut chance = Chance(seed());
    let (mut ledger, mut model) = (place.open(), Model::default());
    for turn in 0..size(250, 20_000) {
        let steps = (0..=chance.below(4)).map(|_| random_step(&mut chance, &model)).collect();
        // Now and then a key that was used, or will be.
        let posted = batch(&chance.below(turn * 2 + 10).to_string(), steps);
        let expected = model.post(&posted);
        let code = match ledger.post(&posted) {
            Ok(posted) => Ok(!posted.replayed),
            Err(LedgerError::Refused(refusal)) if refusal.code().ends_with("hold") => Err("no_open_hold"),
            Err(LedgerError::Refused(refusal)) if refusal.code() == "hold_closed" => Err("no_open_hold"),
            Err(other) => Err(other.code()),
        };
        assert_eq!(code, expected, "turn {turn}: {posted:?}");
        if place.is_kept() && chance.below(50) == 0 {
            ledger = place.open();
        }
    }
    for (name, (balance, held, floor)) in &model.accounts {
        let account = ledger.account(&id(name)).unwrap().unwrap();
        assert_eq!(
            (account.balance, account.held, account.floor.lowest()),
            (*balance, *held, *floor),
            "{name}"
        );
    }
    let tally = verify(&mut *ledger.snapshot().unwrap(), &[]).unwrap();
    assert_eq!((tally.entries, tally.requests), (model.entries, model.keys.len() as u64));
}
