//! Shards that an operator wants to lie in another database: their owner copies them while it serves them, one at a
//! time, and closes them when the rest is little.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use kew_core::ShardId;
use tokio::time::Instant;

use super::{Done, Keeper, ShardNews};
use crate::contracts::{CopiedShard, Goes};
use crate::map::{FleetMap, ShardRow};
use crate::times::{MOVES_AGAIN, MOVES_AGAIN_MAX};

/// A shard that is being copied.
pub(super) struct Moving {
    shard: ShardId,
    database: u16,
    /// Copying ends when this is false.
    goes_on: Arc<AtomicBool>,
}

/// A move of a shard that was tried.
pub(super) struct Tried {
    /// Until then it is not tried again, if the shard has been moved this often.
    until: Instant,
    moves: i32,
    times: u32,
}

impl Keeper {
    /// Begins to move a shard that is wanted elsewhere, and ends a move that is not wanted any more. A node that leaves
    /// moves none: the next owner does.
    pub(super) fn move_what_is_wanted(&mut self, map: &FleetMap, stays: bool) {
        let wanted_in = |shard: ShardId| map.row(shard).and_then(|row| row.wanted_in);
        if let Some(moving) = &self.moving {
            if !stays || wanted_in(moving.shard) != Some(moving.database) {
                moving.goes_on.store(false, Ordering::Release);
            }
            return;
        }
        if !stays {
            return;
        }
        let is_wanted = |shard: &ShardId, tried: &mut Tried| {
            map.row(*shard).is_none_or(|row| row.moves == tried.moves && row.wanted_in.is_some())
        };
        self.tried.retain(is_wanted);
        let may_go = |row: &&ShardRow| {
            let is_here = self.kept.contains_key(&row.shard) && !self.closing.contains(&row.shard);
            is_here && self.tried.get(&row.shard).is_none_or(|tried| Instant::now() >= tried.until)
        };
        let next = map.shards().into_iter().filter(may_go).find_map(|row| Some((row.shard, row.wanted_in?)));
        let Some((shard, database)) = next else { return };
        let Some(kept) = self.kept.get(&shard) else { return };
        let (copy_to, goes_on) = (Arc::clone(&kept.copy_to), Arc::new(AtomicBool::new(true)));
        self.moving = Some(Moving { shard, database, goes_on: Arc::clone(&goes_on) });
        self.beside(move || Done::Copied(shard, database, copy_to(database, goes_on)));
    }

    /// A shard whose move was tried is served for a while before that is tried once more, each time for longer.
    pub(super) fn wait_with_move(&mut self, shard: ShardId) {
        if let Some(tried) = self.tried.get_mut(&shard) {
            let pause = MOVES_AGAIN.saturating_mul(1 << tried.times.saturating_sub(1).min(16));
            tried.until = Instant::now() + pause.min(MOVES_AGAIN_MAX);
        }
    }

    /// Whether a shard is being copied to another database.
    pub(super) fn is_moving(&self, shard: ShardId) -> bool {
        self.moving.as_ref().is_some_and(|moving| moving.shard == shard)
    }

    /// No move goes on.
    pub(super) fn end_moves(&self) {
        if let Some(moving) = &self.moving {
            moving.goes_on.store(false, Ordering::Release);
        }
    }

    /// A shard was copied to another database, or could not be.
    pub(super) fn copied(&mut self, shard: ShardId, database: u16, copied: Result<CopiedShard, String>) {
        let Some(moving) = self.moving.take() else { return };
        let moves = self.fleet.map.read().row(shard).map(|row| row.moves);
        if let Some(moves) = moves {
            let tried = self.tried.entry(shard).or_insert(Tried { until: Instant::now(), moves, times: 0 });
            tried.times += 1;
            self.wait_with_move(shard);
        }
        let goes_on = moving.goes_on.load(Ordering::Acquire);
        match copied {
            Ok(copied) if goes_on && self.kept.contains_key(&shard) && !self.closing.contains(&shard) => {
                self.close(shard, Goes::Moved(copied));
                (self.tell)(ShardNews::Moves(shard, database));
            }
            Ok(copied) => self.beside(move || {
                (copied.give_up)();
                Done::GaveCopyUp
            }),
            Err(_) if !goes_on => {}
            Err(why) => {
                (self.tell)(ShardNews::NotMoved(shard, database, why));
            }
        }
    }
}
