//! Digits and the slash, five dots wide and seven high.

/// Pixels along a side of a dot.
pub(super) const DOT: usize = 2;

/// Dots from one character to the next.
const ADVANCE: usize = 6;

/// Rows of five dots, the leftmost in the highest bit; digits, then the slash.
const GLYPHS: [[u8; 7]; 11] = [
    [0b01110, 0b10001, 0b10011, 0b10101, 0b11001, 0b10001, 0b01110],
    [0b00100, 0b01100, 0b00100, 0b00100, 0b00100, 0b00100, 0b01110],
    [0b01110, 0b10001, 0b00001, 0b00010, 0b00100, 0b01000, 0b11111],
    [0b11111, 0b00010, 0b00100, 0b00010, 0b00001, 0b10001, 0b01110],
    [0b00010, 0b00110, 0b01010, 0b10010, 0b11111, 0b00010, 0b00010],
    [0b11111, 0b10000, 0b11110, 0b00001, 0b00001, 0b10001, 0b01110],
    [0b00110, 0b01000, 0b10000, 0b11110, 0b10001, 0b10001, 0b01110],
    [0b11111, 0b00001, 0b00010, 0b00100, 0b01000, 0b01000, 0b01000],
    [0b01110, 0b10001, 0b10001, 0b01110, 0b10001, 0b10001, 0b01110],
    [0b01110, 0b10001, 0b10001, 0b01111, 0b00001, 0b00010, 0b01100],
    [0b00001, 0b00001, 0b00010, 0b00100, 0b01000, 0b10000, 0b10000],
];

/// Where the dots of a text begin, in pixels from its upper left corner. Other characters are blank.
pub(super) fn dots(text: &str) -> impl Iterator<Item = (usize, usize)> + '_ {
    text.chars().enumerate().flat_map(|(at, character)| {
        let glyph = match character {
            '/' => GLYPHS[10],
            digit => {
                digit.to_digit(10).and_then(|digit| GLYPHS.get(digit as usize)).copied().unwrap_or_default()
            }
        };
        let cells = (0..7).flat_map(|row| (0..5).map(move |column| (row, column)));
        let set = cells.filter(move |(row, column)| glyph[*row] >> (4 - column) & 1 == 1);
        set.map(move |(row, column)| ((at * ADVANCE + column) * DOT, row * DOT))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_stand_beside_each_other() {
        let one: Vec<_> = dots("1").collect();
        assert_eq!(one.first(), Some(&(2 * DOT, 0)));
        let second: Vec<_> = dots("11").skip(one.len()).collect();
        assert!(one.iter().zip(&second).all(|(a, b)| (a.0 + ADVANCE * DOT, a.1) == *b));
        assert_eq!(dots(" x").count(), 0);
    }
}
