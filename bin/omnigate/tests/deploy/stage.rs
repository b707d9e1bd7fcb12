//! What the pages take for granted: the program on the path, a server at port 3000, ports that are free, a pack, a folder
//! of files; and nodes that run while the next lines are typed.

use std::{
    fs,
    io::{Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpListener},
    os::unix::fs::{PermissionsExt, symlink},
    path::Path,
    process::Command,
    thread,
};

use tempfile::TempDir;

use crate::{ports::free_port, repository};

/// Before the commands of a page. Cargo has built what is to be run; the node before is stopped by the next one.
const PRELUDE: &str = r#"set -euo pipefail
cargo() { case "$*" in build\ *) ;; *) echo "nobody has built cargo $*" >&2; return 1 ;; esac; }
kill() { :; }
curl() {
    case " $* " in
    # What never ends is looked at for a while.
    *' -N '*) timeout 5 curl "$@" || [[ $? -eq 124 ]] ;;
    *) command curl --fail --silent --show-error --max-time 60 --retry 60 --retry-delay 1 --retry-connrefused "$@" ;;
    esac
}
"#;

/// In place of the program: nodes are started beside the shell, and are ready when it goes on.
const PROGRAM: &str = r#"#!/bin/bash
set -euo pipefail
# An unoptimised program draws for minutes; a world of fewer tiles is one too.
if [[ "$*" == "pack make "* ]]; then exec REAL "$@" --zoom 2; fi
case "${1:-}" in
up | gateway | edge | overlay | rewarder) ;;
*) exec REAL "$@" ;;
esac
if [[ -f NODE ]]; then
    node=$(cat NODE)
    kill -TERM "$node" 2>/dev/null || true
    while kill -0 "$node" 2>/dev/null; do sleep 0.05; done
fi
REAL "$@" </dev/null >>node.log 2>&1 &
echo $! >NODE
for _ in $(seq 1200); do
    if curl --silent --fail --max-time 5 "http://$OMNIGATE_ADMIN__LISTEN/readyz" >/dev/null; then exit 0; fi
    if ! kill -0 $! 2>/dev/null; then break; fi
    sleep 0.05
done
cat node.log >&2
exit 1
"#;

/// In place of a program that Debian does not have.
const B3SUM: &str =
    "#!/bin/bash\n# b3sum --no-names FILE\nREAL cas put \"$2\" --dir \"$(mktemp -d)\" | sed s/b3://\n";

/// A folder to run commands in.
pub(crate) struct Stage {
    dir: TempDir,
    /// What stands in the pages, and what is there instead.
    places: Vec<(&'static str, String)>,
    settings: Vec<(&'static str, String)>,
}

impl Stage {
    pub(crate) fn for_page(page: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let [gateway, edge, admin, rewarder] =
            [(); 4].map(|()| SocketAddr::from((Ipv4Addr::LOCALHOST, free_port())));
        let stage = Self {
            places: vec![
                ("localhost:8080", gateway.to_string()),
                ("localhost:8081", edge.to_string()),
                ("localhost:9600", admin.to_string()),
                ("127.0.0.1:3000", serve().to_string()),
            ],
            settings: vec![
                ("OMNIGATE_GATEWAY__LISTEN", gateway.to_string()),
                ("OMNIGATE_EDGE__LISTEN", edge.to_string()),
                ("OMNIGATE_ADMIN__LISTEN", admin.to_string()),
                ("OMNIGATE_OVERLAY__LISTEN", "127.0.0.1:0".to_owned()),
                ("OMNIGATE_REWARDER__LISTEN", rewarder.to_string()),
            ],
            dir,
        };
        stage.furnish();
        if page.starts_with("deploy/examples/") {
            stage.bring(&repository(page));
        }
        stage
    }

    fn furnish(&self) {
        let work = self.work();
        for folder in ["public", "target/release"] {
            fs::create_dir_all(work.join(folder)).unwrap();
        }
        fs::write(work.join("public/hello.txt"), "hello\n").unwrap();
        symlink(repository("core"), work.join("core")).unwrap();
        let bin = self.dir.path().join("bin");
        fs::create_dir(&bin).unwrap();
        let node = self.node_file();
        let program =
            PROGRAM.replace("REAL", env!("CARGO_BIN_EXE_omnigate")).replace("NODE", node.to_str().unwrap());
        write_program(&bin.join("omnigate"), &program);
        write_program(&work.join("target/release/omnigate"), &program);
        write_program(&bin.join("b3sum"), &B3SUM.replace("REAL", env!("CARGO_BIN_EXE_omnigate")));
    }

    /// Copies what an example comes with.
    fn bring(&self, page: &Path) {
        for file in fs::read_dir(page.parent().unwrap()).unwrap().map(|entry| entry.unwrap().path()) {
            fs::copy(&file, self.work().join(file.file_name().unwrap())).unwrap();
        }
    }

    /// Runs a script; it has to end without complaint.
    #[track_caller]
    pub(crate) fn run(&self, page: &str, script: &str) {
        let mut script = script.to_owned();
        for (written, meant) in &self.places {
            script = script.replace(written, meant);
        }
        if script.contains("world.pmtiles") && !script.contains("pack make") {
            script = format!("omnigate pack make --demo world.pmtiles\n{script}");
        }
        let path = format!("{}:/usr/local/bin:/usr/bin:/bin", self.dir.path().join("bin").display());
        let output = Command::new("timeout")
            .args(["600", "bash", "-c", &format!("{PRELUDE}{script}")])
            .current_dir(self.work())
            .env_clear()
            .env("PATH", path)
            .envs(self.settings.iter().map(|(name, value)| (name, value)))
            .output()
            .unwrap();
        let [said, complained] =
            [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
        assert!(output.status.success(), "{page}: {}\n{said}\n{complained}", output.status);
    }

    fn work(&self) -> std::path::PathBuf {
        let work = self.dir.path().join("work");
        fs::create_dir_all(&work).unwrap();
        work
    }

    fn node_file(&self) -> std::path::PathBuf {
        self.dir.path().join("node.pid")
    }
}

impl Drop for Stage {
    /// Ends the node that the last commands have left.
    fn drop(&mut self) {
        if let Ok(node) = fs::read_to_string(self.node_file()) {
            let _ = Command::new("kill").args(["-KILL", node.trim()]).output();
        }
    }
}

fn write_program(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// A server that has the same answer for everybody.
fn serve() -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let addr = listener.local_addr().unwrap();
    thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            thread::spawn(move || {
                let (mut request, mut piece) = (Vec::new(), [0; 1024]);
                while !request.windows(4).any(|four| four == b"\r\n\r\n") {
                    match stream.read(&mut piece) {
                        Ok(read) if read > 0 => request.extend_from_slice(&piece[..read]),
                        _ => return,
                    }
                }
                let _ = stream
                    .write_all(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 3\r\n\r\nok\n");
            });
        }
    });
    addr
}
