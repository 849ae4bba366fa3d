//! Requests that Kew itself makes: over connections that are kept and bounded, to addresses that may be reached.
//!
//! One exchange is one request and one whole reply within one time limit. Redirects are replies like others and are not
//! followed anywhere. A request is sent a second time only when the first surely never left.

mod connect;
mod error;
mod line;
mod pool;
mod reach;

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::HOST;
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, Uri};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::SendRequest;
use parking_lot::Mutex;

use crate::tls::TlsError;
use connect::Connector;
use line::Line;
use pool::{Pool, ServerAddress};

pub use error::ClientError;
pub use reach::Reach;

/// How requests are made.
#[derive(Clone, Copy, Debug)]
pub struct ClientSettings {
    /// Which addresses may be reached.
    pub reach: Reach,
    /// How long a connection may take to be there, encryption included.
    pub connect_within: Duration,
    /// How long a connection is kept without a request. Shorter than the five seconds after which common servers close
    /// theirs: a request that meets the closing of its connection is lost.
    pub idle: Duration,
    /// Connections without a request kept for each server.
    pub idle_max: usize,
    /// The most bytes of a reply's body.
    pub reply_bytes_max: usize,
}

impl Default for ClientSettings {
    fn default() -> Self {
        Self {
            reach: Reach::Private,
            connect_within: Duration::from_secs(10),
            idle: Duration::from_secs(4),
            idle_max: 250,
            reply_bytes_max: 1 << 20,
        }
    }
}

/// A request to make.
#[derive(Clone, Debug)]
pub struct Outgoing {
    /// Its method.
    pub method: Method,
    /// Where to: absolute, `http` or `https`.
    pub uri: Uri,
    /// Its headers; the host's is added.
    pub headers: HeaderMap,
    /// Its body.
    pub body: Bytes,
}

/// A whole reply.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Its status.
    pub status: StatusCode,
    /// Its headers.
    pub headers: HeaderMap,
    /// Its body.
    pub body: Bytes,
}

/// Makes requests, and keeps connections for the next ones.
#[derive(Debug)]
pub struct Client {
    connector: Connector,
    pool: Pool,
    reply_bytes_max: usize,
}

/// A connection, as requests are handed to it.
struct Sender {
    requests: SendRequest<Full<Bytes>>,
    line: Arc<Line>,
}

impl Sender {
    /// Whether nothing more can be asked on it.
    fn is_over(&self) -> bool {
        self.requests.is_closed() || self.line.is_hung_up()
    }
}

/// The connection that an exchange is on just now.
type Current = Mutex<Option<Arc<Line>>>;

impl Client {
    /// A client without connections.
    pub fn new(settings: ClientSettings) -> Self {
        Self {
            connector: Connector::new(settings.reach, settings.connect_within),
            pool: Pool::new(settings.idle, settings.idle_max),
            reply_bytes_max: settings.reply_bytes_max,
        }
    }

    /// Believes servers by the certificates in this PEM file, instead of those that the machine trusts.
    pub fn trusting(mut self, file: &Path) -> Result<Self, TlsError> {
        self.connector.trust_file(file)?;
        Ok(self)
    }

    /// Connects to this address, whatever host requests are for.
    pub fn at(mut self, address: SocketAddr) -> Self {
        self.connector.dial_only(address);
        self
    }

    /// Sends a request and reads its whole reply, all within this time. Needs a runtime with I/O and time.
    pub async fn exchange(&self, outgoing: Outgoing, within: Duration) -> Result<Answer, ClientError> {
        self.exchange_on(outgoing, within, &Current::default()).await
    }

    /// The same, until `unwanted` returns. Then the sending side of the connection is closed: a server that watches its
    /// clients gives the request up, and what had left it by then, and is here within `grace`, is returned all the
    /// same. `None` when there is no answer.
    pub async fn exchange_unless(
        &self,
        outgoing: Outgoing,
        within: Duration,
        unwanted: impl Future<Output = ()>,
        grace: Duration,
    ) -> Option<Result<Answer, ClientError>> {
        let current = Current::default();
        let mut exchange = pin!(self.exchange_on(outgoing, within, &current));
        tokio::select! {
            // An answer that is here counts, whatever else happened meanwhile.
            biased;
            answer = &mut exchange => return Some(answer),
            () = unwanted => {}
        }
        // Without a connection nothing was asked.
        let line = current.lock().clone()?;
        line.hang_up();
        tokio::time::timeout(grace, exchange).await.ok()?.ok().map(Ok)
    }

    async fn exchange_on(
        &self,
        outgoing: Outgoing,
        within: Duration,
        current: &Current,
    ) -> Result<Answer, ClientError> {
        let server = ServerAddress::of(&outgoing.uri)?;
        // Dropped when time is over, it takes the connection along.
        match tokio::time::timeout(within, self.exchange_at_leisure(&server, outgoing, current)).await {
            Ok(answer) => answer,
            // Without a connection nothing was asked.
            Err(_) if current.lock().is_none() => {
                Err(connect::refused(&server, io::ErrorKind::TimedOut.into()))
            }
            Err(_) => Err(ClientError::TimedOut { after: within }),
        }
    }

    async fn exchange_at_leisure(
        &self,
        server: &ServerAddress,
        outgoing: Outgoing,
        current: &Current,
    ) -> Result<Answer, ClientError> {
        let mut request = request(outgoing)?;
        while let Some(mut sender) = self.pool.take(server) {
            if sender.requests.ready().await.is_err() {
                continue;
            }
            *current.lock() = Some(Arc::clone(&sender.line));
            match sender.requests.try_send_request(request).await {
                Ok(reply) => return self.read(server.clone(), sender, reply).await,
                Err(mut error) => match error.take_message() {
                    // It was closed while it was kept, and nothing was sent.
                    Some(unsent) => request = unsent,
                    None => return Err(ClientError::Broken(error.into_error())),
                },
            }
        }
        *current.lock() = None;
        let mut sender = self.connector.connect(server).await?;
        *current.lock() = Some(Arc::clone(&sender.line));
        match sender.requests.try_send_request(request).await {
            Ok(reply) => self.read(server.clone(), sender, reply).await,
            Err(mut error) => Err(match error.take_message() {
                Some(_unsent) => ClientError::Unsent(error.into_error()),
                None => ClientError::Broken(error.into_error()),
            }),
        }
    }

    async fn read(
        &self,
        server: ServerAddress,
        sender: Sender,
        reply: http::Response<Incoming>,
    ) -> Result<Answer, ClientError> {
        let (head, mut body) = reply.into_parts();
        let mut whole = BytesMut::new();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(ClientError::Broken)?;
            let Some(data) = frame.data_ref() else { continue };
            if whole.len() + data.len() > self.reply_bytes_max {
                return Err(ClientError::ReplyTooLong { max: self.reply_bytes_max });
            }
            whole.extend_from_slice(data);
        }
        self.pool.keep(server, sender);
        Ok(Answer { status: head.status, headers: head.headers, body: whole.freeze() })
    }
}

/// The request as it is sent: its target is the path alone, and its host a header.
fn request(outgoing: Outgoing) -> Result<Request<Full<Bytes>>, ClientError> {
    let authority = outgoing.uri.authority().ok_or(ClientError::BadAddress)?;
    let host = HeaderValue::from_str(authority.as_str()).map_err(|_| ClientError::BadAddress)?;
    let path = outgoing.uri.path_and_query().map_or("/", |path| path.as_str());
    let uri: Uri = path.parse().map_err(|_| ClientError::BadAddress)?;
    let mut request = Request::new(Full::new(outgoing.body));
    *request.method_mut() = outgoing.method;
    *request.uri_mut() = uri;
    *request.headers_mut() = outgoing.headers;
    request.headers_mut().insert(HOST, host);
    Ok(request)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;
    use tokio::sync::oneshot;

    const LONG: Duration = Duration::from_secs(20);
    const REPLY: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi";

    /// What a server does that hears, in the middle of a request, that nothing more is sent.
    #[derive(Clone, Copy, PartialEq, Eq)]
    enum Then {
        Replies,
        Closes,
        Waits,
    }

    /// An exchange that becomes unwanted when the server has read its request, and what the server read after that.
    async fn unwanted(then: Then, grace: Duration) -> (Option<Answer>, usize) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        let uri = format!("http://{}/x", listener.local_addr().expect("a bound socket has an address"));
        let (heard, is_heard) = oneshot::channel();
        let server = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.expect("somebody comes");
            let mut bytes = [0; 1_024];
            let read = stream.read(&mut bytes).await.expect("the client sends its request");
            assert!(bytes[..read].ends_with(b"\r\n\r\n"), "one packet");
            heard.send(()).expect("the test waits for the request");
            let more = stream.read(&mut bytes).await.expect("the sending side is closed in order");
            match then {
                Then::Replies => stream.write_all(REPLY).await.expect("the client still reads"),
                Then::Closes => {}
                Then::Waits => tokio::time::sleep(LONG).await,
            }
            more
        });
        let outgoing = Outgoing {
            method: Method::GET,
            uri: uri.parse().expect("the address is a URI"),
            headers: HeaderMap::new(),
            body: Bytes::new(),
        };
        let client = Client::new(ClientSettings::default());
        let heard = async { is_heard.await.expect("the server reads") };
        let answer = client.exchange_unless(outgoing, LONG, heard, grace).await;
        let answer = answer.map(|answer| answer.expect("a broken connection is no answer"));
        if then == Then::Waits {
            return (answer, 0);
        }
        (answer, server.await.expect("the server's task does not panic"))
    }

    #[tokio::test]
    async fn an_answer_that_left_before_the_server_heard_of_the_end_still_arrives() {
        let (answer, read) = unwanted(Then::Replies, LONG).await;
        assert_eq!((answer.map(|answer| answer.body).as_deref(), read), (Some(&b"hi"[..]), 0));
    }

    #[tokio::test]
    async fn a_request_that_is_given_up_has_no_answer() {
        let begun = Instant::now();
        assert!(unwanted(Then::Closes, LONG).await.0.is_none());
        assert!(unwanted(Then::Waits, Duration::from_millis(50)).await.0.is_none());
        assert!(begun.elapsed() < LONG / 2, "nobody waits for a server that does not");
    }
}
