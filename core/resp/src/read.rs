//! Reads replies: every length is checked before anything is allocated for it.

use crate::Reply;

/// The longest line in a reply, in bytes; errors and simple strings are lines.
pub const MAX_LINE: usize = 4096;
/// The longest string of bytes in a reply.
pub const MAX_BULK: usize = 64 * 1024;
/// The most items that an array has.
pub const MAX_ITEMS: usize = 1024;
/// How deep arrays are nested.
pub const MAX_DEPTH: usize = 4;

/// Why bytes are no reply. The connection is of no use any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// The first byte is not that of a reply.
    #[error("a reply begins with the byte 0x{0:02x}: the server does not speak the protocol of Redis")]
    Kind(u8),
    /// A line, a string, an array or the nesting of arrays is too long.
    #[error("a reply is larger than any that was asked for")]
    TooLarge,
    /// A number is none.
    #[error("a number in a reply is none")]
    Number,
    /// Text is not UTF-8, or a line does not end as it should.
    #[error("a line of a reply is damaged")]
    Line,
}

/// Reads the reply at the start of `from`, and says how long it is; `None` if it has not arrived completely.
///
/// # Errors
/// [`Malformed`] if it can be no reply, whatever follows.
pub fn read(from: &[u8]) -> Result<Option<(Reply, usize)>, Malformed> {
    let mut reader = Reader { from, at: 0 };
    Ok(reader.reply(0)?.map(|reply| (reply, reader.at)))
}

struct Reader<'a> {
    from: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn reply(&mut self, depth: usize) -> Result<Option<Reply>, Malformed> {
        let Some(kind) = self.from.get(self.at).copied() else { return Ok(None) };
        if !b"+-:$*".contains(&kind) {
            return Err(Malformed::Kind(kind));
        }
        self.at += 1;
        let Some(line) = self.line()? else { return Ok(None) };
        match kind {
            b'+' => Ok(Some(Reply::Simple(text(line)?))),
            b'-' => Ok(Some(Reply::Error(text(line)?))),
            b':' => Ok(Some(Reply::Integer(number(line)?))),
            b'$' => self.bulk(line),
            _ => self.array(line, depth),
        }
    }

    fn bulk(&mut self, line: &[u8]) -> Result<Option<Reply>, Malformed> {
        let Some(length) = length(line, MAX_BULK)? else { return Ok(Some(Reply::Null)) };
        let rest = &self.from[self.at..];
        let Some(end) = rest.get(length..length + 2) else { return Ok(None) };
        if end != b"\r\n" {
            return Err(Malformed::Line);
        }
        self.at += length + 2;
        Ok(Some(Reply::Bulk(rest[..length].to_vec())))
    }

    fn array(&mut self, line: &[u8], depth: usize) -> Result<Option<Reply>, Malformed> {
        let Some(count) = length(line, MAX_ITEMS)? else { return Ok(Some(Reply::Null)) };
        if depth >= MAX_DEPTH {
            return Err(Malformed::TooLarge);
        }
        // It grows with what has arrived, not with what was announced.
        let mut items = Vec::new();
        for _ in 0..count {
            match self.reply(depth + 1)? {
                Some(item) => items.push(item),
                None => return Ok(None),
            }
        }
        Ok(Some(Reply::Array(items)))
    }

    /// The rest of the line, without its end.
    fn line(&mut self) -> Result<Option<&'a [u8]>, Malformed> {
        let rest = &self.from[self.at..];
        let Some(length) = rest.iter().take(MAX_LINE + 1).position(|byte| *byte == b'\r') else {
            return if rest.len() > MAX_LINE { Err(Malformed::TooLarge) } else { Ok(None) };
        };
        match rest.get(length + 1) {
            None => Ok(None),
            Some(b'\n') => {
                self.at += length + 2;
                Ok(Some(&rest[..length]))
            }
            Some(_) => Err(Malformed::Line),
        }
    }
}

fn text(line: &[u8]) -> Result<String, Malformed> {
    str::from_utf8(line).map(ToOwned::to_owned).map_err(|_| Malformed::Line)
}

fn number(line: &[u8]) -> Result<i64, Malformed> {
    let digits = line.strip_prefix(b"-").unwrap_or(line);
    // `parse` alone would take a plus.
    let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    let number = str::from_utf8(line).ok().and_then(|line| line.parse().ok());
    number.filter(|_| is_number).ok_or(Malformed::Number)
}

/// A length of at most `most`; `None` for -1, which stands for no value.
fn length(line: &[u8], most: usize) -> Result<Option<usize>, Malformed> {
    match number(line)? {
        -1 => Ok(None),
        other => match usize::try_from(other) {
            Ok(length) if length <= most => Ok(Some(length)),
            Ok(_) => Err(Malformed::TooLarge),
            Err(_) => Err(Malformed::Number),
        },
    }
}
