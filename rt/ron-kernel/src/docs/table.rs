//! Markdown tables whose columns line up in the raw text.

/// A table of `N` columns.
pub(super) struct Table<const N: usize> {
    rows: Vec<[String; N]>,
}

impl<const N: usize> Table<N> {
    pub(super) fn new(titles: [&str; N]) -> Self {
        Self { rows: vec![titles.map(cell)] }
    }

    pub(super) fn row(&mut self, cells: [&str; N]) {
        self.rows.push(cells.map(cell));
    }

    /// The table's text; nothing if it has no rows.
    pub(super) fn finish(self) -> String {
        let [titles, rows @ ..] = self.rows.as_slice() else {
            return String::new();
        };
        if rows.is_empty() {
            return String::new();
        }
        let widths: [usize; N] = std::array::from_fn(|column| self.width(column));
        let rule = widths.map(|width| "-".repeat(width));
        let lines = [titles, &rule].into_iter().chain(rows);
        lines.map(|cells| line(cells, &widths)).collect()
    }

    fn width(&self, column: usize) -> usize {
        self.rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0)
    }
}

fn line<const N: usize>(cells: &[String; N], widths: &[usize; N]) -> String {
    let padded: Vec<_> = cells.iter().zip(widths).map(|(cell, &width)| format!("{cell:<width$}")).collect();
    format!("| {} |\n", padded.join(" | "))
}

/// A text that stays within its cell.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}
