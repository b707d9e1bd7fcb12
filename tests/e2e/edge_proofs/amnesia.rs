//! A node that must not write anything does not, whatever it is asked to do: the system itself says so.

use std::{fs, path::Path};

use super::{
    edge_node::EdgeNode,
    making::{gzip, mbtiles_pack, noise, pmtiles_pack},
    origin::{Origin, send},
};

/// Everything that opens, makes, moves, cuts or removes a file.
const TRACED: &str = "trace=open,openat,openat2,creat,mkdir,mkdirat,mknod,mknodat,rename,renameat,renameat2,link,linkat,\
    symlink,symlinkat,unlink,unlinkat,rmdir,truncate,ftruncate,fallocate,chmod,fchmod,fchmodat,utimensat,memfd_create";
/// Ways of opening a file that can change it.
const WRITING: [&str; 6] = ["O_WRONLY", "O_RDWR", "O_CREAT", "O_TRUNC", "O_APPEND", "O_TMPFILE"];

/// What a line of the trace says was written, if anything was.
fn writes(line: &str) -> bool {
    let call = line.split_once(' ').map_or("", |(_, call)| call.trim_start());
    if call.starts_with("+++") || call.starts_with("---") || call.starts_with("<...") {
        return false;
    }
    if call.starts_with("open") {
        return WRITING.iter().any(|how| call.contains(how)) && !call.contains("\"/dev/");
    }
    true
}

/// Every file below a folder.
fn files(folder: &Path) -> Vec<String> {
    let mut all: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .flat_map(|path| if path.is_dir() { files(&path) } else { vec![path.display().to_string()] })
        .collect();
    all.sort();
    all
}

fn settings(dir: &Path, origin: &Origin, cache_control: &str) -> String {
    format!(
        "{}packs = [{:?}, {:?}]\nroots = [{:?}]\ncache_control.assets = \"{cache_control}\"\n",
        origin.settings(),
        dir.join("a.pmtiles"),
        dir.join("b.mbtiles"),
        dir.join("public")
    )
}

/// Something of everything that there is.
fn work(node: &EdgeNode, origin: &Origin) {
    let mut paths: Vec<String> = ["packs", "tiles/a", "tiles/a.json", "preview/map.js", "tiles/b/1/0/1.pbf"]
        .map(|path| format!("/edge/{path}"))
        .into();
    paths.extend(
        ["small.txt", "large.bin", "a.pmtiles", "b.mbtiles"].map(|path| format!("/edge/assets/{path}")),
    );
    paths.extend((0..4).map(|row| format!("/edge/tiles/a/2/1/{row}.png")));
    paths.extend((0..8).map(|number| origin.asset(&format!("/{number}"))));
    // Once more, from RAM.
    for path in paths.iter().chain(&paths) {
        let got = node.ask(path);
        assert!(got.status == 200 && got.whole, "{path}: {} {}", got.status, got.reason());
    }
    let part = node.asker().ask("/edge/assets/large.bin", "range: bytes=1000000-1000099\r\n").unwrap();
    assert_eq!((part.status, part.body.len()), (206, 100));
    assert!(
        node.ask("/edge/assets/none").status == 404
            && node.ask("/edge/assets/elsewhere.test/x").status >= 400
    );
}

/// Has a node do everything, and returns what it did that could write.
fn traced(node_table: &str) -> Vec<String> {
    let (dir, aside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let pack = pmtiles_pack(3, |(_, column, row)| format!("{column}/{row}").into_bytes());
    fs::write(dir.path().join("a.pmtiles"), pack).unwrap();
    let tile = |(_, column, row)| gzip(format!("{column}/{row}").as_bytes());
    mbtiles_pack(&dir.path().join("b.mbtiles"), "pbf", 2, tile);
    fs::create_dir(dir.path().join("public")).unwrap();
    fs::write(dir.path().join("public/small.txt"), "small").unwrap();
    fs::write(dir.path().join("public/large.bin"), noise(1, 1_500_000)).unwrap();
    let origin = Origin::start(|path, stream| send(stream, &noise(path.len(), 50_000)));

    let trace = aside.path().join("trace");
    let strace = ["strace", "-D", "-f", "-qq", "-e", TRACED, "-o", trace.to_str().unwrap()];
    let edge = |cache_control: &str| settings(dir.path(), &origin, cache_control);
    let before = files(dir.path());
    let mut node = EdgeNode::start_under(&strace, dir.path(), node_table, &edge("no-cache"));
    work(&node, &origin);
    node.reload(node_table, &edge("max-age=5"));
    work(&node, &origin);
    node.signal("TERM");
    assert!(node.wait().success());
    drop(node);
    let text = fs::read_to_string(&trace).unwrap();
    for read in ["omnigate.toml", "a.pmtiles", "b.mbtiles", "large.bin", "small.txt"] {
        assert!(text.contains(read), "the trace does not know of {read}: {text}");
    }
    let mut written: Vec<String> = text.lines().filter(|line| writes(line)).map(str::to_owned).collect();
    // Ours, before and beside it.
    let ours = ["omnigate.toml", "node.log"].map(|name| dir.path().join(name).display().to_string());
    let new = files(dir.path()).into_iter().filter(|file| !before.contains(file) && !ours.contains(file));
    written.extend(new);
    println!("amnesia: {:?}: {} calls, {} that could write", node_table, text.lines().count(), written.len());
    written
}

#[test]
fn a_node_with_amnesia_opens_no_file_for_writing() {
    assert_eq!(traced("amnesia = true"), [""; 0]);
    // The same work leaves traces otherwise, and they are seen.
    assert!(traced("").iter().any(|line| line.contains("cas/objects")));
}
