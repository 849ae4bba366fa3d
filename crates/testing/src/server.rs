//! A front-end on a socket.
//!
//! What a listener does is compiled here, once, and not again in each test program: it knows no front-end by its type,
//! and what it does next is in boxes.

use std::net::SocketAddr;
use std::pin::Pin;

use kew_http::{Guard, Handler, Listener, Refusal, Reply, Request, Shared, Standing, Subject, Tls};
use tokio::net::{TcpListener, TcpStream};

use crate::{Answer, TestClient};

type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A front-end that serves on a free port of the loopback interface until the test's runtime ends.
pub struct TestServer {
    /// Where it listens.
    pub address: SocketAddr,
    /// What the listener shares with others: its drain ends all connections.
    pub shared: Shared,
}

impl TestServer {
    /// Serves plain HTTP.
    pub async fn start<H: Handler>(handler: H, guard: Guard, shared: Shared) -> Self {
        Self::listen(AnyHandler(Box::new(handler)), guard, shared, None).await
    }

    /// Serves over TLS.
    pub async fn start_tls<H: Handler>(handler: H, guard: Guard, shared: Shared, tls: Tls) -> Self {
        Self::listen(AnyHandler(Box::new(handler)), guard, shared, Some(tls)).await
    }

    fn listen(handler: AnyHandler, guard: Guard, shared: Shared, tls: Option<Tls>) -> Boxed<'static, Self> {
        Box::pin(async move {
            let listener = Listener::new(handler, guard, &shared);
            let socket = TcpListener::bind("127.0.0.1:0").await;
            let socket = socket.expect("the loopback interface has a free port");
            let address = socket.local_addr().expect("a bound socket has an address");
            match tls {
                None => tokio::spawn(listener.accept(socket)),
                Some(tls) => tokio::spawn(listener.accept_tls(socket, tls)),
            };
            Self { address, shared }
        })
    }

    /// A new connection.
    pub async fn client(&self) -> TestClient<TcpStream> {
        TestClient::over(TcpStream::connect(self.address).await.expect("the test server accepts connections"))
    }

    /// The reply to a request, on a connection of its own.
    pub async fn send(&self, request: impl AsRef<[u8]>) -> Answer {
        self.ask(request.as_ref()).await
    }

    fn ask<'a>(&'a self, request: &'a [u8]) -> Boxed<'a, Answer> {
        Box::pin(async move { self.client().await.ask(request).await })
    }

    /// The reply to a request of these parts. `host` stands when the headers name none.
    pub async fn request(
        &self,
        (method, target): (&str, &str),
        host: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Answer {
        let mut request = format!("{method} {target} HTTP/1.1\r\n");
        if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
            request.push_str(&format!("Host: {host}\r\n"));
        }
        for (name, value) in headers {
            request.push_str(&format!("{name}: {value}\r\n"));
        }
        request.push_str(&format!("Content-Length: {}\r\n\r\n", body.len()));
        let request = [request.as_bytes(), body].concat();
        if method == "HEAD" { self.ask_for_head(&request).await } else { self.ask(&request).await }
    }

    fn ask_for_head<'a>(&'a self, request: &'a [u8]) -> Boxed<'a, Answer> {
        Box::pin(async move {
            let mut client = self.client().await;
            client.send(request).await;
            client.answer_to_head().await
        })
    }

    /// All bytes that come back on a new connection until it is closed.
    pub async fn all(&self, request: impl AsRef<[u8]>) -> String {
        let mut client = self.client().await;
        client.send(request).await;
        client.rest().await
    }
}

/// A front-end whose type is hidden.
struct AnyHandler(Box<dyn Answers>);

/// A [`Handler`] with futures in boxes.
trait Answers: Send + Sync {
    fn reply<'a>(&'a self, request: &'a Request) -> Boxed<'a, Reply>;
    fn stand<'a>(&'a self, request: &'a Request) -> Boxed<'a, Standing>;
    fn word(&self, refusal: &Refusal, request: &Request) -> Reply;
    fn tell(&self, request: &Request, reply: Option<&Reply>) -> Subject;
}

impl<H: Handler> Answers for H {
    fn reply<'a>(&'a self, request: &'a Request) -> Boxed<'a, Reply> {
        Box::pin(self.answer(request))
    }

    fn stand<'a>(&'a self, request: &'a Request) -> Boxed<'a, Standing> {
        Box::pin(self.standing(request))
    }

    fn word(&self, refusal: &Refusal, request: &Request) -> Reply {
        self.refuse(refusal, request)
    }

    fn tell(&self, request: &Request, reply: Option<&Reply>) -> Subject {
        self.subject(request, reply)
    }
}

impl Handler for AnyHandler {
    async fn answer(&self, request: &Request) -> Reply {
        self.0.reply(request).await
    }

    async fn standing(&self, request: &Request) -> Standing {
        self.0.stand(request).await
    }

    fn refuse(&self, refusal: &Refusal, request: &Request) -> Reply {
        self.0.word(refusal, request)
    }

    fn subject(&self, request: &Request, reply: Option<&Reply>) -> Subject {
        self.0.tell(request, reply)
    }
}
