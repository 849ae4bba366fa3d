//! Requests that Kew itself makes: over connections that are kept and bounded, to addresses that may be reached.
//!
//! One exchange is one request and one whole reply within one time limit. Redirects are replies like others: nobody is
//! followed anywhere. A request is sent a second time only when the first surely never left.

mod connect;
mod error;
mod pool;
mod reach;

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::HOST;
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, Uri};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::SendRequest;

use connect::Connector;
use pool::{Place, Pool};

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
    /// Connections without a request kept for each place.
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

type Sender = SendRequest<Full<Bytes>>;

impl Client {
    /// A client without connections.
    pub fn new(settings: ClientSettings) -> Self {
        Self {
            connector: Connector::new(settings.reach, settings.connect_within),
            pool: Pool::new(settings.idle, settings.idle_max),
            reply_bytes_max: settings.reply_bytes_max,
        }
    }

    /// Sends a request and reads its whole reply, all within this time. Needs a runtime with I/O and time.
    pub async fn exchange(&self, outgoing: Outgoing, within: Duration) -> Result<Answer, ClientError> {
        // Dropped when time is over, it takes the connection along.
        match tokio::time::timeout(within, self.exchange_at_leisure(outgoing)).await {
            Ok(answer) => answer,
            Err(_) => Err(ClientError::TimedOut { after: within }),
        }
    }

    async fn exchange_at_leisure(&self, outgoing: Outgoing) -> Result<Answer, ClientError> {
        let place = Place::of(&outgoing.uri)?;
        let mut request = request(outgoing)?;
        while let Some(mut sender) = self.pool.take(&place) {
            if sender.ready().await.is_err() {
                continue;
            }
            match sender.try_send_request(request).await {
                Ok(reply) => return self.read(place, sender, reply).await,
                Err(mut error) => match error.take_message() {
                    // It was closed while it was kept, and nothing was sent.
                    Some(unsent) => request = unsent,
                    None => return Err(ClientError::Broken(error.into_error())),
                },
            }
        }
        let mut sender = self.connector.connect(&place).await?;
        let reply = sender.send_request(request).await.map_err(ClientError::Broken)?;
        self.read(place, sender, reply).await
    }

    async fn read(
        &self,
        place: Place,
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
        self.pool.keep(place, sender);
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
