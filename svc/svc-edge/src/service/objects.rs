//! `/edge/cas/…`: objects by their content id.

use http::HeaderValue;
use types::{ObjectId, Reason, Refusal};

use super::{Answer, Visit};
use crate::{
    ingress::Place,
    serve::{Class, Representation, Source, tag},
};

/// What an object is, if nobody said so.
const BYTES: HeaderValue = HeaderValue::from_static("application/octet-stream");

impl Visit<'_> {
    /// An object that is in RAM.
    pub(super) fn hot_object(&self, text: &str) -> Option<Answer> {
        let id = match object_id(text) {
            Ok(id) => id,
            Err(refusal) => return Some(Err(refusal.into())),
        };
        let bytes = self.shared().objects.hot(&id)?;
        self.shared().metrics.hits.inc();
        let representation = Representation::new(Source::Ram(bytes.clone()), tag(id), BYTES);
        Some(self.ram(&representation, &bytes, Class::Object))
    }

    /// Any object of the store.
    pub(super) async fn object(&self, text: &str, place: Place) -> Answer {
        let id = object_id(text)?;
        let objects = &self.shared().objects;
        let Some(source) = objects.find(id).await? else {
            self.shared().metrics.misses.inc();
            return Err(if objects.is_gone(id) {
                Refusal::from(Reason::Gone).into()
            } else {
                Refusal::new(Reason::NotFound, "this object is not stored here").into()
            });
        };
        self.shared().metrics.hits.inc();
        let representation = Representation::new(source, tag(id), BYTES);
        self.represent(&representation, Class::Object, place).await
    }
}

fn object_id(text: &str) -> Result<ObjectId, Refusal> {
    text.parse()
        .map_err(|_| Refusal::new(Reason::Malformed, "an object is requested by b3: and 64 hex digits"))
}
