//! A front-end on a socket.

use std::net::SocketAddr;

use kew_http::{Guard, Handler, Listener, Shared, Tls};
use tokio::net::{TcpListener, TcpStream};

use crate::{Answer, TestClient};

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
        Self::listen(handler, guard, shared, None).await
    }

    /// Serves over TLS.
    pub async fn start_tls<H: Handler>(handler: H, guard: Guard, shared: Shared, tls: Tls) -> Self {
        Self::listen(handler, guard, shared, Some(tls)).await
    }

    async fn listen<H: Handler>(handler: H, guard: Guard, shared: Shared, tls: Option<Tls>) -> Self {
        let listener = Listener::new(handler, guard, &shared);
        let socket = TcpListener::bind("127.0.0.1:0").await.expect("the loopback interface has a free port");
        let address = socket.local_addr().expect("a bound socket has an address");
        match tls {
            None => tokio::spawn(listener.accept(socket)),
            Some(tls) => tokio::spawn(listener.accept_tls(socket, tls)),
        };
        Self { address, shared }
    }

    /// A new connection.
    pub async fn client(&self) -> TestClient<TcpStream> {
        TestClient::over(TcpStream::connect(self.address).await.expect("the test server accepts connections"))
    }

    /// The reply to a request, on a connection of its own.
    pub async fn send(&self, request: impl AsRef<[u8]>) -> Answer {
        self.client().await.ask(request).await
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
        let mut client = self.client().await;
        client.send(&[request.as_bytes(), body].concat()).await;
        if method == "HEAD" { client.answer_to_head().await } else { client.answer().await }
    }

    /// All bytes that come back on a new connection until it is closed.
    pub async fn all(&self, request: impl AsRef<[u8]>) -> String {
        let mut client = self.client().await;
        client.send(request).await;
        client.rest().await
    }
}
