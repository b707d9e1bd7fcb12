//! Listening sockets that outlive a process: taken from the service manager, handed to a successor.
//!
//! The protocol is systemd's: descriptors from 3 on, counted in `LISTEN_FDS`, named in `LISTEN_FDNAMES`. A
//! predecessor speaks it too, without `LISTEN_PID` because it cannot know the pid before the fork, and adds its
//! own pid, by which the successor knows that Unix socket files are now its own to remove. The last descriptor is then a
//! socket by which the predecessor says that it was told to stop.

use std::{
    env,
    ffi::OsStr,
    io,
    os::{
        fd::RawFd,
        unix::{net::UnixDatagram, process::parent_id},
    },
    path::Path,
    process::{Child, Command},
};

use command_fds::{CommandFdExt, FdMapping};
use listenfd::ListenFd;

use crate::{
    addr::ListenAddr,
    listen::{BindError, BindOptions, Listener},
};

/// Most listeners that are taken from, or handed to, another process.
pub const MAX_INHERITED: usize = 64;

const FIRST_FD: RawFd = 3;
const COUNT_VAR: &str = "LISTEN_FDS";
const NAMES_VAR: &str = "LISTEN_FDNAMES";
const PREDECESSOR_VAR: &str = "RON_PREDECESSOR_PID";
/// The name of the socket by which a predecessor says that it was told to stop.
const NOTICE_NAME: &str = "predecessor-stops";
/// What a service manager may have told this process about its own descriptors; wrong for a successor.
const STALE_VARS: [&str; 3] = ["LISTEN_PID", "LISTEN_PIDFDID", "LISTEN_FDS_FIRST_FD"];

/// The listeners passed to this process, each to be taken once.
#[derive(Debug, Default)]
pub struct Inherited {
    listeners: Vec<(String, Listener)>,
    unusable: Vec<Unusable>,
    predecessor: Option<u32>,
    notice: Option<StopNotice>,
}

/// The end of a successor: whether its predecessor was told to stop. The notice is not lost when the predecessor ends.
#[derive(Debug)]
pub struct StopNotice(UnixDatagram);

impl StopNotice {
    /// Whether the predecessor has given notice since the last call.
    #[must_use]
    pub fn is_given(&self) -> bool {
        matches!(self.0.recv(&mut [0]), Ok(1..))
    }
}

/// The end of a predecessor: tells the successor that this process was told to stop.
#[derive(Debug)]
pub struct StopNotifier(UnixDatagram);

impl StopNotifier {
    /// Gives the successor notice. One that has ended misses nothing.
    pub fn notify(&self) {
        let _ = self.0.send(&[1]);
    }
}

/// A descriptor that was passed in but cannot serve as a listener; it stays open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unusable {
    /// Its name, or `fd` and its number.
    pub name: String,
    /// The reason why the socket cannot be used.
    pub why: String,
}

/// The environment announces more descriptors than can be meant.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("LISTEN_FDS={count} announces more than {MAX_INHERITED} listeners: pass fewer, or unset it")]
pub struct TooManyInherited {
    /// The announced number of sockets.
    pub count: usize,
}

impl Inherited {
    /// Takes the descriptors announced in the environment and removes their count, so that nobody takes them again.
    ///
    /// Call it first thing in `main`, once, before any thread starts or file opens: it changes the environment
    /// and takes descriptors by number.
    ///
    /// # Errors
    /// [`TooManyInherited`]; an announcement meant for another process (`LISTEN_PID`) is ignored instead.
    pub fn from_env() -> Result<Self, TooManyInherited> {
        let announced = env::var(COUNT_VAR).ok().and_then(|count| count.parse().ok());
        let predecessor: Option<u32> = env::var(PREDECESSOR_VAR).ok().and_then(|pid| pid.parse().ok());
        let most = MAX_INHERITED + usize::from(predecessor.is_some());
        if let Some(count) = announced.filter(|count| *count > most) {
            return Err(TooManyInherited { count });
        }
        let names = env::var(NAMES_VAR).unwrap_or_default();
        Ok(Self::take_all(ListenFd::from_env(), &names, predecessor))
    }

    /// The process that handed its listeners over and still waits for this one to be ready: our parent, so
    /// that its pid cannot have gone to a stranger.
    #[must_use]
    pub fn predecessor(&self) -> Option<u32> {
        self.predecessor.filter(|pid| *pid == parent_id())
    }

    /// Takes what tells whether the predecessor was told to stop; `None` without one, and if it does not say so.
    pub fn take_stop_notice(&mut self) -> Option<StopNotice> {
        self.notice.take()
    }

    /// The listener for a configured address: the inherited one if there is one, else a newly bound one.
    ///
    /// `inherit:name` matches by name, everything else by the address the socket is bound to.
    ///
    /// # Errors
    /// [`BindError`]; [`BindError::NotInherited`] lists the names that are still available.
    pub fn listen(&mut self, addr: &ListenAddr, options: BindOptions) -> Result<Listener, BindError> {
        match (self.take(addr), addr) {
            (Some(listener), _) => Ok(listener),
            (None, ListenAddr::Inherited(name)) => Err(BindError::NotInherited {
                name: name.clone(),
                offered: self.listeners.iter().map(|(name, _)| name.clone()).collect(),
            }),
            (None, _) => Listener::bind(addr, options),
        }
    }

    /// Takes the inherited listener that matches `addr`, if there is one that was not taken before. Of several
    /// with one name the first passed in goes first.
    pub fn take(&mut self, addr: &ListenAddr) -> Option<Listener> {
        let matches = |(name, listener): &(String, Listener)| match addr {
            ListenAddr::Inherited(wanted) => name == wanted,
            _ => listener.local_addr() == addr,
        };
        let index = self.listeners.iter().position(matches)?;
        Some(self.listeners.remove(index).1.asked_by(addr))
    }

    /// Names and addresses of the listeners nobody took.
    pub fn unused(&self) -> impl Iterator<Item = (&str, &ListenAddr)> {
        self.listeners.iter().map(|(name, listener)| (name.as_str(), listener.local_addr()))
    }

    /// Descriptors that are no listeners.
    #[must_use]
    pub fn unusable(&self) -> &[Unusable] {
        &self.unusable
    }

    /// Closes the listeners nobody took. Their backlog is not touched: the service manager or the predecessor
    /// may still serve it.
    pub fn close_unused(self) {
        for (_, listener) in self.listeners {
            listener.discard();
        }
    }

    fn take_all(mut fds: ListenFd, names: &str, predecessor: Option<u32>) -> Self {
        let mut names = names.split(':');
        let mut inherited = Self { predecessor, ..Self::default() };
        for index in 0..fds.len() {
            let name = match names.next() {
                Some(name) if ListenAddr::is_inherited_name(name) => name.to_owned(),
                _ => format!("fd{}", index + 3),
            };
            if name == NOTICE_NAME
                && predecessor.is_some()
                && let Ok(Some(socket)) = fds.take_unix_datagram(index)
            {
                inherited.notice = Some(StopNotice(socket));
                continue;
            }
            match take_one(&mut fds, index, &name, predecessor) {
                Ok(listener) => inherited.listeners.push((name, listener)),
                Err(why) => inherited.unusable.push(Unusable { name, why: why.to_string() }),
            }
        }
        inherited
    }
}

fn take_one(fds: &mut ListenFd, index: usize, name: &str, predecessor: Option<u32>) -> io::Result<Listener> {
    if let Ok(Some(tcp)) = fds.take_tcp_listener(index) {
        return Listener::from_tcp(tcp);
    }
    let unix = fds.take_unix_listener(index).map_err(|_| not_a_listener())?.ok_or_else(not_a_listener)?;
    // A service manager keeps its files; a predecessor leaves them to us, once it is gone.
    let listener = Listener::from_unix(unix, name, predecessor.is_some())?;
    Ok(match predecessor {
        Some(pid) => listener.handed_over_by(pid),
        None => listener,
    })
}

fn not_a_listener() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "not a TCP or Unix stream socket")
}

/// Starts `exe` with the listeners, under the given names, so that no connection is refused in between: both
/// processes hold the sockets until this one [releases](Listener::release) its own.
///
/// Forks: call it where a pause of some milliseconds harms nobody. If another thread closes one of the lowest
/// descriptors at that very moment, a failed exec may show not as an error but as a child that ends at once: watch
/// the child until it says that it is ready.
///
/// # Errors
/// As [`hand_over`], and the system's if the process cannot be started.
pub fn spawn_successor<A: AsRef<OsStr>>(
    exe: &Path,
    args: &[A],
    listeners: &[(&str, &Listener)],
) -> io::Result<Child> {
    let mut command = Command::new(exe);
    command.args(args);
    let _ = hand_over(&mut command, listeners)?;
    command.spawn()
}

/// Makes `command`, when spawned, inherit the listeners under the given names; for callers that set more than
/// the arguments. The duplicated sockets stay open until the command is dropped. Returns what tells the successor that this
/// process was told to stop.
///
/// # Errors
/// `InvalidInput` for more than [`MAX_INHERITED`] listeners or a name that cannot travel; else the system's.
pub fn hand_over(command: &mut Command, listeners: &[(&str, &Listener)]) -> io::Result<StopNotifier> {
    let invalid = |why: String| io::Error::new(io::ErrorKind::InvalidInput, why);
    if listeners.len() > MAX_INHERITED {
        return Err(invalid(format!("more than {MAX_INHERITED} listeners to hand over")));
    }
    if let Some((name, _)) = listeners.iter().find(|(name, _)| !ListenAddr::is_inherited_name(name)) {
        return Err(invalid(format!("`{name}` cannot name a listener")));
    }
    // The duplicates take the lowest free descriptors, so all of 3.. that the child will overwrite are taken
    // before `spawn` opens the pipe by which the child reports a failed exec.
    let mut fds =
        listeners.iter().map(|(_, listener)| listener.try_clone_fd()).collect::<io::Result<Vec<_>>>()?;
    let (notifier, notice) = UnixDatagram::pair()?;
    notifier.set_nonblocking(true)?;
    notice.set_nonblocking(true)?;
    fds.push(notice.into());
    let count = fds.len();
    let mappings =
        (FIRST_FD..).zip(fds).map(|(child_fd, parent_fd)| FdMapping { parent_fd, child_fd }).collect();
    let names: Vec<&str> = listeners.iter().map(|(name, _)| *name).chain([NOTICE_NAME]).collect();
    for stale in STALE_VARS {
        command.env_remove(stale);
    }
    command
        .env(COUNT_VAR, count.to_string())
        .env(NAMES_VAR, names.join(":"))
        .env(PREDECESSOR_VAR, std::process::id().to_string())
        .fd_mappings(mappings)
        .map_err(|collision| invalid(collision.to_string()))?;
    Ok(StopNotifier(notifier))
}
