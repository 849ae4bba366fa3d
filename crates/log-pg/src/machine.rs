//! The machine of a simulated node: its tasks can be stopped, continued, and end with it.
//!
//! What a store hears of its appends reaches it when no call of it waits: a store may wait for the database while it
//! holds a lock, and there is only one thread.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::{Handle, Runtime};
use tokio::sync::{Notify, mpsc};
use tokio::task::AbortHandle;
use tokio::time::Instant;

/// What all machines share.
pub(super) struct Room {
    pub runtime: Runtime,
    /// Rings when there is something to pass on to a store.
    bell: Notify,
    posts: Mutex<Vec<Weak<Post>>>,
}

/// Passes on what waits for a store of one machine.
struct Post {
    power: Power,
    pass_on: Mutex<Box<dyn FnMut() + Send>>,
}

/// What runs the tasks of one node.
pub struct Machine {
    room: Arc<Room>,
    power: Power,
    tasks: Mutex<Vec<AbortHandle>>,
    posts: Mutex<Vec<Arc<Post>>>,
    /// Bytes of a row that its node sends beside another.
    pub(crate) large_row: u64,
}

/// Stops and continues a node, as signals would.
#[derive(Clone)]
pub struct Power {
    stopped: Arc<Mutex<Stopped>>,
    /// Whose time passes: read from outside, a clock would show that of the thread that reads it.
    world: Handle,
}

#[derive(Default)]
struct Stopped {
    is_stopped: bool,
    /// The first reading of its clock, and how long it was suspended since then.
    begun: Option<Instant>,
    suspended: Duration,
    wakers: Vec<Waker>,
}

impl Power {
    /// The node's tasks stand still.
    pub fn stop(&self) {
        self.stopped.lock().is_stopped = true;
    }

    /// They go on where they were.
    pub fn go_on(&self) {
        let woken = {
            let mut stopped = self.stopped.lock();
            stopped.is_stopped = false;
            std::mem::take(&mut stopped.wakers)
        };
        woken.into_iter().for_each(Waker::wake);
    }

    /// The machine was suspended for this long: no clock but its steady one went on.
    pub fn suspend(&self, time: Duration) {
        self.stopped.lock().suspended += time;
    }

    /// Its steady clock.
    pub(crate) fn now(&self) -> Duration {
        let _inside = self.world.enter();
        let mut stopped = self.stopped.lock();
        let now = Instant::now();
        let begun = *stopped.begun.get_or_insert(now);
        now.duration_since(begun) + stopped.suspended
    }

    fn is_stopped(&self) -> bool {
        self.stopped.lock().is_stopped
    }

    /// Runs a task on this machine.
    pub(super) fn run(
        &self,
        task: impl Future<Output = ()> + Send + 'static,
    ) -> impl Future<Output = ()> + Send + 'static {
        Stoppable { power: self.clone(), task: Box::pin(task) }
    }
}

impl Room {
    pub fn new(runtime: Runtime) -> Self {
        Self { runtime, bell: Notify::new(), posts: Mutex::default() }
    }

    /// Waits here for a task. Stores hear their news meanwhile, but those of the machine that waits.
    pub fn wait<T>(&self, task: impl Future<Output = T>, waits: Option<&Machine>) -> T {
        let mut task = pin!(task);
        loop {
            let rung = async {
                tokio::select! {
                    biased;
                    () = self.bell.notified() => None,
                    done = &mut task => Some(done),
                }
            };
            // The one thread plays the whole world while a store waits, perhaps with a lock held.
            let done = kew_timed::apart(|| {
                let done = self.runtime.block_on(rung);
                self.pass_on(waits);
                done
            });
            if let Some(done) = done {
                return done;
            }
        }
    }

    fn pass_on(&self, waits: Option<&Machine>) {
        let posts: Vec<Arc<Post>> = {
            let mut posts = self.posts.lock();
            posts.retain(|post| post.strong_count() > 0);
            posts.iter().filter_map(Weak::upgrade).collect()
        };
        let own = waits.map(|machine| machine.posts.lock().clone()).unwrap_or_default();
        for post in posts {
            if !own.iter().any(|own| Arc::ptr_eq(own, &post)) && !post.power.is_stopped() {
                (post.pass_on.lock())();
            }
        }
    }
}

impl Machine {
    pub(super) fn new(room: Arc<Room>, large_row: u64) -> Self {
        let power = Power { stopped: Arc::default(), world: room.runtime.handle().clone() };
        Self { room, power, tasks: Mutex::default(), posts: Mutex::default(), large_row }
    }

    pub(super) fn power(&self) -> Power {
        self.power.clone()
    }

    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = self.tasks.lock();
        tasks.retain(|task| !task.is_finished());
        tasks.push(self.room.runtime.spawn(self.power.run(task)).abort_handle());
    }

    pub(crate) fn wait<T>(&self, task: impl Future<Output = T>) -> T {
        self.room.wait(task, Some(self))
    }

    /// Passes messages on to the node's store.
    pub(crate) fn tell<T: Send + 'static>(
        &self,
        mut messages: mpsc::UnboundedReceiver<T>,
        mut tell: impl FnMut(T, &mut dyn FnMut() -> Option<T>) + Send + 'static,
    ) {
        let waiting = Arc::new(Mutex::new(VecDeque::new()));
        let filled = Arc::clone(&waiting);
        let room = Arc::clone(&self.room);
        self.spawn(async move {
            while let Some(next) = messages.recv().await {
                filled.lock().push_back(next);
                room.bell.notify_one();
            }
        });
        let pass_on = move || {
            let mut next = || waiting.lock().pop_front();
            while let Some(first) = next() {
                tell(first, &mut next);
            }
        };
        let post = Arc::new(Post { power: self.power(), pass_on: Mutex::new(Box::new(pass_on)) });
        self.room.posts.lock().push(Arc::downgrade(&post));
        self.posts.lock().push(post);
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // What the server does for it goes on.
        self.tasks.get_mut().iter().for_each(AbortHandle::abort);
    }
}

struct Stoppable {
    power: Power,
    task: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl Future for Stoppable {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        {
            let mut stopped = self.power.stopped.lock();
            if stopped.is_stopped {
                stopped.wakers.push(cx.waker().clone());
                return Poll::Pending;
            }
        }
        self.task.as_mut().poll(cx)
    }
}
