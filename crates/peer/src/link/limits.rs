//! The bounds of a link. Those of requests and frames belong to the protocol: both sides keep them.

use std::time::Duration;

/// The longest request or answer, in bytes: ten messages of 1 MiB with all that goes with them fit several times.
pub const PAYLOAD_MAX: usize = 64 << 20;

/// Requests of one side that have no answer yet. One more is refused at once.
pub const ASKS_MAX: usize = 65_536;

/// Bytes of one side's requests that have no answer yet. One more waits until it fits.
pub const ASK_BYTES_MAX: usize = PAYLOAD_MAX;

/// Bytes that may wait to be written before no further request is served and no further answer is worked on.
///
/// What is written last may exceed it by one payload.
pub const OUT_WAITING_MAX: usize = 1 << 20;

/// Bytes that may wait to be written before no further request of this side is added: the rest of
/// [`OUT_WAITING_MAX`] is kept for answers, so that requests never hold them up.
pub const OUT_ASKS_MAX: usize = OUT_WAITING_MAX / 2;

/// How often each side sends a beat.
pub const BEAT_EVERY: Duration = Duration::from_millis(250);

/// A side is cut off from the other when no beat that it sent in this time has an echo. It may have missed what the
/// other gave up sending it meanwhile.
pub const CUT_OFF_AFTER: Duration = Duration::from_millis(1_250);

/// A side that heard nothing for this long ends the link. Longer than the loop of the other side may stand still in one
/// piece of work, and shorter than the time after which a node that died is no owner any more.
pub const SILENCE_MAX: Duration = Duration::from_secs(2);

/// The longest frame of a handshake, in bytes.
pub const GREETING_MAX: usize = 1_024;

/// A connection whose handshake takes longer is closed.
pub const GREETING_TIME_MAX: Duration = Duration::from_secs(2);

/// How long the side that connected may take until all of its hello is there: it sends that at once.
pub const HELLO_TIME_MAX: Duration = Duration::from_millis(500);

/// Incoming connections whose handshake is not finished. One more is closed at once.
pub const GREETINGS_MAX: usize = 64;

/// The same from one address: it cannot keep all others away.
pub const GREETINGS_OF_ADDRESS_MAX: usize = 8;

/// Nodes in the book of peers.
pub const NODES_MAX: usize = 1_024;

/// Links to one node that are left and end when their requests have ended. One more ends the oldest.
pub const LEAVING_MAX: usize = 4;

/// How long a request waits for a connection before it is refused.
pub const CONNECT_WAIT_MAX: Duration = Duration::from_secs(2);

/// Requests to one node that wait for a connection. One more is refused at once.
pub const CONNECT_WAITING_MAX: usize = 4_096;

/// How long one attempt to connect may take, without the handshake.
pub const DIAL_TIME_MAX: Duration = Duration::from_secs(1);

/// The pause after the first failed attempt to connect. It doubles with each further one.
pub const DIAL_PAUSE: Duration = Duration::from_millis(50);

/// The longest pause between two attempts to connect.
pub const DIAL_PAUSE_MAX: Duration = Duration::from_secs(1);

/// How long the node with the higher id waits for the other's connection before it connects itself, as long as no
/// request needs one.
pub const DIAL_COURTESY: Duration = Duration::from_millis(300);
