//! Whether a configuration file is whole: it may be read while somebody is writing it.
//!
//! A file is taken once two readings in a row gave the same text. A text that is the beginning of the one in force is
//! what a writer leaves that was interrupted between two lines, so it must stay the same for longer. A text without any
//! setting, or whose last line has no end, is refused, unless that very text is already in force.

use ron_kernel::reload::READ_AGAIN;
use zeroize::Zeroizing;

/// Readings, after the first, that must give the same text.
const SAME_READINGS: u32 = 1;
/// The same for a text that is the beginning of the one in force: two seconds.
const SAME_READINGS_OF_A_BEGINNING: u32 = 20;
const _: () = assert!(READ_AGAIN.as_millis() == 100, "the readings above are counted for this pause");

/// The configuration file's text over several readings.
#[derive(Default)]
pub(super) struct Settling {
    /// The text in force; `None` where no file was read.
    in_force: Option<Zeroizing<String>>,
    /// The text of the last reading.
    seen: Option<Zeroizing<String>>,
    /// How many readings in a row gave the same text as the one before; `None` before the first of a reload.
    same: Option<u32>,
}

/// The conclusion from one reading of the file.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// The file may still be being written.
    Again,
    /// The file is left alone, and cannot be whole; says why and what to do.
    Doubtful(&'static str),
    /// The file is left alone.
    Settled,
}

impl Settling {
    /// Before the first reading, with the text that the node started with.
    pub(super) fn new(in_force: Option<Zeroizing<String>>) -> Self {
        Self { in_force, ..Self::default() }
    }

    /// Judges the text that a reading gave.
    pub(super) fn look(&mut self, text: &str) -> Look {
        let is_same = self.seen.as_ref().is_some_and(|seen| seen.as_str() == text);
        let same = self.same.filter(|_| is_same).map_or(0, |same| same + 1);
        if !is_same {
            self.seen = Some(Zeroizing::new(text.to_owned()));
        }
        if same < self.wanted(text) {
            self.same = Some(same);
            return Look::Again;
        }
        // The next reload judges again.
        self.same = None;
        let known = self.in_force.as_ref().is_some_and(|in_force| in_force.as_str() == text);
        match doubt(text) {
            Some(doubt) if !known => Look::Doubtful(doubt),
            _ => Look::Settled,
        }
    }

    /// The text of the last reading is in force.
    pub(super) fn put_into_force(&mut self) {
        self.in_force = self.seen.clone();
    }

    fn wanted(&self, text: &str) -> u32 {
        let is_beginning = self
            .in_force
            .as_ref()
            .is_some_and(|in_force| text.len() < in_force.len() && in_force.starts_with(text));
        if is_beginning { SAME_READINGS_OF_A_BEGINNING } else { SAME_READINGS }
    }
}

/// Why a text can hardly be a whole configuration, if that is so.
pub(super) fn doubt(text: &str) -> Option<&'static str> {
    let is_setting = |line: &str| !line.trim().is_empty() && !line.trim_start().starts_with('#');
    if !text.lines().any(is_setting) {
        return Some("it has no setting at all; write the settings, or restart to run with the defaults");
    }
    (!text.ends_with('\n'))
        .then_some("its last line has no end, as if its writing had broken off; end the file with a newline")
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: &str = "[admin]\nlisten = \"127.0.0.1:1\"\n[auth]\nroot_keys = []\n";

    fn in_force(text: &str) -> Settling {
        Settling::new(Some(Zeroizing::new(text.to_owned())))
    }

    /// What repeated readings of one text come to, and after how many.
    fn settle(settling: &mut Settling, text: &str) -> (u32, Look) {
        let looks = (1..100).map(|n| (n, settling.look(text)));
        looks.into_iter().find(|(_, look)| *look != Look::Again).unwrap_or((100, Look::Again))
    }

    #[test]
    fn a_text_counts_once_it_was_read_twice_in_a_row() {
        let mut settling = in_force("[node]\n");
        assert_eq!(settling.look("[a]\n"), Look::Again);
        assert_eq!(settling.look(WHOLE), Look::Again);
        assert_eq!(settling.look("[a]\n"), Look::Again);
        assert_eq!(settling.look("[a]\n"), Look::Settled);
        assert_eq!(settle(&mut settling, "[a]\n"), (1 + SAME_READINGS, Look::Settled), "judged anew");
    }

    #[test]
    fn the_beginning_of_what_is_in_force_must_stay_for_longer() {
        let mut settling = in_force(WHOLE);
        let cut = &WHOLE[..WHOLE.find("[auth]").unwrap_or_default()];
        assert_eq!(settle(&mut settling, cut), (1 + SAME_READINGS_OF_A_BEGINNING, Look::Settled));
        settling.put_into_force();
        assert_eq!(settle(&mut settling, WHOLE), (1 + SAME_READINGS, Look::Settled), "more is no beginning");
    }

    #[test]
    fn a_file_without_settings_or_without_its_last_newline_is_doubtful() {
        let mut settling = in_force("[node]\nname = \"n\"\n");
        for doubtful in ["", "\n \n", "# omnigate\n# every setting\n", "[auth]\nroot_keys = [", "[gate"] {
            assert!(matches!(settle(&mut settling, doubtful).1, Look::Doubtful(_)), "{doubtful:?}");
        }
        assert_eq!(settle(&mut settling, WHOLE).1, Look::Settled);
    }

    #[test]
    fn what_the_node_started_with_is_not_doubted() {
        for started_with in ["", "[node]\nname = \"n\""] {
            let mut settling = in_force(started_with);
            assert_eq!(settle(&mut settling, started_with).1, Look::Settled, "{started_with:?}");
        }
    }
}
