//! What is noted of a finished request: by whom, about what, how it ended, how long it took.
//!
//! [`Witnessed`] stands before a front-end. Without a witness it passes requests through; with one, each request that
//! ends is given to it as an [`Exchange`], also one whose client went away.

use std::net::IpAddr;
use std::time::{Duration, Instant};
use std::{fmt, sync::Arc};

use kew_core::{Clock, Timestamp};

use crate::front::Handler;
use crate::refusal::Refusal;
use crate::reply::Reply;
use crate::request::{Request, RequestId};
use crate::standing::Standing;
use crate::subject::Subject;

/// A request that has ended.
#[derive(Clone, Debug)]
pub struct Exchange {
    /// When it began, by the machine's clock.
    pub at: Timestamp,
    /// How long it took.
    pub took: Duration,
    /// The status of its reply; none where the client went away before.
    pub status: Option<u16>,
    /// Bytes of its body.
    pub bytes_in: u64,
    /// Bytes of the body of its reply.
    pub bytes_out: u64,
    /// Its name.
    pub id: RequestId,
    /// Where it came from.
    pub client: IpAddr,
    /// What it was about.
    pub subject: Subject,
}

/// Takes exchanges. Called on the event loop, so it must not block.
pub trait Witness: Send + Sync {
    /// Takes one.
    fn note(&self, exchange: Exchange);
}

/// A witness, and the clock it goes by.
#[derive(Clone)]
pub struct Witnesses {
    /// Takes exchanges.
    pub witness: Arc<dyn Witness>,
    /// The machine's clock.
    pub clock: Arc<dyn Clock>,
}

impl fmt::Debug for Witnesses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Witnesses")
    }
}

/// A front-end and who hears of its requests.
pub struct Witnessed<H> {
    inner: H,
    by: Option<Witnesses>,
}

impl<H: Handler> Witnessed<H> {
    /// The same front-end, its requests noted by this witness.
    pub fn new(inner: H, by: Option<Witnesses>) -> Self {
        Self { inner, by }
    }

    fn begin<'a>(&'a self, request: &'a Request) -> Option<UnderWay<'a, H>> {
        let by = self.by.as_ref()?;
        let (at, began) = (by.clock.now(), Instant::now());
        Some(UnderWay { handler: &self.inner, by, request, at, began, is_over: false })
    }
}

impl<H: Handler> Handler for Witnessed<H> {
    async fn answer(&self, request: &Request) -> Reply {
        let under_way = self.begin(request);
        let reply = self.inner.answer(request).await;
        if let Some(under_way) = under_way {
            under_way.ended(&reply);
        }
        reply
    }

    async fn standing(&self, request: &Request) -> Standing {
        let standing = self.inner.standing(request).await;
        if let (Some(by), Standing::Refused(reply)) = (&self.by, &standing) {
            let at = by.clock.now();
            UnderWay { handler: &self.inner, by, request, at, began: Instant::now(), is_over: false }
                .ended(reply);
        }
        standing
    }

    fn refuse(&self, refusal: &Refusal, request: &Request) -> Reply {
        let under_way = self.begin(request);
        let reply = self.inner.refuse(refusal, request);
        if let Some(under_way) = under_way {
            under_way.ended(&reply);
        }
        reply
    }

    fn subject(&self, request: &Request, reply: Option<&Reply>) -> Subject {
        self.inner.subject(request, reply)
    }
}

/// A request that is noted when it ends.
struct UnderWay<'a, H: Handler> {
    handler: &'a H,
    by: &'a Witnesses,
    request: &'a Request,
    at: Timestamp,
    began: Instant,
    is_over: bool,
}

impl<H: Handler> UnderWay<'_, H> {
    fn ended(mut self, reply: &Reply) {
        self.note(Some(reply));
    }

    fn note(&mut self, reply: Option<&Reply>) {
        self.is_over = true;
        let mut subject = self.handler.subject(self.request, reply);
        subject.operation = reply.and_then(|reply| reply.operation).or(subject.operation);
        self.by.witness.note(Exchange {
            at: self.at,
            took: self.began.elapsed(),
            status: reply.map(|reply| reply.status.as_u16()),
            bytes_in: self.request.body.len() as u64,
            bytes_out: reply.map_or(0, |reply| reply.body.len() as u64),
            id: self.request.id,
            client: self.request.peer.ip(),
            subject,
        });
    }
}

impl<H: Handler> Drop for UnderWay<'_, H> {
    fn drop(&mut self) {
        if !self.is_over {
            self.note(None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::sample;
    use http::StatusCode;
    use parking_lot::Mutex;

    struct Fixed;

    impl Clock for Fixed {
        fn now(&self) -> Timestamp {
            Timestamp(7)
        }
    }

    #[derive(Default)]
    struct Book(Mutex<Vec<Exchange>>);

    impl Witness for Book {
        fn note(&self, exchange: Exchange) {
            self.0.lock().push(exchange);
        }
    }

    /// Answers 404, but never a request for `/wait`.
    struct Absent;

    impl Handler for Absent {
        async fn answer(&self, request: &Request) -> Reply {
            if request.uri.path() == "/wait" {
                std::future::pending::<()>().await;
            }
            Reply::text(StatusCode::NOT_FOUND, "no").to("Find")
        }

        fn subject(&self, _: &Request, reply: Option<&Reply>) -> Subject {
            Subject { error: reply.map(|_| "absent".into()), ..Subject::of("sqs") }
        }
    }

    fn witnessed() -> (Arc<Book>, Witnessed<Absent>) {
        let book = Arc::new(Book::default());
        let by = Witnesses { witness: Arc::clone(&book) as _, clock: Arc::new(Fixed) };
        (book, Witnessed::new(Absent, Some(by)))
    }

    #[tokio::test]
    async fn an_answered_request_is_noted_with_its_operation_and_error() {
        let (book, handler) = witnessed();
        handler.answer(&sample()).await;
        let noted = book.0.lock().remove(0);
        assert_eq!((noted.at, noted.status, noted.bytes_out), (Timestamp(7), Some(404), 3));
        assert_eq!((noted.subject.dialect, noted.subject.operation), ("sqs", Some("Find")));
        assert_eq!(noted.subject.error.as_deref(), Some("absent"));
    }

    #[tokio::test]
    async fn a_request_whose_client_goes_away_is_noted_without_a_status() {
        let (book, handler) = witnessed();
        let request = Request { uri: http::Uri::from_static("/wait"), ..sample() };
        let gone = tokio::time::timeout(Duration::from_millis(1), handler.answer(&request)).await;
        assert!(gone.is_err());
        let noted = book.0.lock().remove(0);
        assert_eq!((noted.status, noted.subject.error), (None, None));
    }

    #[test]
    fn a_refused_request_is_noted_with_the_status_of_the_refusal() {
        let (book, handler) = witnessed();
        handler.refuse(&Refusal::BodyTooSlow, &sample());
        assert_eq!(book.0.lock().remove(0).status, Some(408));
    }
}
