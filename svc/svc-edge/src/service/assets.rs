//! `/edge/assets/…`: files of roots, and whole packs.

use std::sync::Arc;

use http::{HeaderValue, StatusCode};
use ron_kernel::{Fault, blame};
use types::{Reason, Refusal};

use super::{Answer, Visit, redirect};
use crate::{
    assets::{HashingTurn, Loaded, chosen},
    deny::Deny,
    flights::{Flights, Turn},
    ingress::Place,
    ram::{Ready, Variant},
    route::decoded,
    serve::Class,
};

impl Visit<'_> {
    /// A file that is in RAM and was looked at a moment ago.
    pub(super) fn hot_asset(&self, raw: &str) -> Option<Answer> {
        if let Some((fill, url)) = self.origin(raw) {
            return self.hot_filled(fill, &url);
        }
        let path = match decoded(raw) {
            Ok(path) => path,
            Err(refusal) => return Some(Err(refusal.into())),
        };
        let ready = self.shared().ram.get(Variant::File, &path).filter(|ready| ready.is_in_ram())?;
        if ready.holds(self.began) { self.ready(&ready, Class::Asset) } else { None }
    }

    /// Any file: looked at, and read if it is new.
    pub(super) async fn asset(&self, raw: &str, place: Place) -> Answer {
        let path = decoded(raw)?;
        if let Some(slot) = self.policy.pack_files.get(&*path) {
            let mounted = slot.mounted()?;
            self.shared().metrics.hits.inc();
            return self.represent(mounted.whole(), Class::Asset, place).await;
        }
        match self.load(&path).await? {
            Loaded::File(ready) => {
                let Some(plain) = &ready.representation else { return Err(Reason::NotFound.into()) };
                self.shared().metrics.hits.inc();
                self.represent(chosen(self.headers(), plain, &ready.coded), Class::Asset, place).await
            }
            Loaded::Folder => Ok(to_folder(raw, self.request.uri.query())),
            Loaded::Unhashed | Loaded::Nothing => Err(self.no_file(raw)),
        }
    }

    /// Loads a file, and waits for a turn if it is a large one that has to be hashed.
    pub(super) async fn load(&self, path: &str) -> Result<Loaded, Deny> {
        let shared = self.shared();
        if self.policy.roots.is_empty() {
            return Ok(Loaded::Nothing);
        }
        let known = shared.ram.get(Variant::File, path);
        // What is in RAM would have been served already, had there been no need for a look.
        let on_disk = known.as_ref().filter(|known| !known.is_in_ram());
        if let Some(fresh) = on_disk.filter(|known| known.holds(self.began)) {
            return Ok(Loaded::File(Arc::clone(fresh)));
        }
        let look = self.loading(path, known.as_ref(), None);
        let mut loaded =
            Flights::load(&shared.files, path, shared.scope.blocking(), "load a file", look).await?;
        while let Ok(Loaded::Unhashed) = loaded {
            loaded = self.hash(path, known.as_ref()).await?;
        }
        loaded.map_err(Deny::from)
    }

    /// Has a large file hashed of which this is outdated, unless that is done for somebody else; [`Loaded::Unhashed`] if whoever
    /// did it has left.
    async fn hash(&self, path: &str, outdated: Option<&Arc<Ready>>) -> Result<Result<Loaded, Refusal>, Deny> {
        let shared = self.shared();
        if let Some(landing) = shared.hashes.join(path) {
            return Ok(landing.wait().await.unwrap_or(Ok(Loaded::Unhashed)));
        }
        // Before the flight: those who want the same must not wait for the turn of a client that has used up its share.
        let turn = shared.hashing.turn(self.client.hashing_share()).await?;
        let known = shared.ram.get(Variant::File, path);
        let is_new = |known: &&Arc<Ready>| outdated.is_none_or(|outdated| !Arc::ptr_eq(known, outdated));
        if let Some(hashed) = known.as_ref().filter(is_new).filter(|known| known.holds(shared.clock.now())) {
            return Ok(Ok(Loaded::File(Arc::clone(hashed))));
        }
        let flight = match Flights::turn(&shared.hashes, &path.into(), blame::NOBODY) {
            Turn::Ours(flight, _) => flight,
            Turn::Theirs(landing) => {
                drop(turn);
                return Ok(landing.wait().await.unwrap_or(Ok(Loaded::Unhashed)));
            }
        };
        let hash = self.loading(path, known.as_ref(), Some(turn));
        let hashed = shared.scope.blocking().run("hash a file", move || {
            let hashed = hash();
            flight.land(hashed.clone());
            hashed
        });
        Ok(hashed.await.map_err(Fault::from)?)
    }

    /// What loads a file on the blocking pool and keeps it, even if whoever asked for it is gone.
    fn loading(
        &self,
        path: &str,
        known: Option<&Arc<Ready>>,
        turn: Option<HashingTurn>,
    ) -> impl FnOnce() -> Result<Loaded, Refusal> + Send + use<> {
        let (shared, known) = (self.shared(), known.cloned());
        let (roots, ram, wanted) = (Arc::clone(&self.policy.roots), Arc::clone(&shared.ram), path.to_owned());
        let unsettled = shared.unsettled.clone();
        move || {
            let loaded = roots.load(&wanted, known.as_ref(), turn.as_ref());
            remember(&ram, &wanted, known.as_ref(), &loaded);
            if let Ok(Loaded::File(ready)) = &loaded
                && let Some(file) = ready.unsettled()
            {
                // Without room it is trusted as it is found at its next look.
                let _ = unsettled.try_send(file);
            }
            loaded
        }
    }
}

/// Keeps what was loaded.
fn remember(ram: &crate::ram::Ram, path: &str, known: Option<&Arc<Ready>>, loaded: &Result<Loaded, Refusal>) {
    match loaded {
        Ok(Loaded::File(ready)) if known.is_some_and(|known| Arc::ptr_eq(known, ready)) => {}
        Ok(Loaded::File(ready)) => ram.put(Variant::File, path, Arc::clone(ready)),
        // What is known goes on for those who did not have to look.
        Ok(Loaded::Unhashed) => {}
        _ => ram.forget(Variant::File, path),
    }
}

/// A folder has a slash at its end, or the links in its index lead astray. The query stays. The name stands behind `./`,
/// because a name with a colon in it would be read as a scheme, and one that is empty as another host.
pub(super) fn to_folder(raw: &str, query: Option<&str>) -> super::Response {
    let last = raw.rsplit('/').next().unwrap_or(raw);
    let query = query.map(|query| format!("?{query}")).unwrap_or_default();
    match HeaderValue::try_from(format!("./{last}/{query}")) {
        Ok(to) => redirect(StatusCode::PERMANENT_REDIRECT, to),
        Err(_) => redirect(StatusCode::PERMANENT_REDIRECT, HeaderValue::from_static("./")),
    }
}
