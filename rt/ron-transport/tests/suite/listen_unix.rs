//! Unix sockets: their files' modes, stale and foreign files, removal.

#![expect(clippy::disallowed_methods, reason = "tests look at the files themselves")]

use std::{
    fs,
    io::{Read, Write},
    os::unix::{
        fs::{FileTypeExt, PermissionsExt},
        net::{UnixDatagram, UnixListener, UnixStream},
    },
    path::{Path, PathBuf},
};

use ron_transport::{
    addr::{ListenAddr, UNIX_PATH_MAX},
    listen::{BindError, BindOptions, Listener},
    stream::Peer,
};
use socket2::{Domain, SockAddr, Socket, Type};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

fn bind(path: &Path) -> Result<Listener, BindError> {
    Listener::bind(&ListenAddr::Unix(path.to_owned()), BindOptions::default())
}

fn socket_path() -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("app.sock");
    (dir, path)
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

#[tokio::test]
async fn a_unix_socket_serves_and_its_file_goes_with_it() {
    let (_dir, path) = socket_path();
    let listener = bind(&path).unwrap();
    let mut client = UnixStream::connect(&path).unwrap();
    let (raw, peer) = listener.accept().await.unwrap();
    assert_eq!(peer, Peer::unix());
    let mut served = raw.register().unwrap();
    client.write_all(b"ping").unwrap();
    let mut ping = [0; 4];
    served.read_exact(&mut ping).await.unwrap();
    served.write_all(b"pong").await.unwrap();
    served.shutdown().await.unwrap();
    let mut pong = String::new();
    client.read_to_string(&mut pong).unwrap();
    assert_eq!((&ping, pong.as_str()), (b"ping", "pong"));

    let _waiting = UnixStream::connect(&path).unwrap();
    assert_eq!(listener.close().len(), 1);
    assert!(!path.exists());
}

#[test]
fn the_files_mode_is_0660_or_as_asked() {
    let (_dir, path) = socket_path();
    let listener = bind(&path).unwrap();
    assert_eq!(mode(&path), 0o660);
    drop(listener.close());
    let options = BindOptions { unix_mode: 0o600 };
    let private = Listener::bind(&ListenAddr::Unix(path.clone()), options).unwrap();
    assert_eq!(mode(&path), 0o600);
    drop(private.close());
}

#[test]
fn a_stale_file_is_replaced() {
    let (_dir, path) = socket_path();
    drop(UnixListener::bind(&path).unwrap());
    assert!(path.exists());
    let listener = bind(&path).unwrap();
    UnixStream::connect(&path).unwrap();
    drop(listener.close());
}

#[test]
fn a_socket_on_which_somebody_answers_is_left_to_them() {
    let (_dir, path) = socket_path();
    let other = UnixListener::bind(&path).unwrap();
    let refused = bind(&path).unwrap_err();
    assert!(matches!(refused, BindError::PathInUse { .. }), "{refused:?}");
    assert!(refused.to_string().contains("`ss -lxp` shows it"), "{refused}");
    drop(other);
    drop(bind(&path).unwrap().close());
}

#[test]
fn a_socket_with_a_full_backlog_is_not_taken_for_stale() {
    let (_dir, path) = socket_path();
    let addr = SockAddr::unix(&path).unwrap();
    let other = Socket::new(Domain::UNIX, Type::STREAM, None).unwrap();
    other.bind(&addr).unwrap();
    other.listen(0).unwrap();
    let mut waiting = Vec::new();
    loop {
        let client = Socket::new(Domain::UNIX, Type::STREAM, None).unwrap();
        client.set_nonblocking(true).unwrap();
        if client.connect(&addr).is_err() {
            break;
        }
        waiting.push(client);
        assert!(waiting.len() < 10, "the backlog never fills");
    }
    assert!(matches!(bind(&path), Err(BindError::PathInUse { .. })));
}

#[test]
fn a_datagram_socket_is_not_taken_for_stale_while_it_lives() {
    let (_dir, path) = socket_path();
    let _other = UnixDatagram::bind(&path).unwrap();
    assert!(matches!(bind(&path), Err(BindError::PathInUse { .. })));
}

#[test]
fn a_file_that_is_no_socket_is_never_touched() {
    let (_dir, path) = socket_path();
    fs::write(&path, "precious").unwrap();
    let refused = bind(&path).unwrap_err();
    assert!(matches!(refused, BindError::NotASocket { .. }), "{refused:?}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
}

#[test]
fn a_link_to_a_stale_socket_is_never_touched() {
    let (dir, path) = socket_path();
    let target = dir.path().join("target.sock");
    drop(UnixListener::bind(&target).unwrap());
    std::os::unix::fs::symlink(&target, &path).unwrap();
    assert!(matches!(bind(&path), Err(BindError::NotASocket { .. })));
    assert!(target.exists());
}

#[test]
fn closing_leaves_a_file_that_has_taken_the_place_of_ours() {
    let (_dir, path) = socket_path();
    let listener = bind(&path).unwrap();
    fs::remove_file(&path).unwrap();
    let _theirs = UnixListener::bind(&path).unwrap();
    drop(listener.close());
    assert!(fs::metadata(&path).unwrap().file_type().is_socket());
}

#[test]
fn a_released_listener_leaves_its_file() {
    let (_dir, path) = socket_path();
    bind(&path).unwrap().release();
    assert!(path.exists());
}

#[tokio::test]
async fn a_listener_that_never_served_takes_its_file_with_it_and_one_that_did_does_not() {
    let (_dir, path) = socket_path();
    drop(bind(&path).unwrap());
    assert!(!path.exists(), "a plan that was given up leaves nothing");
    let served = bind(&path).unwrap();
    let _client = UnixStream::connect(&path).unwrap();
    served.accept().await.unwrap();
    drop(served);
    assert!(path.exists());
}

#[test]
fn a_listener_that_never_served_leaves_a_file_that_is_not_its_own() {
    let (_dir, path) = socket_path();
    let first = bind(&path).unwrap();
    fs::remove_file(&path).unwrap();
    let _second = UnixListener::bind(&path).unwrap();
    drop(first);
    assert!(path.exists());
}

#[test]
fn paths_are_bound_up_to_the_kernels_length() {
    let dir = tempfile::tempdir().unwrap();
    let room = UNIX_PATH_MAX - dir.path().as_os_str().len() - 1;
    drop(bind(&dir.path().join("p".repeat(room))).unwrap().close());
    let refused = bind(&dir.path().join("p".repeat(room + 1))).unwrap_err();
    assert!(matches!(refused, BindError::UnixPath(_)), "{refused:?}");
    assert!(
        refused
            .to_string()
            .ends_with("is 108 bytes long and a socket path holds 107: choose a shorter directory")
    );
}

#[test]
fn a_missing_directory_is_named() {
    let (dir, _) = socket_path();
    let path = dir.path().join("missing/app.sock");
    let refused = bind(&path).unwrap_err();
    assert_eq!(
        refused.to_string(),
        format!("the directory of {} does not exist: create it, or change `listen`", path.display())
    );
}
