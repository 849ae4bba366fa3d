//! Where a log's tasks run: on a thread of their own or, in tests, on the thread that waits for them.

use std::future::Future;
use std::io;
use std::sync::mpsc;
use std::thread::JoinHandle;

use tokio::runtime::Handle;

use crate::PgError;
use crate::steady::Steady;

/// Runs a log's tasks, until it is dropped.
pub(crate) struct Driver(Runs);

enum Runs {
    OnThread(OwnThread),
    #[cfg(feature = "simulated")]
    Simulated(crate::machine::Machine),
}

impl Driver {
    /// Tasks run on a thread of their own.
    pub fn start() -> Result<Self, PgError> {
        OwnThread::start().map(|thread| Self(Runs::OnThread(thread)))
    }

    /// Tasks run whenever a thread waits for one of them.
    #[cfg(feature = "simulated")]
    pub fn simulated(machine: crate::machine::Machine) -> Self {
        Self(Runs::Simulated(machine))
    }

    /// Bytes of a row that is sent beside another: as given, but a simulation has its own.
    pub fn large_row(&self, usual: u64) -> u64 {
        match &self.0 {
            Runs::OnThread(_) => usual,
            #[cfg(feature = "simulated")]
            Runs::Simulated(machine) => machine.large_row,
        }
    }

    /// The clock by which a node judges how long it may answer.
    pub fn steady(&self) -> Steady {
        match &self.0 {
            Runs::OnThread(_) => Steady::System,
            #[cfg(feature = "simulated")]
            Runs::Simulated(machine) => Steady::Simulated(machine.power()),
        }
    }

    /// Runs a task beside the others.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        match &self.0 {
            Runs::OnThread(thread) => drop(thread.handle.spawn(task)),
            #[cfg(feature = "simulated")]
            Runs::Simulated(machine) => machine.spawn(task),
        }
    }

    /// Runs a task and waits for its end here. `None` when it cannot end any more.
    pub fn wait<T: Send + 'static>(&self, task: impl Future<Output = T> + Send + 'static) -> Option<T> {
        match &self.0 {
            Runs::OnThread(thread) => {
                let (give, take) = mpsc::sync_channel(1);
                thread.handle.spawn(async move {
                    // The thread that asked waits, or is gone.
                    let _given = give.send(task.await);
                });
                take.recv().ok()
            }
            #[cfg(feature = "simulated")]
            Runs::Simulated(machine) => Some(machine.wait(task)),
        }
    }

    /// Runs a task beside the others and waits for its end. `None` when it cannot end any more.
    pub fn run<T: Send + 'static, F: Future<Output = T> + Send + 'static>(
        &self,
        task: F,
    ) -> impl Future<Output = Option<T>> + Send + use<T, F> {
        let (give, take) = tokio::sync::oneshot::channel();
        self.spawn(async move {
            // The one who asked waits, or is gone.
            let _given = give.send(task.await);
        });
        async move { take.await.ok() }
    }

    /// Runs `tell` with each of the messages, in order: on a thread of its own, since it may be slow. It may take
    /// further ones that wait. Fails when the system gives no more threads.
    pub fn tell<T: Send + 'static>(
        &self,
        mut messages: tokio::sync::mpsc::UnboundedReceiver<T>,
        mut tell: impl FnMut(T, &mut dyn FnMut() -> Option<T>) + Send + 'static,
    ) -> io::Result<()> {
        match &self.0 {
            Runs::OnThread(_) => {
                let run = move || {
                    while let Some(next) = messages.blocking_recv() {
                        tell(next, &mut || messages.try_recv().ok());
                    }
                };
                // It ends by itself, with the messages.
                std::thread::Builder::new().name("kew-answers".into()).spawn(run).map(drop)
            }
            #[cfg(feature = "simulated")]
            Runs::Simulated(machine) => {
                machine.tell(messages, tell);
                Ok(())
            }
        }
    }
}

/// A thread with a runtime.
struct OwnThread {
    handle: Handle,
    stop: Option<tokio::sync::oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl OwnThread {
    fn start() -> Result<Self, PgError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| PgError::Database(format!("starting a runtime: {error}")))?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = tokio::sync::oneshot::channel();
        let thread = std::thread::Builder::new().name("kew-postgres".into()).spawn(move || {
            // Stopped by its owner, also when that is dropped.
            let _stopped = runtime.block_on(stopped);
        });
        let thread = thread.map_err(|error| PgError::Database(format!("starting a thread: {error}")))?;
        Ok(Self { handle, stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for OwnThread {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            // It may have ended by itself.
            let _stopped = stop.send(());
        }
        if let Some(thread) = self.thread.take()
            && thread.thread().id() != std::thread::current().id()
        {
            // A panic there has been reported by itself.
            let _ended = thread.join();
        }
    }
}
