//! The admin listener's thread: an event loop of its own, so that health checks are answered whatever a disk does.

use std::io;
use std::net::TcpListener;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

use kew_console::Console;
use kew_core::Entropy;
use kew_http::{Drain, Guard, Limits, Listener, ListenerCount, Replies, Shared, Tls, Witnessed, Witnesses};

use crate::machine::SystemClock;

/// What the thread serves.
pub struct AdminLoop {
    /// The front-end.
    pub console: Console,
    /// The socket, bound; without one the thread looks at the queues and serves nothing.
    pub socket: Option<TcpListener>,
    /// The machine's chance.
    pub entropy: Arc<dyn Entropy>,
    /// Bounds of connections.
    pub limits: Limits,
    /// Counts its connections.
    pub connections: Arc<ListenerCount>,
    /// Counts the bytes of replies, with those of all other listeners.
    pub replies: Replies,
    /// Who hears of requests that ended, if anything does.
    pub witnesses: Option<Witnesses>,
    /// What encrypts it, if anything.
    pub tls: Option<Tls>,
}

/// A thread that serves.
pub struct Admin {
    drain: Drain,
    thread: JoinHandle<io::Result<()>>,
}

impl AdminLoop {
    /// Starts the thread.
    pub fn start(self) -> io::Result<Admin> {
        let drain = Drain::default();
        let (tell, told) = mpsc::channel();
        let ends = drain.clone();
        let run = move || self.run(ends, &tell);
        let thread = std::thread::Builder::new().name("kew-admin".into()).spawn(run)?;
        match told.recv() {
            Ok(()) => Ok(Admin { drain, thread }),
            // It ended before it could say anything: its result says why.
            Err(_) => Err(thread.join().map_or_else(
                |_| io::Error::other("it panicked"),
                |ended| ended.err().unwrap_or_else(|| io::Error::other("it ended at once")),
            )),
        }
    }

    fn run(self, drain: Drain, tell: &mpsc::Sender<()>) -> io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let socket = self.socket.map(listening).transpose()?;
            let closing = drain.closing();
            let shared = Shared {
                drain,
                replies: self.replies,
                connections: self.connections,
                ..Shared::new(Arc::new(SystemClock), self.entropy, self.limits)
            };
            // The console guards what must be guarded: health and metrics are for everyone.
            let looking = tokio::spawn(self.console.keep_looking());
            let changes_end = self.console.changes_end();
            let console = Witnessed::new(self.console, self.witnesses);
            let listener = Listener::new(console, Guard::strict(), &shared);
            // The starter of the thread waits for exactly this.
            let _told = tell.send(());
            match (socket, self.tls) {
                (Some(socket), Some(tls)) => listener.accept_tls(socket, tls).await,
                (Some(socket), None) => listener.accept(socket).await,
                (None, _) => closing.await,
            }
            // Clients may have gone; what they asked for is finished and noted.
            changes_end.await;
            looking.abort();
            Ok(())
        })
    }
}

fn listening(socket: TcpListener) -> io::Result<tokio::net::TcpListener> {
    socket.set_nonblocking(true)?;
    tokio::net::TcpListener::from_std(socket)
}

impl Admin {
    /// Lets requests that are under way finish, and ends.
    pub fn stop(self) -> io::Result<()> {
        self.drain.close();
        self.thread.join().unwrap_or_else(|_| Err(io::Error::other("the admin thread panicked")))
    }
}
