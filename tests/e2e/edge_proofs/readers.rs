//! Clients that are not ours: curl, readers of packs in Python and JavaScript, and a browser.

mod picture;

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use super::{
    edge_node::EdgeNode,
    making::{Place, gzip, mbtiles_pack, noise, places, pmtiles_pack},
};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// What a program says; it has to succeed.
#[track_caller]
fn output(command: &mut Command, input: &str) -> Output {
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    // One that fails may not wait for it; what it says then is told below.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

#[track_caller]
fn curl(args: &[&str]) -> Vec<u8> {
    output(Command::new("curl").args(["-sS", "--fail", "--max-time", "120"]).args(args), "").stdout
}

#[test]
fn curl_gets_parts_resumes_and_decodes() {
    let dir = tempfile::tempdir().unwrap();
    let (bytes, plain) = (noise(5, 2_000_000), b"a tile that compresses, compresses, compresses".repeat(20));
    fs::create_dir(dir.path().join("public")).unwrap();
    fs::write(dir.path().join("public/file"), &bytes).unwrap();
    mbtiles_pack(&dir.path().join("v.mbtiles"), "pbf", 0, |_| gzip(&plain));
    let settings =
        format!("roots = [{:?}]\npacks = [{:?}]\n", dir.path().join("public"), dir.path().join("v.mbtiles"));
    let node = EdgeNode::start(dir.path(), "", &settings);
    let url = format!("http://{}/edge", node.edge);
    let file = format!("{url}/assets/file");
    assert!(curl(&["-r", "100-199", &file]) == bytes[100..200]);
    assert!(curl(&["-r", "1999990-", &file]) == bytes[1_999_990..]);
    assert!(curl(&["-r", "-1000", &file]) == bytes[1_999_000..]);

    let partial = dir.path().join("partial");
    fs::write(&partial, &bytes[..700_001]).unwrap();
    curl(&["-C", "-", "-o", partial.to_str().unwrap(), &file]);
    assert!(fs::read(&partial).unwrap() == bytes, "what was resumed is not the file");
    // What is whole already is not asked for again: nothing is left to be got.
    output(Command::new("curl").args(["-sS", "-C", "-", "-o", partial.to_str().unwrap(), &file]), "");
    assert!(fs::read(&partial).unwrap() == bytes, "what was whole was spoilt");

    let tile = format!("{url}/tiles/v/0/0/0.pbf");
    assert!(curl(&["--compressed", &tile]) == plain);
    assert!(curl(&[&tile]) == plain, "who does not say that they take gzip gets the plain tile");
    assert!(curl(&["-H", "accept-encoding: gzip", &tile]) == gzip(&plain));
}

/// Tiles of a size that names their place.
fn tile((zoom, column, row): Place) -> Vec<u8> {
    noise(usize::from(zoom) + 1, 50 + usize::try_from(column * 3 + row).unwrap())
}

/// Has a reader read a pack from the edge, one with leaf directories.
fn read_with(reader: impl FnOnce(&str) -> Command) {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("p.pmtiles"), pmtiles_pack(6, tile)).unwrap();
    let node = EdgeNode::start(dir.path(), "", &format!("packs = [{:?}]\n", dir.path().join("p.pmtiles")));
    let wanted: Vec<Place> = places(6).into_iter().step_by(23).collect();
    let lines: String = wanted.iter().map(|(zoom, column, row)| format!("{zoom} {column} {row}\n")).collect();
    let mut command = reader(&format!("http://{}/edge/assets/p.pmtiles", node.edge));
    let said = String::from_utf8(output(&mut command, &lines).stdout).unwrap();
    let hex = |bytes: Vec<u8>| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let expected =
        std::iter::once("0 6 proof".to_owned()).chain(wanted.into_iter().map(|place| hex(tile(place))));
    assert!(said.lines().eq(expected), "{said}");
}

#[test]
#[ignore = "needs Python packages: run `tools/check clients`"]
fn a_reader_in_python_reads_a_pack_by_ranges() {
    read_with(|url| {
        let mut command = Command::new(root().join("target/tools/python/bin/python"));
        command.arg(root().join("tests/clients/pmtiles_client.py")).arg(url);
        command
    });
}

#[test]
#[ignore = "needs packages of npm: run `tools/check clients`"]
fn a_reader_in_javascript_reads_a_pack_by_ranges() {
    read_with(|url| {
        let mut command = Command::new("node");
        command
            .arg(root().join("tests/clients/pmtiles_client.mjs"))
            .arg(root().join("target/tools/node"))
            .arg(url);
        command
    });
}

#[test]
#[ignore = "needs a browser: run `tools/check clients`"]
fn a_browser_shows_the_map_of_the_demo_pack() {
    let dir = tempfile::tempdir().unwrap();
    let demo = dir.path().join("demo.pmtiles");
    let make = ["pack", "make", "--demo", "--zoom", "3"];
    output(Command::new(env!("CARGO_BIN_EXE_omnigate")).args(make).arg(&demo), "");
    let node = EdgeNode::start(dir.path(), "", &format!("packs = [{demo:?}]\n"));
    let picture = root().join("target/demo-map.png");
    let said = output(
        Command::new("chromium")
            .args([
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--hide-scrollbars",
                "--window-size=1000,700",
            ])
            .args(["--virtual-time-budget=20000", "--enable-logging=stderr"])
            .arg(format!("--user-data-dir={}", dir.path().join("profile").display()))
            .arg(format!("--screenshot={}", picture.display()))
            .arg(format!("http://{}/edge/tiles/demo", node.edge))
            .env("HOME", dir.path()),
        "",
    );
    let log = String::from_utf8_lossy(&said.stderr);
    let complaints: Vec<&str> = log.lines().filter(|line| line.contains("CONSOLE")).collect();
    assert!(complaints.is_empty(), "{complaints:#?}");
    let colours = picture::colours_in_the_middle(&fs::read(&picture).unwrap());
    println!("the picture has {colours} colours in its middle: {}", picture.display());
    assert!(colours > 50, "{colours} colours are no map");
}
