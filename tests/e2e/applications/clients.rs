//! The small client libraries: publish, subscribe, and go on after a cut.

use std::{
    io::{Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::Command,
    sync::{Arc, Mutex},
    thread,
};

use omnigate_client::{Error, Topics};

use super::TopicNode;

/// A link whose connections a test can cut.
struct Link {
    addr: SocketAddr,
    open: Arc<Mutex<Vec<TcpStream>>>,
}

impl Link {
    fn to(far: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (addr, open) = (listener.local_addr().unwrap(), Arc::<Mutex<Vec<TcpStream>>>::default());
        let kept = Arc::clone(&open);
        thread::spawn(move || {
            for near in listener.incoming().map_while(Result::ok) {
                let Ok(far) = TcpStream::connect(far) else { return };
                kept.lock().unwrap().extend([near.try_clone().unwrap(), far.try_clone().unwrap()]);
                for (from, to) in [(near.try_clone(), far.try_clone()), (far.try_clone(), near.try_clone())] {
                    let (from, to) = (from.unwrap(), to.unwrap());
                    thread::spawn(move || relay(from, to));
                }
            }
        });
        Self { addr, open }
    }

    fn cut(&self) {
        for socket in self.open.lock().unwrap().drain(..) {
            let _ = socket.shutdown(Shutdown::Both);
        }
    }
}

fn relay(mut from: TcpStream, mut to: TcpStream) {
    let mut buffer = [0; 16 * 1024];
    while let Ok(read @ 1..) = from.read(&mut buffer) {
        if to.write_all(&buffer[..read]).is_err() {
            return;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A node, a link to it, and a token for `lib.>`.
fn stage() -> (TopicNode, Link, String) {
    let node = TopicNode::with_tokens("publish_rps = 0\n");
    let link = Link::to(node.api);
    let token = node.mint(&["--publish", "lib.>", "--subscribe", "lib.>"]);
    (node, link, token)
}

#[test]
fn the_rust_client_publishes_subscribes_and_goes_on_after_a_cut() {
    let (_node, link, token) = stage();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let topics = Topics::new(&format!("http://{}", link.addr)).unwrap().with_token(&token);
        let mut heard = topics.subscribe(["lib.*", "lib.deep.>"], None);
        heard.ready().await.unwrap();
        let published = topics.publish("lib.a", "one").await.unwrap();
        assert_eq!((published.verdict.as_str(), published.id.seq), ("local_only", 1));
        let event = heard.next().await.unwrap().unwrap();
        assert_eq!((event.topic(), event.text()), (Some("lib.a"), Some("one")));
        link.cut();
        topics.publish("lib.b", "two").await.unwrap();
        topics.publish("lib.deep.c", &[0, 255][..]).await.unwrap();
        let mut bodies = [0, 1].map(|_| Vec::new());
        for body in &mut bodies {
            let event = heard.next().await.unwrap().unwrap();
            assert_eq!(event.kind, "publication", "nothing is missing: {event:?}");
            *body = event.body().unwrap().to_vec();
        }
        bodies.sort();
        assert_eq!(bodies, [vec![0, 255], b"two".to_vec()]);
        let refused = topics.publish("other", "x").await.unwrap_err();
        assert!(matches!(&refused, Error::Refused { status: 403, .. }) && !refused.passes(), "{refused}");
        let refused = topics.subscribe([">"], None).next().await.unwrap_err();
        assert!(matches!(refused, Error::Refused { status: 403, .. }), "{refused}");
    });
}

/// Runs a script that is a client; it says `cut` when it wants its connections to be cut, and is told when they are.
fn run_script(mut command: Command) {
    let (node, link, token) = stage();
    let mut child = command
        .args([format!("http://{}", link.addr), token])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = std::io::BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    while std::io::BufRead::read_line(&mut said, &mut line).unwrap() > 0 {
        if line.trim() == "cut" {
            link.cut();
            child.stdin.as_mut().unwrap().write_all(b"done\n").unwrap();
        }
        line.clear();
    }
    assert!(child.wait().unwrap().success(), "{command:?}");
    drop(node);
}

#[test]
fn the_python_client_publishes_subscribes_and_goes_on_after_a_cut() {
    let mut command = Command::new("python3");
    command
        .arg(root().join("tests/clients/topics_client.py"))
        .env("PYTHONPATH", root().join("clients/python"));
    run_script(command);
}

#[test]
#[ignore = "needs Node 20: tools/check clients installs it and runs this"]
fn the_javascript_client_publishes_subscribes_and_goes_on_after_a_cut() {
    let mut command = Command::new("node");
    command.arg(root().join("tests/clients/topics_client.mjs"));
    run_script(command);
}
