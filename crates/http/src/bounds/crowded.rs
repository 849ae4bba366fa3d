//! Turns away connections beyond the bound with an answer that every client understands.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::net::TcpStream;

const TEXT: &str = "the server has as many connections as it may have: try again later\n";
/// Maximum connections that get the refusal at once; others are closed without it. Each has a file: where few
/// connections may be open, a quarter of them.
const AT_ONCE_MAX: usize = 64;
const AT_ONCE_LEAST: usize = 4;
const WITHIN: Duration = Duration::from_secs(1);

/// The connections that are getting the refusal.
#[derive(Clone, Default)]
pub(crate) struct Crowded {
    at_once: Arc<AtomicUsize>,
}

impl Crowded {
    /// Answers whatever is asked with 503, and ends the connection.
    pub(crate) fn turn_away(&self, stream: TcpStream, connections_max: usize) {
        let at_once_max = (connections_max / 4).clamp(AT_ONCE_LEAST, AT_ONCE_MAX);
        let at_once = Arc::clone(&self.at_once);
        if at_once.fetch_add(1, Ordering::Relaxed) >= at_once_max {
            at_once.fetch_sub(1, Ordering::Relaxed);
            return;
        }
        tokio::spawn(async move {
            let _in_time = tokio::time::timeout(WITHIN, tell(&stream)).await;
            at_once.fetch_sub(1, Ordering::Relaxed);
        });
    }
}

/// Reads before and after writing: closing with something unread would take the reply back.
async fn tell(stream: &TcpStream) {
    let mut asked = [0; 2 << 10];
    let mut has_replied = false;
    loop {
        if stream.readable().await.is_err() {
            return;
        }
        match stream.try_read(&mut asked) {
            Ok(0) => return,
            Ok(_) if !has_replied => {
                has_replied = true;
                // The first bytes on a connection fit into its send buffer.
                let head = "HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nRetry-After: 1\r\nContent-Type: text/plain; charset=utf-8";
                let reply = format!("{head}\r\nContent-Length: {}\r\n\r\n{TEXT}", TEXT.len());
                let _sent = stream.try_write(reply.as_bytes());
            }
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(_) => return,
        }
    }
}
