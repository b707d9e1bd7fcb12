//! `/edge/assets/{host}/{path}`: objects of listed origins, from the store or filled.

use std::sync::Arc;

use http::{
    HeaderName, HeaderValue, StatusCode, Version,
    header::{AGE, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, DATE, IF_MATCH, RETRY_AFTER},
};
use httprules::{cache_control::RequestDirectives, date};
use ron_transport::{Body, Response};
use types::{Reason, Refusal};

use super::{Answer, Visit};
use crate::{
    deny::Deny,
    fill::{Entry, Fill, Filled, Found, OriginUrl, StreamingFill, Wanted},
    ingress::Place,
    serve::{Class, Representation, Source, tag},
};

/// How a cache dealt with a request (RFC 9211).
const CACHE_STATUS: HeaderName = HeaderName::from_static("cache-status");
const PREFER: HeaderName = HeaderName::from_static("prefer");
const PREFERENCE_APPLIED: HeaderName = HeaderName::from_static("preference-applied");
const RESPOND_ASYNC: HeaderValue = HeaderValue::from_static("respond-async");

const HIT: HeaderValue = HeaderValue::from_static("omnigate; hit");
const STALE: HeaderValue = HeaderValue::from_static("omnigate; hit; detail=stale");
const FILLED: HeaderValue = HeaderValue::from_static("omnigate; fwd=uri-miss; stored");
/// It was fetched, and is not stored: the origin or the client does not want that, or the store takes nothing.
const FETCHED: HeaderValue = HeaderValue::from_static("omnigate; fwd=uri-miss");
const STREAMED: HeaderValue = HeaderValue::from_static("omnigate; fwd=uri-miss; detail=streamed");
/// What an origin says must not act in the name of the site that this edge serves: no scripts, no forms, an origin of its
/// own, and nothing loaded from elsewhere. Images and styles within it still show.
const SANDBOX: HeaderValue = HeaderValue::from_static(
    "sandbox; default-src 'none'; img-src 'self' data:; style-src 'unsafe-inline'; media-src 'self' data:",
);
const BYTES: HeaderValue = HeaderValue::from_static("application/octet-stream");

impl Visit<'_> {
    /// The URL of an origin that an asset's path names, if there is such an origin.
    pub(super) fn origin(&self, raw: &str) -> Option<(&Arc<Fill>, OriginUrl)> {
        let fill = self.shared().fill.as_ref()?;
        Some((fill, fill.url(raw, self.request.uri.query()).ok()?))
    }

    /// An object that is in RAM, or what is known at once.
    pub(super) fn hot_filled(&self, fill: &Fill, url: &OriginUrl) -> Option<Answer> {
        let request = RequestDirectives::of(self.headers());
        match self.find(fill, url, &request) {
            Found::Fresh(entry) => self.hot_entry(&entry, HIT),
            Found::Stale(entry) => self.hot_entry(&entry, STALE),
            Found::Refused(refusal) => Some(Err(refusal.into())),
            Found::Missing if self.prefers_async() => Some(self.begin(fill, url, &request)),
            Found::Missing => None,
        }
    }

    /// What is here for a URL. What is stale begins to be refreshed, as a fill of this client.
    fn find(&self, fill: &Fill, url: &OriginUrl, request: &RequestDirectives) -> Found {
        fill.find_holding(url, request, self.time(), || {
            let limits = &self.policy.limits;
            let held = self.client.fill_place_now(limits)?;
            self.client.charge_fill(limits, self.began)?;
            Ok(Some(held))
        })
    }

    fn hot_entry(&self, entry: &Entry, status: HeaderValue) -> Option<Answer> {
        let bytes = entry.held().cloned().or_else(|| self.shared().objects.hot(&entry.id))?;
        self.shared().metrics.hits.inc();
        let representation = representation(entry, Source::Ram(bytes.clone()));
        Some(self.ram(&representation, &bytes, Class::Filled).map(|answer| self.told(answer, entry, status)))
    }

    /// An object that has to be read, or filled first.
    pub(super) async fn filled(&self, fill: &Fill, url: &OriginUrl, place: Place) -> Answer {
        let request = RequestDirectives::of(self.headers());
        let (entry, status) = match self.find(fill, url, &request) {
            Found::Fresh(entry) => (entry, HIT),
            Found::Stale(entry) => (entry, STALE),
            Found::Refused(refusal) => return Err(refusal.into()),
            Found::Missing => match self.fetch(fill, url, &request).await? {
                Filled::Whole(entry) => {
                    let status = fetched(&entry);
                    (entry, status)
                }
                Filled::Streaming(stream) => return self.streamed(stream, place).await,
            },
        };
        if status == HIT || status == STALE {
            self.shared().metrics.hits.inc();
        }
        if let Some(source) = self.stored(fill, url, &entry).await? {
            return self.entry(&entry, source, status, place).await;
        }
        // It was damaged or evicted: the origin may still have it.
        let entry = match self.fetch(fill, url, &request).await? {
            Filled::Whole(entry) => entry,
            Filled::Streaming(stream) => return self.streamed(stream, place).await,
        };
        match self.stored(fill, url, &entry).await? {
            Some(source) => self.entry(&entry, source, fetched(&entry), place).await,
            None => Err(Reason::Quarantined.into()),
        }
    }

    async fn fetch(&self, fill: &Fill, url: &OriginUrl, request: &RequestDirectives) -> Result<Filled, Deny> {
        self.shared().metrics.misses.inc();
        let (limits, deadline, streamed) = (&self.policy.limits, self.deadline(), self.takes_streams());
        let client = self.client.id();
        if fill.is_under_way(url, request, client) {
            let wanted = Wanted { client, held: None, streamed };
            return Ok(fill.fetch_holding(url, request, deadline, wanted).await?);
        }
        self.client.charge_fill(limits, self.began)?;
        let Some(held) = self.shared().clock.by(deadline, self.client.fill_place(limits)).await else {
            let late = Refusal::new(Reason::DownstreamTimeout, "other fills of this client took too long");
            return Err(late.into());
        };
        let wanted = Wanted { client, held: Some(held?), streamed };
        Ok(fill.fetch_holding(url, request, deadline, wanted).await?)
    }

    /// Whether an object may be sent before all of it is here: the client has to see it when it breaks off, and must not ask
    /// for what only the whole can tell.
    fn takes_streams(&self) -> bool {
        self.request.version >= Version::HTTP_11 && !self.headers().contains_key(IF_MATCH)
    }

    /// An object that is being fetched, as far as it is here and as it comes.
    async fn streamed(&self, stream: Arc<StreamingFill>, place: Place) -> Answer {
        let media_type = stream.head.media_type.clone().unwrap_or(BYTES);
        let source = Source::Growing(Arc::clone(&stream));
        let mut representation = Representation::new(source, stream.expected.map(tag), media_type);
        if let Some(unix) = stream.head.last_modified() {
            representation = representation.modified_at(unix);
        }
        let answer = self.represent(&representation, Class::Filled, place).await?;
        Ok(self.told(answer, &stream.head, STREAMED))
    }

    /// Where an entry's bytes are; `None` if they are not available from here.
    async fn stored(&self, fill: &Fill, url: &OriginUrl, entry: &Entry) -> Result<Option<Source>, Deny> {
        if let Some(bytes) = entry.held() {
            return Ok(Some(Source::Ram(bytes.clone())));
        }
        let objects = &self.shared().objects;
        // The index of URLs says how long the object is: one that is longer or shorter is not what was filled.
        let is_right = |source: &Source| source.len() == Some(entry.len);
        match self.in_time(objects.find(entry.id)).await? {
            Ok(Some(source)) if is_right(&source) => Ok(Some(source)),
            Err(refusal) if refusal.reason != Reason::Quarantined => Err(refusal.into()),
            Ok(_) | Err(_) if fill.damaged(url, entry.id).await => {
                Ok(self.in_time(objects.find(entry.id)).await??.filter(is_right))
            }
            Ok(_) | Err(_) => Ok(None),
        }
    }

    async fn entry(&self, entry: &Entry, source: Source, status: HeaderValue, place: Place) -> Answer {
        let representation = representation(entry, source);
        let answer = self.represent(&representation, Class::Filled, place).await?;
        Ok(self.told(answer, entry, status))
    }

    /// Adds what the origin said of it, and where it comes from.
    fn told(&self, mut response: Response, entry: &Entry, status: HeaderValue) -> Response {
        let answered = response.status();
        let headers = response.headers_mut();
        headers.insert(AGE, HeaderValue::from(entry.age(self.time())));
        if let Some(value) = &entry.cache_control {
            headers.insert(CACHE_CONTROL, value.clone());
        }
        headers.insert(CACHE_STATUS, status);
        // `Age` counts from it.
        if let Ok(made) = HeaderValue::from_bytes(&date::format(entry.stored.date)) {
            headers.insert(DATE, made);
        }
        // Ours first, beside the origin's: browsers keep to all policies at once, so none can weaken another.
        if headers.get(CONTENT_TYPE).is_some_and(is_active) {
            headers.insert(CONTENT_SECURITY_POLICY, SANDBOX);
        }
        entry.fields.pass_on(answered, headers);
        response
    }

    /// Has it filled, and says that it will be.
    fn begin(&self, fill: &Fill, url: &OriginUrl, request: &RequestDirectives) -> Answer {
        self.shared().metrics.misses.inc();
        if !fill.is_under_way(url, request, self.client.id()) {
            let limits = &self.policy.limits;
            self.client.charge_fill(limits, self.began)?;
            fill.begin_holding(url, request, Some(self.client.fill_place_now(limits)?))?;
        }
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::ACCEPTED;
        let headers = response.headers_mut();
        headers.insert(PREFERENCE_APPLIED, RESPOND_ASYNC);
        headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        Ok(response)
    }

    fn prefers_async(&self) -> bool {
        let mut preferences = self.headers().get_all(PREFER).iter().filter_map(|value| value.to_str().ok());
        preferences
            .any(|value| value.split([',', ';']).any(|one| one.trim().eq_ignore_ascii_case("respond-async")))
    }

    /// Why a path that names no file is not found: it may name an origin that is not on the list.
    pub(super) fn no_file(&self, raw: &str) -> Deny {
        self.shared().metrics.misses.inc();
        let not_found = || Refusal::new(Reason::NotFound, "there is no such file");
        let fill = self.shared().fill.as_ref();
        let refused = fill.and_then(|fill| fill.url(raw, self.request.uri.query()).err());
        refused.filter(|refusal| refusal.reason == Reason::NotAllowed).unwrap_or_else(not_found).into()
    }
}

fn representation(entry: &Entry, source: Source) -> Representation {
    let media_type = entry.media_type.clone().unwrap_or(BYTES);
    let representation = Representation::new(source, tag(entry.id), media_type);
    match entry.last_modified() {
        Some(unix) => representation.modified_at(unix),
        None => representation,
    }
}

/// How an object came that was not here.
fn fetched(entry: &Entry) -> HeaderValue {
    if entry.held().is_some() { FETCHED } else { FILLED }
}

/// Whether a browser that opens something of this type runs scripts in it. What is not known to be harmless is taken to be
/// active.
fn is_active(media_type: &HeaderValue) -> bool {
    let Ok(media_type) = media_type.to_str() else { return true };
    let essence = media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let Some((kind, of)) = essence.split_once('/') else { return true };
    match kind {
        "image" => of.ends_with("xml"),
        "audio" | "video" | "font" => false,
        "text" => !matches!(of, "css" | "plain" | "csv"),
        "application" => !matches!(
            of,
            "octet-stream"
                | "json"
                | "geo+json"
                | "javascript"
                | "wasm"
                | "zip"
                | "gzip"
                | "x-protobuf"
                | "vnd.mapbox-vector-tile"
        ),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_browser_would_run_is_told_from_what_it_only_shows() {
        let active = |text: &'static str| is_active(&HeaderValue::from_static(text));
        for text in [
            "text/html",
            "Text/HTML; charset=utf-8",
            "image/svg+xml",
            "application/xhtml+xml",
            "text/xml",
            "application/xml",
            "multipart/x-mixed-replace",
            "application/pdf",
            "html",
            "",
        ] {
            assert!(active(text), "{text}");
        }
        for text in ["image/png", "text/css", "application/json", "video/mp4", "application/octet-stream"] {
            assert!(!active(text), "{text}");
        }
    }
}
