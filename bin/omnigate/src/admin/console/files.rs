//! The files that the console's page is made of, and what the page may do.

use http::{HeaderValue, StatusCode, header};
use ron_transport::Response;
use types::{Reason, Refusal};

use crate::admin::reply;

/// What the page may do: run its own scripts and ask this listener. Nothing is loaded from elsewhere, nothing inline
/// runs, no text becomes markup, and nobody frames it.
const CONTENT_SECURITY_POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; \
     form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
);

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";

/// One file: its name behind `/console/`, its media type, its text.
type File = (&'static str, &'static str, &'static str);

macro_rules! scripts {
    ($($name:literal),* $(,)?) => {
        [$(($name, SCRIPT, include_str!(concat!("page/", $name)))),*]
    };
}

const PAGE: File = ("", HTML, include_str!("page/index.html"));
const STYLE: File = ("style.css", CSS, include_str!("page/style.css"));
const ICON: File = ("icon.svg", SVG, include_str!("page/icon.svg"));
const SCRIPTS: [File; SCRIPT_COUNT] = scripts![
    "app.js",
    "feed.js",
    "history.js",
    "dom.js",
    "charts.js",
    "format.js",
    "blake3.js",
    "proof.js",
    "world.js",
    "view-overview.js",
    "view-topology.js",
    "view-tenants.js",
    "view-upstreams.js",
    "view-edge.js",
    "view-overlay.js",
    "view-rewards.js",
    "view-config.js",
];
const SCRIPT_COUNT: usize = 17;

fn all() -> impl Iterator<Item = File> {
    [PAGE, STYLE, ICON].into_iter().chain(SCRIPTS)
}

/// The page, or a file that it is made of.
pub(in crate::admin) fn file(name: Option<&str>) -> Result<Response, Refusal> {
    let name = name.unwrap_or_default();
    let Some((_, media_type, text)) = all().find(|(known, ..)| *known == name) else {
        return Err(Refusal::new(Reason::NotFound, "the console has no such file"));
    };
    let mut response = reply::with_type(StatusCode::OK, media_type, text.into());
    response.headers_mut().insert(header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY);
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_made_of_nothing_from_elsewhere_and_nothing_inline() {
        for (name, _, text) in all() {
            let text = text.replace("http://www.w3.org/2000/svg", "");
            for banned in
                ["http://", "https://", "innerHTML", "outerHTML", "insertAdjacent", "document.write", "eval("]
            {
                assert!(!text.contains(banned), "{name} has {banned}");
            }
        }
        let (.., page) = PAGE;
        assert!(!page.contains("style=") && !page.contains(" on"), "nothing inline");
        assert_eq!(
            page.matches("<script").count(),
            page.matches("<script type=\"module\" src=\"/console/").count()
        );
    }

    #[test]
    fn every_module_that_is_imported_is_served() {
        for (name, _, text) in SCRIPTS {
            for import in text.lines().filter_map(|line| line.split_once(" from \"./")) {
                let imported = import.1.trim_end_matches("\";");
                assert!(SCRIPTS.iter().any(|(known, ..)| *known == imported), "{name} imports {imported}");
            }
        }
    }
}
