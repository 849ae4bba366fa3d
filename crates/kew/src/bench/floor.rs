//! The floor: a bare hyper server on one event loop, bodies read, 200 fixed bytes answered.

use std::sync::mpsc;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;

use super::Fault;
use super::process::Process;

static ANSWER: [u8; 200] = [b' '; 200];

/// A floor that serves, on a thread whose CPU is measured apart from ours.
pub(super) struct Floor {
    pub(super) address: String,
    pub(super) process: Process,
}

impl Floor {
    /// Starts it; it ends with the program.
    pub(super) fn start() -> Result<Self, Fault> {
        let (tell, told) = mpsc::channel();
        std::thread::Builder::new().name("floor".into()).spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let served = runtime.map(|runtime| runtime.block_on(serve(&tell)));
            if let Ok(Err(error)) | Err(error) = served {
                eprintln!("kew bench: the floor ended: {error}");
            }
        })?;
        let (address, thread) = told.recv()?;
        Ok(Self { address, process: Process::Thread(thread) })
    }
}

async fn serve(tell: &mpsc::Sender<(String, i32)>) -> std::io::Result<()> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let thread = rustix::thread::gettid().as_raw_nonzero().get();
    // The starter of the thread waits for exactly this.
    let _told = tell.send((listener.local_addr()?.to_string(), thread));
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
