//! The map of a pack in a real browser.

use std::{path::Path, process::Command, time::Duration};

use crate::support::eventually_within;

use super::{EdgeNode, places, write};

/// What the page says about itself once its script has run, and a picture of it, in a window of this size.
fn look_at(edge: &EdgeNode, path: &str, picture: &Path, window: &str) -> String {
    let profile = edge.node.path().join("profile");
    let url = format!("http://{}{path}", edge.addr);
    let browser = |what: &[&str]| {
        Command::new("chromium")
            .args(["--headless", "--no-sandbox", "--disable-gpu", &format!("--window-size={window}")])
            .args(["--virtual-time-budget=20000", &format!("--user-data-dir={}", profile.display())])
            .args(what)
            .arg(&url)
            .env("HOME", edge.node.path())
            .output()
            .expect("chromium comes with Debian")
    };
    browser(&[&format!("--screenshot={}", picture.display())]);
    String::from_utf8_lossy(&browser(&["--dump-dom"]).stdout).into_owned()
}

/// A pack of plain tiles in one colour per place, as PNG.
fn coloured_pack() -> Vec<u8> {
    let mut writer = pmtiles::Writer::new(pmtiles::Settings {
        metadata: r#"{"attribution":"<img src=x onerror=alert(1)>drawn here"}"#.to_owned(),
        ..pmtiles::Settings::default()
    });
    for (zoom, x, y) in places(2) {
        let id = pmtiles::Coord::new(zoom, x, y).unwrap().id();
        writer.push(id, &png([40 * u8::try_from(x).unwrap(), 40 * u8::try_from(y).unwrap(), 200])).unwrap();
    }
    writer.finish().unwrap()
}

/// A PNG of 16 × 16 pixels of one colour.
fn png(colour: [u8; 3]) -> Vec<u8> {
    let row: Vec<u8> = std::iter::once(0).chain(colour.into_iter().cycle().take(16 * 3)).collect();
    let rows: Vec<u8> = row.iter().copied().cycle().take(row.len() * 16).collect();
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
    std::io::Write::write_all(&mut encoder, &rows).unwrap();
    let mut file = b"\x89PNG\r\n\x1a\n".to_vec();
    chunk(&mut file, b"IHDR", &[0, 0, 0, 16, 0, 0, 0, 16, 8, 2, 0, 0, 0]);
    chunk(&mut file, b"IDAT", &encoder.finish().unwrap());
    chunk(&mut file, b"IEND", &[]);
    file
}

fn chunk(file: &mut Vec<u8>, kind: &[u8; 4], data: &[u8]) {
    let mut crc = flate2::Crc::new();
    crc.update(kind);
    crc.update(data);
    file.extend(u32::try_from(data.len()).unwrap().to_be_bytes());
    file.extend(kind);
    file.extend(data);
    file.extend(crc.sum().to_be_bytes());
}

#[test]
fn a_browser_draws_the_map_of_a_pack() {
    let dir = tempfile::tempdir().unwrap();
    write(&dir.path().join("world.pmtiles"), &coloured_pack());
    let edge = EdgeNode::start_in(dir, "packs = [\"world.pmtiles\"]");
    edge.wait_for_pack("world", "served");
    let picture = edge.node.path().join("map.png");
    // A browser takes long to start where many do, and draws nothing if it gives up.
    let page = eventually_within(Duration::from_secs(300), "the map is drawn", || {
        let page = look_at(&edge, "/edge/tiles/world", &picture, "900,600");
        // A picture of nothing compresses to almost nothing.
        let is_drawn = std::fs::metadata(&picture).is_ok_and(|file| file.len() > 3000);
        (page.contains("data-loaded=\"true\"") && is_drawn).then_some(page)
    });
    assert!(page.contains("drawn here") && !page.contains("onerror"), "text is shown as text: {page}");
    assert!(page.contains("0 to 2"), "what the pack says of itself is shown: {page}");
    if let Some(keep) = std::env::var_os("KEEP_SCREENSHOT") {
        std::fs::copy(&picture, keep).unwrap();
    }
}

/// A field of a protobuf message that has bytes.
fn field(number: u8, content: &[u8]) -> Vec<u8> {
    let mut bytes = vec![number << 3 | 2];
    varint(&mut bytes, u32::try_from(content.len()).unwrap());
    bytes.extend_from_slice(content);
    bytes
}

fn varint(to: &mut Vec<u8>, mut value: u32) {
    while value >= 0x80 {
        to.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    to.push(value.to_le_bytes()[0]);
}

/// A feature of one part: its type, and its corners in units of the tile.
fn feature(kind: u8, corners: &[(i32, i32)]) -> Vec<u8> {
    let mut geometry = Vec::new();
    let zigzag = |value: i32| u32::from_le_bytes(((value << 1) ^ (value >> 31)).to_le_bytes());
    let (mut at, rest) = ((0, 0), u32::try_from(corners.len()).unwrap() - 1);
    for (nth, corner) in corners.iter().enumerate() {
        match nth {
            0 => varint(&mut geometry, 1 << 3 | 1),
            1 => varint(&mut geometry, rest << 3 | 2),
            _ => {}
        }
        varint(&mut geometry, zigzag(corner.0 - at.0));
        varint(&mut geometry, zigzag(corner.1 - at.1));
        at = *corner;
    }
    if kind == 3 {
        varint(&mut geometry, 1 << 3 | 7);
    }
    field(2, &[vec![0x18, kind], field(4, &geometry)].concat())
}

fn layer(name: &str, features: &[Vec<u8>]) -> Vec<u8> {
    field(3, &[field(1, name.as_bytes()), features.concat(), vec![0x28, 0x80, 0x20, 0x78, 2]].concat())
}

/// A pack of vector tiles, gzipped: land with a lake in it, roads and towns in each tile.
fn vector_pack() -> Vec<u8> {
    let land = feature(3, &[(400, 400), (3700, 400), (3700, 3700), (400, 3700)]);
    // The other way round: a hole.
    let lake = feature(3, &[(1500, 1500), (1500, 2600), (2600, 2600), (2600, 1500)]);
    let road = feature(2, &[(0, 600), (2000, 1200), (4096, 600)]);
    let path = feature(2, &[(600, 4096), (1200, 2000), (600, 0)]);
    let towns = [(900, 900), (3000, 3000), (3300, 900)].map(|at| feature(1, &[at]));
    let tile = [
        layer("land", &[land]),
        layer("water", &[lake]),
        layer("roads", &[road, path]),
        layer("towns", &towns),
    ];
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    std::io::Write::write_all(&mut encoder, &tile.concat()).unwrap();
    let tile = encoder.finish().unwrap();
    let mut writer = pmtiles::Writer::new(pmtiles::Settings {
        tile_type: pmtiles::TileType::Mvt,
        tile_coding: Some(decode::Coding::Gzip),
        metadata: r#"{"vector_layers":[{"id":"land","fields":{}},{"id":"water","fields":{}},{"id":"roads","fields":{}}]}"#.to_owned(),
        ..pmtiles::Settings::default()
    });
    for (zoom, x, y) in places(2) {
        writer.push(pmtiles::Coord::new(zoom, x, y).unwrap().id(), &tile).unwrap();
    }
    writer.finish().unwrap()
}

/// The pixels of a PNG as browsers write it: 8 bits a channel, not interlaced.
fn pixels(file: &[u8]) -> Vec<[u8; 3]> {
    let (mut at, mut data, mut head) = (8, Vec::new(), [0; 13]);
    while at < file.len() {
        let len = u32::from_be_bytes(file[at..at + 4].try_into().unwrap()) as usize;
        let content = &file[at + 8..at + 8 + len];
        match &file[at + 4..at + 8] {
            b"IHDR" => head.copy_from_slice(content),
            b"IDAT" => data.extend_from_slice(content),
            _ => {}
        }
        at += len + 12;
    }
    let width = u32::from_be_bytes(head[..4].try_into().unwrap()) as usize;
    let channels = if head[9] == 6 { 4 } else { 3 };
    let mut raw = Vec::new();
    std::io::Read::read_to_end(&mut flate2::read::ZlibDecoder::new(&data[..]), &mut raw).unwrap();
    let mut before = vec![0; width * channels];
    let mut pixels = Vec::new();
    for row in raw.chunks(width * channels + 1) {
        let mut line = row[1..].to_vec();
        for at in 0..line.len() {
            let (left, up) = (if at < channels { 0 } else { line[at - channels] }, before[at]);
            let corner = if at < channels { 0 } else { before[at - channels] };
            let add = match row[0] {
                1 => left,
                2 => up,
                3 => u8::midpoint(left, up),
                4 => paeth(left, up, corner),
                _ => 0,
            };
            line[at] = line[at].wrapping_add(add);
        }
        pixels.extend(line.chunks(channels).map(|pixel| [pixel[0], pixel[1], pixel[2]]));
        before = line;
    }
    pixels
}

fn paeth(left: u8, up: u8, corner: u8) -> u8 {
    let guess = i16::from(left) + i16::from(up) - i16::from(corner);
    let far = |of: u8| (guess - i16::from(of)).abs();
    [left, up, corner].into_iter().min_by_key(|of| far(*of)).unwrap_or(left)
}

#[test]
fn a_browser_draws_the_shapes_of_vector_tiles_by_layer() {
    let dir = tempfile::tempdir().unwrap();
    write(&dir.path().join("vector.pmtiles"), &vector_pack());
    let edge = EdgeNode::start_in(dir, "packs = [\"vector.pmtiles\"]");
    edge.wait_for_pack("vector", "served");
    for (window, name) in [("1440,900", "wide"), ("390,844", "narrow")] {
        let picture = edge.node.path().join(format!("{name}.png"));
        let page = eventually_within(Duration::from_secs(300), "the map is drawn", || {
            let page = look_at(&edge, "/edge/tiles/vector", &picture, window);
            (page.contains("data-loaded=\"true\"") && picture.exists()).then_some(page)
        });
        // Seven features in each tile that is in view.
        let drawn = page
            .split("data-features=\"")
            .nth(1)
            .and_then(|rest| rest.split('"').next()?.parse::<u32>().ok());
        assert!(drawn.is_some_and(|drawn| drawn >= 7 && drawn % 7 == 0), "{drawn:?}: {page}");
        for layer in ["land", "water", "roads", "towns"] {
            assert!(page.contains(&format!("data-layer=\"{layer}\"")), "the legend has {layer}: {page}");
        }
        let pixels = pixels(&std::fs::read(&picture).unwrap());
        let coloured = pixels.iter().filter(|[r, g, b]| r.max(g).max(b) - r.min(g).min(b) > 40).count();
        assert!(coloured * 10 > pixels.len(), "{coloured} of {} pixels have a colour", pixels.len());
        if let Some(keep) = std::env::var_os("KEEP_SCREENSHOTS") {
            std::fs::copy(&picture, Path::new(&keep).join(format!("{name}.png"))).unwrap();
        }
    }
}
