//! What the demo says: where to look, and every second how the guests fare.

use std::{
    fmt::Write as _,
    io::{IsTerminal, Write},
    net::SocketAddr,
    path::Path,
    sync::Arc,
    time::Duration,
};

use ron_kernel::Scope;
use rustix::process::{Signal, getpid, kill_process};

use super::{
    TELLER,
    crowd::{Crowd, Guest, pause},
    payouts,
    script::{Node, Places},
};

/// How often a line is written where lines stay.
const BETWEEN_LINES: u64 = 5;

/// Says what there is to look at.
pub(super) fn introduce(node: &Node, dir: &Path, epoch: Duration) {
    let Places { gateway, edge, admin, .. } = node.places;
    let (config, data) = (node.config.display(), dir.join(node.name));
    let told = format!(
        "A whole node, with guests in front of it and two nodes beside it. In five\n\
         seconds one guest begins to flood; watch the others. Every {epoch} an epoch\n\
         ends, and nodes are paid for what they served.\n\
         \n\
         \x20 the console     http://{admin}/console\n\
         \x20 a map           http://{edge}/edge/tiles/world\n\
         \x20 ask it yourself curl -i -H 'x-tenant: me' http://{gateway}/\n\
         \x20 its settings    {config}\n\
         \n\
         Who earned what, and whether it adds up, from another terminal once an epoch\n\
         was paid:\n\
         \n\
         \x20 {omnigate} epoch show latest --config {config}\n\
         \x20 {omnigate} epoch verify {rewards} --config {config} --actor north\n\
         \x20 {omnigate} ledger balances --config {config}\n\
         \n\
         Ctrl-C drains it, and nothing of it is left.\n\n",
        epoch = humantime::format_duration(epoch),
        rewards = data.join("rewards").display(),
        omnigate = how_to_call(),
    );
    print(&told);
}

/// Starts saying every second how the guests fare; ends the process as a signal would after `length`.
pub(super) fn start(scope: &Scope, crowd: &Arc<Crowd>, rewarder: SocketAddr, length: Option<Duration>) {
    let (clock, crowd) = (scope.clock(), Arc::clone(crowd));
    let end = length.map(|length| clock.within(length));
    let on_terminal = std::io::stdout().is_terminal();
    scope.children(&TELLER).spawn(async move {
        for second in 1.. {
            pause(clock, clock.within(Duration::from_secs(1))).await;
            let mut line = line(second, &crowd);
            if let Some(paid) = payouts::latest(rewarder).await {
                let _ = write!(line, " · {paid}");
            }
            if on_terminal {
                print(&format!("\r\x1b[2K{}", as_wide_as_the_terminal(&line)));
            } else if second % BETWEEN_LINES == 0 {
                print(&format!("{line}\n"));
            }
            if end.is_some_and(|end| end.has_passed(clock.now())) {
                // The node obeys it as it would one from outside.
                let _ = kill_process(getpid(), Signal::TERM);
                return;
            }
        }
    });
}

fn line(second: u64, crowd: &Crowd) -> String {
    let guests: Vec<String> = crowd.guests.iter().map(|guest| fares(guest)).collect();
    format!("{:>2}:{:02}  {}", second / 60, second % 60, guests.join(" · "))
}

fn fares(guest: &Guest) -> String {
    let mut seen = guest.look();
    let time = seen.p99().map(|p99| format!(" {} ms", p99.as_millis())).unwrap_or_default();
    let refused = if seen.refused > 0 { format!(", {} refused", seen.refused) } else { String::new() };
    format!("{} {}/s{time}{refused}", guest.name, seen.served)
}

/// Leaves the last line as it is, for the prompt to come below it.
pub(super) fn take_leave() {
    print("\nIt has drained, and nothing of it is left.\n");
}

/// How this program is called from another terminal: by its name if that finds it there.
fn how_to_call() -> String {
    let program = std::env::current_exe().unwrap_or_else(|_| "omnigate".into());
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).any(|folder| folder.join("omnigate") == program);
    if found { "omnigate".to_owned() } else { program.display().to_string() }
}

/// The beginning of a line that does not break: what breaks cannot be written over.
fn as_wide_as_the_terminal(line: &str) -> String {
    let columns = rustix::termios::tcgetwinsize(std::io::stdout()).map_or(0, |size| usize::from(size.ws_col));
    if columns == 0 { line.to_owned() } else { line.chars().take(columns - 1).collect() }
}

/// To standard output; if nobody reads it, so be it.
fn print(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}
