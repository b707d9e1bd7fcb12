//! `parked.json`: payouts whose receivers cannot be paid, and where they are kept for them.

use types::ActorId;

use crate::{Amount, DocumentError, Epoch, Json, json::fields::Fields};

/// A payout that is kept in an account of its own, because the receiver's cannot take it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParkedPayout {
    /// The actor whose payout is parked; `None` for the residual, and in a list that does not name actors.
    pub actor: Option<ActorId>,
    /// The receiver that could not be paid: the actor, or its payee.
    pub receiver: ActorId,
    /// The parked amount.
    pub amount: Amount,
    /// The ledger's account that it is in.
    pub account: String,
    /// The reason, as one word.
    pub reason: String,
    /// A sentence for people.
    pub detail: String,
}

/// The payouts of an epoch that are parked, in the order of their actors, the residual last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParkedPayouts {
    /// The epoch whose payouts were parked.
    pub epoch: Epoch,
    /// Whether the list names actors. One of the first format names receivers alone, in their order, and each once.
    pub names_actors: bool,
    /// The parked payouts, at most one per actor, and the residual.
    pub payouts: Vec<ParkedPayout>,
}

impl ParkedPayout {
    /// The account in which payouts of a receiver are kept.
    #[must_use]
    pub fn account_of(receiver: &str) -> String {
        format!("parked/{receiver}")
    }

    /// The account in which payouts of a receiver are kept if the usual one cannot take them: one for each asset.
    #[must_use]
    pub fn account_in_asset(receiver: &str, asset: &str) -> String {
        format!("parked-{asset}/{receiver}")
    }

    /// Whether the account is one in which payouts of the receiver are kept.
    #[must_use]
    pub fn is_in_place(&self) -> bool {
        let receiver = self.receiver.as_str();
        let asset = self.account.strip_prefix("parked-").and_then(|rest| rest.split_once('/'));
        let is_asset =
            |name: &str| (2..=12).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_uppercase());
        self.account == Self::account_of(receiver)
            || asset.is_some_and(|(asset, name)| is_asset(asset) && name == receiver)
    }

    /// Sorts the residual behind all actors.
    fn order(&self) -> (bool, Option<&ActorId>) {
        (self.actor.is_none(), self.actor.as_ref())
    }
}

impl ParkedPayouts {
    /// The `format` of a document that names actors.
    pub const FORMAT: &str = "omnigate-parked/2";

    /// The `format` of a document that names receivers alone.
    pub const FIRST_FORMAT: &str = "omnigate-parked/1";

    /// A list without payouts.
    #[must_use]
    pub const fn new(epoch: Epoch) -> Self {
        Self { epoch, names_actors: true, payouts: Vec::new() }
    }

    /// Takes in one more, unless the actor's is known: why it was parked at first is what counts. A list that does not name
    /// actors does from then on.
    pub fn add(&mut self, payout: ParkedPayout) {
        if !self.names_actors {
            self.names_actors = true;
            self.payouts.iter_mut().for_each(|known| known.actor = Some(known.receiver.clone()));
        }
        if let Err(at) = self.payouts.binary_search_by(|known| known.order().cmp(&payout.order())) {
            self.payouts.insert(at, payout);
        }
    }

    /// The document, in canonical JSON.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let payout = |payout: &ParkedPayout| {
            let receiver = Json::text(&payout.receiver);
            let account = ("account", Json::text(&payout.account));
            let amount = ("amount", Json::text(payout.amount));
            let detail = ("detail", Json::text(&payout.detail));
            let reason = ("reason", Json::text(&payout.reason));
            if self.names_actors {
                let actor = payout.actor.as_ref().map_or(Json::Null, Json::text);
                Json::map([account, ("actor", actor), amount, detail, reason, ("receiver", receiver)])
            } else {
                Json::map([account, ("actor", receiver), amount, detail, reason])
            }
        };
        let format = if self.names_actors { Self::FORMAT } else { Self::FIRST_FORMAT };
        Json::map([
            ("epoch", Json::Int(self.epoch.int())),
            ("format", Json::text(format)),
            ("payouts", Json::List(self.payouts.iter().map(payout).collect())),
        ])
        .to_canonical()
    }

    /// Reads a document of either format.
    ///
    /// # Errors
    /// [`DocumentError`], if it is not canonical, lacks something, or is not in order.
    pub fn read(bytes: &[u8]) -> Result<Self, DocumentError> {
        let json = Json::read_canonical(bytes)?;
        let (mut fields, names_actors) = match Fields::of_document(json.clone(), Self::FORMAT) {
            Ok(fields) => (fields, true),
            Err(error) => (Fields::of_document(json, Self::FIRST_FORMAT).map_err(|_| error)?, false),
        };
        let epoch = fields.int("epoch")?.into();
        let payouts = fields.list("payouts")?.into_iter().map(|json| one(json, names_actors));
        let payouts = payouts.collect::<Result<Vec<_>, _>>()?;
        fields.end()?;
        let follows = |pair: &[ParkedPayout]| {
            if names_actors { pair[0].order() < pair[1].order() } else { pair[0].receiver < pair[1].receiver }
        };
        let in_order = payouts.windows(2).all(follows);
        if in_order {
            Ok(Self { epoch, names_actors, payouts })
        } else {
            Err(DocumentError::Wrong("payouts"))
        }
    }
}

fn one(json: Json, names_actors: bool) -> Result<ParkedPayout, DocumentError> {
    let mut fields = Fields::of(json, "payouts")?;
    let text = |text: &str| Ok::<_, ()>(text.to_owned());
    let (actor, receiver) = if names_actors {
        let actor = match fields.take("actor")? {
            Json::Null => None,
            Json::Text(name) => Some(ActorId::new(&name).map_err(|_| DocumentError::Wrong("actor"))?),
            _ => return Err(DocumentError::Wrong("actor")),
        };
        (actor, fields.text("receiver", ActorId::new)?)
    } else {
        (None, fields.text("actor", ActorId::new)?)
    };
    let payout = ParkedPayout {
        actor,
        receiver,
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

    fn payout(actor: Option<&str>, receiver: &str, reason: &str) -> ParkedPayout {
        ParkedPayout {
            actor: actor.map(|name| ActorId::new(name).unwrap()),
            receiver: ActorId::new(receiver).unwrap(),
            amount: Amount::from(7_u64),
            account: ParkedPayout::account_of(receiver),
            reason: reason.to_owned(),
            detail: "it counts something else".to_owned(),
        }
    }

    #[test]
    fn parked_payouts_are_written_in_order_and_read_again() {
        let mut parked = ParkedPayouts::new(Epoch::new(7).unwrap());
        parked.add(payout(None, "bo", "same_account"));
        for (actor, reason) in [("bo", "asset_mismatch"), ("ada", "overflow"), ("bo", "later")] {
            parked.add(payout(Some(actor), "bo", reason));
        }
        let reasons: Vec<_> = parked.payouts.iter().map(|payout| payout.reason.as_str()).collect();
        let expected = ["overflow", "asset_mismatch", "same_account"];
        assert_eq!(reasons, expected, "in order, all of one receiver, and the first word stands");
        assert_eq!(ParkedPayouts::read(&parked.to_bytes()).unwrap(), parked);
        parked.payouts.swap(0, 1);
        assert_eq!(ParkedPayouts::read(&parked.to_bytes()), Err(DocumentError::Wrong("payouts")));
        parked.payouts = vec![payout(None, "ada", "overflow"), payout(None, "bo", "overflow")];
        assert!(ParkedPayouts::read(&parked.to_bytes()).is_err(), "there is one residual");
    }

    #[test]
    fn a_list_that_does_not_name_actors_is_read_and_names_them_with_the_next_payout() {
        let document = br#"{"epoch":7,"format":"omnigate-parked/1","payouts":[{"account":"parked/bo","actor":"bo","amount":"7","detail":"it counts something else","reason":"overflow"}]}"#;
        let mut parked = ParkedPayouts::read(document).unwrap();
        assert_eq!(parked.payouts, [payout(None, "bo", "overflow")]);
        assert_eq!(parked.to_bytes(), document);
        parked.add(payout(Some("ada"), "ada", "overflow"));
        let actors: Vec<_> = parked.payouts.iter().map(|payout| payout.actor.as_ref().unwrap()).collect();
        assert_eq!(actors, [&ActorId::new("ada").unwrap(), &ActorId::new("bo").unwrap()]);
    }

    #[test]
    fn a_receiver_has_one_account_and_one_for_each_asset() {
        let at = |account: &str| {
            ParkedPayout { account: account.to_owned(), ..payout(None, "GOLD/bo", "overflow") }.is_in_place()
        };
        assert!(at("parked/GOLD/bo") && at("parked-GOLD/GOLD/bo") && at("parked-CREDIT/GOLD/bo"));
        for account in
            ["parked/bo", "parked-GOLD/bo", "parked-gold/GOLD/bo", "parked-G/GOLD/bo", "GOLD/bo", ""]
        {
            assert!(!at(account), "{account}");
        }
    }
}
