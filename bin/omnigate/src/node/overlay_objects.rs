//! The overlay's objects as the gateway's routes lead to them.

use std::ops::Range;

use ron_transport::Body;
use svc_gateway::{Finding, FoundObject, ObjectSource};
use svc_overlay::{Object, ObjectStore};
use types::ObjectId;

use crate::object_body::object_body;

/// The objects of this node and its peers.
#[derive(Debug)]
pub(super) struct OverlayObjects(pub(super) ObjectStore);

/// One of them.
struct Found(Object);

impl ObjectSource for OverlayObjects {
    fn open(&self, id: ObjectId) -> Finding<'_, Option<Box<dyn FoundObject>>> {
        Box::pin(async move {
            let object = self.0.open(id).await?;
            Ok(object.map(|object| Box::new(Found(object)) as Box<dyn FoundObject>))
        })
    }
}

impl FoundObject for Found {
    fn length(&self) -> u64 {
        self.0.len()
    }

    fn read(self: Box<Self>, range: Range<u64>) -> Finding<'static, Body> {
        Box::pin(async move { object_body(self.0.read(range).await?).await })
    }
}
