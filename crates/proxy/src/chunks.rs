//! Copies chunked bodies unchanged, and nothing after their end.

use std::io;

use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt, AsyncWrite, AsyncWriteExt, copy};

/// The length of the longest line: the size of a chunk, or a trailer.
const LONGEST_LINE: u64 = 4 * 1024;

/// How many trailers may follow the last chunk.
const MAX_TRAILERS: usize = 64;

/// Copies chunks up to the empty one, and the trailers after it.
pub(crate) async fn copy_chunks(
    from: &mut (impl AsyncBufRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
) -> io::Result<()> {
    loop {
        let line = read_line(from).await?;
        let size = chunk_size(&line).ok_or_else(malformed)?;
        to.write_all(&line).await?;
        if size == 0 {
            return copy_trailers(from, to).await;
        }
        if copy(&mut (&mut *from).take(size), to).await? < size {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut end = [0; 2];
        from.read_exact(&mut end).await?;
        if end != *b"\r\n" {
            return Err(malformed());
        }
        to.write_all(&end).await?;
        to.flush().await?;
    }
}

async fn copy_trailers(
    from: &mut (impl AsyncBufRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
) -> io::Result<()> {
    for _ in 0..MAX_TRAILERS {
        let line = read_line(from).await?;
        to.write_all(&line).await?;
        if line == b"\r\n" {
            return to.flush().await;
        }
    }
    Err(malformed())
}

/// Reads a line including its end, which must be CR and LF. Neither may occur within the line.
async fn read_line(from: &mut (impl AsyncBufRead + Unpin)) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    (&mut *from).take(LONGEST_LINE).read_until(b'\n', &mut line).await?;
    match line.strip_suffix(b"\r\n") {
        Some(text) if !text.contains(&b'\r') => Ok(line),
        _ => Err(malformed()),
    }
}

/// Parses the size of a chunk, which extensions may follow.
fn chunk_size(line: &[u8]) -> Option<u64> {
    let text = line.strip_suffix(b"\r\n")?;
    let digits = text.split(|byte| *byte == b';').next()?;
    let is_size = !digits.is_empty() && digits.iter().all(u8::is_ascii_hexdigit);
    let digits = std::str::from_utf8(digits).ok().filter(|_| is_size)?;
    u64::from_str_radix(digits, 16).ok()
}

fn malformed() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "malformed chunked body")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn chunks_are_copied_to_their_end() {
        let check = async |text: &str, expected: Result<&str, ()>| {
            let mut from = text.as_bytes();
            let mut to = Vec::new();
            let copied = copy_chunks(&mut from, &mut to).await.map(|()| String::from_utf8(to).unwrap());
            assert_eq!(copied.map_err(|_| ()).as_deref(), expected.as_ref().map(|text| *text), "{text}");
        };
        check("0\r\n\r\nGET /", Ok("0\r\n\r\n")).await;
        check("3\r\nabc\r\n0\r\n\r\nGET /", Ok("3\r\nabc\r\n0\r\n\r\n")).await;
        check(
            "A;x=y\r\n0123456789\r\n00\r\nT: u\r\n\r\nrest",
            Ok("A;x=y\r\n0123456789\r\n00\r\nT: u\r\n\r\n"),
        )
        .await;
        for malformed in [
            "",
            "3\r\nab",
            "3\r\nabcd\r\n0\r\n\r\n",
            "3\nabc\n0\n\n",
            "+3\r\nabc\r\n",
            "0x3\r\nabc\r\n",
            " 3\r\nabc\r\n",
            "3 \r\nabc\r\n",
            "\r\n",
            "ffffffffffffffffff\r\nabc\r\n",
            "3;a\rb\r\nabc\r\n",
            "0\r\nT: u\n\r\n",
            "0\r\n",
        ] {
            check(malformed, Err(())).await;
        }
    }
}
