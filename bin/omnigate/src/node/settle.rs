//! Whether the configuration files are whole: they may be read while somebody is writing them.
//!
//! Files are taken once two readings in a row gave the same texts. A text that is the beginning of the one in force is
//! what a writer leaves that was interrupted between two lines, and a file that is gone may be about to be replaced, so
//! these must stay the same for longer. A text without any
//! setting, or whose last line has no end, is refused, unless that very text is already in force.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use ron_kernel::reload::READ_AGAIN;
use zeroize::Zeroizing;

use crate::config_file::ConfigTexts;

/// Readings, after the first, that must give the same text.
const SAME_READINGS: u32 = 1;
/// The same for texts of which less may be there than was meant, such as the beginning of the one in force: two seconds.
const SAME_READINGS_OF_LESS: u32 = 20;
const _: () = assert!(READ_AGAIN.as_millis() == 100, "the readings above are counted for this pause");

/// The texts of the configuration's files, by path.
#[derive(Clone, Default, PartialEq, Eq)]
pub(super) struct Texts(BTreeMap<PathBuf, Zeroizing<String>>);

impl Texts {
    pub(super) fn of(texts: &ConfigTexts) -> Self {
        let owned = |(path, text): (&Path, &str)| (path.to_owned(), Zeroizing::new(text.to_owned()));
        Self(texts.files().map(owned).collect())
    }

    /// The files that are not as they are in `other`.
    fn changed_from<'t>(&'t self, other: &'t Self) -> impl Iterator<Item = (&'t Path, &'t str)> {
        let is_new = |(path, text): &(&PathBuf, &Zeroizing<String>)| other.0.get(*path) != Some(*text);
        self.0.iter().filter(is_new).map(|(path, text)| (path.as_path(), text.as_str()))
    }
}

/// The configuration files' texts over several readings.
#[derive(Default)]
pub(super) struct Settling {
    /// The texts in force.
    in_force: Texts,
    /// The texts of the last reading.
    seen: Option<Texts>,
    /// How many readings in a row gave the same texts as the one before; `None` before the first of a reload.
    same: Option<u32>,
}

/// The conclusion from one reading of the files.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// A file may still be being written.
    Again,
    /// The files are left alone, and one cannot be whole.
    Doubtful {
        /// The file that cannot be whole.
        file: PathBuf,
        /// Why, and what to do.
        doubt: &'static str,
    },
    /// The files are left alone.
    Settled,
}

impl Settling {
    /// Before the first reading, with the texts that the node started with.
    pub(super) fn new(in_force: Texts) -> Self {
        Self { in_force, ..Self::default() }
    }

    /// Judges the texts that a reading gave.
    pub(super) fn look(&mut self, texts: Texts) -> Look {
        let is_same = self.seen.as_ref() == Some(&texts);
        let same = self.same.filter(|_| is_same).map_or(0, |same| same + 1);
        let wanted = self.wanted(&texts);
        let texts = self.seen.insert(texts);
        if same < wanted {
            self.same = Some(same);
            return Look::Again;
        }
        // The next reload judges again.
        self.same = None;
        let mut doubtful =
            texts.changed_from(&self.in_force).filter_map(|(file, text)| Some((file, doubt(text)?)));
        match doubtful.next() {
            Some((file, doubt)) => Look::Doubtful { file: file.to_owned(), doubt },
            None => Look::Settled,
        }
    }

    /// The texts of the last reading are in force.
    pub(super) fn put_into_force(&mut self) {
        self.in_force = self.seen.clone().unwrap_or_default();
    }

    fn wanted(&self, texts: &Texts) -> u32 {
        let is_beginning = texts.changed_from(&self.in_force).any(|(file, text)| {
            let in_force = self.in_force.0.get(file);
            in_force.is_some_and(|in_force| text.len() < in_force.len() && in_force.starts_with(text))
        });
        // With a file, the routes go that protect paths which shorter prefixes would pass on.
        let is_file_gone = self.in_force.0.keys().any(|file| !texts.0.contains_key(file));
        if is_beginning || is_file_gone { SAME_READINGS_OF_LESS } else { SAME_READINGS }
    }
}

/// Why a text can hardly be a whole configuration, if that is so.
pub(super) fn doubt(text: &str) -> Option<&'static str> {
    let is_setting = |line: &str| !line.trim().is_empty() && !line.trim_start().starts_with('#');
    if !text.lines().any(is_setting) {
        return Some(
            "it has no setting at all; write the settings, remove the file if another one includes it, or restart",
        );
    }
    (!text.ends_with('\n'))
        .then_some("its last line has no end, as if its writing had broken off; end the file with a newline")
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: &str = "[admin]\nlisten = \"127.0.0.1:1\"\n[auth]\nroot_keys = []\n";

    fn texts(files: &[(&str, &str)]) -> Texts {
        Texts(files.iter().map(|(path, text)| (path.into(), Zeroizing::new((*text).to_owned()))).collect())
    }

    fn one(text: &str) -> Texts {
        texts(&[("omnigate.toml", text)])
    }

    fn in_force(text: &str) -> Settling {
        Settling::new(one(text))
    }

    /// What repeated readings of the same texts come to, and after how many.
    fn settle_all(settling: &mut Settling, texts: &Texts) -> (u32, Look) {
        let looks = (1..100).map(|n| (n, settling.look(texts.clone())));
        looks.into_iter().find(|(_, look)| *look != Look::Again).unwrap_or((100, Look::Again))
    }

    fn settle(settling: &mut Settling, text: &str) -> (u32, Look) {
        settle_all(settling, &one(text))
    }

    #[test]
    fn an_included_file_is_held_to_the_same_rules() {
        let both = |more| texts(&[("omnigate.toml", WHOLE), ("conf.d/a.toml", more)]);
        let mut settling = Settling::new(both("[node]\nname = \"n\"\n"));
        assert_eq!(settling.look(both("[node]\n")), Look::Again);
        assert_eq!(settling.look(both("[node]\nname")), Look::Again, "it changes");
        let beginning = settle_all(&mut settling, &both("[node]\n"));
        assert_eq!(beginning, (1 + SAME_READINGS_OF_LESS, Look::Settled));
        for doubtful in ["", "[node]\nname = \"other\""] {
            let (_, look) = settle_all(&mut settling, &both(doubtful));
            assert!(
                matches!(look, Look::Doubtful { file, .. } if file == Path::new("conf.d/a.toml")),
                "{doubtful}"
            );
        }
        let removed = settle(&mut settling, WHOLE);
        assert_eq!(removed, (1 + SAME_READINGS_OF_LESS, Look::Settled), "it may be about to come back");
    }

    #[test]
    fn a_text_counts_once_it_was_read_twice_in_a_row() {
        let mut settling = in_force("[node]\n");
        assert_eq!(settling.look(one("[a]\n")), Look::Again);
        assert_eq!(settling.look(one(WHOLE)), Look::Again);
        assert_eq!(settling.look(one("[a]\n")), Look::Again);
        assert_eq!(settling.look(one("[a]\n")), Look::Settled);
        assert_eq!(settle(&mut settling, "[a]\n"), (1 + SAME_READINGS, Look::Settled), "judged anew");
    }

    #[test]
    fn the_beginning_of_what_is_in_force_must_stay_for_longer() {
        let mut settling = in_force(WHOLE);
        let cut = &WHOLE[..WHOLE.find("[auth]").unwrap_or_default()];
        assert_eq!(settle(&mut settling, cut), (1 + SAME_READINGS_OF_LESS, Look::Settled));
        settling.put_into_force();
        assert_eq!(settle(&mut settling, WHOLE), (1 + SAME_READINGS, Look::Settled), "more is no beginning");
    }

    #[test]
    fn a_file_without_settings_or_without_its_last_newline_is_doubtful() {
        let mut settling = in_force("[node]\nname = \"n\"\n");
        for doubtful in ["", "\n \n", "# omnigate\n# every setting\n", "[auth]\nroot_keys = [", "[gate"] {
            assert!(matches!(settle(&mut settling, doubtful).1, Look::Doubtful { .. }), "{doubtful:?}");
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
