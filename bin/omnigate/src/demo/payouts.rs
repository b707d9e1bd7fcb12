//! What the latest epoch paid, asked over HTTP as anybody would.

use std::{io, net::SocketAddr, time::Duration};

use serde_json::Value;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpSocket,
};

/// How long an answer may take, and how long it may be.
const PATIENCE: Duration = Duration::from_secs(1);
const MAX_ANSWER: u64 = 1 << 20;

/// The latest epoch that was paid, in words; `None` before the first.
///
/// Cancel safe.
pub(super) async fn latest(rewarder: SocketAddr) -> Option<String> {
    let epochs = get(rewarder, "/rewarder/epochs?limit=8").await?;
    let paid = epochs["epochs"].as_array()?.iter().find(|epoch| epoch["state"] == "settled")?;
    let epoch = paid["epoch"].as_u64()?;
    let manifest = &get(rewarder, &format!("/rewarder/epochs/{epoch}")).await?["manifest"];
    let (sum, nodes) = (manifest["paid"].as_str()?, &manifest["allocations"]["lines"]);
    Some(format!("epoch {epoch} paid {sum} to {nodes} nodes"))
}

async fn get(from: SocketAddr, path: &str) -> Option<Value> {
    let answer = tokio::time::timeout(PATIENCE, ask(from, path)).await.ok()?.ok()?;
    let (_, body) = answer.split_once("\r\n\r\n")?;
    serde_json::from_str(body).ok()
}

async fn ask(from: SocketAddr, path: &str) -> io::Result<String> {
    let mut stream = TcpSocket::new_v4()?.connect(from).await?;
    let request = format!("GET {path} HTTP/1.1\r\nhost: {from}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.take(MAX_ANSWER).read_to_string(&mut answer).await?;
    Ok(answer)
}
