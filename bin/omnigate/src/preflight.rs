//! What is looked at before a node starts because somebody typed it: a node waits for what comes later, a person means
//! what is there.
#![expect(clippy::disallowed_methods, reason = "looked at before anything runs that could be blocked")]

use std::{
    net::{SocketAddr, TcpStream, ToSocketAddrs},
    path::{Path, PathBuf},
    time::Duration,
};

use ron_kernel::config::{Origin, Snapshot};
use ron_ledger::Place;
use ron_transport::addr::{Endpoint, Host, Target};

use crate::{
    failure::Failure,
    settings::{LedgerConfig, NodeConfig},
};

/// How long a server may take to accept a connection before it is said that it does not.
const PATIENCE: Duration = Duration::from_secs(1);

/// What is kept is where the configuration says. A path that starts at the file's folder and was meant to start at the working
/// folder would have the node begin anew, with an empty ledger.
pub(crate) fn refuse_data_left_behind(config: &Snapshot, file: Option<&Path>) -> Result<(), Failure> {
    let (Some(file), Ok(working_folder)) = (file, std::env::current_dir()) else { return Ok(()) };
    let folder = working_folder.join(file.parent().unwrap_or(Path::new("")));
    let node = config.get::<NodeConfig>();
    let ledger = match config.get::<LedgerConfig>().place(&node.data_dir, node.amnesia) {
        Place::File(path) => Some(path),
        _ => None,
    };
    let kept = [("node.data_dir", Some(node.data_dir.clone())), ("ledger.url", ledger)];
    for (setting, path) in kept {
        let Some(path) = path.filter(|_| matches!(config.origin(setting), Origin::File { .. })) else {
            continue;
        };
        let Ok(written) = path.strip_prefix(&folder) else { continue };
        let other = working_folder.join(written);
        if other != path && !path.exists() && other.exists() {
            let (path, other) = (path.display(), other.display());
            let problem = format!(
                "{setting}: {path} does not exist, and {other} does; a relative path starts at the folder of the file"
            );
            return Err(Failure::bad_config(problem).help("write the full path, or move what is there"));
        }
    }
    Ok(())
}

/// Every pack is there, and begins like one.
pub(crate) fn refuse_what_is_no_pack(packs: &[PathBuf]) -> Result<(), Failure> {
    for pack in packs {
        let shown = pack.display();
        if !pack.exists() {
            return Err(Failure::bad_config(format!("there is no pack {shown}"))
                .help("`omnigate pack make --demo world.pmtiles` makes a demonstration pack"));
        }
        if pack.is_dir() {
            return Err(Failure::bad_config(format!("{shown} is a folder"))
                .help("serve the files in it with `--dir`, or name a pack in it"));
        }
        let format = packs::Format::of_file(pack);
        if format.map_err(|error| Failure::bad_config(format!("{shown} cannot be read: {error}")))?.is_none()
        {
            return Err(Failure::bad_config(format!("{shown} is neither PMTiles nor MBTiles"))
                .help("serve files as they are with `--dir` and the folder they are in"));
        }
    }
    Ok(())
}

/// Every folder is there, and is one.
pub(crate) fn refuse_what_is_no_folder(folders: &[PathBuf]) -> Result<(), Failure> {
    for folder in folders {
        let shown = folder.display();
        if !folder.exists() {
            return Err(Failure::bad_config(format!("there is no folder {shown}"))
                .help("name the folder whose files are to be served"));
        }
        if !folder.is_dir() {
            return Err(Failure::bad_config(format!("{shown} is not a folder"))
                .help("name the folder that it is in, or serve a pack with `--pack`"));
        }
    }
    Ok(())
}

/// Says so if nobody listens where every request is to be passed to. The server may come later, so it is no mistake.
pub(crate) fn mention_silence(server: &Endpoint) {
    let Target::Tcp { host, port } = server.target() else { return };
    let addrs = match host {
        Host::Ip(ip) => Ok(vec![SocketAddr::new(*ip, *port)]),
        Host::Name(name) => (name.as_str(), *port).to_socket_addrs().map(Iterator::collect),
    };
    let reached = addrs.and_then(|addrs| {
        let mut last = std::io::Error::other("it has no address");
        for addr in addrs {
            match TcpStream::connect_timeout(&addr, PATIENCE) {
                Ok(_) => return Ok(()),
                Err(error) => last = error,
            }
        }
        Err(last)
    });
    if let Err(error) = reached {
        eprintln!("note: nobody answers at {server} ({error}); until somebody does, requests get 502");
    }
}
