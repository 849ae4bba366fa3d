//! Which shards a node takes and which it hands over, from what the database says of the fleet: a pure function.
//!
//! Each node is due the same number of shards, give or take one. Nodes count off by their ids, so all of them come to
//! the same shares without speaking to each other. A node takes free shards up to its share, and beyond it those that
//! have been free for a while. A node above its share hands one shard at a time to a node below.
//!
//! Where a store lies in several databases the shards of each are spread by themselves: a database that is silent has
//! no say in what becomes of the others' shards.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kew_core::ShardId;

use crate::map::{MapPart, NodeId, ShardRow};
use crate::times::{FREE_FOR_ALL_AFTER, SETTLED_AFTER, WANTED_FOR};

/// What a node is to do next.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Plan {
    /// Shards to take.
    pub take: Vec<ShardId>,
    /// Shards to hand over, each with the node to hand it to: one at most, unless the node leaves.
    pub hand_over: Vec<(ShardId, NodeId)>,
}

/// What a node remembers from one look at a database's shards to the next.
#[derive(Debug, Default)]
pub(crate) struct Looks {
    /// How many shards lie in the databases before: nodes count off from where those shares ended, so that the shares
    /// of all databases together are even too.
    before: usize,
    /// Since when each free shard has been free.
    free_since: BTreeMap<ShardId, Duration>,
    /// The nodes of the last look, and since when they have been the same.
    nodes: Vec<NodeId>,
    same_since: Duration,
    /// An operator gave this node a shard, while the nodes were the same.
    is_filled_by_hand: bool,
}

impl Looks {
    /// Notes how many shards the databases before it hold: that changes when one is moved.
    pub(crate) fn note_before(&mut self, before: usize) {
        self.before = before;
    }

    /// Notes a look at `now` of a steady clock. `by_hand` says whether an operator gave this node a shard; that counts
    /// until there are other nodes.
    pub(crate) fn note(&mut self, map: &MapPart, by_hand: &AtomicBool, now: Duration) {
        let free: BTreeMap<ShardId, Duration> = map
            .shards
            .iter()
            .filter(|row| row.owner.is_none())
            .map(|row| (row.shard, self.free_since.get(&row.shard).copied().unwrap_or(now)))
            .collect();
        self.free_since = free;
        let nodes: Vec<NodeId> = map.nodes.iter().map(|node| node.id.clone()).collect();
        if nodes != self.nodes {
            (self.nodes, self.same_since) = (nodes, now);
            by_hand.store(false, Ordering::Release);
        }
        self.is_filled_by_hand = by_hand.load(Ordering::Acquire);
    }

    /// What node `me` is to do at `now`. Nodes that leave take nothing; `me`, if it is one, hands everything over.
    pub(crate) fn plan(&self, map: &MapPart, me: &NodeId, leaving: &BTreeSet<NodeId>, now: Duration) -> Plan {
        let leaves = leaving.contains(me);
        let staying: Vec<&NodeId> =
            map.nodes.iter().map(|node| &node.id).filter(|node| !leaving.contains(*node)).collect();
        let share = |node: &NodeId| self.share(&staying, map.shards.len(), node);
        let held = map.owned_by(me);
        let mut plan = Plan::default();
        if !leaves {
            plan.take = self.to_take(map, me, share(me).saturating_sub(held), now);
        }
        let is_settled = now.saturating_sub(self.same_since) >= SETTLED_AFTER;
        let is_moving = map.shards.iter().any(|row| row.owner.is_none());
        let spreads = is_settled && !is_moving && !self.is_filled_by_hand;
        let most = if leaves { held } else { usize::from(spreads && held > share(me)) };
        let others = staying.iter().filter(|node| **node != me);
        let mut room: Vec<(usize, &NodeId)> =
            others.map(|node| (share(node).saturating_sub(map.owned_by(node)), *node)).collect();
        let mine = map.shards.iter().rev().filter(|row| row.owner.as_ref() == Some(me));
        for row in mine.take(most) {
            let neediest =
                room.iter_mut().max_by(|(one, a), (other, b)| one.cmp(other).then_with(|| b.cmp(a)));
            match neediest {
                Some((room @ 1.., node)) => {
                    *room -= 1;
                    plan.hand_over.push((row.shard, NodeId::clone(node)));
                }
                // One that leaves gives its shards to nodes at their share too.
                Some((_, node)) if leaves => plan.hand_over.push((row.shard, NodeId::clone(node))),
                Some(_) | None => break,
            }
        }
        plan
    }

    fn to_take(&self, map: &MapPart, me: &NodeId, room: usize, now: Duration) -> Vec<ShardId> {
        let free = map.shards.iter().filter(|row| row.owner.is_none());
        let (for_me, others): (Vec<_>, Vec<_>) = free.partition(|row| row.wanted.as_ref() == Some(me));
        // One that another node is to have is left to it for a while.
        let is_free =
            |row: &&&ShardRow| row.wanted.is_none() || self.has_been_free(row.shard, WANTED_FOR, now);
        let others: Vec<ShardId> = others.iter().filter(is_free).map(|row| row.shard).collect();
        // Nodes begin at different shards, so that they seldom try the same one.
        let nodes: Vec<&NodeId> = map.nodes.iter().map(|node| &node.id).collect();
        let before: usize = nodes
            .iter()
            .take_while(|node| **node != me)
            .map(|node| self.share(&nodes, map.shards.len(), node))
            .sum();
        let begin = (before * others.len()).checked_div(map.shards.len()).unwrap_or(0);
        let (before, behind) = others.split_at(begin);
        let in_turn = behind.iter().chain(before).copied();
        let for_all = |shard: &ShardId| self.has_been_free(*shard, FREE_FOR_ALL_AFTER, now);
        let taken = in_turn.enumerate().filter(|(place, shard)| *place < room || for_all(shard));
        for_me.iter().map(|row| row.shard).chain(taken.map(|(_, shard)| shard)).collect()
    }
}

impl Looks {
    /// Whether a shard has had no owner for this long.
    fn has_been_free(&self, shard: ShardId, long: Duration, now: Duration) -> bool {
        let since = self.free_since.get(&shard).copied().unwrap_or(now);
        now.saturating_sub(since) >= long
    }

    /// How many of the database's shards a node is due.
    fn share(&self, nodes: &[&NodeId], shards: usize, node: &NodeId) -> usize {
        let Some(rank) = nodes.iter().position(|other| *other == node) else { return 0 };
        let turn = (rank + nodes.len() - self.before % nodes.len()) % nodes.len();
        shards / nodes.len() + usize::from(turn < shards % nodes.len())
    }
}

#[cfg(test)]
#[allow(clippy::indexing_slicing, reason = "a test fails by panicking")]
mod tests {
    use super::*;
    use crate::map::NodeRow;

    fn id(name: &str) -> NodeId {
        NodeId(name.into())
    }

    fn fleet(nodes: &[&str], owners: &[Option<&str>]) -> MapPart {
        let nodes = nodes.iter().map(|name| NodeRow {
            id: id(name),
            name: (*name).into(),
            address: "".into(),
            version: "".into(),
        });
        let shards = owners.iter().enumerate().map(|(shard, owner)| ShardRow {
            shard: ShardId(u16::try_from(shard).expect("the tests have few shards")),
            epoch: 1,
            owner: owner.map(id),
            wanted: None,
            moves: 0,
            wanted_in: None,
        });
        MapPart { nodes: nodes.collect(), shards: shards.collect(), ..MapPart::default() }
    }

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn plan(map: &MapPart, me: &str, after: u64) -> Plan {
        let mut looks = Looks::default();
        looks.note(map, &AtomicBool::new(false), Duration::ZERO);
        looks.note(map, &AtomicBool::new(false), at(after));
        looks.plan(map, &id(me), &BTreeSet::new(), at(after))
    }

    #[test]
    fn nodes_that_start_together_take_different_shards_that_are_all_there_are() {
        let map = fleet(&["a", "b", "c"], &[None; 16]);
        let mut taken: Vec<u16> = Vec::new();
        for me in ["a", "b", "c"] {
            let plan = plan(&map, me, 0);
            assert!(matches!(plan.take.len(), 5 | 6), "{me} takes {}", plan.take.len());
            assert_eq!(plan.hand_over, []);
            taken.extend(plan.take.iter().map(|shard| shard.0));
        }
        taken.sort_unstable();
        assert_eq!(taken, (0..16).collect::<Vec<u16>>());
    }

    #[test]
    fn shares_of_several_databases_are_even_together() {
        for (shards, databases) in [(16, 2), (16, 3), (7, 2), (64, 5), (3, 3)] {
            let lie = |database: usize| (shards - database).div_ceil(databases);
            for nodes in [&["a"][..], &["a", "b"], &["a", "b", "c"], &["a", "b", "c", "d", "e"]] {
                let due = |me: &str| {
                    let of = |database: usize| {
                        let mut looks = Looks::default();
                        looks.note_before((0..database).map(lie).sum());
                        let map = fleet(nodes, &vec![None; lie(database)]);
                        looks.plan(&map, &id(me), &BTreeSet::new(), Duration::ZERO).take.len()
                    };
                    (0..databases).map(of).sum::<usize>()
                };
                let due: Vec<usize> = nodes.iter().map(|me| due(me)).collect();
                assert_eq!(due.iter().sum::<usize>(), shards, "{due:?}");
                let (least, most) = (due.iter().min(), due.iter().max());
                assert!(most <= least.map(|least| least + 1).as_ref(), "{shards} in {databases}: {due:?}");
            }
        }
    }

    #[test]
    fn shards_of_a_node_that_died_go_to_nodes_below_their_share_and_after_a_while_to_any() {
        let map = fleet(&["a", "b"], &[Some("a"), Some("a"), None, None]);
        assert_eq!(plan(&map, "a", 0).take, []);
        assert_eq!(plan(&map, "b", 0).take.len(), 2);
        assert_eq!(plan(&map, "a", 1).take.len(), 2);
    }

    #[test]
    fn node_above_its_share_hands_one_shard_over_once_the_fleet_has_settled() {
        let map = fleet(&["a", "b"], &[Some("a"), Some("a"), Some("a"), Some("a")]);
        assert_eq!(plan(&map, "a", 2).hand_over, []);
        assert_eq!(plan(&map, "a", 3).hand_over, [(ShardId(3), id("b"))]);
        assert_eq!(plan(&map, "b", 3), Plan::default());
        let even = fleet(&["a", "b"], &[Some("a"), Some("a"), Some("b"), Some("a"), Some("b")]);
        assert_eq!(plan(&even, "a", 3), Plan::default(), "one more than others is even");
        let moving = fleet(&["a", "b"], &[Some("a"), Some("a"), Some("a"), None]);
        assert_eq!(plan(&moving, "a", 3).hand_over, [], "one shard moves at a time");
    }

    #[test]
    fn shard_that_is_handed_to_a_node_is_left_to_it() {
        let mut map = fleet(&["a", "b"], &[Some("a"), Some("a"), None]);
        map.shards[2].wanted = Some(id("b"));
        assert_eq!(plan(&map, "a", 2).take, []);
        assert_eq!(plan(&map, "b", 0).take, [ShardId(2)]);
        assert_eq!(
            plan(&map, "a", 3).take,
            [ShardId(2)],
            "a node that does not come for it is not waited for"
        );
    }

    #[test]
    fn node_that_was_given_a_shard_by_hand_keeps_all_it_has_until_a_node_joins_or_leaves() {
        let (mut looks, by_hand) = (Looks::default(), AtomicBool::new(false));
        let mut look = |map: &MapPart, second: u64| {
            looks.note(map, &by_hand, at(second));
            looks.plan(map, &id("b"), &BTreeSet::new(), at(second))
        };
        let even = fleet(&["a", "b"], &[Some("a"), Some("a"), Some("b"), Some("b")]);
        assert_eq!(look(&even, 0), Plan::default());
        by_hand.store(true, Ordering::Release);
        let mut given = fleet(&["a", "b"], &[Some("a"), None, Some("b"), Some("b")]);
        given.shards[1].wanted = Some(id("b"));
        assert_eq!(look(&given, 10).take, [ShardId(1)], "also beyond its share");
        let filled = fleet(&["a", "b"], &[Some("a"), Some("b"), Some("b"), Some("b")]);
        assert_eq!(look(&filled, 11), Plan::default());
        assert_eq!(look(&filled, 3_600), Plan::default());
        let joined = fleet(&["a", "b", "c"], &[Some("a"), Some("b"), Some("b"), Some("b")]);
        assert_eq!(look(&joined, 3_601), Plan::default(), "the fleet has not settled");
        assert_eq!(look(&joined, 3_604).hand_over, [(ShardId(3), id("a"))]);
        assert!(!by_hand.load(Ordering::Acquire));
    }

    #[test]
    fn node_that_is_about_to_stop_is_given_nothing() {
        let map = fleet(&["a", "b", "c"], &[Some("a"), Some("a"), Some("a"), Some("b"), Some("b"), None]);
        let mut looks = Looks::default();
        looks.note(&map, &AtomicBool::new(false), Duration::ZERO);
        let leaving = BTreeSet::from([id("c")]);
        assert_eq!(looks.plan(&map, &id("a"), &leaving, at(5)).hand_over, []);
        assert_eq!(looks.plan(&map, &id("b"), &leaving, Duration::ZERO).take, [ShardId(5)]);
    }

    #[test]
    fn node_that_leaves_hands_everything_over_and_takes_nothing() {
        let map = fleet(&["a", "b", "c"], &[Some("a"), None, Some("b"), Some("a"), Some("a")]);
        let mut looks = Looks::default();
        looks.note(&map, &AtomicBool::new(false), Duration::ZERO);
        let plan = looks.plan(&map, &id("a"), &BTreeSet::from([id("a")]), Duration::ZERO);
        assert_eq!(plan.take, []);
        let given: Vec<(u16, &str)> =
            plan.hand_over.iter().map(|(shard, node)| (shard.0, &*node.0)).collect();
        assert_eq!(given, [(4, "b"), (3, "c"), (0, "b")]);
        let alone = fleet(&["a"], &[Some("a")]);
        assert_eq!(looks.plan(&alone, &id("a"), &BTreeSet::from([id("a")]), Duration::ZERO), Plan::default());
    }
}
