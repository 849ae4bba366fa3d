//! What queues there are, for everyone who only needs to look: never a store call.
//!
//! Front-ends look a queue up on every request, so that is one read lock of one stripe and one hash; a listing walks a
//! sorted map. A change replaces one entry, however many queues there are. Changes are published in the order of the
//! steps that made them, a moment before they are durable: what they allow is still answered in that order.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};
use std::hash::{BuildHasher, Hash};
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use hashbrown::{DefaultHashBuilder, HashTable};
use kew_core::{AccountId, ByName, DeadLetterAction, Queue, QueueId, QueueKey, ShardCount};
use parking_lot::{Mutex, RwLock, RwLockReadGuard};

/// A queue's name in borrowed words, so that looking one up builds nothing.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct QueueName<'a> {
    /// Whose queue.
    pub account: AccountId,
    /// In which region.
    pub region: &'a str,
    /// Under which name.
    pub name: &'a str,
}

impl<'a> From<&'a QueueKey> for QueueName<'a> {
    fn from(key: &'a QueueKey) -> Self {
        Self { account: key.account, region: &key.region, name: &key.name }
    }
}

/// One page of the queues of one region, sorted by name.
#[derive(Clone, Copy, Debug)]
pub struct Listing<'a> {
    /// Whose queues.
    pub account: AccountId,
    /// In which region.
    pub region: &'a str,
    /// Only names that begin like this.
    pub prefix: &'a str,
    /// Only names behind this one: the last of the page before.
    pub after: Option<&'a str>,
    /// Maximum number of queues.
    pub max: u32,
}

/// One page of the queues of all accounts and regions, sorted by account, region and name.
#[derive(Clone, Copy, Debug)]
pub struct WideListing<'a> {
    /// Only names that begin like this.
    pub prefix: &'a str,
    /// Only queues behind this one: the last of the page before.
    pub after: Option<&'a QueueKey>,
    /// Maximum number of queues.
    pub max: usize,
}

/// A power of two. A stripe that grows moves all it holds: of a million queues some thousands.
const STRIPES: u64 = 256;

/// Queues that are looked at in one piece where all of them are looked through.
const LOOKED_AT: usize = 4_096;

type Stripe<T> = RwLock<HashTable<T>>;

/// All queues, found by name, by number and in order.
pub(crate) struct Snapshots {
    hasher: DefaultHashBuilder,
    /// Each guards the queues whose name hashes to it.
    by_name: Box<[Stripe<Arc<Queue>>]>,
    /// Each guards the queues whose number falls to it.
    by_id: Box<[Stripe<Arc<Queue>>]>,
    /// Guards the order. Changes hold it throughout, so they come one after the other.
    sorted: RwLock<BTreeSet<ByName>>,
    /// Guards how many queues each account has; changed only while the order is.
    counts: Mutex<HashMap<AccountId, usize>>,
    /// Guards how many queues each shard has, from when that is first asked for; changed only while the order is.
    of_shards: Mutex<Option<(ShardCount, Vec<usize>)>>,
}

impl Snapshots {
    pub(crate) fn new() -> Self {
        let stripes = || (0..STRIPES).map(|_| Stripe::default()).collect();
        Self {
            hasher: DefaultHashBuilder::default(),
            by_name: stripes(),
            by_id: stripes(),
            sorted: RwLock::default(),
            counts: Mutex::default(),
            of_shards: Mutex::default(),
        }
    }

    pub(crate) fn by_name(&self, name: QueueName<'_>) -> Option<Arc<Queue>> {
        let hash = self.hasher.hash_one(name);
        self.stripe(&self.by_name, hash)
            .find(hash, |queue| QueueName::from(&queue.key) == name)
            .map(Arc::clone)
    }

    pub(crate) fn by_id(&self, id: QueueId) -> Option<Arc<Queue>> {
        let hash = self.hasher.hash_one(id);
        self.stripe(&self.by_id, hash).find(hash, |queue| queue.id == id).map(Arc::clone)
    }

    pub(crate) fn all(&self) -> Vec<Arc<Queue>> {
        self.sorted.read().iter().map(|named| Arc::clone(&named.0)).collect()
    }

    /// Those that `is_wanted` wants, in no order: for each item about [`LOOKED_AT`] queues are looked at, or the queues
    /// of one stripe where these are more. A stripe is locked for itself.
    pub(crate) fn in_slices(
        &self,
        is_wanted: impl Fn(QueueId) -> bool,
    ) -> impl Iterator<Item = Vec<Arc<Queue>>> {
        let stripes = self.by_id.len();
        let together = (LOOKED_AT * stripes / self.len().max(1)).clamp(1, stripes);
        self.by_id.chunks(together).map(move |stripes| {
            let mut some = Vec::new();
            for stripe in stripes {
                some.extend(stripe.read().iter().filter(|queue| is_wanted(queue.id)).map(Arc::clone));
            }
            some
        })
    }

    pub(crate) fn len(&self) -> usize {
        self.sorted.read().len()
    }

    /// How many queues an account has, in all its regions: their names are the client's choice.
    pub(crate) fn count(&self, account: AccountId) -> usize {
        self.counts.lock().get(&account).copied().unwrap_or_default()
    }

    /// How many queues each of these shards has, in order. All are counted when it is first asked for, and not again.
    pub(crate) fn of_each_shard(&self, count: ShardCount) -> Vec<usize> {
        let _nothing_changes = self.sorted.read();
        let mut of_shards = self.of_shards.lock();
        if let Some((_, queues)) = of_shards.as_ref().filter(|(of, _)| *of == count) {
            return queues.clone();
        }
        let mut queues = vec![0; usize::from(count.get())];
        for stripe in &self.by_id {
            for queue in stripe.read().iter() {
                queues[usize::from(count.of_queue(queue.id).0)] += 1;
            }
        }
        *of_shards = Some((count, queues.clone()));
        queues
    }

    /// One queue more, or fewer, of the shard of this one.
    fn count_in_shard(&self, id: QueueId, change: impl FnOnce(&mut usize)) {
        if let Some((count, queues)) = &mut *self.of_shards.lock() {
            change(&mut queues[usize::from(count.of_queue(id).0)]);
        }
    }

    pub(crate) fn page(&self, listing: Listing<'_>) -> Vec<Arc<Queue>> {
        let key = |name: &str| QueueKey::new(listing.account, listing.region, name);
        let start = match listing.after {
            Some(after) if after >= listing.prefix => Bound::Excluded(key(after)),
            Some(_) | None => Bound::Included(key(listing.prefix)),
        };
        let sorted = self.sorted.read();
        let from = sorted.range::<QueueKey, _>((start, Bound::Unbounded)).map(|named| &named.0);
        let listed = from.take_while(|queue| {
            let name = QueueName::from(&queue.key);
            name.account == listing.account
                && name.region == listing.region
                && name.name.starts_with(listing.prefix)
        });
        listed.take(listing.max as usize).map(Arc::clone).collect()
    }

    /// A page of the queues of all regions. Names that do not begin with the prefix are leapt over, a region at a time.
    pub(crate) fn wide_page(&self, listing: WideListing<'_>) -> Vec<Arc<Queue>> {
        let mut found = Vec::new();
        let mut start = listing.after.map_or(Bound::Unbounded, |after| Bound::Excluded(after.clone()));
        let sorted = self.sorted.read();
        loop {
            let mut leap = None;
            for ByName(queue) in sorted.range::<QueueKey, _>((start, Bound::Unbounded)) {
                if found.len() >= listing.max {
                    break;
                }
                let QueueKey { account, region, name } = &queue.key;
                if name.starts_with(listing.prefix) {
                    found.push(Arc::clone(queue));
                    continue;
                }
                leap = Some(if **name < *listing.prefix {
                    QueueKey::new(*account, region, listing.prefix)
                } else {
                    // The next text behind that of the region: whatever comes next is of another one.
                    QueueKey::new(*account, &format!("{region}\0"), "")
                });
                break;
            }
            match leap {
                Some(key) => start = Bound::Included(key),
                None => return found,
            }
        }
    }

    /// Shows the queues of one region to `look`, sorted by name, until it breaks off.
    pub(crate) fn look_through(
        &self,
        account: AccountId,
        region: &str,
        look: impl FnMut(&Arc<Queue>) -> ControlFlow<()>,
    ) {
        let sorted = self.sorted.read();
        let from = sorted.range(QueueKey::new(account, region, "")..).map(|named| &named.0);
        let is_there = |queue: &&Arc<Queue>| queue.key.account == account && &*queue.key.region == region;
        // Broken off or not, the look is over.
        let _over = from.take_while(is_there).try_for_each(look);
    }

    /// The queues of `target`'s region behind `after` whose dead letters go to `target`, at most `max`, by name.
    pub(crate) fn sources(&self, target: &QueueKey, after: Option<&str>, max: usize) -> Vec<Arc<Queue>> {
        let key = |name: &str| QueueKey::new(target.account, &target.region, name);
        let start = after.map_or_else(|| Bound::Included(key("")), |after| Bound::Excluded(key(after)));
        let sorted = self.sorted.read();
        let of_region = sorted
            .range::<QueueKey, _>((start, Bound::Unbounded))
            .map(|named| &named.0)
            .take_while(|queue| (queue.key.account, &queue.key.region) == (target.account, &target.region));
        of_region.filter(|queue| sends_to(queue, target)).take(max).map(Arc::clone).collect()
    }

    /// Shows `queue` as it is now, unless a newer state of it is shown already.
    pub(crate) fn put(&self, queue: &Arc<Queue>) {
        let mut sorted = self.sorted.write();
        let known = self.by_id(queue.id);
        if known.as_ref().is_some_and(|known| known.version > queue.version) {
            return;
        }
        match known {
            Some(known) if known.key != queue.key => self.forget_name(&mut sorted, &known),
            Some(_) => {}
            None => {
                *self.counts.lock().entry(queue.key.account).or_default() += 1;
                self.count_in_shard(queue.id, |queues| *queues += 1);
            }
        }
        sorted.replace(ByName(Arc::clone(queue)));
        self.set(&self.by_name, self.name_hash(queue), queue, |queue| self.name_hash(queue));
        self.set(&self.by_id, self.id_hash(queue), queue, |queue| self.id_hash(queue));
    }

    /// Shows the queue no more.
    pub(crate) fn remove(&self, id: QueueId) {
        let mut sorted = self.sorted.write();
        let hash = self.hasher.hash_one(id);
        let Ok(entry) = stripe_of(&self.by_id, hash)
            .write()
            .find_entry(hash, |queue| queue.id == id)
            .map(|entry| entry.remove().0)
        else {
            return;
        };
        self.forget_name(&mut sorted, &entry);
        self.count_in_shard(id, |queues| *queues -= 1);
        let mut counts = self.counts.lock();
        if let Entry::Occupied(mut count) = counts.entry(entry.key.account) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
    }

    /// Whether a queue's dead letters go to `key`.
    pub(crate) fn names(&self, key: &QueueKey) -> bool {
        self.sorted.read().iter().any(|named| sends_to(&named.0, key))
    }

    /// Takes the old name of `queue` out, unless another queue has it by now.
    fn forget_name(&self, sorted: &mut BTreeSet<ByName>, queue: &Queue) {
        if sorted.get(&queue.key).is_some_and(|named| named.0.id == queue.id) {
            sorted.remove(&queue.key);
        }
        let hash = self.name_hash(queue);
        let mut stripe = stripe_of(&self.by_name, hash).write();
        if let Ok(entry) = stripe.find_entry(hash, |other| other.id == queue.id) {
            entry.remove();
        }
    }

    fn set(
        &self,
        stripes: &[Stripe<Arc<Queue>>],
        hash: u64,
        queue: &Arc<Queue>,
        rehash: impl Fn(&Queue) -> u64,
    ) {
        let mut stripe = stripe_of(stripes, hash).write();
        let same = |other: &Arc<Queue>| other.id == queue.id || other.key == queue.key;
        match stripe.find_mut(hash, same) {
            Some(place) => *place = Arc::clone(queue),
            None => {
                stripe.insert_unique(hash, Arc::clone(queue), |queue| rehash(queue));
            }
        }
    }

    fn stripe<'a>(
        &self,
        stripes: &'a [Stripe<Arc<Queue>>],
        hash: u64,
    ) -> RwLockReadGuard<'a, HashTable<Arc<Queue>>> {
        stripe_of(stripes, hash).read()
    }

    fn name_hash(&self, queue: &Queue) -> u64 {
        self.hasher.hash_one(QueueName::from(&queue.key))
    }

    fn id_hash(&self, queue: &Queue) -> u64 {
        self.hasher.hash_one(queue.id)
    }
}

/// Whether a queue's dead letters go to `key`.
fn sends_to(queue: &Queue, key: &QueueKey) -> bool {
    let rule = queue.policy.dead_letters.as_deref();
    rule.is_some_and(|rule| matches!(&rule.then, DeadLetterAction::MoveTo(target) if target == key))
}

/// Taken from the middle of the hash: the table itself uses its two ends.
fn stripe_of<T>(stripes: &[Stripe<T>], hash: u64) -> &Stripe<T> {
    let place = (hash >> 32) & (STRIPES - 1);
    stripes.get(place as usize).expect("the place of a stripe is below STRIPES")
}

#[cfg(test)]
mod tests {
    use super::*;
    use kew_core::{Carries, DeadLetterRule, Policy, Timestamp};
    use std::collections::BTreeMap;

    fn queue(id: u64, name: &str, version: u64) -> Arc<Queue> {
        Arc::new(Queue {
            id: QueueId(id),
            key: QueueKey::new(AccountId(1), "r", name),
            policy: Policy::standard(),
            documents: BTreeMap::new(),
            version,
            created_at: Timestamp::ZERO,
            modified_at: Timestamp::ZERO,
        })
    }

    fn named(snapshots: &Snapshots, name: &str) -> Option<QueueId> {
        snapshots.by_name(QueueName { account: AccountId(1), region: "r", name }).map(|queue| queue.id)
    }

    fn page(snapshots: &Snapshots, prefix: &str, after: Option<&str>, max: u32) -> Vec<String> {
        let listing = Listing { account: AccountId(1), region: "r", prefix, after, max };
        snapshots.page(listing).iter().map(|queue| queue.key.name.to_string()).collect()
    }

    #[test]
    fn newer_state_of_a_queue_is_not_replaced_by_an_older_one() {
        let snapshots = Snapshots::new();
        snapshots.put(&queue(1, "a", 3));
        snapshots.put(&queue(1, "a", 2));
        assert_eq!(snapshots.by_id(QueueId(1)).map(|queue| queue.version), Some(3));
    }

    #[test]
    fn renamed_queue_is_found_under_its_new_name_only() {
        let snapshots = Snapshots::new();
        snapshots.put(&queue(1, "a", 1));
        snapshots.put(&queue(1, "b", 2));
        assert_eq!(named(&snapshots, "a"), None);
        assert_eq!(named(&snapshots, "b"), Some(QueueId(1)));
        assert_eq!(page(&snapshots, "", None, 9), ["b"]);
        assert_eq!(snapshots.count(AccountId(1)), 1);
    }

    #[test]
    fn deleting_a_queue_leaves_its_successor_of_the_same_name() {
        let snapshots = Snapshots::new();
        snapshots.put(&queue(1, "a", 1));
        snapshots.remove(QueueId(1));
        assert_eq!(named(&snapshots, "a"), None);
        snapshots.put(&queue(2, "a", 1));
        snapshots.remove(QueueId(1));
        assert_eq!(named(&snapshots, "a"), Some(QueueId(2)));
        assert_eq!(snapshots.len(), 1);
        assert_eq!(snapshots.count(AccountId(1)), 1);
        assert_eq!(snapshots.count(AccountId(2)), 0);
    }

    #[test]
    fn queues_of_each_shard_are_counted_before_and_after_they_are_first_asked_for() {
        let (snapshots, three) = (Snapshots::new(), ShardCount::new(3).expect("three is a number of shards"));
        for (id, name) in [(1, "a"), (2, "b"), (4, "c"), (7, "a")] {
            snapshots.put(&queue(id, name, 1));
        }
        assert_eq!(snapshots.of_each_shard(three), [0, 3, 1], "7 has the name of 1, which is to go");
        snapshots.remove(QueueId(1));
        snapshots.put(&queue(7, "d", 2));
        snapshots.put(&queue(9, "e", 1));
        assert_eq!(snapshots.of_each_shard(three), [1, 2, 1]);
        for id in [2, 4, 7, 9, 9] {
            snapshots.remove(QueueId(id));
        }
        assert_eq!(snapshots.of_each_shard(three), [0, 0, 0]);
        assert_eq!(snapshots.of_each_shard(ShardCount::ONE), [0]);
    }

    #[test]
    fn slices_have_each_queue_that_is_wanted_once() {
        let snapshots = Snapshots::new();
        let odd = |id: QueueId| id.0 % 2 == 1;
        assert_eq!(snapshots.in_slices(odd).flatten().count(), 0);
        for many in [100, 20_000] {
            for id in 1..=many {
                snapshots.put(&queue(id, &format!("q{id}"), 1));
            }
            let slices: Vec<_> = snapshots.in_slices(odd).collect();
            assert!(slices.iter().all(|slice| slice.len() <= LOOKED_AT), "of {many}");
            assert_eq!(slices.len() > 1, many > LOOKED_AT as u64, "of {many}");
            let mut found: Vec<u64> = slices.into_iter().flatten().map(|queue| queue.id.0).collect();
            found.sort_unstable();
            assert_eq!(found, (1..=many).step_by(2).collect::<Vec<_>>(), "of {many}");
        }
    }

    #[test]
    fn listing_is_sorted_and_goes_on_behind_a_name() {
        let snapshots = Snapshots::new();
        for (id, name) in ["b2", "a", "b1", "c", "b3"].into_iter().enumerate() {
            snapshots.put(&queue(id as u64 + 1, name, 1));
        }
        let other = Queue { key: QueueKey::new(AccountId(1), "s", "b0"), ..Queue::clone(&queue(9, "", 1)) };
        snapshots.put(&Arc::new(other));
        assert_eq!(page(&snapshots, "", None, 9), ["a", "b1", "b2", "b3", "c"]);
        assert_eq!(page(&snapshots, "b", None, 2), ["b1", "b2"]);
        assert_eq!(page(&snapshots, "b", Some("b2"), 2), ["b3"]);
        assert_eq!(page(&snapshots, "b", Some("a"), 9), ["b1", "b2", "b3"]);
        assert_eq!(page(&snapshots, "b", Some("c"), 9), [""; 0]);
    }

    #[test]
    fn wide_listing_goes_through_all_regions_and_leaps_over_other_names() {
        let snapshots = Snapshots::new();
        let places = [
            (1, "r", "b2"),
            (1, "r", "a"),
            (1, "r", "c"),
            (1, "r", "b1"),
            (1, "r-2", "b"),
            (1, "s", "z"),
            (2, "r", "b3"),
        ];
        for (id, (account, region, name)) in (1..).zip(places) {
            let key = QueueKey::new(AccountId(account), region, name);
            snapshots.put(&Arc::new(Queue { key, ..Queue::clone(&queue(id, "", 1)) }));
        }
        let page = |prefix: &str, after: Option<&QueueKey>, max: usize| -> Vec<Arc<Queue>> {
            snapshots.wide_page(WideListing { prefix, after, max })
        };
        let texts = |page: &[Arc<Queue>]| -> Vec<String> {
            let text = |queue: &Arc<Queue>| {
                format!("{} {} {}", queue.key.account.0, queue.key.region, queue.key.name)
            };
            page.iter().map(text).collect()
        };
        let all = ["1 r a", "1 r b1", "1 r b2", "1 r c", "1 r-2 b", "1 s z", "2 r b3"];
        assert_eq!(texts(&page("", None, 9)), all);
        assert_eq!(texts(&page("b", None, 9)), ["1 r b1", "1 r b2", "1 r-2 b", "2 r b3"]);
        assert_eq!(texts(&page("d", None, 9)), [""; 0]);
        for max in 1..=7 {
            let (mut seen, mut after) = (Vec::new(), None);
            loop {
                let next = page("", after.as_ref(), max);
                let Some(last) = next.last() else { break };
                assert!(next.len() <= max, "a page has at most {max} queues");
                after = Some(last.key.clone());
                seen.extend(texts(&next));
            }
            assert_eq!(seen, all, "pages of {max}");
        }
    }

    #[test]
    fn a_look_through_a_region_ends_with_it_or_where_it_is_broken_off() {
        let snapshots = Snapshots::new();
        for (id, name) in ["b", "a", "c"].into_iter().enumerate() {
            snapshots.put(&queue(id as u64 + 1, name, 1));
        }
        let other = Queue { key: QueueKey::new(AccountId(1), "s", "a0"), ..Queue::clone(&queue(9, "", 1)) };
        snapshots.put(&Arc::new(other));
        let seen = |region: &str, until: &str| {
            let mut seen: Vec<String> = Vec::new();
            snapshots.look_through(AccountId(1), region, |queue| {
                seen.push(queue.key.name.to_string());
                if &*queue.key.name == until { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            });
            seen
        };
        assert_eq!(seen("r", ""), ["a", "b", "c"]);
        assert_eq!(seen("r", "b"), ["a", "b"]);
        assert_eq!((seen("s", ""), seen("t", "")), (vec!["a0".to_owned()], vec![]));
    }

    #[test]
    fn rules_that_name_a_queue_are_found() {
        let snapshots = Snapshots::new();
        let target = QueueKey::new(AccountId(1), "r", "dead");
        assert!(!snapshots.names(&target));
        let mut with_rule = Queue::clone(&queue(1, "a", 1));
        with_rule.policy.dead_letters = Some(Box::new(DeadLetterRule {
            attempts_max: 1,
            then: DeadLetterAction::MoveTo(target.clone()),
            carries: Carries::History,
            written_by: "test".into(),
        }));
        snapshots.put(&Arc::new(with_rule.clone()));
        assert!(snapshots.names(&target));
        with_rule.id = QueueId(2);
        with_rule.key = QueueKey::new(AccountId(1), "r", "b");
        snapshots.put(&Arc::new(with_rule));
        snapshots.put(&queue(3, "c", 1));
        let sources = |after, max| -> Vec<String> {
            snapshots.sources(&target, after, max).iter().map(|queue| queue.key.name.to_string()).collect()
        };
        assert_eq!(sources(None, 9), ["a", "b"]);
        assert_eq!((sources(None, 1), sources(Some("a"), 9)), (vec!["a".to_owned()], vec!["b".to_owned()]));
    }

    #[test]
    fn a_hundred_thousand_queues_are_listed_and_found_one_at_a_time() {
        let snapshots = Snapshots::new();
        for id in 1..=100_000 {
            snapshots.put(&queue(id, &format!("q{id:06}"), 1));
        }
        assert_eq!(named(&snapshots, "q054321"), Some(QueueId(54_321)));
        assert_eq!(page(&snapshots, "q", Some("q099998"), 1_000), ["q099999", "q100000"]);
    }
}
