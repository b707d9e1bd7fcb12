//! Stored responses that were found on the disk, and how tenants are named there.

use std::{net::Ipv4Addr, sync::Arc};

use cas::Cas;
use httpcache::{record::StoredResponse, reuse, variant::VariantKey};
use ron_kernel::blocking::Blocking;
use ron_transport::caps::ClientKey;
use types::ObjectId;

use super::{
    ResponseCache,
    disk::{Disk, Found},
    entry::{Entry, Head},
    index,
    journal::Journal,
    writer::Work,
};
use crate::tenant::{Class, TenantKey, TenantName};

/// A response from further in the future than this, in seconds, is from a clock that cannot be believed.
const CLOCKS_DIFFER: u64 = 60;

impl ResponseCache {
    /// Takes over what was found on the disk, and begins to write there, first of all what was stored before.
    ///
    /// # Errors
    /// Why nothing can be written; then nothing was taken over.
    pub(super) async fn begin_on_disk(
        &self,
        work: &Work,
        blocking: &Blocking,
        mut disk: Disk,
        found: Found,
    ) -> Result<(), String> {
        self.counts.damaged_records.inc_by(found.damaged);
        if found.damaged > 0 {
            tracing::warn!(
                "the index of the cache was damaged: stored responses are revalidated before they are reused"
            );
        }
        let objects = Arc::clone(&disk.objects);
        let before = self.index.entries(None);
        // Before anything is in the index that is on the disk: what is removed from one is removed from the other.
        work.journal.set_open(true);
        let mut kept = self.restore(&work.journal, &objects, found);
        if work.journal.was_purged_early() {
            // It may be what was purged, of which nothing was known here.
            kept.drain(..).for_each(|entry| self.index.remove(&entry));
        }
        let (count, taken_over) = (kept.len(), kept.clone());
        let begin = move || disk.begin(&kept).map(|()| disk).map_err(|error| error.to_string());
        let begun = blocking.run("begin the cache", begin).await.map_err(|error| error.to_string());
        match begun.and_then(|begun| begun) {
            Ok(disk) => {
                *work.disk.lock() = Some(disk);
                let _ = self.disk.set(objects);
                work.condition.clear();
                // What does not get into the queue stays in memory alone.
                before.iter().for_each(|entry| self.write(entry, &[]));
                tracing::info!(responses = count, "stored responses were found on the disk");
                Ok(())
            }
            Err(why) => {
                work.journal.set_open(false);
                taken_over.iter().for_each(|entry| self.index.remove(entry));
                Err(why)
            }
        }
    }

    /// Puts what was found into the index. What is there already is newer.
    fn restore(&self, journal: &Arc<Journal>, objects: &Cas, found: Found) -> Vec<Arc<Entry>> {
        let now = self.now();
        let is_late = self.index.size().1 > 0;
        let mut kept = Vec::new();
        for (id, mut response) in found.responses {
            let body = response.body.map(ObjectId::new);
            if body.is_some_and(|body| !objects.contains(body)) {
                continue;
            }
            let received_at = response.freshness.received_at.unix;
            let is_unsure = found.is_unsure || received_at > now.unix.saturating_add(CLOCKS_DIFFER);
            response.freshness.received_at = now.when(received_at);
            let Some(tenant) = tenant_of(&response.tenant) else { continue };
            let (key, len) = (Arc::clone(&response.key), response.len);
            let Some(head) = head_of(response, &found.key, is_unsure) else { continue };
            let of_index = index::target_weight(&key) + head.weight();
            let Some(charge) = self.charge(&tenant, &key, (len, of_index)) else { continue };
            let record = Some(journal.found(id));
            let entry = Arc::new(Entry { key, head, body, len, charge, record });
            if self.index.restore(&entry, is_late) {
                kept.push(entry);
            }
        }
        kept
    }
}

/// The head of a response that was found; `None` if it would have to be validated and cannot be.
fn head_of(response: StoredResponse, key: &Arc<VariantKey>, is_unsure: bool) -> Option<Head> {
    let mut freshness = response.freshness;
    if is_unsure {
        if reuse::conditions(&response.headers).is_empty() || response.part.is_some() {
            return None;
        }
        freshness.directives.no_cache = true;
    }
    Some(Head {
        partition: response.partition,
        variant: response.variant.hashed(key),
        status: response.status,
        headers: response.headers,
        freshness,
        part: response.part,
    })
}

/// A tenant as the disk knows it.
pub(super) fn tenant_name(tenant: &TenantKey) -> Vec<u8> {
    let class = match tenant.class {
        Class::Anon => b'a',
        Class::Authed => b'c',
        Class::Internal => b'i',
    };
    let (kind, name): (u8, Vec<u8>) = match &tenant.name {
        TenantName::Named(name) => (b'n', name.as_bytes().to_vec()),
        TenantName::Client(ClientKey::V4(address)) => (b'4', address.octets().to_vec()),
        TenantName::Client(ClientKey::V6Net(net)) => (b'6', net.to_be_bytes().to_vec()),
        TenantName::Client(ClientKey::Unix) => (b'u', Vec::new()),
        TenantName::Client(ClientKey::TrustedProxy) => (b'p', Vec::new()),
        TenantName::Client(ClientKey::Unknown) => (b'x', Vec::new()),
        TenantName::Other => (b'o', Vec::new()),
    };
    [vec![class, kind], name].concat()
}

/// The tenant that the disk knows by this name.
fn tenant_of(name: &[u8]) -> Option<TenantKey> {
    let [class, kind, name @ ..] = name else { return None };
    let class = match class {
        b'a' => Class::Anon,
        b'c' => Class::Authed,
        b'i' => Class::Internal,
        _ => return None,
    };
    let name = match (kind, name) {
        (b'n', name) => TenantName::Named(std::str::from_utf8(name).ok()?.into()),
        (b'4', name) => TenantName::Client(ClientKey::V4(Ipv4Addr::from(<[u8; 4]>::try_from(name).ok()?))),
        (b'6', name) => {
            TenantName::Client(ClientKey::V6Net(u64::from_be_bytes(<[u8; 8]>::try_from(name).ok()?)))
        }
        (b'u', []) => TenantName::Client(ClientKey::Unix),
        (b'p', []) => TenantName::Client(ClientKey::TrustedProxy),
        (b'x', []) => TenantName::Client(ClientKey::Unknown),
        (b'o', []) => TenantName::Other,
        _ => return None,
    };
    Some(TenantKey { class, name })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tenants_are_known_again_by_their_names() {
        let names = [
            TenantName::Named("acme".into()),
            TenantName::Named("".into()),
            TenantName::Client(ClientKey::V4(Ipv4Addr::LOCALHOST)),
            TenantName::Client(ClientKey::V6Net(1)),
            TenantName::Client(ClientKey::Unix),
            TenantName::Client(ClientKey::TrustedProxy),
            TenantName::Client(ClientKey::Unknown),
            TenantName::Other,
        ];
        for class in Class::ALL {
            for name in names.clone() {
                let tenant = TenantKey { class, name };
                assert_eq!(tenant_of(&tenant_name(&tenant)), Some(tenant));
            }
        }
        for wrong in [&b""[..], b"a", b"zn", b"a4123", b"a6", b"uu1", b"an\xff"] {
            assert_eq!(tenant_of(wrong), None, "{wrong:?}");
        }
    }
}
