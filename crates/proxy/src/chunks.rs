//! Bodies that come in chunks: passed on as they are, up to their end and not a byte further.

use std::io;

use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt, AsyncWrite, AsyncWriteExt, copy};

/// The longest line with the size of a chunk, and the longest trailer.
const LONGEST_LINE: u64 = 4 * 1024;

/// The most lines behind the last chunk.
const MOST_TRAILERS: usize = 64;

/// Copies chunks up to the empty one and the lines that follow it.
pub(crate) async fn copy_chunks(
    from: &mut (impl AsyncBufRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
) -> io::Result<()> {
    loop {
        let line = read_line(from).await?;
        let size = size(&line).ok_or_else(malformed)?;
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
    for _ in 0..MOST_TRAILERS {
        let line = read_line(from).await?;
        to.write_all(&line).await?;
        if line == b"\r\n" {
            return to.flush().await;
        }
    }
    Err(malformed())
}

/// A line with its end, which is CR and LF; neither stands alone in it.
async fn read_line(from: &mut (impl AsyncBufRead + Unpin)) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    (&mut *from).take(LONGEST_LINE).read_until(b'\n', &mut line).await?;
    match line.strip_suffix(b"\r\n") {
        Some(text) if !text.contains(&b'\r') => Ok(line),
        _ => Err(malformed()),
    }
}

/// The size of a chunk, which may be followed by extensions.
fn size(line: &[u8]) -> Option<u64> {
    let text = line.strip_suffix(b"\r\n")?;
    let digits = text.split(|byte| *byte == b';').next()?;
    let is_size = !digits.is_empty() && digits.iter().all(u8::is_ascii_hexdigit);
    let digits = std::str::from_utf8(digits).ok().filter(|_| is_size)?;
    u64::from_str_radix(digits, 16).ok()
}

fn malformed() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the body is not in chunks as it says")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn chunks_end_where_they_say() {
        let check = async |text: &str, passed: Result<&str, ()>| {
            let (mut from, mut to) = (text.as_bytes(), Vec::new());
            let done = copy_chunks(&mut from, &mut to).await.map(|()| String::from_utf8(to).unwrap());
            assert_eq!(done.map_err(|_| ()).as_deref(), passed.as_ref().map(|text| *text), "{text}");
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
