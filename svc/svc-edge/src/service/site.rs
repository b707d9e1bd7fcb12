//! The folders as a website: pages without their endings, one page for all that the browser makes itself, and a page for
//! what does not exist.

use http::{
    HeaderValue, Method, StatusCode,
    header::{CONTENT_LENGTH, CONTENT_TYPE},
};
use ron_transport::{Body, Response};

use super::{Answer, Visit, assets::to_folder, pages};
use crate::{
    assets::{Loaded, chosen},
    config::SiteConfig,
    deny::Deny,
    ingress::Place,
    ram::{Ready, Variant},
    route::decoded,
    serve::{Class, Source},
};

impl Visit<'_> {
    /// A file that is in RAM and was looked at a moment ago.
    pub(super) fn hot_page(&self, raw: &str) -> Option<Answer> {
        let path = match decoded(raw) {
            Ok(path) => path,
            Err(refusal) => return Some(Err(refusal.into())),
        };
        let ready = self.shared().ram.get(Variant::File, &path).filter(|ready| ready.is_in_ram())?;
        if ready.holds(self.began) { self.ready(&ready, Class::Asset) } else { None }
    }

    /// Any page, or what is said in its place.
    pub(super) async fn site_page(&self, raw: &str, place: Place) -> Answer {
        let (path, site) = (decoded(raw)?, &self.policy.site);
        match self.load(&path).await? {
            Loaded::File(ready) => return self.file(&ready, place).await,
            Loaded::Folder => return Ok(to_folder(raw, self.request.uri.query())),
            Loaded::Unhashed | Loaded::Nothing => {}
        }
        for stand_in in stand_ins(&path, site) {
            if let Loaded::File(ready) = self.load(&stand_in).await? {
                return self.file(&ready, place).await;
            }
        }
        if path.is_empty() {
            // Without an index the way in is that of the edge.
            return Ok(pages::home(self.request.uri.query()));
        }
        self.nothing(raw, site).await
    }

    async fn file(&self, ready: &Ready, place: Place) -> Answer {
        let Some(plain) = &ready.representation else { return Err(types::Reason::NotFound.into()) };
        self.shared().metrics.hits.inc();
        self.represent(chosen(self.headers(), plain, &ready.coded), Class::Asset, place).await
    }

    /// The page for what does not exist, if there is one that is small enough to be in RAM.
    async fn nothing(&self, raw: &str, site: &SiteConfig) -> Answer {
        let missing: Deny = self.no_file(raw);
        if site.not_found.is_empty() {
            return Err(missing);
        }
        let Loaded::File(ready) = self.load(&site.not_found).await? else { return Err(missing) };
        match ready.representation.as_ref().map(|page| (&page.source, &page.media_type)) {
            Some((Source::Ram(bytes), media_type)) => {
                let mut response = Response::new(Body::empty());
                *response.status_mut() = StatusCode::NOT_FOUND;
                response.headers_mut().insert(CONTENT_TYPE, media_type.clone());
                if self.request.method == Method::HEAD {
                    response.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(bytes.len()));
                } else {
                    *response.body_mut() = bytes.clone().into();
                }
                Ok(response)
            }
            _ => Err(missing),
        }
    }
}

/// The files that a page is looked for in, if there is no file of its name: with its ending, then the one for all pages.
fn stand_ins(path: &str, site: &SiteConfig) -> Vec<String> {
    let last = path.rsplit('/').next().unwrap_or(path);
    let is_page = !last.contains('.');
    let mut files = Vec::new();
    if site.clean_urls && is_page && !last.is_empty() {
        files.push(format!("{path}.html"));
    }
    if !site.fallback.is_empty() && is_page {
        files.push(site.fallback.clone());
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_pages_have_stand_ins_and_files_do_not() {
        let spa = SiteConfig { fallback: "index.html".to_owned(), ..SiteConfig::default() };
        assert_eq!(stand_ins("about", &spa), ["about.html", "index.html"]);
        assert_eq!(stand_ins("users/7", &spa), ["users/7.html", "index.html"]);
        assert_eq!(stand_ins("users/", &spa), ["index.html"]);
        assert!(stand_ins("app.js", &spa).is_empty() && stand_ins("v1.2/x.css", &spa).is_empty());
        assert_eq!(stand_ins("about", &SiteConfig::default()), ["about.html"]);
        assert!(stand_ins("about", &SiteConfig { clean_urls: false, ..SiteConfig::default() }).is_empty());
    }
}
