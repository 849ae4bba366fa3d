//! Two nodes on a stream in memory, a service that does as it is asked, and streams with faults.

use std::collections::HashSet;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use kew_core::Entropy;
use kew_peer::link::{Endpoint, Identity, Link, Node, NodeId, Secret, Serve, Serving, Versions, Why};
use std::sync::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf, duplex};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// The secret of all nodes here, unless a test says otherwise.
pub const SECRET: Secret = Secret([42; 32]);

/// Numbers that do not repeat.
#[derive(Default)]
pub struct Chance(AtomicU64);

impl Entropy for Chance {
    fn bits(&self) -> u64 {
        // An odd factor: no two of the first 2^64 are alike.
        (self.0.fetch_add(1, Ordering::Relaxed) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
}

/// One entropy for all nodes of a process, as they are never started alike.
pub fn chance() -> Arc<Chance> {
    static SHARED: std::sync::OnceLock<Arc<Chance>> = std::sync::OnceLock::new();
    Arc::clone(SHARED.get_or_init(Arc::default))
}

pub fn id(text: &str) -> NodeId {
    NodeId::new(text).unwrap()
}

pub fn identity(name: &str) -> Identity {
    Identity {
        node: Node::new(id(name), &format!("node {name}")).unwrap(),
        versions: Versions { oldest: 1, newest: 1 },
        secret: SECRET,
    }
}

pub fn endpoint(name: &str, service: &Arc<Service>) -> Endpoint {
    Endpoint::new(identity(name), chance(), Arc::clone(service) as Arc<dyn Serve>)
}

/// Does what a request's first byte says: `e` answers the same bytes, `g` the same once the gate is open, `n` never,
/// `z` answers as many bytes as the rest of the request says in digits, `p` panics.
pub struct Service {
    gate: watch::Sender<bool>,
    /// Requests that were begun.
    pub seen: Mutex<HashSet<Bytes>>,
    /// Requests that are being served.
    pub open: Arc<AtomicUsize>,
    /// Bytes of answers that were made.
    pub made: Arc<AtomicUsize>,
}

impl Service {
    pub fn new() -> Arc<Self> {
        Arc::new(Self {
            gate: watch::Sender::new(false),
            seen: Mutex::default(),
            open: Arc::default(),
            made: Arc::default(),
        })
    }

    pub fn open_gate(&self) {
        self.gate.send_replace(true);
    }

    pub fn close_gate(&self) {
        self.gate.send_replace(false);
    }

    pub fn open(&self) -> usize {
        self.open.load(Ordering::SeqCst)
    }

    pub fn made(&self) -> usize {
        self.made.load(Ordering::SeqCst)
    }

    pub fn has_seen(&self, request: &Bytes) -> bool {
        self.seen.lock().unwrap().contains(request)
    }

    /// Waits until that many requests are being served.
    pub async fn wait_for(&self, open: usize) {
        for _ in 0..5_000 {
            if self.open() == open {
                return;
            }
            settle().await;
        }
        panic!("{} requests are being served, not {open}", self.open());
    }
}

/// Counts a request for as long as it is served.
struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Serve for Service {
    fn serve(&self, _: &Link, request: Bytes) -> Serving {
        self.seen.lock().unwrap().insert(request.clone());
        self.open.fetch_add(1, Ordering::SeqCst);
        let counted = Counted(Arc::clone(&self.open));
        let (mut gate, made) = (self.gate.subscribe(), Arc::clone(&self.made));
        Box::pin(async move {
            let _counted = counted;
            let answer = match request.first() {
                Some(b'g') => {
                    gate.wait_for(|is_open| *is_open).await.unwrap();
                    request
                }
                Some(b'n') => std::future::pending().await,
                Some(b'z') => {
                    Bytes::from(vec![7; std::str::from_utf8(&request[1..]).unwrap().parse().unwrap()])
                }
                Some(b'p') => panic!("a service that panics, as a test asked it to"),
                _ => request,
            };
            made.fetch_add(answer.len(), Ordering::SeqCst);
            answer
        })
    }
}

/// A link and the task of its connection.
pub struct Side {
    pub link: Link,
    pub task: JoinHandle<Why>,
    pub service: Arc<Service>,
}

/// Nodes `a` (which connects) and `b` on a stream in memory.
pub async fn pair() -> (Side, Side) {
    let (a, b) = duplex(64 << 10);
    pair_over(a, b).await
}

pub async fn pair_over<A, B>(a: A, b: B) -> (Side, Side)
where
    A: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    B: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (service_a, service_b) = (Service::new(), Service::new());
    let (end_a, end_b) = (endpoint("a", &service_a), endpoint("b", &service_b));
    let b_id = id("b");
    let (a, b) = tokio::join!(end_a.dial(a, &b_id), end_b.accept(b));
    let ((link_a, connection_a), (link_b, connection_b)) = (a.unwrap(), b.unwrap());
    (
        Side { link: link_a, task: tokio::spawn(connection_a), service: service_a },
        Side { link: link_b, task: tokio::spawn(connection_b), service: service_b },
    )
}

/// Asks in a task of its own.
pub fn ask(link: &Link, request: impl Into<Bytes>) -> JoinHandle<Result<Bytes, kew_peer::link::LinkError>> {
    let (link, request) = (link.clone(), request.into());
    tokio::spawn(async move { link.ask(request).await })
}

/// Lets all other tasks of a paused runtime run until each waits.
pub async fn settle() {
    // Any timer is later than this: time advances only when all tasks wait.
    tokio::time::sleep(Duration::from_millis(1)).await;
}

/// What may be done to a stream while it is in use.
#[derive(Default)]
pub struct Faults {
    /// Reads find nothing.
    pub mute_reads: AtomicBool,
    /// Writes find no room.
    pub stuck_writes: AtomicBool,
    /// Writes are taken and lost.
    pub lost_writes: AtomicBool,
    wakers: Mutex<Vec<Waker>>,
}

impl Faults {
    pub fn set(&self, fault: impl Fn(&Self) -> &AtomicBool, is_on: bool) {
        fault(self).store(is_on, Ordering::SeqCst);
        self.wakers.lock().unwrap().drain(..).for_each(Waker::wake);
    }

    fn wait<T>(&self, cx: &Context<'_>) -> Poll<T> {
        self.wakers.lock().unwrap().push(cx.waker().clone());
        Poll::Pending
    }
}

/// A stream with faults.
pub struct Faulty {
    pub stream: DuplexStream,
    pub faults: Arc<Faults>,
}

impl Faulty {
    pub fn new(stream: DuplexStream) -> (Self, Arc<Faults>) {
        let faults = Arc::<Faults>::default();
        (Self { stream, faults: Arc::clone(&faults) }, faults)
    }
}

impl AsyncRead for Faulty {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.faults.mute_reads.load(Ordering::SeqCst) {
            return self.faults.wait(cx);
        }
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Faulty {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, from: &[u8]) -> Poll<io::Result<usize>> {
        if self.faults.stuck_writes.load(Ordering::SeqCst) {
            return self.faults.wait(cx);
        }
        if self.faults.lost_writes.load(Ordering::SeqCst) {
            return Poll::Ready(Ok(from.len()));
        }
        Pin::new(&mut self.stream).poll_write(cx, from)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
