//! Searching a file of sorted lines, without reading all of it.

use std::io::{self, BufRead, Seek, SeekFrom};

/// Stretches of a file that are short enough to be read line by line.
const SHORT: u64 = 8 * 1024;

/// The lines of a sorted file from some line on.
#[derive(Debug)]
pub(super) struct SortedLines<R> {
    file: R,
    len: u64,
    max_line: u64,
}

impl<R: BufRead + Seek> SortedLines<R> {
    /// A file whose lines are not longer than `max_line`.
    pub(super) fn new(mut file: R, max_line: u64) -> io::Result<Self> {
        let len = file.seek(SeekFrom::End(0))?;
        Ok(Self { file, len, max_line })
    }

    /// Gives the lines to `take`, without their line feeds, from the first that is not before what is looked for, until it wants
    /// no more. Lines for which `is_before` is true come first in the file.
    pub(super) fn each_from(
        &mut self,
        is_before: impl Fn(&[u8]) -> bool,
        mut take: impl FnMut(&[u8]) -> bool,
    ) -> io::Result<()> {
        // A line begins at `start`, and all lines before it are before what is looked for. No line that begins at `end` or
        // after it has to be looked at to find the first.
        let (mut start, mut end, mut line) = (0, self.len, Vec::new());
        while end - start > SHORT {
            let middle = start + (end - start) / 2;
            self.file.seek(SeekFrom::Start(middle))?;
            let begin = middle + self.read(&mut line)?;
            if begin >= end {
                // One line reaches from before the middle to the end.
                end = middle;
                continue;
            }
            let read = self.read(&mut line)?;
            if is_before(text(&line)) { start = begin + read } else { end = begin }
        }
        self.file.seek(SeekFrom::Start(start))?;
        while self.read(&mut line)? > 0 {
            if !is_before(text(&line)) && !take(text(&line)) {
                break;
            }
        }
        Ok(())
    }

    /// Reads up to the end of a line. Returns how many bytes that were; 0 at the end of the file.
    fn read(&mut self, line: &mut Vec<u8>) -> io::Result<u64> {
        line.clear();
        let read = io::Read::take(&mut self.file, self.max_line).read_until(b'\n', line)?;
        Ok(read as u64)
    }
}

fn text(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\n").unwrap_or(line)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::{cell::Cell, io::Cursor};

    use proptest::prelude::*;

    use super::*;

    /// The lines from `wanted` on, and how many lines were looked at.
    fn found(file: &str, wanted: &str) -> (Vec<String>, usize) {
        let (mut lines, looked_at) = (Vec::new(), Cell::new(0));
        let is_before = |line: &[u8]| {
            looked_at.set(looked_at.get() + 1);
            line < wanted.as_bytes()
        };
        let mut sorted = SortedLines::new(Cursor::new(file), 1 << 20).unwrap();
        let take = |line: &[u8]| {
            lines.push(String::from_utf8(line.to_vec()).unwrap());
            lines.len() < 3
        };
        sorted.each_from(is_before, take).unwrap();
        (lines, looked_at.get())
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn it_finds_what_a_look_at_every_line_finds(
            names in prop::collection::vec("[a-d]{1,6}", 0..400),
            padding in 0..400_usize,
            wanted in "[a-e]{0,6}",
            ends_with_line_feed in any::<bool>(),
        ) {
            let mut lines: Vec<String> = names.iter().map(|name| format!("{name}{}", "~".repeat(padding))).collect();
            lines.sort();
            let mut file = lines.join("\n");
            if ends_with_line_feed && !file.is_empty() {
                file.push('\n');
            }
            let expected: Vec<String> = lines.into_iter().filter(|line| **line >= *wanted).take(3).collect();
            prop_assert_eq!(found(&file, &wanted).0, expected);
        }
    }

    #[test]
    fn few_of_many_lines_are_looked_at() {
        let file: String = (0..100_000).map(|number| format!("{number:06} {}\n", "x".repeat(90))).collect();
        for wanted in ["000000", "050000", "099999", "1"] {
            let (lines, looked_at) = found(&file, wanted);
            assert_eq!(lines.first().map(|line| &line[..6]), Some(wanted).filter(|wanted| *wanted != "1"));
            assert!(looked_at < 200, "{looked_at} lines for {wanted}");
        }
    }
}
