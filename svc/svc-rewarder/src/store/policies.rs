//! Signed policies in the store, by their versions.

use super::{Changed, EpochStore, StoreError, database::Value, missing, record};

/// A policy as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptPolicy {
    /// The id of the policy.
    pub id: String,
    /// The version of the policy.
    pub version: u64,
    /// The digest of the policy.
    pub digest: String,
    /// The signed document.
    pub document: String,
}

impl EpochStore {
    /// Keeps a policy; of one id and version the first one stays. Says what is kept.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn keep_policy(&self, policy: &KeptPolicy) -> Result<KeptPolicy, StoreError> {
        let put = "INSERT INTO rewarder_policies (id, version, digest, document) VALUES ($1, $2, $3, $4)
                   ON CONFLICT DO NOTHING";
        let (id, version) = (Value::text(&policy.id), Value::number(policy.version));
        let parameters =
            [id.clone(), version.clone(), Value::text(&policy.digest), Value::text(&policy.document)];
        self.0.execute(put, &parameters)?;
        let find =
            "SELECT id, version, digest, document FROM rewarder_policies WHERE id = $1 AND version = $2";
        self.0.query(find, &[id, version])?.pop().map_or_else(missing, kept)
    }

    /// Keeps other signatures on a policy that is kept.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn sign_policy(&self, policy: &KeptPolicy) -> Result<Changed, StoreError> {
        let change =
            "UPDATE rewarder_policies SET document = $1 WHERE id = $2 AND version = $3 AND digest = $4";
        let (document, id) = (Value::text(&policy.document), Value::text(&policy.id));
        self.change(change, &[document, id, Value::number(policy.version), Value::text(&policy.digest)])
    }

    /// The newest version of a policy, up to `last` if that is given.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn policy(&self, id: &str, last: Option<u64>) -> Result<Option<KeptPolicy>, StoreError> {
        let find =
            "SELECT id, version, digest, document FROM rewarder_policies WHERE id = $1 AND version <= $2
                    ORDER BY version DESC LIMIT 1";
        let last = Value::number(last.unwrap_or((1 << 53) - 1));
        self.0.query(find, &[Value::text(id), last])?.pop().map(kept).transpose()
    }
}

fn kept(columns: Vec<Value>) -> Result<KeptPolicy, StoreError> {
    let mut columns = columns.into_iter();
    let mut next = || columns.next().map_or_else(missing, Ok);
    Ok(KeptPolicy {
        id: record::text(next()?)?,
        version: record::count(&next()?)?,
        digest: record::text(next()?)?,
        document: record::text(next()?)?,
    })
}
