//! What others say of a failure, made fit for a log line: bounded, and without signs that could forge another line.

use instant_acme::Problem;

/// The most characters of what a CA or a hook says that are repeated.
const MAX_CHARS: usize = 400;

/// A text on one line, in at most 400 characters.
pub(super) fn bounded(text: &str) -> String {
    let is_odd = |c: char| {
        c.is_control()
            || matches!(c, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    let line: String = text.trim().chars().take(MAX_CHARS).map(|c| if is_odd(c) { ' ' } else { c }).collect();
    if text.trim().chars().nth(MAX_CHARS).is_some() { line + "…" } else { line }
}

/// What a CA says in a problem document.
pub(super) fn of_problem(problem: &Problem) -> String {
    let kind = problem.r#type.as_deref().unwrap_or("no type");
    let kind = kind.strip_prefix("urn:ietf:params:acme:error:").unwrap_or(kind);
    let mut text = format!("{kind}: {}", problem.detail.as_deref().unwrap_or("no detail"));
    for sub in problem.subproblems.iter().take(8) {
        text.push_str(&format!("; {sub}"));
    }
    bounded(&text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_say_is_one_line_of_bounded_length() {
        assert_eq!(bounded("  a\r\nWARN b\u{1b}[31m\u{202e} "), "a  WARN b [31m ");
        let long = bounded(&"é".repeat(10_000));
        assert_eq!(long.chars().count(), MAX_CHARS + 1);
        assert!(long.ends_with('…'));
    }
}
