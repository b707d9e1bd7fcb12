//! An edge, a client that says exactly what it means, and packs to serve.

use std::{
    collections::BTreeMap,
    fs,
    io::{Read, Write},
    net::TcpStream,
    path::{Path, PathBuf},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use decode::Coding;
use flate2::{Compression, write::GzEncoder};
use pmtiles::{Coord, Settings, TileType, Writer};
use ron_kernel::{Exit, Kernel, Scope};
use ron_transport::{addr::ListenAddr, inherit::Inherited};
use svc_edge::{Edge, EdgeConfig, EdgeSettings, PackConfig, RootConfig, TOPOLOGY};

/// Longer than anything takes on a busy machine: only what hangs meets it.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running edge with a folder of its own; it stops when the test drops it.
pub(crate) struct Running {
    pub(crate) scope: Scope,
    pub(crate) edge: Arc<Edge>,
    pub(crate) dir: tempfile::TempDir,
    conductor: Option<thread::JoinHandle<Exit>>,
}

/// An answer, as it came.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub(crate) fn reason(&self) -> String {
        self.json()["reason"].as_str().unwrap_or_default().to_owned()
    }
}

impl Running {
    /// An edge that serves what `prepare` puts into its folder, as `settings` say; relative paths are in that folder.
    pub(crate) fn start(prepare: impl FnOnce(&Path), settings: impl FnOnce(&mut EdgeConfig)) -> Self {
        Self::start_in(tempfile::tempdir().unwrap(), prepare, settings)
    }

    pub(crate) fn start_in(
        dir: tempfile::TempDir,
        prepare: impl FnOnce(&Path),
        settings: impl FnOnce(&mut EdgeConfig),
    ) -> Self {
        prepare(dir.path());
        let kernel = Kernel::builder("test").drain_deadline(PATIENCE).build().unwrap();
        let scope = kernel.scope(&TOPOLOGY);
        let mut config = EdgeConfig { listen: "127.0.0.1:0".parse().unwrap(), ..EdgeConfig::default() };
        // All requests of a test come from one address, and how fast is the machine's business.
        config.ingress.rps_limit = 0;
        config.ingress.fill_rps_limit = 0;
        config.ingress.timeout_secs = PATIENCE.as_secs();
        config.write_timeout = PATIENCE.into();
        settings(&mut config);
        config.packs.iter_mut().for_each(|pack| pack.path = dir.path().join(&pack.path));
        config.roots.iter_mut().for_each(|root| root.path = dir.path().join(&root.path));
        let data = dir.path().join("data");
        let settings = EdgeSettings { edge: &config, node: "test", data_dir: Some(&data) };
        let mut inherited = Inherited::from_env().unwrap();
        let edge = kernel.block_on(Edge::build(&scope, settings, &mut inherited)).unwrap();
        let conductor = thread::spawn(move || kernel.run().unwrap());
        Self { scope, edge, dir, conductor: Some(conductor) }
    }

    /// An edge that serves the files of a folder.
    pub(crate) fn with_files(files: &[(&str, &[u8])]) -> Self {
        let prepare =
            |dir: &Path| files.iter().for_each(|(name, bytes)| write(&dir.join("public").join(name), bytes));
        Self::start(prepare, |config| config.roots.push(RootConfig::new("public".into())))
    }

    /// An edge with one pack, once it is mounted.
    pub(crate) fn with_pack(bytes: &[u8]) -> Self {
        let prepare = |dir: &Path| write(&dir.join("world.pmtiles"), bytes);
        let running =
            Self::start(prepare, |config| config.packs.push(PackConfig::new("world.pmtiles".into())));
        running.wait_for_pack("world", "served");
        running
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    #[track_caller]
    pub(crate) fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, &[])
    }

    #[track_caller]
    pub(crate) fn get_with(&self, path: &str, headers: &[(&str, &str)]) -> Answer {
        self.ask("GET", path, headers)
    }

    /// Asks on a connection of its own.
    #[track_caller]
    pub(crate) fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)]) -> Answer {
        let ListenAddr::Tcp(addr) = self.edge.local_addr() else { panic!("a TCP address") };
        let mut stream = TcpStream::connect(addr).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let fields: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        write!(stream, "{method} {path} HTTP/1.1\r\nhost: edge.test\r\nconnection: close\r\n{fields}\r\n")
            .unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        parse(&answer)
    }

    /// Waits until a pack is in a state, and returns what is told of it.
    #[track_caller]
    pub(crate) fn wait_for_pack(&self, name: &str, state: &str) -> serde_json::Value {
        let mut last = serde_json::Value::Null;
        let began = Instant::now();
        while began.elapsed() < PATIENCE {
            last = self.get("/edge/packs").json();
            let found = last["packs"].as_array().unwrap().iter().find(|pack| pack["name"] == name);
            if let Some(pack) = found.filter(|pack| pack["state"] == state) {
                return pack.clone();
            }
            thread::sleep(Duration::from_millis(10));
        }
        panic!("{name} is not {state}: {last}");
    }

    /// What readiness says of the edge, as one text.
    pub(crate) fn standing(&self) -> String {
        let all = self.scope.readiness().standing(Some("edge"));
        all.iter().map(|one| format!("{}: {}\n", one.name, one.reason)).collect()
    }

    /// The value of a metric, by the start of its line.
    pub(crate) fn metric(&self, start: &str) -> f64 {
        let text = self.scope.all_metrics().prometheus_text();
        let name = start.split('{').next().unwrap_or_default();
        let page = include_str!("../../../../docs/concurrency/edge.md");
        assert!(page.contains(&format!("| `{name}`")), "no metric is called {name}");
        let line = text.lines().find(|line| line.starts_with(start));
        line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).unwrap_or_default()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.scope.shutdown().request("the test is over");
        self.conductor.take().map(thread::JoinHandle::join);
    }
}

/// Waits until something is so.
#[track_caller]
pub(crate) fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < PATIENCE, "{what}");
        thread::sleep(Duration::from_millis(10));
    }
}

fn parse(answer: &[u8]) -> Answer {
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n").expect("a whole head");
    let head = String::from_utf8(answer[..end].to_vec()).unwrap();
    let mut lines = head.lines();
    let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
    let mut headers = BTreeMap::<String, String>::new();
    for (name, value) in lines.filter_map(|line| line.split_once(": ")) {
        let all = headers.entry(name.to_owned()).or_default();
        if !all.is_empty() {
            all.push_str(", ");
        }
        all.push_str(value);
    }
    Answer { status, headers, body: answer[end + 4..].to_vec() }
}

pub(crate) fn write(path: &Path, bytes: &[u8]) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, bytes).unwrap();
}

/// Puts a file in another's place, as a new pack is put there.
pub(crate) fn rename_over(path: &Path, bytes: &[u8]) {
    let aside = path.with_extension("new");
    write(&aside, bytes);
    fs::rename(aside, path).unwrap();
}

/// A raster pack of the zoom levels 0 to 2; each tile tells its place and `mark`. One place of zoom 2 is empty.
pub(crate) fn raster_pack(mark: &str) -> Vec<u8> {
    let settings =
        Settings { metadata: r#"{"name":"World","attribution":"us"}"#.to_owned(), ..Settings::default() };
    pack(settings, |at| tile_text(at, mark).into_bytes())
}

/// A vector pack of the same places, gzipped.
pub(crate) fn vector_pack() -> Vec<u8> {
    let settings = Settings {
        tile_type: TileType::Mvt,
        tile_coding: Some(Coding::Gzip),
        metadata: r#"{"vector_layers":[{"id":"roads","fields":{}}]}"#.to_owned(),
        ..Settings::default()
    };
    pack(settings, |at| gzip(tile_text(at, "vector").as_bytes()))
}

pub(crate) fn tile_text((zoom, column, row): (u8, u32, u32), mark: &str) -> String {
    format!("{mark} {zoom}/{column}/{row} ").repeat(40)
}

pub(crate) const EMPTY_TILE: (u8, u32, u32) = (2, 3, 3);

fn pack(settings: Settings, content: impl Fn((u8, u32, u32)) -> Vec<u8>) -> Vec<u8> {
    let mut places: Vec<_> = (0..3u8)
        .flat_map(|zoom| {
            (0..1 << zoom).flat_map(move |column| (0..1 << zoom).map(move |row| (zoom, column, row)))
        })
        .filter(|place| *place != EMPTY_TILE)
        .map(|place| (Coord::new(place.0, place.1, place.2).unwrap().id(), place))
        .collect();
    places.sort_by_key(|(id, _)| id.number());
    let mut writer = Writer::new(settings);
    for (id, place) in places {
        writer.push(id, &content(place)).unwrap();
    }
    writer.finish().unwrap()
}

pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// Bytes that differ from place to place, the same every time.
pub(crate) fn noise(len: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    (0..len)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state as u8
        })
        .collect()
}

impl Running {
    /// Asks and does not read the answer.
    pub(crate) fn open(&self, path: &str) -> TcpStream {
        self.open_with(path, "")
    }

    /// The same with these fields, each ended by CRLF.
    pub(crate) fn open_with(&self, path: &str, fields: &str) -> TcpStream {
        let ListenAddr::Tcp(addr) = self.edge.local_addr() else { panic!("a TCP address") };
        let mut stream = TcpStream::connect(addr).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nhost: edge.test\r\n{fields}\r\n").unwrap();
        stream
    }
}

/// Reads a response's head and a little more.
pub(crate) fn read_head(stream: &mut TcpStream) {
    let mut piece = [0; 1024];
    assert!(stream.read(&mut piece).unwrap() > 0);
}
