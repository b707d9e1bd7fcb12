//! Which user of this machine is at the other end of a loopback connection. Linux lists the owner of every TCP socket, so
//! that a node without an admin token still knows its own user from the others.

use std::{
    fs::File,
    io::{self, BufRead, BufReader},
    net::{IpAddr, SocketAddr},
};

use types::{Reason, Refusal};

/// The tables of TCP sockets of this network namespace. A client may use an IPv6 socket for an IPv4 address.
const TABLES: [&str; 2] = ["/proc/self/net/tcp", "/proc/self/net/tcp6"];
/// The state of a connection that neither end has closed. Sockets in later states no longer name their owner.
const ESTABLISHED: &str = "01";

/// Lets a caller pass whose process runs as root or as the user of the node. Other systems than Linux do not tell, and let
/// everybody on the machine pass. `ports` are those that the node may have been asked on. Blocking.
pub(super) fn admit_user(client: SocketAddr, ports: &[u16]) -> Result<(), Refusal> {
    if !cfg!(target_os = "linux") {
        return Ok(());
    }
    let own = rustix::process::geteuid().as_raw();
    match is_owned_by(client, ports, &[0, own]) {
        Ok(true) => Ok(()),
        Ok(false) => Err(refusal("without a token this is for root and the user that the node runs as")),
        Err(error) => Err(refusal(&format!("the caller's user is not known ({error})"))),
    }
}

fn refusal(why: &str) -> Refusal {
    Refusal::new(Reason::Forbidden, format!("{why}: set `admin.token`, and send it"))
}

/// Whether the client's socket is there and owned by one of `users`.
fn is_owned_by(client: SocketAddr, ports: &[u16], users: &[u32]) -> io::Result<bool> {
    let mut found = false;
    for table in TABLES {
        let rows = match open(table) {
            Ok(file) => BufReader::new(file),
            // A kernel without IPv6 has no second table.
            Err(error) if error.kind() == io::ErrorKind::NotFound && table != TABLES[0] => continue,
            Err(error) => return Err(error),
        };
        match find_owner(rows, client, ports, users)? {
            Some(true) => found = true,
            Some(false) => return Ok(false),
            None => {}
        }
    }
    Ok(found)
}

#[expect(clippy::disallowed_methods, reason = "called on a blocking thread")]
fn open(table: &str) -> io::Result<File> {
    File::open(table)
}

/// Looks for the sockets of `client` that are connected to one of `ports`; `None` if there are none. All of them must be
/// established and owned by one of `users`: one that its process has closed no longer names it. Sockets with the same address
/// that are connected to somewhere else are other clients' business.
fn find_owner(
    rows: impl BufRead,
    client: SocketAddr,
    ports: &[u16],
    users: &[u32],
) -> io::Result<Option<bool>> {
    let wanted = spellings(client);
    let mut owned = None;
    for row in rows.lines() {
        let row = row?;
        // Number, local address, remote address, state, queues, timer, retransmissions, user, timeout, inode.
        let mut fields = row.split_ascii_whitespace().skip(1);
        let is_client = fields.next().is_some_and(|local| wanted.iter().any(|spelling| spelling == local));
        let port = fields.next().and_then(|remote| u16::from_str_radix(remote.rsplit(':').next()?, 16).ok());
        if !is_client || !port.is_some_and(|port| ports.contains(&port)) {
            continue;
        }
        let state = fields.next();
        let user = fields.nth(3).and_then(|user| user.parse::<u32>().ok());
        let is_owned = state == Some(ESTABLISHED) && user.is_some_and(|user| users.contains(&user));
        owned = Some(is_owned && owned != Some(false));
    }
    Ok(owned)
}

/// How the tables write an address: its 32-bit words as numbers of this machine, in hexadecimal.
fn spellings(client: SocketAddr) -> [String; 2] {
    let word = |bytes: &[u8]| bytes.try_into().map_or(0, u32::from_ne_bytes);
    let words = |bytes: &[u8]| bytes.chunks(4).map(|four| format!("{:08X}", word(four))).collect::<String>();
    let port = client.port();
    let spell = |bytes: &[u8]| format!("{}:{port:04X}", words(bytes));
    match client.ip().to_canonical() {
        IpAddr::V4(v4) => [spell(&v4.octets()), spell(&v4.to_ipv6_mapped().octets())],
        IpAddr::V6(v6) => [spell(&v6.octets()), spell(&v6.octets())],
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, clippy::disallowed_methods, reason = "tests")]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use super::*;

    const HEAD: &str =
        "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode";

    fn row(local: &str, remote: &str, state: &str, user: u32) -> String {
        format!(
            "   0: {local} {remote} {state} 00000000:00000000 00:00000000 00000000 {user:5}        0 5141 1 0 20 4"
        )
    }

    fn owner(rows: &[String]) -> Option<bool> {
        let table = format!("{HEAD}\n{}\n", rows.join("\n"));
        let client = SocketAddr::from((Ipv4Addr::LOCALHOST, 0xD431));
        find_owner(table.as_bytes(), client, &[0x2580], &[0, 1000]).unwrap()
    }

    /// The client as the tables write it on this machine.
    fn client() -> String {
        spellings(SocketAddr::from((Ipv4Addr::LOCALHOST, 0xD431)))[0].clone()
    }

    #[test]
    fn an_open_socket_names_its_owner_and_others_do_not() {
        let (client, node) = (client(), "0100007F:2580");
        assert_eq!(owner(&[]), None);
        assert_eq!(owner(&[row(node, &client, "01", 1000)]), None, "the other end");
        for (user, is_owned) in [(0, true), (1000, true), (1001, false), (65534, false)] {
            assert_eq!(owner(&[row(&client, node, "01", user)]), Some(is_owned), "{user}");
        }
        for closing in ["04", "05", "06", "07", "0A"] {
            assert_eq!(owner(&[row(&client, node, closing, 0)]), Some(false), "{closing}");
        }
    }

    #[test]
    fn only_sockets_that_are_connected_to_the_node_count() {
        let (client, node, other) = (client(), "0100007F:2580", "0100007F:1538");
        let [ours, theirs] = [0, 1001].map(|user| row(&client, node, "01", user));
        assert_eq!(owner(&[row(&client, other, "01", 0)]), None);
        assert_eq!(owner(&[ours.clone(), row(&client, other, "06", 0)]), Some(true), "one that has ended");
        assert_eq!(owner(&[theirs.clone(), row(&client, other, "01", 0)]), Some(false));
        assert_eq!(owner(&[ours.clone(), theirs.clone()]), Some(false));
        assert_eq!(owner(&[theirs, ours]), Some(false));
    }

    #[test]
    fn the_owner_of_a_real_socket_is_this_process() {
        for listen in [SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), SocketAddr::from((Ipv6Addr::LOCALHOST, 0))]
        {
            // A machine may lack IPv6.
            let Ok(listener) = std::net::TcpListener::bind(listen) else { continue };
            let node = listener.local_addr().unwrap();
            let client = std::net::TcpStream::connect(node).unwrap();
            let (addr, ports) = (client.local_addr().unwrap(), [node.port()]);
            let own = rustix::process::geteuid().as_raw();
            assert!(is_owned_by(addr, &ports, &[own]).unwrap(), "{listen}");
            assert!(!is_owned_by(addr, &ports, &[own + 1]).unwrap(), "{listen}");
            assert!(!is_owned_by(addr, &[node.port() ^ 1], &[own]).unwrap(), "{listen}");
            drop(client);
            assert!(!is_owned_by(addr, &ports, &[own]).unwrap(), "{listen}, after the client has left");
        }
    }
}
