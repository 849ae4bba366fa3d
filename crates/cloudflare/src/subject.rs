//! What a request was about, for those who note requests: read from its head and its reply after the fact.

use kew_core::QueueKey;
use kew_http::{Reply, Request, Subject, TRACEPARENT, TraceContext, short};

use crate::route::{self, Route};
use crate::{Cloudflare, auth, binding, encode};

/// What it was about. A queue is shown by its name where its number is known; the key is the holder's account.
pub(crate) fn of(house: &Cloudflare, request: &Request, reply: Option<&Reply>) -> Subject {
    let trace = request.header(TRACEPARENT).and_then(TraceContext::of_w3c);
    let subject = Subject { trace, ..Subject::of("cloudflare") };
    if !route::is_rest(request.uri.path()) {
        let queue = binding::queue_named(request).map(short);
        let operation = house.is_visit(request).then_some("Visit");
        // What a Worker answers is its own: no part of its body is noted.
        return Subject { queue, operation, ..subject };
    }
    let subject = Subject { error: reply.and_then(encode::error_code), ..subject };
    let Ok(route) = Route::of(&request.method, request.uri.path()) else { return subject };
    let queue = match route.queue_id() {
        Ok(Some(id)) => house.engine.queue_by_id(id).map(|queue| name(&queue.key)),
        Ok(None) | Err(_) => None,
    };
    let key = auth::check(&house.settings, &route, request).ok().map(|caller| short(caller.name));
    Subject { queue, key, ..subject }
}

fn name(key: &QueueKey) -> Box<str> {
    short(&key.name)
}
