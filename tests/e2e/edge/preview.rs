//! The map of a pack in a real browser.

use std::{path::Path, process::Command, time::Duration};

use crate::support::eventually_within;

use super::{EdgeNode, places, write};

/// What the page says about itself once its script has run, and a picture of it.
fn look_at(edge: &EdgeNode, path: &str, picture: &Path) -> String {
    let profile = edge.node.path().join("profile");
    let url = format!("http://{}{path}", edge.addr);
    let browser = |what: &[&str]| {
        Command::new("chromium")
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--window-size=900,600"])
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
        let page = look_at(&edge, "/edge/tiles/world", &picture);
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
