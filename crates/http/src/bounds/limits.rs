//! Every bound of connections and requests, by name.

use std::time::Duration;

/// How much a client may ask of a connection, and all clients of the server; and how long it may take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Maximum connections at once, over all listeners; more are answered 503 and closed.
    pub connections_max: usize,
    /// Maximum bytes of a request's line and headers together; more are answered 431.
    pub head_bytes_max: usize,
    /// Maximum headers of a request; more are answered 431. Above 100 they cost an allocation each request.
    pub headers_max: usize,
    /// Maximum bytes of a request's body; more are answered 413.
    pub body_bytes_max: usize,
    /// Maximum bytes of all bodies together that arrive in pieces and are being read or answered; more are
    /// answered 503. Bodies that arrive at once are in their connection's read buffer and not counted.
    pub bodies_bytes_max: usize,
    /// Maximum bytes of all replies together that clients have not taken yet, and one reply more; those of
    /// one connection at most an eighth of that. A request that makes a large reply waits for room, and is then
    /// answered 503.
    pub replies_bytes_max: usize,
    /// Maximum bytes that are read behind a request that is being answered, to notice when the client goes.
    pub pipelined_bytes_max: usize,
    /// Maximum requests at once on one HTTP/2 connection.
    pub streams_max: u32,
    /// A TLS handshake takes at most so long.
    pub handshake_within: Duration,
    /// A request's line and headers take at most so long, counted from the first byte or a new connection's start.
    pub head_within: Duration,
    /// A body takes at most so long.
    pub body_within: Duration,
    /// Minimum pace of a body in bytes per second, measured over [`Limits::body_pace_over`].
    pub body_bytes_per_second: u32,
    /// How long a body's pace is looked at before it is judged.
    pub body_pace_over: Duration,
    /// A client takes something of a reply at least so often; much oftener while there is no room for replies.
    pub reply_stall: Duration,
    /// A reply that its client does not take at once is taken within so long.
    pub reply_within: Duration,
    /// A connection without a request is kept so long: longer than clients keep theirs, so that they close first.
    pub idle_within: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections_max: 10_000,
            head_bytes_max: 64 << 10,
            headers_max: HEADERS_USUAL,
            body_bytes_max: 8 << 20,
            bodies_bytes_max: 512 << 20,
            replies_bytes_max: 128 << 20,
            pipelined_bytes_max: 64 << 10,
            streams_max: 128,
            handshake_within: Duration::from_secs(10),
            head_within: Duration::from_secs(30),
            body_within: Duration::from_secs(300),
            body_bytes_per_second: 512,
            body_pace_over: Duration::from_secs(20),
            reply_stall: Duration::from_secs(60),
            reply_within: Duration::from_secs(600),
            idle_within: Duration::from_secs(180),
        }
    }
}

/// Maximum headers that are read without an allocation.
pub(crate) const HEADERS_USUAL: usize = 100;

impl Limits {
    /// How often connections are looked at: often enough for the shortest of the times, and once a second at most.
    pub(crate) fn look_every(&self) -> Duration {
        let times = [
            self.head_within,
            self.body_within,
            self.body_pace_over,
            self.reply_stall,
            self.reply_within,
            self.idle_within,
        ];
        let shortest = times.into_iter().min().unwrap_or_default();
        (shortest / 8).clamp(Duration::from_millis(5), Duration::from_secs(1))
    }
}
