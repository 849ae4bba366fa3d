//! One keep-alive connection that speaks just enough HTTP/1.1 to be cheap.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::Fault;

/// How long a server that went away may take to come back.
pub(super) const BACK_WITHIN: Duration = Duration::from_secs(60);
/// Longer than any long poll.
const ANSWER_WITHIN: Duration = Duration::from_secs(60);

/// A reply, as far as anybody here looks at it.
pub(super) struct Reply<'a> {
    pub(super) status: u16,
    pub(super) head: &'a str,
    pub(super) body: &'a [u8],
}

impl Reply<'_> {
    /// A header's value.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.split("\r\n").filter_map(|line| line.split_once(':'));
        lines.find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
    }
}

/// A connection to a server.
pub(super) struct Connection {
    address: String,
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Connection {
    /// Connects to `host:port`.
    pub(super) async fn open(address: &str) -> Result<Self, Fault> {
        let stream = TcpStream::connect(address).await.map_err(|error| format!("{address}: {error}"))?;
        stream.set_nodelay(true)?;
        Ok(Self { address: address.to_owned(), stream, buffer: Vec::with_capacity(16 << 10) })
    }

    /// Connects again, as often as it takes within the time.
    pub(super) async fn reopen(&mut self, within: Duration) -> Result<(), Fault> {
        *self = Self::open_within(&self.address, within).await?;
        Ok(())
    }

    /// Connects to `host:port`, as often as it takes within the time.
    pub(super) async fn open_within(address: &str, within: Duration) -> Result<Self, Fault> {
        let until = tokio::time::Instant::now() + within;
        loop {
            match Self::open(address).await {
                Ok(connection) => return Ok(connection),
                Err(fault) if tokio::time::Instant::now() >= until => return Err(fault),
                Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    }

    /// Sends a request and reads its reply.
    pub(super) async fn ask(&mut self, request: &[u8]) -> Result<Reply<'_>, Fault> {
        self.stream.write_all(request).await?;
        let answer = tokio::time::timeout(ANSWER_WITHIN, self.read());
        let (status, from, to) = answer.await.map_err(|_| "no answer within a minute")??;
        let (head, body) = self.buffer.get(..to).unwrap_or_default().split_at(from);
        Ok(Reply { status, head: std::str::from_utf8(head)?, body })
    }

    async fn read(&mut self) -> Result<(u16, usize, usize), Fault> {
        self.buffer.clear();
        let mut searched = 0;
        loop {
            if self.stream.read_buf(&mut self.buffer).await? == 0 {
                return Err("the server closed the connection".into());
            }
            let Some(end) = end_of_head(&self.buffer, searched) else {
                searched = self.buffer.len();
                continue;
            };
            let head = std::str::from_utf8(self.buffer.get(..end).unwrap_or_default())?;
            let (status, length) = read_head(head)?;
            while self.buffer.len() < end + length {
                if self.stream.read_buf(&mut self.buffer).await? == 0 {
                    return Err("the server closed the connection in the middle of a reply".into());
                }
            }
            return Ok((status, end, end + length));
        }
    }
}

/// Where the body begins; looked for from shortly before what is new.
fn end_of_head(bytes: &[u8], searched: usize) -> Option<usize> {
    let from = searched.saturating_sub(3);
    let found = bytes.get(from..)?.windows(4).position(|window| window == b"\r\n\r\n")?;
    Some(from + found + 4)
}

fn read_head(head: &str) -> Result<(u16, usize), Fault> {
    let status = head.split(' ').nth(1).ok_or("a reply without a status")?.parse()?;
    let mut lines = head.split("\r\n").filter_map(|line| line.split_once(':'));
    let length = lines.find(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    let length = match length {
        Some((_, length)) => length.trim().parse()?,
        None if status == 204 => 0,
        None => return Err("a reply without a length".into()),
    };
    Ok((status, length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_are_read_by_status_and_length() {
        assert_eq!(read_head("HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n").ok(), Some((200, 12)));
        assert_eq!(read_head("HTTP/1.1 204 No Content\r\n\r\n").ok(), Some((204, 0)));
        assert!(read_head("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").is_err());
    }

    #[test]
    fn the_end_of_a_head_is_found_also_across_two_reads() {
        assert_eq!(end_of_head(b"a\r\n\r\nb", 0), Some(5));
        assert_eq!(end_of_head(b"a\r\n\r\nb", 4), Some(5));
        assert_eq!(end_of_head(b"a\r\n\r", 0), None);
    }
}
