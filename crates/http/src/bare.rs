//! A bare server on hyper: it reads bodies and answers the same 200 bytes. Measurements compare with it what a request
//! costs beside what connections cost by themselves.

use std::io;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

static ANSWER: [u8; 200] = [b' '; 200];

/// Serves every connection of a listener until that fails.
pub async fn serve(listener: TcpListener) -> io::Result<()> {
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        tokio::spawn(
            hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service_fn(answer)),
        );
    }
}

async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, hyper::Error> {
    drop(request.into_body().collect().await?);
    let mut response = Response::new(Full::new(Bytes::from_static(&ANSWER)));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(response)
}
