//! What a request was about, for those who note requests: read from its head and its reply after the fact.

use kew_http::{Reply, Request, Subject, TRACEPARENT, TraceContext, short};

use crate::operation::Operation;
use crate::params::Params;
use crate::target::Target;
use crate::{Settings, encode};

/// What it was about. Its key is the account, which is all that a signature names.
pub(crate) fn of(request: &Request, reply: Option<&Reply>, settings: &Settings) -> Subject {
    let target = Target::read(request, settings.host_style).ok();
    // A reply says it; without one the client went away.
    let unsaid = target.as_ref().filter(|_| reply.is_none());
    Subject {
        operation: unsaid.and_then(|target| operation_of(request, target)),
        queue: target.as_ref().and_then(|target| target.place.queue()).map(short),
        key: target.as_ref().map(|target| short(&target.account)),
        error: reply.and_then(encode::error_code).map(short),
        trace: request.header(TRACEPARENT).and_then(TraceContext::of_w3c),
        ..Subject::of("azure")
    }
}

fn operation_of(request: &Request, target: &Target<'_>) -> Option<&'static str> {
    let params = Params::read(request.uri.query().unwrap_or_default()).ok()?;
    Operation::of(&request.method, &target.place, &params).ok().map(Operation::name)
}
