//! A map taken apart field by field, until nothing is left over.

use std::{borrow::Cow, collections::BTreeMap, str::FromStr};

use super::{Int, Json, JsonError};

/// Why a document of record was not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DocumentError {
    /// The document is not valid JSON.
    #[error(transparent)]
    Json(#[from] JsonError),
    /// A field is missing.
    #[error("`{0}` is missing")]
    Missing(&'static str),
    /// A field has a value it cannot have.
    #[error("`{0}` has a value it cannot have")]
    Wrong(&'static str),
    /// A field that this format does not have. It might change what the document means.
    #[error("`{0}` is not a field of this document")]
    Unknown(String),
    /// It is of another kind or of a version that this program does not know.
    #[error("the format is not `{0}`")]
    Format(&'static str),
}

/// The fields of a map that were not taken yet.
pub(crate) struct Fields(BTreeMap<Cow<'static, str>, Json>);

impl Fields {
    /// The fields of a document, after its `format` was found to be the expected one.
    pub(crate) fn of_document(json: Json, format: &'static str) -> Result<Self, DocumentError> {
        let mut fields = Self::of(json, "document")?;
        match fields.0.remove("format") {
            Some(Json::Text(found)) if found == format => Ok(fields),
            _ => Err(DocumentError::Format(format)),
        }
    }

    /// The fields of `json`, which is called `name` where it stands.
    pub(crate) fn of(json: Json, name: &'static str) -> Result<Self, DocumentError> {
        match json {
            Json::Map(fields) => Ok(Self(fields)),
            _ => Err(DocumentError::Wrong(name)),
        }
    }

    /// Whether a field is there and was not taken yet.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    pub(crate) fn take(&mut self, name: &'static str) -> Result<Json, DocumentError> {
        self.0.remove(name).ok_or(DocumentError::Missing(name))
    }

    pub(crate) fn int(&mut self, name: &'static str) -> Result<Int, DocumentError> {
        match self.take(name)? {
            Json::Int(number) => Ok(number),
            _ => Err(DocumentError::Wrong(name)),
        }
    }

    /// A field that is written as a string, read with `read`.
    pub(crate) fn text<T, E>(
        &mut self,
        name: &'static str,
        read: impl FnOnce(&str) -> Result<T, E>,
    ) -> Result<T, DocumentError> {
        match self.take(name)? {
            Json::Text(text) => read(&text).map_err(|_| DocumentError::Wrong(name)),
            _ => Err(DocumentError::Wrong(name)),
        }
    }

    pub(crate) fn parsed<T: FromStr>(&mut self, name: &'static str) -> Result<T, DocumentError> {
        self.text(name, str::parse)
    }

    pub(crate) fn list(&mut self, name: &'static str) -> Result<Vec<Json>, DocumentError> {
        match self.take(name)? {
            Json::List(items) => Ok(items),
            _ => Err(DocumentError::Wrong(name)),
        }
    }

    pub(crate) fn map(&mut self, name: &'static str) -> Result<Self, DocumentError> {
        Self::of(self.take(name)?, name)
    }

    /// What is left, in the order of names.
    pub(crate) fn rest(self) -> impl Iterator<Item = (Cow<'static, str>, Json)> {
        self.0.into_iter()
    }

    /// Nothing may be left.
    pub(crate) fn end(self) -> Result<(), DocumentError> {
        match self.0.into_keys().next() {
            Some(name) => Err(DocumentError::Unknown(name.into_owned())),
            None => Ok(()),
        }
    }
}
