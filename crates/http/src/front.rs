//! A front-end behind a socket: what it is asked, and what it shares with the server's others.

use std::future::Future;
use std::sync::Arc;

use kew_core::{Clock, Entropy};

use crate::bounds::crowded::Crowded;
use crate::bounds::limits::Limits;
use crate::bounds::ration::{Ration, Sender, Share};
use crate::bounds::room::Replies;
use crate::drain::Drain;
use crate::encodings::today::Today;
use crate::figures::connections::ListenerCount;
use crate::guard::Guard;
use crate::progress::watch::Watch;
use crate::refusal::Refusal;
use crate::reply::Reply;
use crate::request::Request;
use crate::standing::{Standing, Stopped};
use crate::subject::Subject;

/// Maximum bytes of a body from an unknown sender.
const UNKNOWN_BODY_MAX: usize = 64 << 10;

/// A front-end: one request in, one reply out.
pub trait Handler: Send + Sync + 'static {
    /// Answers a request. Dropped when its client goes away. There is room for an answer as long as there is a
    /// connection, so a large one belongs in a box.
    fn answer(&self, request: &Request) -> impl Future<Output = Reply> + Send;

    /// Tells by its head alone who sent a request whose body is still on its way: how much of it is kept depends on
    /// that. Asked for bodies that do not come at once. An open front-end believes everybody.
    fn standing(&self, request: &Request) -> impl Future<Output = Standing> + Send {
        let _head = request;
        std::future::ready(Standing::Known)
    }

    /// Words what is refused before a front-end is asked. Of the request only the head is there, its body is empty.
    fn refuse(&self, refusal: &Refusal, request: &Request) -> Reply {
        let _head = request;
        Reply::text(refusal.status(), &refusal.to_string())
    }

    /// Tells what a request was about that has ended with this reply; without one its client went away. Asked only
    /// where requests are noted ([`crate::Witnessed`]), after the reply is made.
    fn subject(&self, request: &Request, reply: Option<&Reply>) -> Subject {
        let _ended = (request, reply);
        Subject::default()
    }
}

/// What all listeners of a server share.
#[derive(Clone)]
pub struct Shared {
    /// Stamps requests.
    pub clock: Arc<dyn Clock>,
    /// Names them.
    pub entropy: Arc<dyn Entropy>,
    /// Bounds, of each connection and of all listeners together.
    pub limits: Limits,
    /// Ends all connections.
    pub drain: Drain,
    /// Counts the bytes of bodies.
    pub bodies: Ration,
    /// Counts the bytes of replies.
    pub replies: Replies,
    /// Counts this listener's connections.
    pub connections: Arc<ListenerCount>,
}

impl Shared {
    /// What listeners of one server share.
    pub fn new(clock: Arc<dyn Clock>, entropy: Arc<dyn Entropy>, limits: Limits) -> Self {
        let replies = Replies::new(limits.replies_bytes_max);
        Self {
            clock,
            entropy,
            limits,
            drain: Drain::default(),
            bodies: Ration::default(),
            replies,
            connections: Arc::default(),
        }
    }
}

/// Serves connections of one socket: a front-end, who may reach it, and what it shares with the others.
pub struct Listener<H> {
    pub(crate) handler: H,
    pub(crate) guard: Guard,
    pub(crate) shared: Shared,
    pub(crate) watch: Watch,
    pub(crate) today: Today,
    pub(crate) crowded: Crowded,
}

impl<H: Handler> Listener<H> {
    /// A listener for `handler`.
    pub fn new(handler: H, guard: Guard, shared: &Shared) -> Arc<Self> {
        let watch = Watch::new(shared.limits, shared.replies.clone());
        let (today, crowded) = (Today::default(), Crowded::default());
        Arc::new(Self { handler, guard, shared: shared.clone(), watch, today, crowded })
    }

    /// Asks whose the body is that is about to be read, counts its share for them, and says how long it may be; or why
    /// it stays unread.
    pub(crate) async fn expect(&self, request: &Request, share: &mut Share<'_>) -> Result<usize, Stopped> {
        let bytes_max = self.shared.limits.body_bytes_max;
        match self.handler.standing(request).await {
            Standing::Known => Ok(bytes_max),
            Standing::Claimed => {
                share.count_for(Sender::claimed(request.peer.ip()));
                Ok(bytes_max)
            }
            Standing::Unknown => {
                share.count_for(Sender::Unknown);
                Ok(bytes_max.min(UNKNOWN_BODY_MAX))
            }
            Standing::Refused(reply) => Err(Stopped::With(reply)),
        }
    }
}
