//! A policy's terms as JSON, both ways.

use std::collections::BTreeMap;

use types::ActorId;

use super::{Policy, PolicyError, PolicyTerms, Residual};
use crate::{DocumentError, Json, Metric, PolicyId, Ruleset, json::fields::Fields};

impl PolicyTerms {
    /// The `format` of the document.
    pub const FORMAT: &str = "omnigate-policy/1";

    /// The terms as JSON.
    #[must_use]
    pub fn json(&self) -> Json {
        let weight = |(metric, weight): (&Metric, &u32)| {
            (metric.as_str().to_owned().into(), Json::Int((*weight).into()))
        };
        Json::map([
            ("cap_ppm", Json::Int(self.cap_ppm.into())),
            ("first_epoch", Json::Int(self.first_epoch.int())),
            ("format", Json::text(Self::FORMAT)),
            ("id", Json::text(&self.id)),
            ("last_epoch", self.last_epoch.map_or(Json::Null, |epoch| Json::Int(epoch.int()))),
            ("min_payout", Json::text(self.min_payout)),
            ("pool", Json::text(self.pool)),
            ("residual", self.residual.json()),
            ("ruleset", Json::Int(self.ruleset.number().into())),
            ("version", Json::Int(self.version)),
            ("weights_ppm", Json::Map(self.weights_ppm.iter().map(weight).collect())),
        ])
    }

    fn from_json(json: Json) -> Result<Self, PolicyError> {
        let mut fields = Fields::of_document(json, Self::FORMAT)?;
        let ruleset = fields.int("ruleset")?.get();
        let terms = Self {
            id: fields.text("id", PolicyId::new)?,
            version: fields.int("version")?,
            ruleset: Ruleset::from_number(ruleset).ok_or(PolicyError::UnknownRuleset(ruleset))?,
            pool: fields.parsed("pool")?,
            weights_ppm: weights(fields.map("weights_ppm")?)?,
            cap_ppm: small(fields.take("cap_ppm")?, "cap_ppm")?,
            min_payout: fields.parsed("min_payout")?,
            residual: Residual::from_json(fields.take("residual")?)?,
            first_epoch: fields.int("first_epoch")?.into(),
            last_epoch: match fields.take("last_epoch")? {
                Json::Null => None,
                Json::Int(number) => Some(number.into()),
                _ => return Err(DocumentError::Wrong("last_epoch").into()),
            },
        };
        fields.end()?;
        Ok(terms)
    }
}

impl Policy {
    /// Reads terms of any layout, as a person writes them down before they are signed.
    ///
    /// # Errors
    /// [`PolicyError`], if they cannot be read or make no sense.
    pub fn read(bytes: &[u8]) -> Result<Self, PolicyError> {
        Self::from_json(Json::read(bytes).map_err(DocumentError::from)?)
    }

    pub(super) fn from_json(json: Json) -> Result<Self, PolicyError> {
        Self::new(PolicyTerms::from_json(json)?)
    }

    /// The terms in canonical JSON: what is hashed and signed.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        self.terms.json().to_canonical()
    }
}

impl Residual {
    fn json(&self) -> Json {
        match self {
            Self::Keep => Json::map([("rule", Json::text("keep"))]),
            Self::Pay(to) => Json::map([("rule", Json::text("pay")), ("to", Json::text(to))]),
        }
    }

    fn from_json(json: Json) -> Result<Self, DocumentError> {
        let mut fields = Fields::of(json, "residual")?;
        let residual = match fields.text("rule", |rule| Ok::<_, ()>(rule.to_owned()))?.as_str() {
            "keep" => Self::Keep,
            "pay" => Self::Pay(fields.text("to", ActorId::new)?),
            _ => return Err(DocumentError::Wrong("residual")),
        };
        fields.end()?;
        Ok(residual)
    }
}

fn weights(fields: Fields) -> Result<BTreeMap<Metric, u32>, DocumentError> {
    let weight = |(name, value): (std::borrow::Cow<'static, str>, Json)| {
        let metric = Metric::new(&name).map_err(|_| DocumentError::Wrong("weights_ppm"))?;
        Ok((metric, small(value, "weights_ppm")?))
    };
    fields.rest().map(weight).collect()
}

fn small(json: Json, name: &'static str) -> Result<u32, DocumentError> {
    match json {
        Json::Int(number) => u32::try_from(number.get()).map_err(|_| DocumentError::Wrong(name)),
        _ => Err(DocumentError::Wrong(name)),
    }
}
