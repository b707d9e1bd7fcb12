//! What is looked at before a node starts because somebody typed it: a node waits for what comes later, a person means
//! what is there.
#![expect(clippy::disallowed_methods, reason = "looked at before anything runs that could be blocked")]

use std::{
    net::{SocketAddr, TcpStream, ToSocketAddrs},
    path::PathBuf,
    time::Duration,
};

use ron_transport::addr::{Endpoint, Host, Target};

use crate::failure::Failure;

/// How long a server may take to accept a connection before it is said that it does not.
const PATIENCE: Duration = Duration::from_secs(1);

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
