//! `omnigate object put` and `get`: objects of a running node and its peers, by way of its admin listener.

#![expect(
    clippy::disallowed_methods,
    reason = "a command that reads or writes a file and ends; no runtime is running"
)]

use std::{
    ffi::OsString,
    fs::{self, File},
    io::{self, Read, Write},
    path::{Path, PathBuf},
};

use serde_json::{Value, json};
use types::{NodeId, ObjectId};

use super::admin_client::AdminClient;
use crate::{
    commands::{cas::progress::Progress, pretty, print},
    config_file::ConfigSource,
    failure::Failure,
};

/// What `object put` is to do.
#[derive(Debug)]
pub(crate) struct PutObject {
    /// `-` is standard input.
    pub(crate) file: PathBuf,
    /// Peers to hand it to.
    pub(crate) to: Vec<NodeId>,
    pub(crate) json: bool,
}

/// Keeps a file as an object, and hands it to peers.
pub(in crate::commands) fn put(source: &ConfigSource, what: &PutObject) -> Result<(), Failure> {
    let client = AdminClient::of(source)?;
    let (mut from, len) = open(&what.file)?;
    let mut progress = Progress::new("read", len);
    let kept = client.upload("/overlay/objects", &mut *from, |sent| progress.set(sent))?;
    drop(progress);
    let id = kept["id"].as_str().unwrap_or_default().to_owned();
    for node in &what.to {
        hand_over(&client, &id, *node, kept["len"].as_u64().unwrap_or_default())?;
    }
    if what.json {
        let to: Vec<String> = what.to.iter().map(NodeId::to_string).collect();
        return print(&pretty(&json!({ "id": id, "len": kept["len"], "to": to })));
    }
    print(&format!("{id}\n"))
}

fn hand_over(client: &AdminClient, id: &str, node: NodeId, len: u64) -> Result<(), Failure> {
    let mut progress = Progress::new("handed over", len);
    let mut end = None;
    client.events("POST", &format!("/overlay/offer/{id}?to={node}"), |name, data: &Value| {
        match name {
            "progress" => progress.set(data["bytes"].as_u64().unwrap_or_default()),
            "stored" => end = Some(Ok(())),
            _ => {
                let why = data["detail"].as_str().unwrap_or("it did not say why");
                end = Some(Err(Failure::failed(format!("{node} has not stored it: {why}"))));
            }
        }
        Ok(end.is_none())
    })?;
    end.unwrap_or_else(|| Err(Failure::failed(format!("the node did not say whether {node} has stored it"))))
}

fn open(path: &Path) -> Result<(Box<dyn Read>, u64), Failure> {
    if path == Path::new("-") {
        return Ok((Box::new(io::stdin().lock()), 0));
    }
    let unreadable = |error| Failure::failed(format!("cannot read {}: {error}", path.display()));
    let file = File::open(path).map_err(unreadable)?;
    let len = file.metadata().map_err(unreadable)?.len();
    Ok((Box::new(file), len))
}

/// Writes an object to a file, whole or not at all, or to standard output.
pub(in crate::commands) fn get(
    source: &ConfigSource,
    id: ObjectId,
    output: Option<&Path>,
) -> Result<(), Failure> {
    let client = AdminClient::of(source)?;
    let Some(path) = output else {
        return receive(&client, id, "standard output", &mut io::stdout().lock());
    };
    let mut draft = OsString::from(path);
    draft.push(".part");
    let draft = PathBuf::from(draft);
    let place = path.display().to_string();
    let unwritable = |error| Failure::failed(format!("cannot write {place}: {error}"));
    let written = File::create(&draft).map_err(unwritable).and_then(|mut file| {
        receive(&client, id, &place, &mut file)?;
        fs::rename(&draft, path).map_err(unwritable)
    });
    if written.is_err() {
        // The failure is what matters, whether or not the remains can be removed.
        let _ = fs::remove_file(&draft);
    }
    written
}

fn receive(client: &AdminClient, id: ObjectId, place: &str, output: &mut dyn Write) -> Result<(), Failure> {
    let unwritable = |error| Failure::failed(format!("cannot write {place}: {error}"));
    let mut builder = b3tree::Builder::new();
    let mut progress: Option<Progress> = None;
    let write = |piece: &[u8]| {
        builder.update(piece);
        output.write_all(piece).map_err(unwritable)
    };
    let path = format!("/overlay/objects/{id}");
    client.download(&path, write, |done, len| {
        progress.get_or_insert_with(|| Progress::new("received", len)).set(done);
    })?;
    // The node has checked it; that the connection to it broke off shows here.
    if builder.finish().root() != id {
        return Err(Failure::failed(format!("the node sent only a part of {id}")));
    }
    output.flush().map_err(unwritable)
}
