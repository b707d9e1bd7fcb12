//! What content is called: by the BLAKE3 hash of its bytes, so that a name can be checked against what it names.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::b3_text;

/// The name of an object, `b3:` and 64 lower-case hexadecimal digits: the BLAKE3 hash of its bytes.
///
/// One object has one name and one text for it, so that names can be compared as text wherever they travel.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId([u8; 32]);

/// The text does not name an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an object is named by `b3:` and 64 lower-case hexadecimal digits")]
pub struct InvalidObjectId;

impl ObjectId {
    /// The prefix of every name in text form.
    pub const PREFIX: &str = b3_text::PREFIX;

    /// The length of a name's digits.
    pub const HEX_LEN: usize = b3_text::HEX_LEN;

    /// The length of a name as text.
    pub const TEXT_LEN: usize = b3_text::TEXT_LEN;

    /// The name of the object with this hash.
    #[must_use]
    pub const fn new(hash: [u8; 32]) -> Self {
        Self(hash)
    }

    /// Returns the hash as raw bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The name as text, in the caller's room: nothing is allocated.
    pub fn encode<'a>(&self, room: &'a mut [u8; Self::TEXT_LEN]) -> &'a str {
        b3_text::encode(&self.0, room)
    }

    /// The digits alone, for places where a colon is a nuisance, such as the names of files.
    #[must_use]
    pub fn hex(&self) -> String {
        self.encode(&mut [0; Self::TEXT_LEN])[Self::PREFIX.len()..].to_owned()
    }

    /// Reads the digits alone.
    ///
    /// # Errors
    /// [`InvalidObjectId`] unless they are 64 lower-case hexadecimal digits.
    pub fn from_hex(digits: &str) -> Result<Self, InvalidObjectId> {
        b3_text::decode_hex(digits).map(Self).ok_or(InvalidObjectId)
    }
}

impl FromStr for ObjectId {
    type Err = InvalidObjectId;

    fn from_str(text: &str) -> Result<Self, InvalidObjectId> {
        b3_text::decode(text).map(Self).ok_or(InvalidObjectId)
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.encode(&mut [0; Self::TEXT_LEN]))
    }
}

impl fmt::Debug for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for ObjectId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.encode(&mut [0; Self::TEXT_LEN]))
    }
}

impl<'de> Deserialize<'de> for ObjectId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl de::Visitor<'_> for Text {
            type Value = ObjectId;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("`b3:` and 64 lower-case hexadecimal digits")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<ObjectId, E> {
                text.parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_str(Text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "b3:00ff1e2d3c4b5a69788796a5b4c3d2e1f00112233445566778899aabbccddeef";

    #[test]
    fn a_name_has_one_text_that_it_is_read_from_and_shown_as() {
        let id: ObjectId = TEXT.parse().expect("well formed");
        assert_eq!((id.as_bytes()[..3].to_vec(), id.as_bytes()[31]), (vec![0x00, 0xff, 0x1e], 0xef));
        assert_eq!((id.to_string(), format!("{id:?}")), (TEXT.to_owned(), TEXT.to_owned()));
        assert_eq!(id.encode(&mut [0; ObjectId::TEXT_LEN]), TEXT);
        assert_eq!((id.hex().as_str(), ObjectId::from_hex(&id.hex())), (&TEXT[3..], Ok(id)));
        assert_eq!(ObjectId::new(*id.as_bytes()), id);
    }

    #[test]
    fn any_other_text_is_refused() {
        let long = format!("{TEXT}0");
        let capital = TEXT.replace("ff", "FF");
        let digits = &TEXT[3..];
        let signed = format!("b3:+{}", &digits[1..]);
        let foreign = format!("b3:é{}", &digits[2..]);
        for wrong in
            ["", "b3:", digits, &TEXT[..66], &long, &capital, &TEXT.replace("b3", "B3"), &signed, &foreign]
        {
            assert_eq!(wrong.parse::<ObjectId>(), Err(InvalidObjectId), "{wrong}");
        }
    }

    #[test]
    fn names_are_ordered_as_their_texts_are() {
        let of = |byte| ObjectId::new([byte; 32]);
        let ids = [of(0), of(9), of(10), of(160), of(255)];
        assert!(ids.windows(2).all(|pair| pair[0] < pair[1] && pair[0].to_string() < pair[1].to_string()));
    }

    #[test]
    fn names_travel_as_strings() {
        let id: ObjectId = TEXT.parse().expect("well formed");
        let json = serde_json::to_string(&id).expect("a string");
        assert_eq!(json, format!("\"{TEXT}\""));
        assert_eq!(serde_json::from_str::<ObjectId>(&json).ok(), Some(id));
        let wrong = serde_json::from_str::<ObjectId>("\"b3:00\"").expect_err("too short");
        assert!(wrong.to_string().starts_with("an object is named by"), "{wrong}");
        assert!(serde_json::from_str::<ObjectId>("7").is_err());
    }
}
