//! What the databases of a store say of a fleet: its nodes that live, and which of them owns which shard.
//!
//! A store may lie in several databases, its shards spread over them. Each says which nodes it hears of, and
//! who owns the shards that lie in it. A node that one of them hears of no more owns none of the shards there, whatever
//! the others say.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use kew_core::ShardId;
use tokio::time::Instant;

use crate::times::MAP_AGE_MAX;

/// Names one run of a node.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NodeId(pub Arc<str>);

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A node that lives.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NodeRow {
    /// This run of it.
    pub id: NodeId,
    /// Its name, for people.
    pub name: Arc<str>,
    /// Where other nodes reach it.
    pub address: Arc<str>,
    /// The version of its program.
    pub version: Arc<str>,
}

/// A shard.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ShardRow {
    /// Which one.
    pub shard: ShardId,
    /// The newest epoch of an owner.
    pub epoch: i64,
    /// The node that owns it, if that lives.
    pub owner: Option<NodeId>,
    /// The node that it is handed to, if that lives.
    pub wanted: Option<NodeId>,
    /// How often it was moved from one database to another.
    pub moves: i32,
    /// The number of the database that an operator wants it to be moved to, from 0.
    pub wanted_in: Option<u16>,
}

/// A shard that was moved from a database to another one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MovedRow {
    /// Which one.
    pub shard: ShardId,
    /// How often it had been moved before.
    pub moves: i32,
    /// The number of the other database, from 0.
    pub to: u16,
}

/// What one database said of a fleet.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MapPart {
    /// Nodes that it hears of, by their ids.
    pub nodes: Vec<NodeRow>,
    /// The shards that lie in it, in order.
    pub shards: Vec<ShardRow>,
    /// Those that were moved to another one.
    pub moved: Vec<MovedRow>,
    /// When it was asked; `None` before it first answered.
    pub read_at: Option<Instant>,
}

/// A fleet, as each database of its store said last.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FleetMap {
    /// One for each database, in the order of their numbers; at least one.
    parts: Vec<Arc<MapPart>>,
}

/// Nothing was read yet.
impl Default for FleetMap {
    fn default() -> Self {
        Self { parts: vec![Arc::default()] }
    }
}

impl From<MapPart> for FleetMap {
    fn from(only: MapPart) -> Self {
        Self { parts: vec![Arc::new(only)] }
    }
}

impl FleetMap {
    /// A fleet whose store lies in this many databases, of which nothing was read yet.
    pub fn of_databases(databases: u16) -> Self {
        Self { parts: (0..databases.max(1)).map(|_| Arc::default()).collect() }
    }

    /// The same with what a database said meanwhile. A shard that was moved lies where it came to last, whatever a
    /// database says that was asked before.
    #[must_use]
    pub fn with(&self, database: u16, part: MapPart) -> Self {
        let mut parts = self.parts.clone();
        let Some(said) = parts.get_mut(usize::from(database)) else { return Self { parts } };
        *said = Arc::new(part);
        let mut newest: BTreeMap<ShardId, i32> = BTreeMap::new();
        for row in parts.iter().flat_map(|part| &part.shards) {
            let moves = newest.entry(row.shard).or_insert(row.moves);
            *moves = row.moves.max(*moves);
        }
        let is_past = |row: &ShardRow| newest.get(&row.shard).is_some_and(|moves| row.moves < *moves);
        for part in &mut parts {
            if part.shards.iter().any(is_past) {
                Arc::make_mut(part).shards.retain(|row| !is_past(row));
            }
        }
        Self { parts }
    }

    /// What each database said.
    pub fn parts(&self) -> impl ExactSizeIterator<Item = &MapPart> + Clone {
        self.parts.iter().map(|part| &**part)
    }

    /// The number of the database that a shard lies in, or is about to, from 0. One that was not heard of counts to the
    /// one that it would lie in if it had never been moved.
    pub fn database_of(&self, shard: ShardId) -> usize {
        let lies = self.parts.iter().position(|part| part.row(shard).is_some());
        lies.or_else(|| self.moved_to(shard))
            .unwrap_or_else(|| usize::from(shard.0) % self.parts.len().max(1))
    }

    /// The number of the database that a shard was moved to last.
    fn moved_to(&self, shard: ShardId) -> Option<usize> {
        let moved = self.parts.iter().flat_map(|part| &part.moved).filter(|row| row.shard == shard);
        let newest = moved.max_by_key(|row| row.moves)?;
        Some(usize::from(newest.to)).filter(|database| *database < self.parts.len())
    }

    /// The row of a shard, if it was read.
    pub fn row(&self, shard: ShardId) -> Option<&ShardRow> {
        self.parts.iter().find_map(|part| part.row(shard))
    }

    /// What the database said that a shard lies in.
    pub fn part_of(&self, shard: ShardId) -> &MapPart {
        self.parts.get(self.database_of(shard)).expect("a store lies in at least one database")
    }

    /// The node of this id, if a database hears of it.
    pub fn node(&self, id: &NodeId) -> Option<&NodeRow> {
        self.parts().find_map(|part| part.node(id))
    }

    /// All nodes that a database hears of, by their ids.
    pub fn nodes(&self) -> Vec<&NodeRow> {
        let each = self.parts().flat_map(|part| &part.nodes).map(|node| (&node.id, node));
        each.collect::<BTreeMap<_, _>>().into_values().collect()
    }

    /// Those that may know all queues: the ones that each database hears of which answers here. One that is not among
    /// them hears as little of that database, and knows that.
    pub fn nodes_to_tell(&self) -> Vec<&NodeRow> {
        let mut fresh = self.parts().filter(|part| part.is_fresh()).peekable();
        if fresh.peek().is_none() {
            return self.nodes();
        }
        let each = fresh.flat_map(|part| &part.nodes).map(|node| (&node.id, node));
        each.collect::<BTreeMap<_, _>>().into_values().collect()
    }

    /// Whether this database is silent, and there are others.
    pub(crate) fn is_beside_silence(&self, part: &MapPart) -> bool {
        self.parts.len() > 1 && !part.is_fresh()
    }

    /// All shards that were read, in order.
    pub fn shards(&self) -> Vec<&ShardRow> {
        let mut shards: Vec<_> = self.parts().flat_map(|part| &part.shards).collect();
        shards.sort_unstable_by_key(|row| row.shard);
        shards
    }
}

impl MapPart {
    /// The node of this id, if the database hears of it.
    pub fn node(&self, id: &NodeId) -> Option<&NodeRow> {
        self.nodes.iter().find(|node| node.id == *id)
    }

    /// The row of a shard that lies in the database.
    fn row(&self, shard: ShardId) -> Option<&ShardRow> {
        let at = self.shards.binary_search_by_key(&shard, |row| row.shard).ok()?;
        self.shards.get(at)
    }

    /// Whether it was read a moment ago: then it knows every owner that may answer.
    pub fn is_fresh(&self) -> bool {
        self.read_at.is_some_and(|at| at.elapsed() <= MAP_AGE_MAX)
    }

    /// How many shards a node owns.
    pub fn owned_by(&self, id: &NodeId) -> usize {
        self.shards.iter().filter(|row| row.owner.as_ref() == Some(id)).count()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn part(nodes: &[&str], age: Duration) -> MapPart {
        let node = |name: &&str| NodeRow {
            id: NodeId((*name).into()),
            name: (*name).into(),
            address: "".into(),
            version: "".into(),
        };
        let read_at = Instant::now().checked_sub(age);
        MapPart { nodes: nodes.iter().map(node).collect(), read_at, ..MapPart::default() }
    }

    fn names(nodes: &[&NodeRow]) -> Vec<String> {
        nodes.iter().map(|node| node.name.to_string()).collect()
    }

    #[test]
    fn node_that_only_a_silent_database_has_heard_of_is_not_told() {
        let old = MAP_AGE_MAX + Duration::from_secs(1);
        let map = FleetMap::of_databases(2).with(0, part(&["a", "b"], Duration::ZERO));
        let map = map.with(1, part(&["b", "c"], old));
        assert_eq!(names(&map.nodes()), ["a", "b", "c"]);
        assert_eq!(names(&map.nodes_to_tell()), ["a", "b"]);
        let silent = map.with(0, part(&["a"], old));
        assert_eq!(names(&silent.nodes_to_tell()), ["a", "b", "c"], "then this node knows no better");
    }

    #[test]
    fn shard_lies_where_it_came_to_last_whichever_database_is_read_first() {
        let row = |shard, moves| ShardRow {
            shard: ShardId(shard),
            epoch: 1,
            owner: None,
            wanted: None,
            moves,
            wanted_in: None,
        };
        let of = |shards: Vec<ShardRow>| MapPart { shards, ..part(&["a"], Duration::ZERO) };
        let (before, after) = (of(vec![row(0, 0), row(2, 0)]), of(vec![row(1, 0), row(2, 1)]));
        for order in [[0, 1], [1, 0]] {
            let map = order.into_iter().fold(FleetMap::of_databases(2), |map, database| {
                map.with(database, if database == 0 { before.clone() } else { after.clone() })
            });
            assert_eq!([0, 1, 2].map(|shard| map.database_of(ShardId(shard))), [0, 1, 1], "{order:?}");
            assert_eq!(map.shards().len(), 3);
            assert_eq!(map.row(ShardId(2)), Some(&row(2, 1)));
            // In none of them for a moment, and then it is known where it was moved to.
            let between = map.with(1, of(vec![row(1, 0)]));
            assert_eq!((between.database_of(ShardId(2)), between.row(ShardId(2))), (0, None));
            let moved = vec![MovedRow { shard: ShardId(2), moves: 0, to: 1 }];
            let left = between.with(0, MapPart { moved, ..of(vec![row(0, 0)]) });
            assert_eq!((left.database_of(ShardId(2)), left.row(ShardId(2))), (1, None));
        }
    }

    #[test]
    fn shards_lie_in_the_databases_in_turn() {
        let map = FleetMap::of_databases(3);
        let databases = [0, 1, 2, 3, 7].map(|shard| map.database_of(ShardId(shard)));
        assert_eq!(databases, [0, 1, 2, 0, 1]);
        assert_eq!(FleetMap::default().database_of(ShardId(5)), 0);
    }
}
