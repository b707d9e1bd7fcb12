//! What a file's ending says about what is in it.

/// What is served when the ending says nothing. Browsers are told not to guess.
const UNKNOWN: &str = "application/octet-stream";

/// Endings and what they stand for, in the order of the endings.
const TYPES: [(&str, &str); 58] = [
    ("aac", "audio/aac"),
    ("apng", "image/apng"),
    ("avif", "image/avif"),
    ("bin", UNKNOWN),
    ("bmp", "image/bmp"),
    ("bz2", "application/x-bzip2"),
    ("css", "text/css; charset=utf-8"),
    ("csv", "text/csv; charset=utf-8"),
    ("flac", "audio/flac"),
    ("geojson", "application/geo+json"),
    ("gif", "image/gif"),
    ("glb", "model/gltf-binary"),
    ("gltf", "model/gltf+json"),
    ("gpx", "application/gpx+xml"),
    ("gz", "application/gzip"),
    ("htm", "text/html; charset=utf-8"),
    ("html", "text/html; charset=utf-8"),
    ("ico", "image/x-icon"),
    ("ics", "text/calendar; charset=utf-8"),
    ("jpeg", "image/jpeg"),
    ("jpg", "image/jpeg"),
    ("js", "text/javascript; charset=utf-8"),
    ("json", "application/json"),
    ("jsonld", "application/ld+json"),
    ("kml", "application/vnd.google-earth.kml+xml"),
    ("m4a", "audio/mp4"),
    ("map", "application/json"),
    ("mbtiles", "application/vnd.sqlite3"),
    ("md", "text/markdown; charset=utf-8"),
    ("mjs", "text/javascript; charset=utf-8"),
    ("mp3", "audio/mpeg"),
    ("mp4", "video/mp4"),
    ("mvt", "application/vnd.mapbox-vector-tile"),
    ("ogg", "audio/ogg"),
    ("opus", "audio/ogg"),
    ("otf", "font/otf"),
    ("pbf", "application/x-protobuf"),
    ("pdf", "application/pdf"),
    ("pmtiles", "application/vnd.pmtiles"),
    ("png", "image/png"),
    ("rss", "application/rss+xml"),
    ("svg", "image/svg+xml"),
    ("tar", "application/x-tar"),
    ("tif", "image/tiff"),
    ("tiff", "image/tiff"),
    ("toml", "application/toml"),
    ("ttf", "font/ttf"),
    ("txt", "text/plain; charset=utf-8"),
    ("wasm", "application/wasm"),
    ("wav", "audio/wav"),
    ("webm", "video/webm"),
    ("webmanifest", "application/manifest+json"),
    ("webp", "image/webp"),
    ("woff", "font/woff"),
    ("woff2", "font/woff2"),
    ("xml", "application/xml"),
    ("zip", "application/zip"),
    ("zst", "application/zstd"),
];

/// The media type of a file, by its name's ending.
pub(crate) fn type_of(name: &str) -> &'static str {
    let ending = name.rsplit('/').next().and_then(|file| file.rsplit_once('.')).map(|(_, ending)| ending);
    let Some(ending) = ending.map(str::to_ascii_lowercase) else { return UNKNOWN };
    let found = TYPES.binary_search_by(|(known, _)| (*known).cmp(ending.as_str()));
    found.map_or(UNKNOWN, |at| TYPES[at].1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    #[test]
    fn the_table_can_be_searched_and_sent() {
        assert!(TYPES.is_sorted_by(|a, b| a.0 < b.0));
        for (ending, media_type) in TYPES {
            assert!(HeaderValue::from_str(media_type).is_ok(), "{ending}");
        }
    }

    #[test]
    fn the_last_ending_counts_in_any_case() {
        for (name, expected) in [
            ("a.png", "image/png"),
            ("b/A.PNG", "image/png"),
            ("a.tar.gz", "application/gzip"),
            ("index.html", "text/html; charset=utf-8"),
            ("x.zst", "application/zstd"),
            ("x.aac", "audio/aac"),
            ("png", UNKNOWN),
            ("a.unheard", UNKNOWN),
            ("a.", UNKNOWN),
            ("dir.png/file", UNKNOWN),
            ("", UNKNOWN),
        ] {
            assert_eq!(type_of(name), expected, "{name}");
        }
    }
}
