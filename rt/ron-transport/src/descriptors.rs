//! The process's limit of open files, which every connection counts toward.
//!
//! A listener that accepted connections up to that limit would leave none for upstream servers, files and name servers. So a
//! listener has at most a quarter of it, and its own rules decide which connections stay.

use std::io;

use rustix::{
    io::Errno,
    process::{Resource, Rlimit, getrlimit, setrlimit},
};

/// One part of this many is what the connections of one listener may take.
const PARTS: usize = 4;

/// Raises the limit of open files as far as the process may (`ulimit -Hn`). The soft limit that shells and service managers set
/// is 1,024 as a rule, for the sake of programs that use `select`.
pub fn raise_limit() {
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        // Where it is not allowed, connections are limited to what there is.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    }
}

/// How many of `wanted` files one part of the program can have open beside everything else.
#[must_use]
pub fn share(wanted: usize) -> usize {
    wanted.min(part_of(getrlimit(Resource::Nofile)))
}

/// How many connections a listener can have beside everything else that the process opens, in all and of one client: as many as
/// are `wanted` and `of_one`, or fewer. Then the operator is told, and one client has the same part of them.
#[must_use]
pub fn fitting(service: &str, wanted: usize, of_one: usize) -> (usize, usize) {
    let fits = share(wanted);
    if fits < wanted {
        tracing::warn!(
            service,
            max_conns = wanted,
            connections = fits,
            "the process may open too few files for `max_conns`: raise the limit (`ulimit -n`, systemd's LimitNOFILE)"
        );
        return (fits, (of_one.saturating_mul(fits) / wanted).max(1));
    }
    (wanted, of_one)
}

fn part_of(limit: Rlimit) -> usize {
    let files = limit.current.map_or(usize::MAX, |files| usize::try_from(files).unwrap_or(usize::MAX));
    (files / PARTS).max(1)
}

/// Whether a socket was not opened because this machine lacks something: descriptors, memory or local ports. It says nothing
/// about the other end.
#[must_use]
pub fn are_exhausted(error: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM | Errno::ADDRNOTAVAIL)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_has_a_quarter_of_the_limit() {
        let part = |files| part_of(Rlimit { current: files, maximum: None });
        assert_eq!(part(Some(1024)), 256);
        assert_eq!(part(Some(3)), 1, "one connection is better than none");
        assert_eq!(part(Some(u64::MAX)), usize::MAX / 4);
        assert_eq!(part(None), usize::MAX / 4);
        assert_eq!(fitting("test", 1, 1), (1, 1));
        let (fits, of_one) = fitting("test", usize::MAX, usize::MAX);
        assert!(fits < usize::MAX && of_one <= fits, "{fits} {of_one}");
    }

    #[test]
    fn only_what_this_machine_lacks_is_its_own_fault() {
        for errno in [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM, Errno::ADDRNOTAVAIL] {
            assert!(are_exhausted(&errno.into()), "{errno:?}");
        }
        for errno in [Errno::CONNREFUSED, Errno::HOSTUNREACH, Errno::TIMEDOUT, Errno::CONNRESET] {
            assert!(!are_exhausted(&errno.into()), "{errno:?}");
        }
        assert!(!are_exhausted(&io::Error::other("no number")));
    }
}
