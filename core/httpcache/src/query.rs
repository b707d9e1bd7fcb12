//! Query parameters that make no difference to a response, such as those that tell where a visitor comes from.
//!
//! They are taken out of a request before anything else is done with it: neither the key of what is stored nor its server has
//! them, so that nobody can change by them what others get.

/// The name of a parameter that is taken out, or with a `*` at its end the beginning of such names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ignored {
    name: String,
    is_prefix: bool,
}

impl Ignored {
    /// Reads a name as operators write it; `None` if no parameter can have it.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        let (name, is_prefix) = text.strip_suffix('*').map_or((text, false), |name| (name, true));
        let is_name = !name.is_empty()
            && name.bytes().all(|byte| byte.is_ascii_graphic() && !b"&=#?;*".contains(&byte));
        is_name.then(|| Self { name: name.to_owned(), is_prefix })
    }

    /// Whether it is the name of a parameter, which is compared as it was sent: what is written in another way is kept.
    fn takes(&self, parameter: &str) -> bool {
        let name = parameter.split('=').next().unwrap_or_default();
        if self.is_prefix { name.starts_with(&self.name) } else { name == self.name }
    }
}

/// A path and query without the parameters that make no difference; `None` if it has none of them.
#[must_use]
pub fn without(target: &str, ignored: &[Ignored]) -> Option<String> {
    let (path, query) = target.split_once('?')?;
    let is_kept = |parameter: &&str| !ignored.iter().any(|ignored| ignored.takes(parameter));
    let parameters = query.split('&');
    if parameters.clone().all(|parameter| is_kept(&parameter)) {
        return None;
    }
    let kept: Vec<&str> = parameters.filter(is_kept).collect();
    let separator = if kept.is_empty() { "" } else { "?" };
    Some([path, separator, &kept.join("&")].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ignored(names: &[&str]) -> Vec<Ignored> {
        names.iter().map(|name| Ignored::read(name).expect("a name")).collect()
    }

    #[test]
    fn what_makes_no_difference_is_taken_out_and_the_rest_stays_as_it_is() {
        let ignored = ignored(&["utm_*", "fbclid"]);
        let table = [
            ("/a", None),
            ("/a?", None),
            ("/a?b=1&c", None),
            ("/a?utm_source=x", Some("/a")),
            ("/a?utm_source=x&utm_medium=y&fbclid", Some("/a")),
            ("/a?b=1&utm_source=x&c=2", Some("/a?b=1&c=2")),
            ("/a?b=?utm_source=x&fbclid=1&", Some("/a?b=?utm_source=x&")),
            ("/a?xfbclid=1&fbclid2=1&FBCLID=1&utm=1", None),
            ("/a?utm%5fsource=x", None),
            ("/a?b=1;utm_source=x", None),
            ("/a?utm_source=x;b=1", Some("/a")),
            ("/utm_a?b=fbclid", None),
        ];
        for (target, expected) in table {
            assert_eq!(without(target, &ignored).as_deref(), expected, "{target}");
        }
    }

    #[test]
    fn only_names_of_parameters_are_read() {
        for text in ["", "*", "a b", "a=b", "a&b", "a*b", "a**", "ä", "#a"] {
            assert_eq!(Ignored::read(text), None, "{text}");
        }
    }
}
