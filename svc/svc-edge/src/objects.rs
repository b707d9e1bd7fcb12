//! Objects of the store: from RAM, or read from a disk and checked; set aside when they are damaged.

use std::{path::Path, sync::Arc};

use bytes::Bytes;
use cas::{Cas, Hot, Limits, OpenError, ReadError, Verified};
use ron_kernel::{
    Scope,
    supervisor::Children,
    topology::{ChildSpec, Plane, Stage},
};
use types::{ObjectId, Reason, Refusal};

use crate::{
    CasConfig, Mode,
    assets::Damages,
    flights::Flights,
    serve::{Owner, Source},
};

/// The largest object that is kept in RAM.
const HOT_MAX: u64 = 1024 * 1024;

/// Looks at a damaged object and sets it aside.
pub(crate) const QUARANTINE: ChildSpec = ChildSpec {
    kind: "quarantine",
    plane: Plane::Data,
    stop: Stage::Workers,
    bound: "one per response that met damage",
    doc: "checks an object that was found damaged, on the blocking pool, and quarantines it",
};

/// The store and its RAM tier.
#[derive(Clone, Debug)]
pub(crate) struct Objects {
    pub(crate) cas: Arc<Cas>,
    pub(crate) hot: Arc<Hot>,
    scope: Scope,
    /// Objects that are being opened: a thousand who waited for one fill all want the same.
    opening: Arc<Flights<Opened>>,
    /// Damaged objects that are being looked at, each once: a look reads all of the object, and others would wait for it on
    /// threads that everybody needs.
    looks: Arc<Flights<()>>,
    quarantine: Children,
    damages: Arc<Damages>,
}

type Opened = Result<Option<Source>, Refusal>;

impl Objects {
    /// Opens the store that is configured; in memory where nothing may be written, or there is nothing to write. On a full
    /// disk it is the store that is there, to be read, or one in memory; says why then. Blocking.
    ///
    /// # Errors
    /// The folder cannot be used.
    pub(crate) fn open(
        config: &CasConfig,
        mode: Mode,
        data_dir: Option<&Path>,
    ) -> Result<(Cas, Option<String>), OpenError> {
        let in_memory =
            || Cas::in_memory(Limits { max_bytes: config.ram_bytes.as_u64(), ..Limits::default() });
        let Some(data_dir) = data_dir else { return Ok((in_memory(), None)) };
        let limits = Limits { max_bytes: config.max_bytes.as_u64(), ..Limits::default() };
        let folder = config.folder(data_dir);
        // A node that fills nothing does not need a folder to keep it in.
        if mode == Mode::Offline && !folder.is_dir() {
            return Ok((Cas::in_memory(limits), None));
        }
        match Cas::at(&folder, limits) {
            Err(error @ OpenError::Io { .. }) if error.is_full() => {
                tracing::error!(%error, "objects are not stored");
                let there = Cas::visit(&folder, limits).unwrap_or_else(|_| in_memory());
                Ok((there, Some(error.to_string())))
            }
            opened => opened.map(|cas| (cas, None)),
        }
    }

    pub(crate) fn new(scope: &Scope, cas: Cas, ram_bytes: u64, damages: Arc<Damages>) -> Self {
        Self {
            cas: Arc::new(cas),
            hot: Arc::new(Hot::new(ram_bytes, HOT_MAX)),
            scope: scope.clone(),
            opening: Arc::default(),
            looks: Arc::default(),
            quarantine: scope.children(&QUARANTINE),
            damages,
        }
    }

    /// An object that is in RAM.
    pub(crate) fn hot(&self, id: &ObjectId) -> Option<Bytes> {
        self.hot.get(id)
    }

    /// Where an object's bytes are; `None` if it is not stored.
    ///
    /// Cancel safe.
    ///
    /// # Errors
    /// It is damaged, or cannot be read.
    pub(crate) async fn find(&self, id: ObjectId) -> Result<Option<Source>, Refusal> {
        if let Some(bytes) = self.hot(&id) {
            return Ok(Some(Source::Ram(bytes)));
        }
        let this = self.clone();
        let open = move || this.open_now(id);
        let blocking = self.scope.blocking();
        Flights::load(&self.opening, &id.to_string(), blocking, "open an object", open).await?
    }

    fn open_now(&self, id: ObjectId) -> Opened {
        let source =
            self.cas.open(id).and_then(|found| found.map(|object| self.source(id, object)).transpose());
        source.map_err(|error| match error {
            ReadError::Corrupt { .. } => {
                self.set_aside(id, &error.to_string());
                Reason::Quarantined.into()
            }
            ReadError::Io(_) | ReadError::OutOfRange => {
                tracing::warn!(%id, %error, "an object could not be read");
                Refusal::new(Reason::Internal, "the object cannot be read")
            }
        })
    }

    fn source(&self, id: ObjectId, object: Verified) -> Result<Source, ReadError> {
        if let Some(bytes) = object.in_memory() {
            return Ok(Source::Ram(bytes.clone()));
        }
        if let Some(bytes) = self.hot.load(&object)? {
            return Ok(Source::Ram(bytes));
        }
        let owner: Arc<dyn Owner> = Arc::new(Stored { objects: self.clone(), id });
        Ok(Source::Disk { verified: Arc::new(object), owner })
    }

    /// Whether an object was there and was found to be damaged.
    pub(crate) fn is_gone(&self, id: ObjectId) -> bool {
        self.cas.quarantined().contains(&id)
    }

    /// Sets an object aside, if it is as damaged as it seems. Blocking.
    fn set_aside(&self, id: ObjectId, why: &str) {
        self.hot.remove(&id);
        match self.cas.quarantine(id) {
            Ok(cas::Fate::Quarantined) => self.damages.found(&format!("object {id}"), why),
            Ok(fate) => tracing::info!(%id, ?fate, "an object that seemed damaged is no longer damaged"),
            Err(error) => tracing::error!(%id, %error, "a damaged object could not be quarantined"),
        }
    }
}

/// An object on a disk.
#[derive(Debug)]
struct Stored {
    objects: Objects,
    id: ObjectId,
}

impl Owner for Stored {
    fn damaged(&self, why: &str) {
        let (objects, id, why) = (self.objects.clone(), self.id, why.to_owned());
        let (looks, blocking) = (Arc::clone(&objects.looks), objects.scope.blocking().clone());
        self.objects.quarantine.spawn(async move {
            let look = move || objects.set_aside(id, &why);
            let done = Flights::load(&looks, &id.to_string(), &blocking, "set an object aside", look).await;
            if let Err(error) = done {
                tracing::error!(%id, %error, "a damaged object was not checked");
            }
        });
    }
}
