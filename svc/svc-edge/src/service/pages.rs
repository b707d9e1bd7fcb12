//! What is made for the occasion: descriptions, lists, pages.

use b3tree::Builder;
use bytes::Bytes;
use http::{
    HeaderValue, StatusCode,
    header::{ACCEPT, CONTENT_SECURITY_POLICY, HOST, VARY},
    uri::Authority,
};
use ron_transport::Response;
use types::{ObjectId, Reason, Refusal};

use super::{Answer, Visit, redirect};
use crate::{
    packs, preview,
    serve::{Class, Representation, Source, tag},
};

const HTML: &str = "text/html; charset=utf-8";
const JSON: &str = "application/json";

/// The way in leads to the list of packs, with the query as it came.
pub(super) fn home(query: Option<&str>) -> Response {
    let to = query.and_then(|query| HeaderValue::try_from(format!("/edge/packs?{query}")).ok());
    redirect(StatusCode::FOUND, to.unwrap_or(HeaderValue::from_static("/edge/packs")))
}

impl Visit<'_> {
    /// Returns the TileJSON description of a pack.
    pub(super) fn tilejson(&self, pack: &str) -> Answer {
        let mounted = packs::find(&self.policy.packs, pack)?;
        let base = format!("{}/edge/tiles/", self.base_url()?);
        let (text, id) = mounted.tilejson.at(&base);
        self.made_of(id, &text, JSON, Class::Tile)
    }

    /// The list of packs: a page for clients that accept HTML.
    pub(super) fn packs(&self) -> Answer {
        let answer = if self.wants_html() {
            self.page(preview::packs_html(&self.policy.packs))
        } else {
            let text = format!("{:#}\n", preview::packs_json(&self.policy.packs));
            self.made(text.into(), JSON, Class::Live)
        };
        answer.map(|mut response| {
            response.headers_mut().append(VARY, HeaderValue::from_static("Accept"));
            response
        })
    }

    /// A pack's map. It is there while the pack is being mounted, and says so.
    pub(super) fn map(&self, pack: &str) -> Answer {
        if !self.policy.packs.contains_key(pack) {
            packs::find(&self.policy.packs, pack)?;
        }
        self.page(preview::map_html(pack))
    }

    /// A file that pages are made with.
    pub(super) fn preview_file(&self, name: &str) -> Answer {
        let Some((media_type, text)) = preview::file(name) else {
            return Err(Refusal::new(Reason::NotFound, "there is no such file").into());
        };
        self.made(Bytes::from_static(text.as_bytes()), media_type, Class::Asset)
    }

    fn page(&self, html: String) -> Answer {
        let mut response = self.made(html.into(), HTML, Class::Live)?;
        let policy = HeaderValue::from_static(preview::CONTENT_SECURITY_POLICY);
        response.headers_mut().insert(CONTENT_SECURITY_POLICY, policy);
        Ok(response)
    }

    /// Something small that was just made, with all that HTTP offers for it.
    fn made(&self, bytes: Bytes, media_type: &'static str, class: Class) -> Answer {
        let id = Builder::new().update(&bytes).finish().root();
        self.made_of(id, &bytes, media_type, class)
    }

    /// The same of bytes whose content id is known.
    fn made_of(&self, id: ObjectId, bytes: &Bytes, media_type: &'static str, class: Class) -> Answer {
        let source = Source::Ram(bytes.clone());
        let representation = Representation::new(source, tag(id), HeaderValue::from_static(media_type));
        self.ram(&representation, bytes, class)
    }

    fn wants_html(&self) -> bool {
        let accepted = self.headers().get(ACCEPT).and_then(|value| value.to_str().ok());
        accepted.is_some_and(|accepted| accepted.contains("text/html"))
    }

    /// What the address of everything here begins with, for this client.
    fn base_url(&self) -> Result<String, Refusal> {
        if let Some(url) = &self.policy.public_url {
            return Ok(url.clone());
        }
        let scheme = if self.tls { "https" } else { "http" };
        let named = self.request.uri.authority().cloned();
        let asked = || self.headers().get(HOST).and_then(|host| Authority::try_from(host.as_bytes()).ok());
        let host = named.or_else(asked).filter(|host| !host.as_str().contains('@'));
        let host = host.ok_or_else(|| Refusal::new(Reason::Malformed, "the request does not name a host"))?;
        Ok(format!("{scheme}://{host}"))
    }
}
