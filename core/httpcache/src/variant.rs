//! `Vary`: which of several stored responses a request selects (RFC 9111, 4.1).
//!
//! Values are compared in a normal form: the lines of a field as one list, without blanks around its elements; languages and
//! codings also in lower case and in the order of their weights; cookies, and values that are very long, as they are. What is
//! absent equals only what is absent.

use std::{cell::RefCell, cmp::Reverse, fmt, sync::Arc};

use http::{HeaderMap, HeaderName, HeaderValue, header};

/// Most fields that `Vary` may name; a response that names more is stored for nobody.
pub const MAX_FIELDS: usize = 16;

/// Longer values are compared as they are: to put them into normal form takes a client little and this cache much.
const MAX_NORMAL: usize = 2048;

/// The content of a `Vary` field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Vary {
    /// The response depends on these fields, which may be none.
    Fields(Vec<HeaderName>),
    /// It depends on more than can be told: `*`, what is no field name, or more than [`MAX_FIELDS`].
    Anything,
}

impl Vary {
    /// Reads the `Vary` fields of a response.
    #[must_use]
    pub fn of(headers: &HeaderMap) -> Self {
        let mut fields = Vec::new();
        for value in headers.get_all(header::VARY) {
            let names = value.as_bytes().split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
            for name in names.filter(|name| !name.is_empty()) {
                match HeaderName::from_bytes(name) {
                    Ok(_) if name == b"*" => return Self::Anything,
                    Ok(name) if fields.contains(&name) => {}
                    Ok(name) => fields.push(name),
                    Err(_) => return Self::Anything,
                }
            }
        }
        fields.sort_unstable_by(|one, other| one.as_str().cmp(other.as_str()));
        if fields.len() > MAX_FIELDS { Self::Anything } else { Self::Fields(fields) }
    }
}

/// A request's fields as its server sees them.
#[derive(Clone, Copy, Debug)]
pub struct RequestFields<'a> {
    /// The fields as the client sent them.
    pub headers: &'a HeaderMap,
    /// Those of them that are not passed on: they count as absent.
    pub removed: &'a [HeaderName],
}

impl RequestFields<'_> {
    /// A field's value in normal form; `None` if it is absent.
    #[must_use]
    pub fn value(&self, name: &HeaderName) -> Option<Vec<u8>> {
        if self.removed.contains(name) || !self.headers.contains_key(name) {
            return None;
        }
        Some(normal_form(name, self.headers.get_all(name).iter().map(HeaderValue::as_bytes)))
    }
}

/// A request's fields while stored responses are compared with them: each is put into normal form once, however many there are.
#[derive(Debug)]
pub struct Selecting<'a> {
    request: RequestFields<'a>,
    /// The fields that were asked for so far: no more than variants name.
    known: RefCell<Vec<(HeaderName, Option<Vec<u8>>)>>,
}

impl<'a> Selecting<'a> {
    /// The fields of a request, of which none has been asked for.
    #[must_use]
    pub const fn new(request: RequestFields<'a>) -> Self {
        Self { request, known: RefCell::new(Vec::new()) }
    }

    /// What comes of a field's value in normal form, or of its absence.
    fn with<T>(&self, name: &HeaderName, look: impl FnOnce(Option<&[u8]>) -> T) -> T {
        let mut known = self.known.borrow_mut();
        let at = known.iter().position(|(known, _)| known == name).unwrap_or_else(|| {
            known.push((name.clone(), self.request.value(name)));
            known.len() - 1
        });
        look(known[at].1.as_deref())
    }
}

/// The key of the hashes that stand for values on a disk.
pub type VariantKey = [u8; 32];

/// The value of a field, or what stands for it. Values may be secret, such as cookies.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Selector {
    /// The value in normal form.
    Value(Box<[u8]>),
    /// The keyed hash of its name and its value.
    Hash([u8; 32]),
}

impl fmt::Debug for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Selector")
    }
}

/// The values of the fields that a stored response was selected by.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Variant {
    fields: Vec<(HeaderName, Option<Selector>)>,
    /// For the hashes among them; without it they fit no request.
    key: Option<Arc<VariantKey>>,
}

impl Variant {
    /// The variant of a response that varies with `fields`, to this request.
    #[must_use]
    pub fn of(fields: &[HeaderName], request: &RequestFields<'_>) -> Self {
        let value = |name: &HeaderName| {
            (name.clone(), request.value(name).map(|value| Selector::Value(value.into())))
        };
        Self { fields: fields.iter().map(value).collect(), key: None }
    }

    /// The same with hashes for values, as it is kept on a disk.
    #[must_use]
    pub fn hashed(&self, key: &Arc<VariantKey>) -> Self {
        let hashed = |(name, selector): &(HeaderName, Option<Selector>)| {
            let selector = selector.as_ref().map(|selector| match selector {
                Selector::Value(value) => Selector::Hash(hash(key, name, value)),
                Selector::Hash(hash) => Selector::Hash(*hash),
            });
            (name.clone(), selector)
        };
        Self { fields: self.fields.iter().map(hashed).collect(), key: Some(Arc::clone(key)) }
    }

    /// Whether the request selects this variant.
    #[must_use]
    pub fn fits(&self, request: &RequestFields<'_>) -> bool {
        self.is_selected(&Selecting::new(*request))
    }

    /// The same for a request with which several variants are compared.
    #[must_use]
    pub fn is_selected(&self, selecting: &Selecting<'_>) -> bool {
        let is_it =
            |name: &HeaderName, selector: Option<&Selector>, value: Option<&[u8]>| match (value, selector) {
                (None, None) => true,
                (Some(value), Some(Selector::Value(stored))) => *value == **stored,
                (Some(value), Some(Selector::Hash(stored))) => {
                    self.key.as_ref().is_some_and(|key| hash(key, name, value) == *stored)
                }
                (None, Some(_)) | (Some(_), None) => false,
            };
        self.fields
            .iter()
            .all(|(name, selector)| selecting.with(name, |value| is_it(name, selector.as_ref(), value)))
    }

    pub(crate) fn fields(&self) -> &[(HeaderName, Option<Selector>)] {
        &self.fields
    }

    pub(crate) fn from_fields(fields: Vec<(HeaderName, Option<Selector>)>) -> Self {
        Self { fields, key: None }
    }

    /// The names of the fields that select it.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.fields.iter().map(|(name, _)| name.as_str())
    }

    /// How many bytes it takes, about.
    #[must_use]
    pub fn weight(&self) -> usize {
        let field = |(name, selector): &(HeaderName, Option<Selector>)| {
            let value = selector.as_ref().map_or(0, |selector| match selector {
                Selector::Value(value) => value.len(),
                Selector::Hash(hash) => hash.len(),
            });
            64 + name.as_str().len() + value
        };
        self.fields.iter().map(field).sum()
    }
}

/// What stands for a value on a disk. No name has a zero byte.
fn hash(key: &VariantKey, name: &HeaderName, value: &[u8]) -> [u8; 32] {
    let text = [name.as_str().as_bytes(), b"\0", value].concat();
    *blake3::keyed_hash(key, &text).as_bytes()
}

/// The lines of a field as one value that equals another if both mean the same.
fn normal_form<'v>(name: &HeaderName, lines: impl Iterator<Item = &'v [u8]>) -> Vec<u8> {
    if *name == header::COOKIE {
        // As servers are told: HTTP/2 splits the field where HTTP/1.1 has `; ` (RFC 9113, 8.2.3).
        return lines.collect::<Vec<_>>().join(b"; ".as_slice());
    }
    let lines: Vec<&[u8]> = lines.collect();
    if lines.iter().map(|line| line.len()).sum::<usize>() > MAX_NORMAL {
        // No field value has a zero byte, so that this equals no normal form.
        return [b"\0".as_slice(), &lines.join(b",".as_slice())].concat();
    }
    let elements: Vec<&[u8]> =
        lines.into_iter().flat_map(|line| line.split(|byte| *byte == b',')).map(<[u8]>::trim_ascii).collect();
    if *name != header::ACCEPT_LANGUAGE && *name != header::ACCEPT_ENCODING {
        return elements.join(b",".as_slice());
    }
    let mut weighted: Vec<(u16, Vec<u8>)> =
        elements.into_iter().filter(|element| !element.is_empty()).map(weighted).collect();
    if *name == header::ACCEPT_ENCODING {
        // Of equal weight means of equal preference, in whatever order.
        weighted.sort_unstable_by(|one, other| other.0.cmp(&one.0).then_with(|| one.1.cmp(&other.1)));
    } else {
        // Servers commonly prefer the first of several languages of equal weight.
        weighted.sort_by_key(|(weight, _)| Reverse(*weight));
    }
    let written = weighted.into_iter().map(|(weight, element)| {
        // No field value has a zero byte, so no client can write what looks like a weight.
        let suffix = if weight == WHOLE { String::new() } else { format!("\0{weight}") };
        [element, suffix.into_bytes()].concat()
    });
    written.collect::<Vec<_>>().join(b",".as_slice())
}

/// The weight of what has none, in thousandths.
const WHOLE: u16 = 1000;

/// An element in lower case without its weight, and the weight in thousandths.
fn weighted(element: &[u8]) -> (u16, Vec<u8>) {
    let mut parts = element.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
    let name = parts.next().unwrap_or_default();
    let mut weight = WHOLE;
    let mut kept = name.to_ascii_lowercase();
    for part in parts {
        match part {
            [b'q' | b'Q', b'=', number @ ..] if thousandths(number).is_some() => {
                weight = thousandths(number).unwrap_or(WHOLE);
            }
            // What is not understood still makes a difference.
            other => {
                kept.push(b';');
                kept.extend_from_slice(other);
            }
        }
    }
    (weight, kept)
}

/// A weight between 0 and 1 with up to three decimals, in thousandths.
fn thousandths(number: &[u8]) -> Option<u16> {
    let text = std::str::from_utf8(number).ok()?;
    let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
    if decimals.len() > 3 || !decimals.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let decimals: u16 = format!("{decimals:0<3}").parse().ok()?;
    match whole {
        "0" => Some(decimals),
        "1" if decimals == 0 => Some(WHOLE),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_put_into_normal_form_once_for_all_variants() {
        let names = [header::ACCEPT_LANGUAGE, header::ACCEPT_ENCODING];
        let headers = |language: &str| {
            let value = HeaderValue::from_str(language).expect("a value");
            HeaderMap::from_iter([(header::ACCEPT_LANGUAGE, value)])
        };
        let all: Vec<HeaderMap> = (0..32).map(|nth| headers(&format!("l{nth}"))).collect();
        let variants =
            all.iter().map(|headers| Variant::of(&names, &RequestFields { headers, removed: &[] }));
        let request = headers("l31");
        let selecting = Selecting::new(RequestFields { headers: &request, removed: &[] });
        assert_eq!(variants.filter(|variant| variant.is_selected(&selecting)).count(), 1);
        assert_eq!(selecting.known.borrow().len(), 2);
    }
}
