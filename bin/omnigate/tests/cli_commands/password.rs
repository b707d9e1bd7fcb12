//! `omnigate password`.

use std::{
    ffi::OsStr,
    fs::File,
    io::Write as _,
    os::unix::ffi::OsStrExt as _,
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use rustix::{
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
    termios::{LocalModes, tcgetattr},
};

#[test]
fn ctrl_c_at_the_prompt_leaves_the_terminal_as_it_was() {
    let controller = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&controller).unwrap();
    unlockpt(&controller).unwrap();
    let name = ptsname(&controller, Vec::new()).unwrap();
    let terminal = File::options().read(true).write(true).open(OsStr::from_bytes(name.to_bytes())).unwrap();
    let before = tcgetattr(&terminal).unwrap().local_modes;
    // In a session of its own, whose terminal this is: Ctrl-C would be a signal otherwise.
    let child = Command::new("setsid")
        .args(["--ctty", "--wait"])
        .arg(env!("CARGO_BIN_EXE_omnigate"))
        .args(["password", "anna"])
        .stdin(Stdio::from(terminal.try_clone().unwrap()))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    while tcgetattr(&terminal).unwrap().local_modes.contains(LocalModes::ECHO) {
        thread::park_timeout(Duration::from_millis(5));
    }
    // Kept open: a terminal without a controller has no modes.
    let mut controller = File::from(controller);
    controller.write_all(b"secr\x03").unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(tcgetattr(&terminal).unwrap().local_modes, before, "{said}");
    assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0), "{said}");
    assert!(said.ends_with("error: interrupted\n"), "{said}");
}
