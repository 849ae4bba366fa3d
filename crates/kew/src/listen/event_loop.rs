//! The thread of all dialects: one event loop with the engine's timers, the connections and the commits.

use std::io;
use std::net::TcpListener;
use std::pin::Pin;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use kew_core::{Clock, Entropy};
use kew_engine::{Engine, EngineError, Options, TimeSource};
use kew_http::{
    Drain, Guard, Histogram, Limits, Listener, ListenerCount, Ration, Replies, Shared, Tls, Witnessed,
    Witnesses,
};
use kew_store::Store;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::{JoinError, JoinSet};

use super::sharing::share_out;
use crate::listen::{Door, FrontEndSettings, FrontEnds, Paced, Serves};

/// Requests that are still running when the server is asked to stop get so long.
const FINISH_WITHIN: Duration = Duration::from_secs(30);

/// Begins something that runs on the loop beside the engine.
pub type Begin = Box<dyn FnOnce(&Arc<Engine>) -> io::Result<Box<dyn Beside>> + Send>;

/// What runs on the loop beside the engine.
pub trait Beside: Send {
    /// Resolves when a task of it ended that must not.
    fn fallen(&mut self) -> Pin<Box<dyn Future<Output = Result<(), JoinError>> + Send + '_>>;

    /// Ends it, when no request is left.
    fn finish(self: Box<Self>) -> Pin<Box<dyn Future<Output = ()> + Send>>;
}

/// What one event loop serves.
pub struct EventLoop<S> {
    /// What its thread is called.
    pub name: String,
    /// The store, which leaves its commits to the loop.
    pub store: Arc<S>,
    /// The machine's time.
    pub source: Arc<dyn TimeSource>,
    /// The machine's chance.
    pub entropy: Arc<dyn Entropy>,
    /// The engine's settings.
    pub options: Options,
    /// What else runs on the loop with its engine, if anything does.
    pub beside: Option<Begin>,
    /// The front-ends' settings.
    pub front_ends: FrontEndSettings,
    /// Where they are served.
    pub entrances: Vec<Entrance>,
    /// Where the time of syncs is noted.
    pub syncs: Arc<Histogram>,
    /// Where the time of this loop's is noted too, if there are others.
    pub own_syncs: Option<Arc<Histogram>>,
    /// Where bodies are counted.
    pub bodies: Ration,
    /// Bounds of connections.
    pub limits: Limits,
    /// Where replies are counted.
    pub replies: Replies,
    /// Who hears of requests that ended, if anything does.
    pub witnesses: Option<Witnesses>,
    /// Ends it.
    pub drain: Drain,
    /// Closed once no other thread drives the engine any more: what they did must still be committed.
    pub others_ended: Drain,
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
    /// Ends it.
    pub drain: Drain,
    /// Counts its connections.
    pub connections: Arc<ListenerCount>,
}

impl Entrance {
    /// The same entrance for several loops: each connection comes to one of them.
    pub fn share_out(self, loops: usize) -> io::Result<Vec<Self>> {
        let Self { serves, socket, guard, tls, drain, connections } = self;
        let sockets = share_out(socket, loops)?.into_iter();
        let entrance = |socket| {
            let (guard, tls, drain) = (guard.clone(), tls.clone(), drain.clone());
            Self { serves, socket, guard, tls, drain, connections: Arc::clone(&connections) }
        };
        Ok(sockets.map(entrance).collect())
    }
}

/// A loop that runs.
pub struct Started {
    /// The engine it drives.
    pub engine: Arc<Engine>,
    /// The loop itself, for work that must happen on it.
    pub handle: Handle,
    thread: JoinHandle<io::Result<()>>,
    /// Closed when the thread ends.
    lives: Option<oneshot::Receiver<()>>,
}

impl Started {
    /// What resolves when the loop has ended, for whatever reason; it can be had once.
    pub fn ended(&mut self) -> impl Future<Output = ()> + use<> {
        let lives = self.lives.take();
        async move {
            match lives {
                // Nothing is ever sent: it ends with its sender.
                Some(lives) => drop(lives.await),
                None => std::future::pending().await,
            }
        }
    }

    /// Waits for its end, which the drain brings about.
    pub fn join(self) -> io::Result<()> {
        self.thread.join().unwrap_or_else(|_| Err(io::Error::other("the event loop's thread panicked")))
    }
}

impl<S: Store + 'static> EventLoop<S> {
    /// Starts the thread and returns once its engine is there.
    pub fn start(self) -> io::Result<Started> {
        let (tell, told) = mpsc::channel();
        let name = self.name.clone();
        let (alive, lives) = oneshot::channel();
        let run = move || {
            // Dropped when the thread ends, also by a panic.
            let _alive: oneshot::Sender<()> = alive;
            self.run(tell)
        };
        let thread = std::thread::Builder::new().name(name).spawn(run)?;
        match told.recv() {
            Ok(Ok((engine, handle))) => Ok(Started { engine, handle, thread, lives: Some(lives) }),
            Ok(Err(error)) => Err(io::Error::other(error)),
            // It ended before it could say anything: its result says why.
            Err(_) => Err(thread.join().map_or_else(
                |_| io::Error::other("it panicked"),
                |ended| ended.err().unwrap_or_else(|| io::Error::other("it ended at once")),
            )),
        }
    }

    fn run(self, tell: Tell) -> io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let served = runtime.block_on(async {
            let paced = Paced::new(Arc::clone(&self.store), Arc::clone(&self.syncs), self.own_syncs.clone());
            let mut committer =
                tokio::spawn(kew_timed::polls("a commit", Arc::clone(&paced).commit_as_it_comes()));
            // Without it no answer ever leaves: its end is the server's.
            let served = tokio::select! {
                biased;
                ended = &mut committer => Err(fallen("commits", ended)),
                served = self.serve(paced, tell) => served,
            };
            committer.abort();
            served
        });
        // A commit that waits for a database that is away must not hold the end up: closing the store has its own time.
        runtime.shutdown_background();
        served
    }

    async fn serve(self, paced: Arc<Paced<S>>, tell: Tell) -> io::Result<()> {
        let engine = Engine::start(paced, self.source, Arc::clone(&self.entropy), self.options).await;
        let engine = match engine {
            Ok(engine) => engine,
            Err(error) => {
                // The starter of the thread waits for exactly this.
                let _told = tell.send(Err(error));
                return Ok(());
            }
        };
        let mut beside = self.beside.map(|begin| begin(&engine)).transpose()?;
        let (timers, moves) = (Arc::clone(&engine), Arc::clone(&engine));
        let mut timers =
            tokio::spawn(kew_timed::polls("the timers' turn", async move { timers.run_timers().await }));
        let mut moves =
            tokio::spawn(kew_timed::polls("the mover's turn", async move { moves.run_moves().await }));
        let clock = Arc::clone(engine.clock()) as Arc<dyn Clock>;
        let shared = Shared {
            bodies: self.bodies,
            replies: self.replies,
            ..Shared::new(clock, self.entropy, self.limits)
        };
        let front_ends = FrontEnds::new(&engine, self.front_ends);
        let mut accepting = JoinSet::new();
        for entrance in self.entrances {
            entrance.socket.set_nonblocking(true)?;
            let socket = tokio::net::TcpListener::from_std(entrance.socket)?;
            let door = Door { front_ends: Arc::clone(&front_ends), serves: entrance.serves };
            let shared =
                Shared { drain: entrance.drain, connections: entrance.connections, ..shared.clone() };
            let door = Witnessed::new(door, self.witnesses.clone());
            let listener = Listener::new(door, entrance.guard, &shared);
            match entrance.tls {
                Some(tls) => accepting.spawn(listener.accept_tls(socket, tls)),
                None => accepting.spawn(listener.accept(socket)),
            };
        }
        let _told = tell.send(Ok((Arc::clone(&engine), Handle::current())));
        tokio::select! {
            biased;
            () = self.drain.closing() => {}
            ended = &mut timers => return Err(fallen("timers", ended)),
            ended = &mut moves => return Err(fallen("moves", ended)),
            ended = fallen_beside(&mut beside) => return Err(fallen("the fleet", ended)),
        }
        engine.shutdown();
        // Connections that do not end in time are cut off with the loop.
        let _in_time = tokio::time::timeout(FINISH_WITHIN, accepting.join_all()).await;
        self.others_ended.closing().await;
        if let Some(beside) = beside {
            beside.finish().await;
        }
        let _ended = (timers.await, moves.await);
        Ok(())
    }
}

async fn fallen_beside(beside: &mut Option<Box<dyn Beside>>) -> Result<(), JoinError> {
    match beside {
        Some(beside) => beside.fallen().await,
        None => std::future::pending().await,
    }
}

/// Gets the engine when it has started.
type Tell = mpsc::Sender<Result<(Arc<Engine>, Handle), EngineError>>;

/// The text about a task that must not end and did.
fn fallen(what: &str, ended: Result<(), JoinError>) -> io::Error {
    let why = match ended.map_err(JoinError::try_into_panic) {
        Err(Ok(panic)) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("it panicked").to_owned()
        }
        Err(Err(error)) => error.to_string(),
        Ok(()) => "it ended by itself".to_owned(),
    };
    io::Error::other(format!("the task of {what} ended, and the server with it: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use kew_core::{Command, Timestamp};
    use kew_engine::ClockKind;
    use kew_store::{MemoryStore, Submission};
    use std::sync::atomic::{AtomicBool, Ordering};

    use crate::machine::{SystemClock, SystemEntropy, SystemTimeSource};

    /// A store whose commits panic from some moment on.
    struct Frail {
        inner: MemoryStore,
        falls: Arc<AtomicBool>,
    }

    impl Store for Frail {
        fn step(&self, now: Timestamp, command: &Command) -> Submission {
            self.inner.step(now, command)
        }

        fn next_due(&self) -> Option<Timestamp> {
            self.inner.next_due()
        }

        fn newest_instant(&self) -> Timestamp {
            self.inner.newest_instant()
        }

        fn commit(&self) -> bool {
            assert!(!self.falls.load(Ordering::Relaxed), "the disk is mad");
            false
        }
    }

    fn start(falls: &Arc<AtomicBool>) -> io::Result<Started> {
        let entropy: Arc<dyn Entropy> =
            Arc::new(SystemEntropy::new().expect("the system has random numbers"));
        let inner = MemoryStore::new(Arc::clone(&entropy));
        let event_loop = EventLoop {
            name: "kew-loop".into(),
            store: Arc::new(Frail { inner, falls: Arc::clone(falls) }),
            source: Arc::new(SystemTimeSource),
            entropy: Arc::clone(&entropy),
            options: Options { clock: ClockKind::System, ..Options::default() },
            beside: None,
            front_ends: FrontEndSettings {
                admin: None,
                sqs: kew_sqs::Settings::default(),
                azure: kew_azure::Settings::open(Vec::new(), "r".into(), Arc::new(SystemClock), entropy),
                cloudflare: kew_cloudflare::Settings::open("r".into()),
                durations: Arc::default(),
            },
            entrances: Vec::new(),
            syncs: Arc::default(),
            own_syncs: None,
            bodies: Ration::default(),
            limits: Limits::default(),
            replies: Replies::new(1 << 20),
            witnesses: None,
            drain: Drain::default(),
            others_ended: Drain::default(),
        };
        event_loop.start()
    }

    #[test]
    fn a_commit_that_panics_ends_the_loop_and_says_so() {
        let falls = Arc::new(AtomicBool::new(false));
        let mut started = start(&falls).expect("the event loop starts");
        falls.store(true, Ordering::Relaxed);
        let engine = Arc::clone(&started.engine);
        let create = kew_core::command::CreateQueue {
            key: kew_core::QueueKey::new(kew_core::AccountId(0), "r", "q"),
            policy: kew_core::Policy::standard(),
            documents: Vec::new(),
        };
        drop(started.handle.spawn(async move { engine.create_queue(create).await }));
        let ended = started.ended();
        let runtime =
            tokio::runtime::Builder::new_current_thread().build().expect("a runtime of one thread is built");
        runtime.block_on(ended);
        let error = started.join().expect_err("it did not end as it should").to_string();
        assert!(error.contains("the disk is mad"), "{error}");
    }
}
