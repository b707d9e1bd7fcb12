//! An order about an epoch that was set aside, or is to be: signed by whoever signs policies, and published with the epoch.

use types::ActorId;

use crate::{
    DocumentError, Epoch, Json, PublicKey, Sign, SignatureError, Verify, correction::reason,
    json::fields::Fields, signatures::Signatures,
};

/// What is to be done with an epoch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Set it aside: nothing more of it is paid.
    Hold,
    /// Take it up again where it was set aside.
    Release,
    /// Compute it without the snapshot of this node.
    Exclude(ActorId),
}

/// The content of an order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    /// The epoch that it is about.
    pub epoch: Epoch,
    /// The action to carry out.
    pub action: Action,
    /// Why, for people. It is published.
    pub reason: String,
}

/// An order with its signatures, not judged yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedOrder {
    order: Order,
    signatures: Signatures,
}

impl Order {
    /// The `format` of the document.
    pub const FORMAT: &str = "omnigate-order/1";

    fn json(&self) -> Json {
        let (action, node) = match &self.action {
            Action::Hold => ("hold", Json::Null),
            Action::Release => ("release", Json::Null),
            Action::Exclude(node) => ("exclude", Json::text(node)),
        };
        Json::map([
            ("action", Json::text(action)),
            ("epoch", Json::Int(self.epoch.int())),
            ("format", Json::text(Self::FORMAT)),
            ("node", node),
            ("reason", Json::text(&self.reason)),
        ])
    }

    fn from_json(json: Json) -> Result<Self, DocumentError> {
        let mut fields = Fields::of_document(json, Self::FORMAT)?;
        let action = fields.text("action", |text| Ok::<_, ()>(text.to_owned()))?;
        let action = match (action.as_str(), fields.take("node")?) {
            ("hold", Json::Null) => Action::Hold,
            ("release", Json::Null) => Action::Release,
            ("exclude", Json::Text(node)) => {
                Action::Exclude(ActorId::new(&node).map_err(|_| DocumentError::Wrong("node"))?)
            }
            ("hold" | "release" | "exclude", _) => return Err(DocumentError::Wrong("node")),
            _ => return Err(DocumentError::Wrong("action")),
        };
        let order =
            Self { epoch: fields.int("epoch")?.into(), action, reason: fields.text("reason", reason)? };
        fields.end()?;
        Ok(order)
    }
}

impl SignedOrder {
    /// The `format` of the document.
    pub const FORMAT: &str = "omnigate-signed-order/1";

    /// An order that nobody signed yet.
    #[must_use]
    pub fn unsigned(order: Order) -> Self {
        Self { order, signatures: Signatures::default() }
    }

    /// The same with one more signature.
    #[must_use]
    pub fn signed_by(mut self, signer: &dyn Sign) -> Self {
        self.signatures.add(signer, &message(&self.order));
        self
    }

    /// The order, judged by nobody.
    #[must_use]
    pub const fn order(&self) -> &Order {
        &self.order
    }

    /// The keys that it claims to be signed with.
    pub fn keys(&self) -> impl Iterator<Item = &PublicKey> {
        self.signatures.keys()
    }

    /// The order, if a trusted key signed it and no trusted key's signature is wrong.
    ///
    /// # Errors
    /// [`SignatureError`] if not.
    pub fn judge(&self, trusted: &[PublicKey], verify: &dyn Verify) -> Result<&Order, SignatureError> {
        self.signatures.judge(&message(&self.order), trusted, verify)?;
        Ok(&self.order)
    }

    /// The document, in canonical JSON.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        Json::map([
            ("format", Json::text(Self::FORMAT)),
            ("order", self.order.json()),
            ("signatures", self.signatures.json()),
        ])
        .to_canonical()
    }

    /// Reads a document. No signature is checked.
    ///
    /// # Errors
    /// [`DocumentError`], if it is not canonical or lacks something.
    pub fn read(bytes: &[u8]) -> Result<Self, DocumentError> {
        let mut fields = Fields::of_document(Json::read_canonical(bytes)?, Self::FORMAT)?;
        let order = Order::from_json(fields.take("order")?)?;
        let signatures = Signatures::from_json(fields.list("signatures")?)?;
        fields.end()?;
        Ok(Self { order, signatures })
    }
}

fn message(order: &Order) -> Vec<u8> {
    [b"omnigate.rewards.order.1\n", order.json().to_canonical().as_slice()].concat()
}
