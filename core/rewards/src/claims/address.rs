//! Addresses of accounts on Ethereum and its kin, and which actor has which.

use std::{collections::BTreeMap, fmt, str::FromStr};

use types::ActorId;

use super::tree::keccak;

/// An account on a chain: 20 bytes, written `0x` and 40 hexadecimal digits whose case is a checksum (EIP-55).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EvmAddress([u8; 20]);

/// The text is no address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidAddress {
    /// It is not written as addresses are.
    #[error("an address is `0x` and 40 hexadecimal digits")]
    Malformed,
    /// The case of its digits does not fit, so a digit is wrong.
    #[error("the checksum of the address is wrong: a digit was mistyped")]
    Checksum,
    /// Nobody has the key of the address zero; what is paid to it is lost.
    #[error("the address is zero, which nobody has the key of")]
    Zero,
}

impl EvmAddress {
    /// The address as contracts see it: 20 bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 20] {
        &self.0
    }

    /// The digits in lower case.
    fn digits(&self) -> String {
        use fmt::Write as _;
        self.0.iter().fold(String::with_capacity(40), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        })
    }
}

impl fmt::Display for EvmAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = self.digits();
        let sum = keccak(digits.as_bytes());
        f.write_str("0x")?;
        for (at, digit) in digits.chars().enumerate() {
            let half = sum[at / 2] >> (4 * (1 - at % 2)) & 0xf;
            write!(f, "{}", if half >= 8 { digit.to_ascii_uppercase() } else { digit })?;
        }
        Ok(())
    }
}

impl FromStr for EvmAddress {
    type Err = InvalidAddress;

    /// Reads an address in lower case, in upper case, or with the right checksum.
    fn from_str(text: &str) -> Result<Self, InvalidAddress> {
        let digits = text.strip_prefix("0x").filter(|digits| digits.len() == 40);
        let digits = digits.ok_or(InvalidAddress::Malformed)?;
        let mut bytes = [0; 20];
        for (byte, pair) in bytes.iter_mut().zip(digits.as_bytes().chunks(2)) {
            let digit =
                |at: usize| char::from(pair[at]).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
            let (high, low) = digit(0).zip(digit(1)).ok_or(InvalidAddress::Malformed)?;
            *byte = high << 4 | low;
        }
        let address = Self(bytes);
        let one_case = !digits.contains(|c: char| c.is_ascii_lowercase())
            || !digits.contains(|c: char| c.is_ascii_uppercase());
        if !one_case && address.to_string() != text {
            return Err(InvalidAddress::Checksum);
        }
        if bytes == [0; 20] { Err(InvalidAddress::Zero) } else { Ok(address) }
    }
}

/// Which actor is paid to which address.
#[derive(Clone, Debug, Default)]
pub struct AddressBook(BTreeMap<ActorId, EvmAddress>);

/// A line of an address book is wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {fault}")]
pub struct AddressBookError {
    /// Line number, counted from one.
    pub line: usize,
    /// What is wrong with the line.
    pub fault: AddressBookFault,
}

/// What is wrong with a line of an address book.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressBookFault {
    /// It is not an actor, a comma and an address.
    #[error("a line is an actor, a comma and an address")]
    Malformed,
    /// The name cannot be one of an actor.
    #[error(transparent)]
    Actor(#[from] types::InvalidActor),
    /// The address is none.
    #[error(transparent)]
    Address(#[from] InvalidAddress),
    /// The actor has a line already.
    #[error("{0} has an address already")]
    Twice(ActorId),
}

impl AddressBook {
    /// Reads lines of `actor,address`; empty lines are skipped. An actor's name may contain commas, an address does not.
    ///
    /// # Errors
    /// [`AddressBookError`] with the first line that is wrong.
    pub fn read(text: &str) -> Result<Self, AddressBookError> {
        let mut book = BTreeMap::new();
        for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.is_empty()) {
            let wrong = |fault| AddressBookError { line: at + 1, fault };
            let (actor, address) = read_line(line).map_err(wrong)?;
            if book.insert(actor.clone(), address).is_some() {
                return Err(wrong(AddressBookFault::Twice(actor)));
            }
        }
        Ok(Self(book))
    }

    /// The address of an actor: that of the book, or the actor's own name if it is one.
    #[must_use]
    pub fn of(&self, actor: &ActorId) -> Option<EvmAddress> {
        self.0.get(actor).copied().or_else(|| actor.as_str().parse().ok())
    }
}

fn read_line(line: &str) -> Result<(ActorId, EvmAddress), AddressBookFault> {
    let (actor, address) = line.rsplit_once(',').ok_or(AddressBookFault::Malformed)?;
    Ok((ActorId::new(actor)?, address.trim().parse()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of EIP-55.
    const EXAMPLES: [&str; 6] = [
        "0x52908400098527886E0F7030069857D2E4169EE7",
        "0xde709f2102306220921060314715629080e2fb77",
        "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed",
        "0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359",
        "0xdbF03B407c01E7cD3CBea99509d93f8DDDC8C6FB",
        "0xD1220A0cf47c7B9Be7A2E6BA89F429762e7b9aDb",
    ];

    #[test]
    fn addresses_are_written_with_the_checksum_of_the_standard() {
        for text in EXAMPLES {
            for spelling in [text.to_owned(), text.to_lowercase(), format!("0x{}", text[2..].to_uppercase())]
            {
                assert_eq!(spelling.parse::<EvmAddress>().map(|a| a.to_string()), Ok(text.to_owned()));
            }
        }
    }

    #[test]
    fn a_mistyped_address_is_refused() {
        let mistyped = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAeD";
        assert_eq!(mistyped.parse::<EvmAddress>(), Err(InvalidAddress::Checksum));
        for text in [
            "",
            "0x",
            "5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed00",
            "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAeg",
        ] {
            assert_eq!(text.parse::<EvmAddress>(), Err(InvalidAddress::Malformed), "{text}");
        }
        assert_eq!(format!("0x{:040}", 0).parse::<EvmAddress>(), Err(InvalidAddress::Zero));
        assert_eq!(
            "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1Beé".parse::<EvmAddress>(),
            Err(InvalidAddress::Malformed)
        );
    }

    #[test]
    fn an_address_book_says_what_is_wrong_and_where() {
        let actor = |name| ActorId::new(name).expect("an actor");
        let book = AddressBook::read(&format!("node-a,{}\r\n\na,b, {}\n", EXAMPLES[0], EXAMPLES[1]))
            .expect("a book");
        assert_eq!(book.of(&actor("node-a")), EXAMPLES[0].parse().ok());
        assert_eq!(book.of(&actor("a,b")), EXAMPLES[1].parse().ok());
        assert_eq!(book.of(&actor(EXAMPLES[2])), EXAMPLES[2].parse().ok(), "a name that is an address");
        assert_eq!(book.of(&actor("node-b")), None);
        let fault = |text: &str| AddressBook::read(text).expect_err("refused").to_string();
        assert_eq!(fault("\nnode-a\n"), "line 2: a line is an actor, a comma and an address");
        assert_eq!(fault("node-a,0x12"), "line 1: an address is `0x` and 40 hexadecimal digits");
        let twice = format!("node-a,{0}\nnode-a,{0}\n", EXAMPLES[0]);
        assert_eq!(fault(&twice), "line 2: node-a has an address already");
        assert!(fault(&format!(",{}", EXAMPLES[0])).starts_with("line 1: an actor is"));
    }
}
