//! The thread of all dialects: one event loop with the engine's timers, the connections and the commits.

use std::io;
use std::net::TcpListener;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use kew_core::{Clock, Entropy};
use kew_engine::{Engine, EngineError, Options, TimeSource};
use kew_http::{Drain, Guard, Histogram, Limits, Listener, Shared, Tls};
use kew_store::Store;
use tokio::runtime::Handle;
use tokio::task::JoinSet;

use crate::listen::{Door, FrontEndSettings, FrontEnds, Paced, Serves};

/// Requests that are still running when the server is asked to stop get so long.
const FINISH_WITHIN: Duration = Duration::from_secs(30);

/// What one event loop serves.
pub struct EventLoop<S> {
    /// The store, which leaves its commits to the loop.
    pub store: Arc<S>,
    /// The machine's time.
    pub source: Arc<dyn TimeSource>,
    /// The machine's chance.
    pub entropy: Arc<dyn Entropy>,
    /// The engine's settings.
    pub options: Options,
    /// The front-ends' settings.
    pub front_ends: FrontEndSettings,
    /// Where they are served.
    pub entrances: Vec<Entrance>,
    /// Where the time of syncs is noted.
    pub syncs: Arc<Histogram>,
    /// Bounds of connections.
    pub limits: Limits,
    /// Ends it.
    pub drain: Drain,
}

/// Where requests come in.
pub struct Entrance {
    /// What is served there.
    pub serves: Serves,
    /// The socket, bound.
    pub socket: TcpListener,
    /// Who may come in.
    pub guard: Guard,
    /// What encrypts it, if anything.
    pub tls: Option<Tls>,
}

/// A loop that runs.
pub struct Started {
    /// The engine it drives.
    pub engine: Arc<Engine>,
    /// The loop itself, for work that must happen on it.
    pub handle: Handle,
    thread: JoinHandle<io::Result<()>>,
}

impl Started {
    /// Waits for its end, which the drain brings about.
    pub fn join(self) -> io::Result<()> {
        self.thread.join().unwrap_or_else(|_| Err(io::Error::other("the event loop's thread panicked")))
    }
}

impl<S: Store + 'static> EventLoop<S> {
    /// Starts the thread and returns once its engine is there.
    pub fn start(self) -> io::Result<Started> {
        let (tell, told) = mpsc::channel();
        let thread = std::thread::Builder::new().name("kew-loop".into()).spawn(move || self.run(&tell))?;
        match told.recv() {
            Ok(Ok((engine, handle))) => Ok(Started { engine, handle, thread }),
            Ok(Err(error)) => Err(io::Error::other(error)),
            // It ended before it could say anything: its result says why.
            Err(_) => Err(thread.join().map_or_else(
                |_| io::Error::other("it panicked"),
                |ended| ended.err().unwrap_or_else(|| io::Error::other("it ended at once")),
            )),
        }
    }

    fn run(self, tell: &mpsc::Sender<Result<(Arc<Engine>, Handle), EngineError>>) -> io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let paced = Paced::new(self.store, self.syncs);
            let committer = tokio::spawn(Arc::clone(&paced).commit_as_it_comes());
            let engine = Engine::start(paced, self.source, Arc::clone(&self.entropy), self.options).await;
            let engine = match engine {
                Ok(engine) => engine,
                Err(error) => {
                    // Whoever started the thread waits for exactly this.
                    let _told = tell.send(Err(error));
                    return Ok(());
                }
            };
            let (timers, moves) = (Arc::clone(&engine), Arc::clone(&engine));
            let timers = tokio::spawn(async move { timers.run_timers().await });
            let moves = tokio::spawn(async move { moves.run_moves().await });
            let clock = Arc::clone(engine.clock()) as Arc<dyn Clock>;
            let shared =
                Shared { drain: self.drain.clone(), ..Shared::new(clock, self.entropy, self.limits) };
            let front_ends = FrontEnds::new(&engine, self.front_ends);
            let mut accepting = JoinSet::new();
            for entrance in self.entrances {
                entrance.socket.set_nonblocking(true)?;
                let socket = tokio::net::TcpListener::from_std(entrance.socket)?;
                let door = Door { front_ends: Arc::clone(&front_ends), serves: entrance.serves };
                let listener = Listener::new(door, entrance.guard, &shared);
                match entrance.tls {
                    Some(tls) => accepting.spawn(listener.accept_tls(socket, tls)),
                    None => accepting.spawn(listener.accept(socket)),
                };
            }
            let _told = tell.send(Ok((Arc::clone(&engine), Handle::current())));
            self.drain.closing().await;
            engine.shutdown();
            // Connections that do not end in time are cut off with the loop.
            let _in_time = tokio::time::timeout(FINISH_WITHIN, accepting.join_all()).await;
            let _ended = (timers.await, moves.await);
            committer.abort();
            Ok(())
        })
    }
}
