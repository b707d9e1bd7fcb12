//! Mounting a pack with something to watch: a bar on a terminal, a line now and then elsewhere.

use std::{io::IsTerminal, ops::ControlFlow, path::Path};

use indicatif::{ProgressBar, ProgressStyle};
use packs::{MountError, MountOptions, Pack, Progress, Stage};

/// What is smaller is done before anybody wonders.
const WORTH_TELLING: u64 = 64 << 20;

/// Mounts a pack and shows how far it is. Nothing is written to disk.
pub(super) fn mount(path: &Path, options: MountOptions<'_>) -> Result<Pack, MountError> {
    let mut shown = Shown::new(path);
    let mut tell = |progress| {
        shown.tell(progress);
        ControlFlow::Continue(())
    };
    let mounted = Pack::mount(path, MountOptions { progress: Some(&mut tell), ..options });
    shown.bar.finish_and_clear();
    mounted
}

/// A bar on a terminal; hidden elsewhere, where plain lines tell as much.
pub(super) fn bar(template: &str) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template(template);
    ProgressBar::new(0).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

struct Shown {
    name: String,
    bar: ProgressBar,
    /// The stage and the tenth that were told last.
    told: Option<(Stage, u64)>,
}

impl Shown {
    fn new(path: &Path) -> Self {
        let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        Self { name, bar: bar("{bar:30} {bytes}/{total_bytes} {bytes_per_sec} {msg}"), told: None }
    }

    fn tell(&mut self, Progress { stage, done, total }: Progress) {
        let what = match stage {
            Stage::Hashing => "hashing",
            Stage::Tiles => "hashing the tiles of",
        };
        if self.bar.is_hidden() {
            let tenth = done.saturating_mul(10) / total.max(1);
            if total >= WORTH_TELLING && self.told != Some((stage, tenth)) {
                self.told = Some((stage, tenth));
                eprintln!("{what} {}: {}0 %", self.name, tenth);
            }
            return;
        }
        self.bar.set_length(total);
        self.bar.set_position(done);
        self.bar.set_message(format!("{what} {}", self.name));
    }
}
