//! Links between the repository's own pages lead somewhere.

use crate::{Finding, Tree};

/// Every relative link in a Markdown file names a file or folder of the repository.
#[must_use]
pub fn lead_somewhere(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.ending(".md") {
        for (line, target) in targets(text) {
            let file = target.split(['#', '?']).next().unwrap_or_default();
            let outside = target.contains("://") || target.starts_with("mailto:") || target.starts_with('#');
            if !outside && !resolved(path, file).is_some_and(|file| tree.exists(&file)) {
                findings.push(Finding::new(path, line, format!("the link to `{target}` leads nowhere")));
            }
        }
    }
    findings
}

/// The targets of inline links and of reference definitions, code left out.
fn targets(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut fenced = false;
    for (at, line) in text.lines().enumerate() {
        let fence = line.trim_start().starts_with("```") || line.trim_start().starts_with("~~~");
        fenced ^= fence;
        if fenced || fence {
            continue;
        }
        let prose = without_code_spans(line);
        let inline = prose.split("](").skip(1).filter_map(|rest| rest.split([')', ' ']).next());
        let defined = prose.strip_prefix('[').and_then(|rest| rest.split_once("]: "));
        let defined = defined.and_then(|(_, rest)| rest.split_whitespace().next());
        found.extend(inline.chain(defined).map(|target| (at + 1, target.to_owned())));
    }
    found
}

/// Every other piece between backticks is code.
fn without_code_spans(line: &str) -> String {
    line.split('`').step_by(2).collect::<Vec<_>>().join("code")
}

/// `target` as seen from `page`, from the root of the repository; none if it points out of it.
fn resolved(page: &str, target: &str) -> Option<String> {
    let mut parts: Vec<_> = page.split('/').collect();
    parts.pop();
    for part in target.trim_end_matches('/').split('/') {
        match part {
            "." => {}
            ".." => drop(parts.pop()?),
            "" => return None,
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn broken(page: &str, text: &str) -> Vec<usize> {
        let tree =
            Tree::of(&[(page, text), ("README.md", ""), ("docs/config.md", ""), ("docs/img/a.png", "")]);
        lead_somewhere(&tree).iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn a_link_to_nothing_is_found() {
        let bad = [
            "[a](gone.md)",
            "[a](config.md) and ![b](img/gone.png)",
            "[a](../../outside.md)",
            "[a](/docs/config.md)",
            "[a](gone.md#part \"title\")",
            "[a]: gone.md",
        ];
        for text in bad {
            assert_eq!(broken("docs/page.md", text), [1], "{text}");
        }
        assert_eq!(broken("docs/page.md", "fine\n```\n[a](in-code.md)\n```\n[a](gone.md)"), [5]);
    }

    #[test]
    fn a_link_that_leads_somewhere_is_left_alone() {
        let good = [
            "[a](config.md)",
            "[a](config.md#part)",
            "[a](../README.md) [b](img/) [c](./img/a.png) [d](#here)",
            "[a](https://example.org/x) <mailto:a@example.org> [b](mailto:a@example.org)",
            "`[a](gone.md)` is how a link is written",
            "[a]: ../README.md",
        ];
        for text in good {
            assert_eq!(broken("docs/page.md", text), [0_usize; 0], "{text}");
        }
    }
}
