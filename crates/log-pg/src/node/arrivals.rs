//! Ends what a move of a shard between databases left behind: every node of a store in several databases looks, in each
//! of them.
//!
//! A shard that has left one database and lies in no other yet gets the step that is missing. Files of a shard are
//! dropped where it does not lie any more, and where an attempt to move it has failed. An attempt has failed for sure
//! when the shard has another owner by now, or lies in a third database: then it can never be decided.

use std::collections::BTreeSet;
use std::sync::{Arc, Weak};
use std::time::Duration;

use kew_core::ShardId;
use tokio::time::Instant;

use super::moving::arrive;
use super::{Home, TAKE_MAX};
use crate::PgError;
use crate::database::within;
use crate::map::{Away, AwayRow, Map, ShardRow};
use crate::postgres::Arrival;
use crate::tenure::RENEWAL;

/// How often it is looked for files to drop.
const DROPS_EVERY: Duration = Duration::from_secs(5);

/// Looks for as long as the node lives, for one database by its place among the node's homes. What one does holds no
/// other up.
pub(super) async fn watch(homes: Weak<[Arc<Home>]>, own: usize) {
    let mut dropped = Instant::now();
    // Rows of which nothing is left to drop.
    let mut done: BTreeSet<(ShardId, i64)> = BTreeSet::new();
    loop {
        tokio::time::sleep(RENEWAL).await;
        let Some(homes) = homes.upgrade() else { return };
        let Some(home) = homes.get(own) else { return };
        if home.has_left() {
            return;
        }
        if home.membership.borrow().failing.is_some() {
            continue;
        }
        let maps: Vec<Option<Arc<Map>>> =
            homes.iter().map(|home| home.membership.borrow().map.clone()).collect();
        let mut stuck = None;
        for (_, arrival) in left_elsewhere(&maps).into_iter().filter(|(there, _)| *there == own) {
            // If it fails it is tried again, and said meanwhile.
            stuck = arrive(home, arrival, "").await.err().map(|error| error.to_string()).or(stuck);
        }
        home.membership.send_if_modified(|known| {
            let is_other = known.stuck != stuck;
            known.stuck = stuck;
            is_other
        });
        for again in lies_twice(&maps).into_iter().filter(|again| again.in_database == own) {
            let _left = within(TAKE_MAX, leave_again(home, again)).await;
        }
        if dropped.elapsed() >= DROPS_EVERY {
            dropped = Instant::now();
            for (_, row) in not_needed(&maps).into_iter().filter(|(there, _)| *there == own) {
                let key = (row.shard, row.epoch);
                if !done.contains(&key) && within(TAKE_MAX, drop_some(home, row)).await.is_ok() {
                    done.insert(key);
                }
            }
        }
    }
}

/// A shard that lies in a database, and in another one that it came to later: a fail-over has lost that it left.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct LiesTwice {
    in_database: usize,
    shard: ShardId,
    moves: i32,
    /// The number of the other database, and the epoch of its row there.
    later: (u16, i64),
}

fn lies_twice(maps: &[Option<Arc<Map>>]) -> Vec<LiesTwice> {
    let lying = || {
        let each = maps.iter().enumerate().filter_map(|(home, map)| map.as_ref().map(|map| (home, map)));
        each.flat_map(|(home, map)| map.shards.iter().map(move |row| (home, row)))
    };
    let twice = |(in_database, row): (usize, &ShardRow)| {
        let later = lying().find(|(_, other)| other.shard == row.shard && other.moves > row.moves)?;
        let later = (u16::try_from(later.0).ok()?, later.1.epoch);
        Some(LiesTwice { in_database, shard: row.shard, moves: row.moves, later })
    };
    lying().filter_map(twice).collect()
}

async fn leave_again(home: &Home, again: LiesTwice) -> Result<(), PgError> {
    let mut connection = home.several.as_ref().ok_or(PgError::Closed)?.open().await?;
    connection.leave_again(again.shard.0.into(), again.moves, again.later).await
}

/// The rows of shards that do not lie in a database, with its number.
fn away(maps: &[Option<Arc<Map>>]) -> impl Iterator<Item = (usize, AwayRow)> + Clone {
    let each = maps.iter().enumerate();
    each.filter_map(|(home, map)| map.as_ref().map(|map| (home, map)))
        .flat_map(|(home, map)| map.away.iter().map(move |row| (home, *row)))
}

/// Shards that have left another database for one, and do not lie there yet.
fn left_elsewhere(maps: &[Option<Arc<Map>>]) -> Vec<(usize, Arrival)> {
    let arriving = away(maps).filter(|(_, row)| matches!(row.away, Away::Arriving(_)));
    let has_left = |(home, arriving): &(usize, AwayRow)| {
        away(maps).any(|(_, row)| {
            row.shard == arriving.shard
                && row.moves + 1 == arriving.moves
                && row.away == Away::MovedTo(*home as u16, arriving.epoch)
        })
    };
    let arrival =
        |(home, row): (usize, AwayRow)| (home, Arrival { shard: row.shard.0.into(), epoch: row.epoch });
    arriving.filter(has_left).map(arrival).collect()
}

/// Rows of shards whose files are not needed any more.
fn not_needed(maps: &[Option<Arc<Map>>]) -> Vec<(usize, AwayRow)> {
    let lies = |shard| {
        let rows = maps.iter().flatten().filter_map(move |map| map.shard(shard));
        rows.max_by_key(|row| row.moves)
    };
    let is_needed = |row: &AwayRow| match (row.away, lies(row.shard)) {
        (_, None) => true,
        // It lies elsewhere, so it has arrived there.
        (Away::MovedTo(..), Some(lies)) => lies.moves <= row.moves,
        (Away::Arriving(by), Some(lies)) => lies.moves < row.moves && lies.epoch <= by,
    };
    away(maps).filter(|(_, row)| !is_needed(row)).collect()
}

async fn drop_some(home: &Home, row: AwayRow) -> Result<(), PgError> {
    let mut connection = home.several.as_ref().ok_or(PgError::Closed)?.open().await?;
    let shard = row.shard.0.into();
    loop {
        let is_done = match row.away {
            Away::MovedTo(..) => connection.drop_of_moved(shard).await?,
            Away::Arriving(_) => connection.drop_arrived(Arrival { shard, epoch: row.epoch }).await?,
        };
        if is_done {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(lying: &[(u16, i64, i32)], away: &[(u16, i64, i32, Away)]) -> Option<Arc<Map>> {
        let lies = |(shard, epoch, moves): &(u16, i64, i32)| ShardRow {
            shard: ShardId(*shard),
            epoch: *epoch,
            node: None,
            wanted: None,
            moves: *moves,
            wanted_in: None,
        };
        let is_away = |(shard, epoch, moves, away): &(u16, i64, i32, Away)| AwayRow {
            shard: ShardId(*shard),
            epoch: *epoch,
            moves: *moves,
            away: *away,
        };
        Some(Arc::new(Map {
            shards: lying.iter().map(lies).collect(),
            away: away.iter().map(is_away).collect(),
            nodes: Vec::new(),
            clock_ms: 0,
            read_at: Instant::now(),
            took: Duration::ZERO,
        }))
    }

    fn shards(rows: &[(usize, AwayRow)]) -> Vec<(usize, u16)> {
        rows.iter().map(|(home, row)| (*home, row.shard.0)).collect()
    }

    #[test]
    fn shard_that_has_left_for_this_attempt_arrives() {
        let arriving = map(&[], &[(1, 8, 1, Away::Arriving(6))]);
        let left = |to, epoch, moves| map(&[], &[(1, 7, moves, Away::MovedTo(to, epoch))]);
        let arrives = |from| left_elsewhere(&[from, arriving.clone()]);
        assert_eq!(arrives(left(1, 8, 0)), [(1, Arrival { shard: 1, epoch: 8 })]);
        assert_eq!(arrives(left(1, 7, 0)), [], "an earlier attempt");
        assert_eq!(arrives(left(0, 8, 0)), [], "to another database");
        assert_eq!(arrives(left(1, 8, 1)), [], "of another move");
        assert_eq!(arrives(map(&[(1, 6, 0)], &[])), [], "it has not left");
        assert_eq!(arrives(None), []);
    }

    #[test]
    fn files_of_a_shard_are_dropped_where_it_cannot_lie_any_more() {
        let arriving = map(&[], &[(1, 8, 1, Away::Arriving(6))]);
        let dropped = |other| shards(&not_needed(&[other, arriving.clone()]));
        assert_eq!(dropped(map(&[(1, 6, 0)], &[])), [], "its owner copies it");
        assert_eq!(dropped(map(&[(1, 7, 0)], &[])), [(1, 1)], "it has another owner");
        assert_eq!(dropped(map(&[(1, 6, 1)], &[])), [(1, 1)], "it went elsewhere");
        assert_eq!(dropped(map(&[], &[(1, 7, 0, Away::MovedTo(1, 8))])), [], "it is about to arrive");
        assert_eq!(dropped(None), [], "nothing is known");
        let left = map(&[], &[(1, 7, 0, Away::MovedTo(1, 8))]);
        assert_eq!(shards(&not_needed(&[left, map(&[(1, 9, 1)], &[])])), [(0, 1)], "it has arrived");
    }

    #[test]
    fn shard_whose_leaving_was_lost_leaves_the_database_that_it_was_in_before() {
        let both = [map(&[(1, 7, 0), (3, 1, 0)], &[]), map(&[(1, 9, 1)], &[])];
        let again = LiesTwice { in_database: 0, shard: ShardId(1), moves: 0, later: (1, 9) };
        assert_eq!(lies_twice(&both), [again]);
        assert_eq!(lies_twice(&[both[0].clone(), None]), []);
        assert_eq!(lies_twice(&[map(&[], &[(1, 8, 0, Away::MovedTo(1, 9))]), both[1].clone()]), []);
    }
}
