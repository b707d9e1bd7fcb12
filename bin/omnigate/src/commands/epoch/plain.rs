//! Text of strangers, before it is printed.

/// The text with everything escaped that a terminal does not show as it is written: control characters, which could draw
/// over what is above, and characters that change the direction of what follows.
pub(super) fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for char in text.chars() {
        if is_hidden(char) {
            out.extend(char.escape_default());
        } else {
            out.push(char);
        }
    }
    out
}

fn is_hidden(char: char) -> bool {
    let is_mark = matches!(char, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}');
    char.is_control() || is_mark || char == '\u{feff}'
}

#[cfg(test)]
mod tests {
    use super::plain;

    #[test]
    fn nothing_is_left_that_moves_the_cursor_or_turns_the_text_around() {
        assert_eq!(plain("a\u{1b}[2Jb\nc\u{9b}d\u{202e}e"), "a\\u{1b}[2Jb\\nc\\u{9b}d\\u{202e}e");
        let readable = "é ÷ 漢字 \\ \"quoted\" it's";
        assert_eq!(plain(readable), readable);
    }
}
