//! Bounds of time that rest on each other, and on how long an owner that is not heard of stays owner. The program
//! checks the latter when it is built (`kew/src/fleet/mod.rs`): this crate does not know where shards are kept.

use std::time::Duration;

use kew_peer::link::limits::{self, BEAT_EVERY};

/// A node that no change reaches for this long knows by itself that it is cut off.
pub const CUT_OFF_AFTER: Duration = limits::CUT_OFF_AFTER;
/// How long it is tried to notify a node of one change. By then it is cut off, and knows that.
pub(crate) const TELLS_MAX: Duration = CUT_OFF_AFTER.saturating_add(Duration::from_millis(250));
/// A map of the fleet that is older than this may not know of a new owner.
pub const MAP_AGE_MAX: Duration = Duration::from_secs(2);
/// How long a node that has asked for a list gets changes, whatever the map says. By then the map shows it, or is
/// so old that this node may answer for no shard.
pub const TOLD_FOR: Duration = Duration::from_secs(5);
/// A node that the database has not answered for this long may not answer for its own shards any more.
pub const UNREADY_AFTER: Duration = Duration::from_millis(2_500);

/// A node that says it keeps a shard, this long after its database answered here last, has heard the database since
/// then: an owner that heard it no more would answer for nothing.
pub(crate) const OUTLIVES_SILENCE: Duration = UNREADY_AFTER.saturating_add(Duration::from_secs(1));

/// A shard that has been free for this long is taken by any node.
pub(crate) const FREE_FOR_ALL_AFTER: Duration = Duration::from_secs(1);
/// A shard that was handed to a node is taken by others when that one has not come for it in this time.
pub const WANTED_FOR: Duration = Duration::from_millis(2_250);
/// Shards are spread again only while the same nodes have lived for this long: a node that restarts gets its own back.
pub(crate) const SETTLED_AFTER: Duration = Duration::from_secs(3);

/// The pause before it is tried again to move a shard to another database.
pub(crate) const MOVES_AGAIN: Duration = Duration::from_secs(5);
/// The same after many tries.
pub(crate) const MOVES_AGAIN_MAX: Duration = Duration::from_secs(600);

const _: () = {
    let (cut_off, beat) = (CUT_OFF_AFTER.as_millis(), BEAT_EVERY.as_millis());
    assert!(cut_off > 3 * beat, "a link that lost two beats is not cut off");
    assert!(TELLS_MAX.as_millis() > cut_off, "a node is notified until it knows that it is cut off");
    assert!(
        TOLD_FOR.as_millis() > UNREADY_AFTER.as_millis(),
        "by then the map shows it, or this node is not ready"
    );
    assert!(
        FREE_FOR_ALL_AFTER.as_millis() < SETTLED_AFTER.as_millis(),
        "shards are taken before they are spread"
    );
};
