//! Reading a PROXY header from a stream.

use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use tokio::{
    io::{AsyncRead, AsyncReadExt},
    time,
};

use super::{Header, Parsed, ProxyError, parse};

/// Holds every version 1 header and the usual version 2 ones in one read.
const FIRST_READ: usize = 256;

/// Reads one header within `timeout`. Also returns what was read beyond it: the connection's first bytes, to be
/// served before the stream's own.
///
/// Holds at most a few KiB, whatever the peer sends.
///
/// Not cancel safe: bytes read so far are lost, and the connection can only be closed.
///
/// # Errors
/// [`ProxyError`]; the connection can only be closed.
pub async fn read_header<S>(stream: &mut S, timeout: Duration) -> Result<(Header, Bytes), ProxyError>
where
    S: AsyncRead + Unpin,
{
    time::timeout(timeout, read(stream)).await.unwrap_or(Err(ProxyError::Timeout))
}

async fn read<S: AsyncRead + Unpin>(stream: &mut S) -> Result<(Header, Bytes), ProxyError> {
    let mut buffer = BytesMut::with_capacity(FIRST_READ);
    loop {
        match parse(&buffer)? {
            Parsed::Done { consumed, header } => {
                buffer.advance(consumed);
                return Ok((header, buffer.freeze()));
            }
            Parsed::NeedMore { at_least } => buffer.reserve(at_least),
        }
        let read = stream.read_buf(&mut buffer).await.map_err(|error| ProxyError::Io(error.kind()))?;
        if read == 0 {
            return Err(ProxyError::Closed { received: buffer.len() });
        }
    }
}
