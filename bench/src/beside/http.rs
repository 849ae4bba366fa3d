//! One keep-alive connection that posts JSON, and bodies of any size.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;

use crate::budget::Fault;

/// The longest reply is waited for: an operation may take its time, and none hangs.
const REPLY_WITHIN: Duration = Duration::from_secs(600);

/// A connection.
pub struct Client {
    stream: TcpStream,
    host: String,
    reply: Vec<u8>,
}

impl Client {
    pub fn open(address: &str) -> Result<Self, Fault> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(REPLY_WITHIN))?;
        Ok(Self { stream, host: address.to_owned(), reply: Vec::new() })
    }

    /// One SQS action; its reply, which must be a success.
    pub fn sqs(&mut self, action: &str, json: &str) -> Result<Value, Fault> {
        let headers =
            format!("x-amz-target: AmazonSQS.{action}\r\ncontent-type: application/x-amz-json-1.0\r\n");
        self.post("/", &headers, json)
    }

    /// One call of the admin API.
    pub fn admin(&mut self, path: &str, json: &str) -> Result<Value, Fault> {
        self.post(path, "content-type: application/json\r\n", json)
    }

    fn post(&mut self, path: &str, headers: &str, json: &str) -> Result<Value, Fault> {
        let (host, length) = (&self.host, json.len());
        let head =
            format!("POST {path} HTTP/1.1\r\nhost: {host}\r\n{headers}content-length: {length}\r\n\r\n");
        self.stream.write_all(&[head.as_bytes(), json.as_bytes()].concat())?;
        let (status, body) = self.read()?;
        if status != 200 {
            return Err(format!("{path} {status}: {}", String::from_utf8_lossy(body)).into());
        }
        Ok(if body.is_empty() { Value::Null } else { serde_json::from_slice(body)? })
    }

    /// The status and the body of a reply.
    fn read(&mut self) -> Result<(u16, &[u8]), Fault> {
        self.reply.clear();
        let mut piece = [0; 16 << 10];
        let mut whole = None;
        while whole.is_none_or(|(_, end)| self.reply.len() < end) {
            let read = self.stream.read(&mut piece)?;
            if read == 0 {
                return Err("the server closed the connection".into());
            }
            self.reply.extend_from_slice(&piece[..read]);
            whole = whole.or_else(|| ends(&self.reply));
        }
        let (begin, end) = whole.ok_or("a reply without an end")?;
        let status = std::str::from_utf8(self.reply.get(9..12).unwrap_or_default())?.parse()?;
        Ok((status, self.reply.get(begin..end).unwrap_or_default()))
    }
}

/// Where a reply's body begins and ends, once its head is there.
fn ends(bytes: &[u8]) -> Option<(usize, usize)> {
    let begin = bytes.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
    let head = String::from_utf8_lossy(&bytes[..begin]).to_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length:"))?;
    Some((begin, begin + length.trim().parse::<usize>().ok()?))
}
