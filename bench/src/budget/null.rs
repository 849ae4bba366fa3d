//! The bare server in a process of its own: what connections cost by themselves.

use std::io::{BufRead, BufReader, Write};
use std::process::Child;

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
    kew_http::bare::serve(listener).await
}

/// Where such a child serves.
pub fn address_of(child: &mut Child) -> Result<String, Fault> {
    let mut line = String::new();
    BufReader::new(child.stdout.take().ok_or("it has no output")?).read_line(&mut line)?;
    Ok(line.trim().to_owned())
}
