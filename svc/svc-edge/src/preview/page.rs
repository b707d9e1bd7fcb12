//! The map of one pack: a page, its script and its style.

use super::escape::Escaped;

/// What the pages may do: use what is served here, and nothing else.
pub(crate) const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
     img-src 'self' blob: data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The files that the pages are made with, by name: their media type and text.
pub(crate) fn file(name: &str) -> Option<(&'static str, &'static str)> {
    match name {
        "mvt.js" => Some(("text/javascript; charset=utf-8", include_str!("mvt.js"))),
        "map.js" => Some(("text/javascript; charset=utf-8", include_str!("map.js"))),
        "map.css" => Some(("text/css; charset=utf-8", include_str!("map.css"))),
        _ => None,
    }
}

/// The page that shows a pack on a map.
pub(crate) fn map_html(pack: &str) -> String {
    let pack = Escaped(pack);
    format!(
        r#"<!doctype html>
<html lang="en" data-pack="{pack}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{pack} – map</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="../preview/map.css">
<script defer src="../preview/mvt.js"></script>
<script defer src="../preview/map.js"></script>
</head>
<body>
<canvas id="map" tabindex="0" role="img" aria-label="Map of {pack}. Arrow keys move, plus and minus zoom, zero shows all."></canvas>
<section id="about" class="panel" aria-label="About this pack">
<h1>{pack}</h1>
<details>
<summary>About this pack</summary>
<dl id="facts"></dl>
<p><a href="{pack}.json">TileJSON</a> · <a href="../packs">All packs</a></p>
</details>
</section>
<div id="zoom" class="panel" role="group" aria-label="Zoom">
<button id="closer" type="button" aria-label="Closer">+</button>
<button id="farther" type="button" aria-label="Farther">−</button>
<button id="all" type="button" aria-label="Show all">⤢</button>
</div>
<details id="legend" class="panel" hidden>
<summary>Layers</summary>
<div id="layers"></div>
</details>
<p id="where" class="panel"><span id="place"></span><span id="attribution"></span></p>
<p id="notice" class="panel" role="status">Loading …</p>
<noscript><p class="panel">The map needs JavaScript; the tiles do not.</p></noscript>
</body>
</html>
"#
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_uses_nothing_from_elsewhere_and_no_inline_script() {
        let page = map_html("world");
        let (_, script) = file("map.js").expect("the script");
        let (_, decoder) = file("mvt.js").expect("the decoder");
        let (_, style) = file("map.css").expect("the style");
        for text in [&*page, script, decoder, style] {
            for elsewhere in ["http://", "https://", "innerHTML", "onclick", "eval("] {
                assert!(!text.contains(elsewhere), "{elsewhere}");
            }
        }
        assert_eq!(page.matches("<script").count(), 2);
        assert!(page.contains("<script defer src=\"../preview/mvt.js\"></script>"));
        assert!(page.contains("<script defer src=\"../preview/map.js\"></script>"));
        assert!(map_html("<b>").contains("&lt;b&gt;") && !map_html("<b>").contains("<b>"));
    }
}
