//! A server on an inherited socket, with this test executable as the process that inherits it.

#![expect(clippy::unwrap_used, reason = "tests")]

mod serve_support;

use std::process::Command;

use ron_transport::{
    addr::ListenAddr,
    inherit::{Inherited, hand_over},
    listen::{BindError, BindOptions},
    serve::ListenPlan,
};
use serve_support::{Node, bind, patient, plan};

#[test]
#[ignore = "not a test: the process that inherits"]
fn inheriting_process() {
    let mut inherited = Inherited::from_env().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(serve_and_reload(&mut inherited));
}

async fn serve_and_reload(inherited: &mut Inherited) {
    let by_name: ListenAddr = "inherit:web".parse().unwrap();
    let listener = inherited.listen(&by_name, BindOptions::default()).unwrap();
    assert_eq!(*listener.asked_for(), by_name);
    let by_address = listener.local_addr().clone();
    let fresh = || ListenPlan { listener: None, ..plan(patient()) };
    let node = Node::start_with(ListenPlan { listener: Some(listener), ..fresh() }, 1);
    let ask = |addr: &ListenAddr| node.server.bind(addr, BindOptions::default());
    for round in 0..3 {
        for same in [&by_name, &by_address] {
            let kept = ask(same).unwrap_or_else(|error| panic!("reload {round} of {same}: {error}"));
            assert!(kept.is_none(), "the present socket stays");
            node.server.commit(fresh());
            assert_eq!(node.connect().await.get("/").await.status, 200);
        }
    }
    let unknown = ask(&"inherit:other".parse().unwrap()).unwrap_err();
    assert!(matches!(unknown, BindError::NotInherited { .. }), "{unknown}");

    node.server.commit(ListenPlan { listener: Some(bind("127.0.0.1:0")), ..fresh() });
    let gone = ask(&by_name).unwrap_err();
    assert!(matches!(gone, BindError::NotInherited { .. }), "once it is given up: {gone}");
    node.stop().await;
}

#[test]
fn a_reload_keeps_the_socket_that_was_inherited_by_name() {
    let listener = bind("127.0.0.1:0");
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "inheriting_process", "--ignored", "--nocapture", "--test-threads=1"]);
    hand_over(&mut command, &[("web", &listener)]).unwrap();
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"), "the process did its part");
    listener.release();
}
