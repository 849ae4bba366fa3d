//! Our side: a listener whose front-end notes what it is asked.

use std::sync::{Arc, Mutex, PoisonError};

use kew_http::{Guard, Handler, HeaderValue, Limits, Listener, Refusal, Reply, Request, Shared};
use kew_testing::{CountingEntropy, FixedClock};
use tokio::io::DuplexStream;

use crate::BODY_BYTES_MAX;
use crate::exchange::{self, Asked};

#[derive(Clone, Default)]
struct Notes(Arc<Mutex<Vec<Asked>>>);

impl Handler for Notes {
    async fn answer(&self, request: &Request) -> Reply {
        if request.uri.path() == "/later" {
            // Meanwhile the client is listened to.
            tokio::task::yield_now().await;
        }
        let (status, body) = exchange::reply_to(request.uri.path());
        let headers = request.headers.iter().map(|(name, value)| (name, value.as_bytes()));
        let asked = Asked::new(&request.method, &request.uri, headers, &request.body);
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(asked);
        Reply::new(status, HeaderValue::from_static(exchange::CONTENT_TYPE), body)
    }

    fn refuse(&self, refusal: &Refusal, _head: &Request) -> Reply {
        Reply::new(refusal.status(), HeaderValue::from_static(exchange::CONTENT_TYPE), exchange::REFUSED)
    }
}

/// Serves one connection; tells what was asked.
pub async fn serve(stream: DuplexStream) -> Vec<Asked> {
    let notes = Notes::default();
    let limits = Limits { body_bytes_max: BODY_BYTES_MAX, ..Limits::default() };
    let shared = Shared::new(Arc::new(FixedClock), Arc::new(CountingEntropy::default()), limits);
    // It asks for one host, which every request of the streams names.
    let listener = Listener::new(notes.clone(), Guard::strict(), &shared);
    listener.serve(stream, ([127, 0, 0, 1], 1).into()).await;
    std::mem::take(&mut *notes.0.lock().unwrap_or_else(PoisonError::into_inner))
}
