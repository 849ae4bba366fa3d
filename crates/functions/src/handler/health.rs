//! The handler as runs see it: whether it answers and where, and a way to ask it that outlasts its restarts.

use std::time::Duration;

use bytes::Bytes;
use kew_http::client::{Answer, Client, ClientError, Outgoing};
use kew_http::{HeaderMap, Method, Uri};
use tokio::sync::watch;
use tokio::time::Instant;

use super::redirect;

/// How long a handler that should answer, and takes no connection, is asked again. Nothing has reached it meanwhile, so
/// nothing is run twice, and no try of a message is spent on a handler that is just being replaced.
const REACHED_WITHIN: Duration = Duration::from_secs(30);
const ASK_AGAIN_AFTER: Duration = Duration::from_millis(25);

/// One process from its first answer on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Life {
    /// Counts them.
    pub(super) number: u64,
    /// Where it answers.
    pub(super) port: u16,
}

/// How the handler is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Health {
    /// It is being started.
    Starts,
    /// It answers.
    Answers(Life),
    /// It does not answer any more; its processes are being ended.
    Ends,
    /// It is not started again.
    Gone,
}

/// The handler, as functions call it.
pub(crate) struct Handler {
    client: Client,
    health: watch::Receiver<Health>,
    /// The last life in which a run took too long.
    overdue: watch::Sender<u64>,
}

/// Why a handler has not answered.
#[derive(Debug)]
pub(crate) enum Unanswered {
    /// It has ended and is not started again.
    Gone,
    /// It took too long; the process that did is over.
    TimedOut,
    /// It ended in between, or does not take connections.
    Failed(ClientError),
}

impl Handler {
    pub(super) fn new(client: Client, health: watch::Receiver<Health>, overdue: watch::Sender<u64>) -> Self {
        Self { client, health, overdue }
    }

    /// Waits until it answers; false when it never will.
    pub(crate) async fn answers(&self) -> bool {
        self.life().await.is_some()
    }

    async fn life(&self) -> Option<Life> {
        let mut health = self.health.clone();
        let is_settled = |health: &Health| matches!(health, Health::Answers(_) | Health::Gone);
        match *health.wait_for(is_settled).await.ok()? {
            Health::Answers(life) => Some(life),
            Health::Starts | Health::Ends | Health::Gone => None,
        }
    }

    /// Asks a function something. What a process that took too long still does would go on beside the next try, so it
    /// is ended, and its other runs with it, as the vendor's host does.
    pub(crate) async fn ask(
        &self,
        function: &str,
        headers: &HeaderMap,
        body: &Bytes,
        within: Duration,
    ) -> Result<Answer, Unanswered> {
        let begun = Instant::now();
        let mut unreached: Option<Instant> = None;
        loop {
            let life = self.life().await.ok_or(Unanswered::Gone)?;
            let uri: Uri = format!("http://127.0.0.1:{}/{function}", life.port)
                .parse()
                .map_err(|_| Unanswered::Failed(ClientError::BadAddress))?;
            let (headers, body) = (headers.clone(), body.clone());
            let asked = Outgoing { method: Method::POST, uri, headers, body };
            let error = match self.client.exchange(asked.clone(), within).await {
                Ok(answer) => return self.follow(life, asked, answer, within).await,
                Err(error) => error,
            };
            if error.is_out_of_time() {
                // A handler that is busy with other runs leaves connections standing. This run has not begun.
                if error.is_unreached() && begun.elapsed() < within {
                    continue;
                }
                self.end(life).await;
                return Err(Unanswered::TimedOut);
            }
            let since = *unreached.get_or_insert_with(Instant::now);
            if !error.is_unreached() || since.elapsed() >= REACHED_WITHIN {
                return Err(Unanswered::Failed(error));
            }
            tokio::time::sleep(ASK_AGAIN_AFTER).await;
        }
    }

    /// The reply that a reply leads to. Nothing is asked twice here: the function has been reached.
    async fn follow(
        &self,
        life: Life,
        mut asked: Outgoing,
        mut answer: Answer,
        within: Duration,
    ) -> Result<Answer, Unanswered> {
        for _redirect in 0..redirect::REDIRECTS_MAX {
            let Some(next) = redirect::next(&asked, &answer) else { break };
            asked = next;
            match self.client.exchange(asked.clone(), within).await {
                Ok(next) => answer = next,
                Err(error) if error.is_out_of_time() => {
                    self.end(life).await;
                    return Err(Unanswered::TimedOut);
                }
                Err(error) => return Err(Unanswered::Failed(error)),
            }
        }
        Ok(answer)
    }

    /// Has a process ended, and returns when it is.
    async fn end(&self, life: Life) {
        self.overdue.send_if_modified(|last| {
            let is_news = *last < life.number;
            *last = life.number.max(*last);
            is_news
        });
        let mut health = self.health.clone();
        let is_over = |health: &Health| *health != Health::Answers(life) && *health != Health::Ends;
        let _over = health.wait_for(is_over).await;
    }
}

#[cfg(test)]
impl Handler {
    /// One that answers at this port for ever.
    pub(crate) fn at(port: u16) -> Self {
        let client = Client::new(kew_http::client::ClientSettings::default());
        let (_, health) = watch::channel(Health::Answers(Life { number: 1, port }));
        Self::new(client, health, watch::channel(0).0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kew_http::client::ClientSettings;
    use std::net::Ipv4Addr;
    use std::sync::Arc;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpSocket, TcpStream};

    const LONG: Duration = Duration::from_secs(60);

    fn handler(health: Health) -> (watch::Sender<Health>, watch::Receiver<u64>, Arc<Handler>) {
        let (told, health) = watch::channel(health);
        let (overdue, is_overdue) = watch::channel(0);
        let client = Client::new(ClientSettings::default());
        (told, is_overdue, Arc::new(Handler::new(client, health, overdue)))
    }

    async fn ask(handler: &Handler, within: Duration) -> Result<Answer, Unanswered> {
        handler.ask("fn", &HeaderMap::new(), &Bytes::new(), within).await
    }

    async fn listener() -> (TcpListener, u16) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port is free");
        let port = listener.local_addr().expect("a bound socket has an address").port();
        (listener, port)
    }

    #[tokio::test]
    async fn a_refused_connection_is_no_answer_of_the_handler() {
        let (gone, refuses) = listener().await;
        drop(gone);
        let (told, _overdue, handler) = handler(Health::Answers(Life { number: 1, port: refuses }));
        let asking = tokio::spawn(async move { ask(&handler, LONG).await });
        // Long enough for some refusals; the next process answers.
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert!(!asking.is_finished());
        let (next, port) = listener().await;
        told.send_replace(Health::Answers(Life { number: 2, port }));
        let (mut stream, _) = next.accept().await.expect("the check connects to the handler");
        let mut bytes = [0; 1_024];
        assert!(stream.read(&mut bytes).await.expect("the check sends a request") > 0);
        stream
            .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
            .await
            .expect("the check reads the reply");
        assert!(asking.await.expect("the check does not panic").is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_handler_that_takes_no_connections_fails_its_runs_after_half_a_minute() {
        let (gone, port) = listener().await;
        drop(gone);
        let (_told, _overdue, handler) = handler(Health::Answers(Life { number: 1, port }));
        let begun = Instant::now();
        let answer = ask(&handler, LONG).await;
        assert!(matches!(answer, Err(Unanswered::Failed(ClientError::Refused { .. }))), "{answer:?}");
        assert!((REACHED_WITHIN..LONG).contains(&begun.elapsed()), "{:?}", begun.elapsed());
    }

    #[tokio::test]
    async fn a_handler_that_is_busy_with_other_runs_is_asked_when_it_takes_connections_again() {
        let socket = TcpSocket::new_v4().expect("the machine has sockets");
        socket.bind((Ipv4Addr::LOCALHOST, 0).into()).expect("a port is free");
        let listener = socket.listen(1).expect("a bound socket can listen");
        let address = listener.local_addr().expect("a bound socket has an address");
        let connect = || tokio::time::timeout(Duration::from_millis(100), TcpStream::connect(address));
        let mut others = Vec::new();
        while let Ok(connected) = connect().await {
            others.push(connected.expect("a connection is refused or stands"));
        }
        let life = Life { number: 1, port: address.port() };
        let (_told, health) = watch::channel(Health::Answers(life));
        let (overdue, is_overdue) = watch::channel(0);
        let connect_within = Duration::from_millis(50);
        let client = Client::new(ClientSettings { connect_within, ..ClientSettings::default() });
        let handler = Handler::new(client, health, overdue);
        let asking = tokio::spawn(async move { ask(&handler, LONG).await });
        tokio::time::sleep(Duration::from_millis(500)).await;
        assert!(!asking.is_finished() && *is_overdue.borrow() == 0, "a run that has not begun took too long");
        let answered = async {
            loop {
                let (mut stream, _) = listener.accept().await.expect("connections stand in the queue");
                tokio::spawn(async move {
                    let mut bytes = [0; 1_024];
                    if stream.read(&mut bytes).await.is_ok_and(|read| read > 0) {
                        let reply = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
                        stream.write_all(reply).await.expect("the run reads its reply");
                    }
                });
            }
        };
        tokio::select! {
            () = answered => {}
            asked = asking => assert!(asked.expect("the run's task does not panic").is_ok()),
        }
    }

    #[tokio::test]
    async fn a_run_that_takes_too_long_has_ended_when_it_is_reported() {
        let (_deaf, port) = listener().await;
        let life = Life { number: 3, port };
        let (told, mut overdue, handler) = handler(Health::Answers(life));
        let asking = tokio::spawn(async move { ask(&handler, Duration::from_millis(50)).await });
        overdue.wait_for(|last| *last == 3).await.expect("the watch of the handler outlives the run");
        told.send_replace(Health::Ends);
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert!(!asking.is_finished(), "the process may still be at work");
        told.send_replace(Health::Starts);
        assert!(matches!(asking.await.expect("the run's task does not panic"), Err(Unanswered::TimedOut)));
    }
}
