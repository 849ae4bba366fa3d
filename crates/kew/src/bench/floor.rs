//! The floor: the bare server on one event loop of its own.

use std::sync::mpsc;

use super::Fault;
use super::process::Process;

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
    kew_http::bare::serve(listener).await
}
