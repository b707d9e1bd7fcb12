//! Text in HTML, as text.

use std::fmt;

/// A text whose every character shows as itself, in an element or in a quoted attribute.
pub(super) struct Escaped<'a>(pub(super) &'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for character in self.0.chars() {
            match character {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                character => write!(f, "{character}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_becomes_an_element_or_leaves_its_attribute() {
        let text = Escaped("<script src='a'>&\"</script>").to_string();
        assert_eq!(text, "&lt;script src=&#39;a&#39;&gt;&amp;&quot;&lt;/script&gt;");
    }
}
