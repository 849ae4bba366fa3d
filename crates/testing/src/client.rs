//! One connection to a server under test.

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::Answer;

/// A client that sends the bytes it is given and takes replies apart.
pub struct TestClient<S> {
    /// The connection, for what this type does not do.
    pub stream: S,
    /// What was read and belongs to no reply yet.
    unread: Vec<u8>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> TestClient<S> {
    /// A client over a connection that stands.
    pub fn over(stream: S) -> Self {
        Self { stream, unread: Vec::new() }
    }

    /// Sends bytes.
    pub async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).await.expect("the server reads what it is sent");
    }

    /// Sends a request; its reply.
    pub async fn ask(&mut self, request: impl AsRef<[u8]>) -> Answer {
        self.send(request).await;
        self.answer().await
    }

    /// Gets a path of `localhost`.
    pub async fn get(&mut self, path: &str) -> Answer {
        self.ask(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n")).await
    }

    /// The next reply.
    pub async fn answer(&mut self) -> Answer {
        self.next_answer().await.expect("the server answers before it closes the connection")
    }

    /// The next reply when it is to a HEAD request, whose `Content-Length` no body follows.
    pub async fn answer_to_head(&mut self) -> Answer {
        self.next(|_| 0).await.expect("the server answers before it closes the connection")
    }

    /// The next reply, or `None` when the connection was closed before it.
    pub async fn next_answer(&mut self) -> Option<Answer> {
        self.next(Answer::content_length).await
    }

    async fn next(&mut self, body_bytes: impl Fn(&Answer) -> usize) -> Option<Answer> {
        let head_end = loop {
            if let Some(at) = self.unread.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
                break at + 4;
            }
            self.read_more().await?;
        };
        let mut answer = Answer::of_head(&text(self.unread.drain(..head_end)));
        let length = body_bytes(&answer);
        while self.unread.len() < length {
            self.read_more().await?;
        }
        answer.body = text(self.unread.drain(..length));
        Some(answer)
    }

    /// All that comes until the connection is closed. A reset is an end too.
    pub async fn rest(&mut self) -> String {
        while self.read_more().await.is_some() {}
        text(self.unread.drain(..))
    }

    async fn read_more(&mut self) -> Option<()> {
        matches!(self.stream.read_buf(&mut self.unread).await, Ok(1..)).then_some(())
    }
}

fn text(bytes: impl Iterator<Item = u8>) -> String {
    String::from_utf8(bytes.collect()).expect("replies are UTF-8")
}
