//! A server in a process of its own, so that its CPU time is its own.

use std::{
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use super::servers::SERVE;
use crate::Failure;

/// How long a server gets to end by itself.
const PATIENCE: Duration = Duration::from_secs(5);

/// A running server; it ends when this is dropped, or with this process.
pub(super) struct Server {
    child: Child,
    pub(super) port: u16,
}

impl Server {
    /// Starts this program again, as a server of `model`.
    pub(super) fn start(model: &str) -> Result<Self, Failure> {
        let mut child = Command::new(std::env::current_exe()?)
            .args([SERVE, model])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut port = String::new();
        if let Some(stdout) = child.stdout.take() {
            BufReader::new(stdout).read_line(&mut port)?;
        }
        let port = port.trim().parse().map_err(|_| format!("the server `{model}` did not start"))?;
        Ok(Self { child, port })
    }

    /// Microseconds of CPU that all its threads have used.
    pub(super) fn cpu_us(&self) -> Result<f64, Failure> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        // The second field is the program's name in parentheses and may hold spaces.
        let (_, fields) = stat.rsplit_once(')').ok_or("unknown form of /proc/PID/stat")?;
        let fields: Vec<&str> = fields.split_whitespace().collect();
        let ticks = |at: usize| fields.get(at).ok_or("too few fields in /proc/PID/stat");
        let ticks: u32 = ticks(11)?.parse::<u32>()? + ticks(12)?.parse::<u32>()?;
        let per_second = u32::try_from(rustix::param::clock_ticks_per_second())?;
        Ok(f64::from(ticks) * 1e6 / f64::from(per_second))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The end of its input tells it to go.
        drop(self.child.stdin.take());
        let asked = Instant::now();
        while asked.elapsed() < PATIENCE {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            thread::sleep(Duration::from_millis(5));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
