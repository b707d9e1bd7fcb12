//! Which of the edge's routes a path is for, and what exactly it names there.

use std::borrow::Cow;

use types::{Reason, Refusal};

/// The deepest zoom level there can be: beyond it, a column no longer fits its number.
const MAX_ZOOM: u8 = 31;

/// The resource that a path names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route<'a> {
    /// The way in, for people.
    Home,
    /// The list of packs.
    Packs,
    /// A page of the website: what follows the first `/`, as it was sent.
    Page(&'a str),
    /// A file of a root, of a pack or of an origin: what follows `/edge/assets/`, as it was sent.
    Asset(&'a str),
    /// A tile of a pack.
    Tile(TilePath<'a>),
    /// The TileJSON description of a pack.
    TileJson(&'a str),
    /// The preview page of a pack.
    Preview(&'a str),
    /// A file that maps are made with.
    PreviewFile(&'a str),
    /// An object by its content id: what follows `/edge/cas/`.
    Object(&'a str),
}

/// A tile's place, inside the grid of its zoom level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TilePath<'a> {
    pub(crate) pack: &'a str,
    pub(crate) zoom: u8,
    pub(crate) column: u32,
    pub(crate) row: u32,
    /// The ending, without its dot, if there is one.
    pub(crate) extension: Option<&'a str>,
}

impl<'a> Route<'a> {
    /// The route of a path, as it was sent; with a website, of every path.
    ///
    /// # Errors
    /// Nothing is served there, or it is no path at all.
    pub(crate) fn find(path: &'a str, has_site: bool) -> Result<Self, Refusal> {
        let Some(rest) = path.strip_prefix("/edge/") else {
            if let Some(page) = path.strip_prefix('/').filter(|page| has_site && *page != "edge") {
                return Ok(Self::Page(page));
            }
            return if matches!(path, "/" | "/edge") { Ok(Self::Home) } else { Err(unrouted(path)) };
        };
        if let Some(asset) = rest.strip_prefix("assets/") {
            return Ok(Self::Asset(asset));
        }
        if let Some(tile) = rest.strip_prefix("tiles/") {
            return Self::of_tiles(tile).unwrap_or_else(|| Err(unrouted(path)));
        }
        if let Some(id) = rest.strip_prefix("cas/") {
            return Ok(Self::Object(id));
        }
        if let Some(file) = rest.strip_prefix("preview/") {
            return Ok(Self::PreviewFile(file));
        }
        match rest {
            "" => Ok(Self::Home),
            "packs" | "packs/" => Ok(Self::Packs),
            _ => Err(unrouted(path)),
        }
    }

    /// What follows `/edge/tiles/`; `None` if it has no such form.
    fn of_tiles(rest: &'a str) -> Option<Result<Self, Refusal>> {
        let mut parts = rest.split('/');
        let pack = parts.next().filter(|pack| !pack.is_empty())?;
        let Some(zoom) = parts.next() else {
            return Some(Ok(match pack.strip_suffix(".json") {
                Some(pack) => Self::TileJson(pack),
                None => Self::Preview(pack),
            }));
        };
        let (column, last) = (parts.next()?, parts.next()?);
        if parts.next().is_some() {
            return None;
        }
        let (row, extension) = match last.split_once('.') {
            Some((row, extension)) => (row, Some(extension)),
            None => (last, None),
        };
        Some(
            place(zoom, column, row)
                .map(|(zoom, column, row)| Self::Tile(TilePath { pack, zoom, column, row, extension })),
        )
    }
}

/// The file that an asset's path names, decoded: segments of a relative path, none of which leads elsewhere.
///
/// # Errors
/// It breaks the rules of paths, or tries to lead elsewhere.
pub(crate) fn decoded(raw: &str) -> Result<Cow<'_, str>, Refusal> {
    let path = if raw.contains('%') { Cow::Owned(percent_decoded(raw)?) } else { Cow::Borrowed(raw) };
    if path.contains(['\0', '\\']) {
        return Err(Refusal::new(Reason::Malformed, "the path has a character that no file's name has"));
    }
    if path.split('/').any(|segment| matches!(segment, "." | "..")) {
        return Err(Refusal::new(Reason::Malformed, "the path has a `.` or `..` segment"));
    }
    Ok(path)
}

/// Replaces `%41` by `A`. An encoded slash is rejected, because two servers could read it differently.
fn percent_decoded(raw: &str) -> Result<String, Refusal> {
    let refuse = |why: &'static str| Refusal::new(Reason::Malformed, why);
    let digit = |byte: Option<u8>| byte.and_then(|byte| char::from(byte).to_digit(16));
    let mut bytes = raw.bytes();
    let mut path = Vec::with_capacity(raw.len());
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            path.push(byte);
            continue;
        }
        let (Some(high), Some(low)) = (digit(bytes.next()), digit(bytes.next())) else {
            return Err(refuse("a percent sign in the path is not followed by two hex digits"));
        };
        let byte = u8::try_from(high * 16 + low).expect("two hex digits make a byte");
        if byte == b'/' {
            return Err(refuse("the path has an encoded slash"));
        }
        path.push(byte);
    }
    String::from_utf8(path).map_err(|_| refuse("the path is not UTF-8"))
}

/// The place that three numbers name.
fn place(zoom: &str, column: &str, row: &str) -> Result<(u8, u32, u32), Refusal> {
    let (Some(zoom), Some(column), Some(row)) = (number(zoom), number(column), number(row)) else {
        return Err(Refusal::new(
            Reason::Malformed,
            "a tile is requested by three whole numbers: zoom/column/row",
        ));
    };
    let outside =
        || Refusal::new(Reason::NotFound, format!("the grid of zoom {zoom} has no tile {column}/{row}"));
    let level = u8::try_from(zoom).ok().filter(|zoom| *zoom <= MAX_ZOOM).ok_or_else(outside)?;
    if (column | row) >> level != 0 {
        return Err(outside());
    }
    Ok((level, column, row))
}

/// A whole number as one writes it: no sign, no zeros before it.
fn number(text: &str) -> Option<u32> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit()) && (text.len() == 1 || !text.starts_with('0'));
    if plain { text.parse().ok() } else { None }
}

fn unrouted(path: &str) -> Refusal {
    // As much of it as helps: it is repeated to whoever sent it.
    let shown: String = path.chars().take(200).collect();
    Refusal::new(Reason::NotFound, format!("nothing is served at {shown}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tile(zoom: u8, column: u32, row: u32, extension: Option<&str>) -> Route<'_> {
        Route::Tile(TilePath { pack: "world", zoom, column, row, extension })
    }

    #[test]
    fn every_route_is_found_by_its_path() {
        for (path, route) in [
            ("/", Route::Home),
            ("/edge", Route::Home),
            ("/edge/", Route::Home),
            ("/edge/packs", Route::Packs),
            ("/edge/packs/", Route::Packs),
            ("/edge/assets/", Route::Asset("")),
            ("/edge/assets/a/b.css", Route::Asset("a/b.css")),
            ("/edge/tiles/world", Route::Preview("world")),
            ("/edge/tiles/world.json", Route::TileJson("world")),
            ("/edge/tiles/world/0/0/0", tile(0, 0, 0, None)),
            ("/edge/tiles/world/3/7/7.png", tile(3, 7, 7, Some("png"))),
            ("/edge/tiles/world/31/2147483647/0", tile(31, 2_147_483_647, 0, None)),
            ("/edge/tiles/world/1/1/0.vector.pbf", tile(1, 1, 0, Some("vector.pbf"))),
            ("/edge/preview/map.js", Route::PreviewFile("map.js")),
            ("/edge/cas/b3:00", Route::Object("b3:00")),
        ] {
            assert_eq!(Route::find(path, false), Ok(route), "{path}");
        }
    }

    #[test]
    fn with_a_website_every_path_outside_of_the_edge_is_a_page() {
        for (path, route) in [
            ("/", Route::Page("")),
            ("/about", Route::Page("about")),
            ("/edges", Route::Page("edges")),
            ("//x", Route::Page("/x")),
            ("/edge", Route::Home),
            ("/edge/packs", Route::Packs),
        ] {
            assert_eq!(Route::find(path, true), Ok(route), "{path}");
        }
        assert!(Route::find("/edge/other", true).is_err() && Route::find("*", true).is_err());
    }

    #[test]
    fn a_path_of_no_route_is_not_found_and_a_tile_of_no_numbers_malformed() {
        for (path, reason) in [
            ("/other", Reason::NotFound),
            ("/edges", Reason::NotFound),
            ("/edge/other", Reason::NotFound),
            ("/edge/tiles/", Reason::NotFound),
            ("/edge/tiles//0/0/0", Reason::NotFound),
            ("/edge/tiles/world/0", Reason::NotFound),
            ("/edge/tiles/world/0/0", Reason::NotFound),
            ("/edge/tiles/world/0/0/0/0", Reason::NotFound),
            ("/edge/tiles/world/0/0/1", Reason::NotFound),
            ("/edge/tiles/world/3/8/7", Reason::NotFound),
            ("/edge/tiles/world/32/0/0", Reason::NotFound),
            ("/edge/tiles/world/300/0/0", Reason::NotFound),
            ("/edge/tiles/world/a/0/0", Reason::Malformed),
            ("/edge/tiles/world/-1/0/0", Reason::Malformed),
            ("/edge/tiles/world/+1/0/0", Reason::Malformed),
            ("/edge/tiles/world/01/0/0", Reason::Malformed),
            ("/edge/tiles/world/1//0", Reason::Malformed),
            ("/edge/tiles/world/1/0/.png", Reason::Malformed),
            ("/edge/tiles/world/1/0/99999999999", Reason::Malformed),
        ] {
            assert_eq!(Route::find(path, false).map_err(|refusal| refusal.reason), Err(reason), "{path}");
        }
    }

    #[test]
    fn a_files_path_is_decoded_and_never_leads_elsewhere() {
        for (raw, path) in [
            ("a/b.css", "a/b.css"),
            ("a%20b/%C3%A9", "a b/é"),
            ("...", "..."),
            ("a..b/.c", "a..b/.c"),
            ("", ""),
            ("%25", "%"),
        ] {
            assert_eq!(decoded(raw).as_deref(), Ok(path), "{raw}");
        }
        for raw in [
            "..", "../a", "a/..", "a/../b", "./a", "a/.", "%2e%2e/a", "a/%2E%2e", ".%2e", "a%2Fb", "a%2fb",
            "a%5Cb", "a\\b", "%00", "a%00.png", "%", "%4", "%zz", "%ff", "%C3",
        ] {
            assert_eq!(decoded(raw).map_err(|refusal| refusal.reason), Err(Reason::Malformed), "{raw}");
        }
    }
}
