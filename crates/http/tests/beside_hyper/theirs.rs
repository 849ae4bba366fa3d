//! The other side: hyper, with as much around it as a front-end of ours has.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_TYPE, HOST, HeaderValue};
use http::{HeaderMap, Method, Response, StatusCode, Version};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Body, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use kew_http::Authority;
use tokio::io::DuplexStream;

use crate::BODY_BYTES_MAX;
use crate::exchange::{self, Asked};

/// Serves one connection; tells what was asked.
pub async fn serve(stream: DuplexStream) -> Vec<Asked> {
    let notes = Arc::new(Mutex::new(Vec::new()));
    let requests = service_fn(|request| {
        let notes = Arc::clone(&notes);
        async move { Ok::<_, Infallible>(answer(request, &notes).await) }
    });
    // However it ends, it ends.
    let _ended =
        http1::Builder::new().max_buf_size(64 << 10).serve_connection(TokioIo::new(stream), requests).await;
    std::mem::take(&mut *notes.lock().unwrap_or_else(PoisonError::into_inner))
}

async fn answer(request: hyper::Request<Incoming>, notes: &Mutex<Vec<Asked>>) -> Response<Full<Bytes>> {
    let (head, body) = request.into_parts();
    if head.method == Method::CONNECT {
        return refused(StatusCode::METHOD_NOT_ALLOWED, head.version, !body.is_end_stream());
    }
    let Some(headers) = guarded(&head) else {
        return refused(StatusCode::BAD_REQUEST, head.version, !body.is_end_stream());
    };
    if body.size_hint().lower() > BODY_BYTES_MAX as u64 {
        return refused(StatusCode::PAYLOAD_TOO_LARGE, head.version, true);
    }
    let Ok(body) = Limited::new(body, BODY_BYTES_MAX).collect().await else {
        return refused(StatusCode::BAD_REQUEST, head.version, true);
    };
    let headers = headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes()));
    let asked = Asked::new(&head.method, &head.uri, headers, &body.to_bytes());
    notes.lock().unwrap_or_else(PoisonError::into_inner).push(asked);
    let (status, body) = exchange::reply_to(head.uri.path());
    reply(status, body)
}

/// Our guard's part: the headers, if they name one host, and the one the target names.
fn guarded(head: &http::request::Parts) -> Option<HeaderMap> {
    let mut headers = head.headers.clone();
    let mut hosts = head.headers.get_all(HOST).iter();
    let (first, more) = (hosts.next(), hosts.next());
    if more.is_some() {
        return None;
    }
    match (first, head.uri.authority()) {
        (None, None) if head.version < Version::HTTP_11 => return Some(headers),
        (None, None) => return None,
        (None, Some(target)) => {
            Authority::parse(target.as_str().as_bytes())?;
            headers.insert(HOST, target.as_str().parse().ok()?);
        }
        (Some(host), target) => {
            let host = Authority::parse(host.as_bytes())?;
            if let Some(target) = target {
                let target = Authority::parse(target.as_str().as_bytes())?;
                if !target.host.is_same(&host.host) || target.port != host.port {
                    return None;
                }
            }
        }
    }
    Some(headers)
}

fn refused(status: StatusCode, version: Version, closes: bool) -> Response<Full<Bytes>> {
    let mut reply = reply(status, exchange::REFUSED);
    // The old version has no word for it, but it is what it does.
    if closes && version == Version::HTTP_11 {
        reply.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    reply
}

fn reply(status: StatusCode, body: &'static str) -> Response<Full<Bytes>> {
    let mut reply = Response::new(Full::new(Bytes::from_static(body.as_bytes())));
    *reply.status_mut() = status;
    reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(exchange::CONTENT_TYPE));
    reply
}
