//! `parked.json`: payouts whose receivers cannot be paid, and where they are kept for them.

use types::ActorId;

use crate::{Amount, DocumentError, Epoch, Json, json::fields::Fields};

/// A payout that is kept in an account of its own, because the receiver's cannot take it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParkedPayout {
    /// The actor whose payout is parked.
    pub actor: ActorId,
    /// The parked amount.
    pub amount: Amount,
    /// The ledger's account that it is in.
    pub account: String,
    /// The reason, as one word.
    pub reason: String,
    /// A sentence for people.
    pub detail: String,
}

/// The payouts of an epoch that are parked, in the order of their actors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParkedPayouts {
    /// The epoch whose payouts were parked.
    pub epoch: Epoch,
    /// The parked payouts, at most one per actor.
    pub payouts: Vec<ParkedPayout>,
}

impl ParkedPayouts {
    /// The `format` of the document.
    pub const FORMAT: &str = "omnigate-parked/1";

    /// Takes in one more, unless the actor's is known: why it was parked at first is what counts.
    pub fn add(&mut self, payout: ParkedPayout) {
        if let Err(at) = self.payouts.binary_search_by(|known| known.actor.cmp(&payout.actor)) {
            self.payouts.insert(at, payout);
        }
    }

    /// The document, in canonical JSON.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let payout = |payout: &ParkedPayout| {
            Json::map([
                ("account", Json::text(&payout.account)),
                ("actor", Json::text(&payout.actor)),
                ("amount", Json::text(payout.amount)),
                ("detail", Json::text(&payout.detail)),
                ("reason", Json::text(&payout.reason)),
            ])
        };
        Json::map([
            ("epoch", Json::Int(self.epoch.int())),
            ("format", Json::text(Self::FORMAT)),
            ("payouts", Json::List(self.payouts.iter().map(payout).collect())),
        ])
        .to_canonical()
    }

    /// Reads a document.
    ///
    /// # Errors
    /// [`DocumentError`], if it is not canonical, lacks something, or is not in the order of actors.
    pub fn read(bytes: &[u8]) -> Result<Self, DocumentError> {
        let mut fields = Fields::of_document(Json::read_canonical(bytes)?, Self::FORMAT)?;
        let epoch = fields.int("epoch")?.into();
        let payouts = fields.list("payouts")?.into_iter().map(one).collect::<Result<Vec<_>, _>>()?;
        fields.end()?;
        let in_order = payouts.windows(2).all(|pair| pair[0].actor < pair[1].actor);
        if in_order { Ok(Self { epoch, payouts }) } else { Err(DocumentError::Wrong("payouts")) }
    }
}

fn one(json: Json) -> Result<ParkedPayout, DocumentError> {
    let mut fields = Fields::of(json, "payouts")?;
    let text = |text: &str| Ok::<_, ()>(text.to_owned());
    let payout = ParkedPayout {
        actor: fields.text("actor", ActorId::new)?,
        amount: fields.parsed("amount")?,
        account: fields.text("account", text)?,
        reason: fields.text("reason", text)?,
        detail: fields.text("detail", text)?,
    };
    fields.end()?;
    Ok(payout)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn parked_payouts_are_written_in_order_and_read_again() {
        let payout = |name: &str, reason: &str| ParkedPayout {
            actor: ActorId::new(name).unwrap(),
            amount: Amount::from(7_u64),
            account: format!("parked/{name}"),
            reason: reason.to_owned(),
            detail: "it counts something else".to_owned(),
        };
        let mut parked = ParkedPayouts { epoch: Epoch::new(7).unwrap(), payouts: Vec::new() };
        for (name, reason) in [("bo", "asset_mismatch"), ("ada", "overflow"), ("bo", "later")] {
            parked.add(payout(name, reason));
        }
        let reasons: Vec<_> = parked.payouts.iter().map(|payout| payout.reason.as_str()).collect();
        assert_eq!(reasons, ["overflow", "asset_mismatch"], "in order, and the first word stands");
        assert_eq!(ParkedPayouts::read(&parked.to_bytes()).unwrap(), parked);
        parked.payouts.swap(0, 1);
        assert_eq!(ParkedPayouts::read(&parked.to_bytes()), Err(DocumentError::Wrong("payouts")));
    }
}
