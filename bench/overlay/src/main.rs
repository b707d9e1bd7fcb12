//! Fans publications out over a server and counts what arrives.
//!
//! ```text
//! overlay-bench fan oap|nats ADDR PID SUBSCRIBERS BYTES SECONDS RATE    (rate 0: as fast as the slowest keeps up)
//! overlay-bench fan gossipsub - - SUBSCRIBERS BYTES SECONDS RATE        (all nodes in this process)
//! overlay-bench idle oap|nats ADDR PID SESSIONS
//! ```
//!
//! Prints one line of JSON.

mod fan;
#[cfg(feature = "gossipsub")]
mod gossipsub;
mod measure;
mod nats;
mod oap_client;

use std::{error::Error, net::SocketAddr};

/// What goes wrong ends the program.
pub(crate) type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

fn main() -> Outcome<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let arg = |at: usize| args.get(at).map(String::as_str).ok_or("too few arguments");
    let number = |at: usize| -> Outcome<u64> { Ok(arg(at)?.parse()?) };
    let line = match (arg(0)?, arg(1)?) {
        #[cfg(feature = "gossipsub")]
        ("fan", "gossipsub") => {
            gossipsub::run(&fan::Case::read(number(4)?, number(5)?, number(6)?, number(7)?))?
        }
        ("fan", kind) => {
            let case = fan::Case::read(number(4)?, number(5)?, number(6)?, number(7)?);
            fan::run(kind.parse()?, arg(2)?.parse()?, arg(3)?, &case)?
        }
        ("idle", kind) => idle(kind.parse()?, arg(2)?.parse()?, arg(3)?, number(4)?)?,
        _ => return Err("fan or idle".into()),
    };
    println!("{line}");
    Ok(())
}

/// What a session costs the server that says nothing.
fn idle(kind: fan::Kind, addr: SocketAddr, pid: &str, sessions: u64) -> Outcome<serde_json::Value> {
    let before = measure::rss_kib(pid)?;
    let mut held = Vec::new();
    for number in 0..sessions {
        held.push(kind.connect(addr, number + 1)?);
    }
    std::thread::sleep(std::time::Duration::from_secs(1));
    let after = measure::rss_kib(pid)?;
    Ok(serde_json::json!({
        "sessions": held.len(), "kib_per_session": (after - before) as f64 / sessions as f64, "rss_kib": after
    }))
}
