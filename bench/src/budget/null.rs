//! A bare hyper server, in a process of its own: what connections cost by themselves.

use std::io::{BufRead, BufReader, Write};
use std::process::Child;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;

use super::Fault;

/// Serves until it is killed; says where first.
pub fn serve() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let served = runtime.expect("a runtime of one thread").block_on(accept());
    served.expect("the null server serves until it is killed");
}

async fn accept() -> std::io::Result<()> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    println!("{}", listener.local_addr()?);
    std::io::stdout().flush()?;
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
    Ok(Response::new(Full::new(Bytes::from_static(&[b' '; 200]))))
}

/// Where such a child serves.
pub fn address_of(child: &mut Child) -> Result<String, Fault> {
    let mut line = String::new();
    BufReader::new(child.stdout.take().ok_or("it has no output")?).read_line(&mut line)?;
    Ok(line.trim().to_owned())
}
