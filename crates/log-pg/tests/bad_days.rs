//! Bad days of a store on PostgreSQL: the database restarted, killed, its connections cut; owners that were silent for
//! too long; two nodes at once; databases that cannot be used.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod kept;

use std::collections::BTreeSet;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use kew_core::command::{CreateQueue, FirstReceipts, Lease, Send};
use kew_core::{
    AccountId, Command, MessageId, NewMessage, Outcome, Policy, QueueId, QueueKey, RuleError, Timestamp,
};
use kew_log_pg::server::{PgServer, name_in};
use kew_log_pg::{PgError, PgStore, TENURE, Tenure};
use kew_store::contract::model::SeededEntropy;
use kew_store::contract::model::subject::block_on;
use kew_store::{Fill, Store, StoreError, Submission};
use kew_store_log::{Disk, Drive, LogOptions, LogStore};
use kew_testing::small_log;

const NOW: Timestamp = Timestamp(1_700_000_000_000);

/// One node with its store.
struct Node {
    store: PgStore,
    tenure: Arc<Tenure>,
    queue: QueueId,
}

/// Numbers of messages, unlike each other in one test program.
static NEXT: AtomicU64 = AtomicU64::new(1);

impl Node {
    fn start(url: &str) -> Result<Self, PgError> {
        Self::start_with(url, small_log())
    }

    fn start_with(url: &str, options: LogOptions) -> Result<Self, PgError> {
        let run = NEXT.fetch_add(1, Ordering::Relaxed);
        let ready = kept::own_first(url, run.into())?;
        let tenure = Arc::clone(ready.disk.tenure());
        let options = LogOptions { drive: Drive::Loop, ..options };
        let entropy = Arc::new(SeededEntropy::new(run));
        let (store, _) = LogStore::open(Arc::new(ready.disk), options, entropy, NOW).unwrap();
        let store = PgStore::new(Arc::new(store), Arc::clone(&tenure));
        let mut node = Self { store, tenure, queue: QueueId(0) };
        node.queue = node.queue_named("q");
        Ok(node)
    }

    /// As soon as the one before it has been silent for long enough.
    fn start_when_free(url: &str) -> Self {
        let begun = Instant::now();
        loop {
            match Self::start(url) {
                Ok(node) => return node,
                Err(error) => assert!(begun.elapsed() < Duration::from_secs(20), "{error}"),
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn queue_named(&self, name: &str) -> QueueId {
        let key = QueueKey::new(AccountId(0), "here", name);
        let create = CreateQueue { key, policy: Policy::standard(), documents: Vec::new() };
        match self.ask(Command::CreateQueue(create)) {
            Ok(Outcome::Queue(queue)) => queue.id,
            Err(StoreError::Rule(RuleError::QueueExists(queue))) => queue.id,
            other => panic!("{other:?}"),
        }
    }

    /// Asks until the step is not put off.
    fn ask(&self, command: Command) -> Result<Outcome, StoreError> {
        loop {
            let submission = self.store.step(NOW, &command);
            let is_put_off = submission.is_put_off();
            self.store.commit();
            let answer = block_on(submission);
            if !(is_put_off && matches!(answer, Err(StoreError::Overloaded { .. }))) {
                return answer;
            }
        }
    }

    /// Sends a message with a number of its own; answers the number when it was acknowledged.
    fn send(&self) -> Result<u64, StoreError> {
        let (number, send) = self.next_send();
        self.ask(send).map(|_sent| number)
    }

    /// A message with a number of its own.
    fn next_send(&self) -> (u64, Command) {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let id = MessageId::from_chance(u128::from(number) << 64);
        let messages = vec![NewMessage::text(id, number.to_string())];
        (number, Command::Send(Send { queue: self.queue, messages, receipts: FirstReceipts::Told }))
    }

    /// Sends two messages while the database holds appends up, each committed as an event loop does. `None` if that
    /// took so long that the second one was handed over beside the first.
    fn send_two_behind_a_lock(&self, url: &str) -> Option<[Submission; 2]> {
        // Renewed since the last try: beside the lock it is not.
        self.send_soon();
        std::thread::sleep(TENURE / 4);
        let lock = "SELECT 1 FROM kew_shard FOR UPDATE";
        let sent = kept::server().while_held(name_in(url), lock, || {
            let begun = Instant::now();
            let sent = [self.next_send().1, self.next_send().1].map(|send| {
                let submission = self.store.step(NOW, &send);
                assert!(self.store.commit_at_once(true), "it needs no new segment");
                submission
            });
            (begun.elapsed() < Duration::from_millis(10), sent)
        });
        let (was_quick, [first, second]) = sent.unwrap();
        if was_quick {
            return Some([first, second]);
        }
        // On a machine that stands still they may be refused.
        let _first = block_on(first);
        self.store.commit();
        let _second = block_on(second);
        None
    }

    /// Sends until that is acknowledged: a node whose machine stood still refuses until it is renewed.
    fn send_soon(&self) -> u64 {
        let begun = Instant::now();
        loop {
            match self.send() {
                Ok(number) => return number,
                Err(error) => assert!(begun.elapsed() < Duration::from_secs(10), "{error}"),
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Leases everything there is; answers the numbers, each as often as it was leased.
    fn drain(&self) -> Vec<u64> {
        let mut numbers = Vec::new();
        loop {
            let leased = match self.ask(Command::Lease(Lease::of(self.queue, 10, NOW))).unwrap() {
                Outcome::Leased(leased) if leased.is_empty() => return numbers,
                Outcome::Leased(leased) => leased,
                other => panic!("{other:?}"),
            };
            let number = |body: &[u8]| std::str::from_utf8(body).unwrap().parse::<u64>().unwrap();
            numbers.extend(leased.iter().map(|leased| number(&leased.message.content.body)));
        }
    }
}

/// Every acknowledged message is there, and none is there twice.
fn assert_kept(acknowledged: &[u64], found: Vec<u64>) {
    let each: BTreeSet<u64> = found.iter().copied().collect();
    assert_eq!(each.len(), found.len(), "a message was leased twice");
    let lost: Vec<&u64> = acknowledged.iter().filter(|number| !each.contains(number)).collect();
    assert!(lost.is_empty(), "of {} acknowledged messages are lost: {lost:?}", acknowledged.len());
}

/// Sends from four threads until `ends` is over; answers what was acknowledged and how many sends were refused.
fn send_during(node: &Node, ends: impl FnOnce()) -> (Vec<u64>, u64) {
    let (stop, refused) = (AtomicBool::new(false), AtomicU64::new(0));
    let acknowledged = std::thread::scope(|scope| {
        let senders: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    let mut acknowledged = Vec::new();
                    while !stop.load(Ordering::Relaxed) {
                        match node.send() {
                            Ok(number) => acknowledged.push(number),
                            Err(_) => {
                                refused.fetch_add(1, Ordering::Relaxed);
                                std::thread::sleep(Duration::from_millis(5));
                            }
                        }
                    }
                    acknowledged
                })
            })
            .collect();
        ends();
        stop.store(true, Ordering::Relaxed);
        senders.into_iter().flat_map(|sender| sender.join().unwrap()).collect()
    });
    (acknowledged, refused.into_inner())
}

#[test]
fn nothing_is_lost_or_doubled_when_connections_are_cut_again_and_again() {
    let url = kept::server().database().unwrap();
    let node = Node::start(&url).unwrap();
    let cut = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid()";
    let (acknowledged, _) = send_during(&node, || {
        for _ in 0..20 {
            std::thread::sleep(Duration::from_millis(60));
            kept::server().psql(name_in(&url), cut).unwrap();
        }
        std::thread::sleep(Duration::from_millis(300));
    });
    assert!(acknowledged.len() > 50, "only {} sends were acknowledged", acknowledged.len());
    assert_eq!(node.tenure.over(), None, "the node still owns its shard");
    drop(node);
    let next = kept::take_over(&url, || Node::start(&url));
    assert_kept(&acknowledged, next.drain());
}

#[test]
fn node_goes_on_by_itself_when_its_database_was_restarted_or_killed() {
    let mut server = PgServer::start(&[]).unwrap();
    let url = server.database().unwrap();
    let node = Node::start(&url).unwrap();
    let (acknowledged, refused) = send_during(&node, || {
        for is_killed in [false, true, false, true] {
            std::thread::sleep(Duration::from_millis(300));
            if is_killed {
                server.kill().unwrap();
            } else {
                server.stop().unwrap();
            }
            // Longer than the tenure once, so that the node has to fall silent.
            std::thread::sleep(if is_killed { Duration::from_millis(200) } else { TENURE });
            server.run().unwrap();
        }
        std::thread::sleep(Duration::from_secs(1));
    });
    assert!(refused > 0, "while the database was away sends were refused");
    assert_eq!(node.tenure.over(), None, "the node still owns its shard");
    let last = node.send_soon();
    assert!(acknowledged.len() > 50, "only {} sends were acknowledged", acknowledged.len());
    assert_kept(&acknowledged, {
        let found = node.drain();
        assert!(found.contains(&last));
        found
    });
}

#[test]
fn what_filled_behind_an_append_is_left_to_the_event_loop_while_there_is_one() {
    let url = kept::server().database().unwrap();
    // With room enough that upkeep writes nothing meanwhile.
    let node = Node::start_with(&url, LogOptions::default()).unwrap();
    let is_there = Arc::new(AtomicBool::new(true));
    let hears = Arc::clone(&is_there);
    node.store.ring_when_free(Some(Arc::new(move || hears.load(Ordering::SeqCst))));
    let send_two = || {
        (0..20)
            .find_map(|_| node.send_two_behind_a_lock(&url))
            .expect("one of twenty tries takes under 10 ms")
    };
    let [first, mut second] = send_two();
    assert!(block_on(first).is_ok());
    std::thread::sleep(Duration::from_millis(100));
    let mut cx = Context::from_waker(Waker::noop());
    assert!(Pin::new(&mut second).poll(&mut cx).is_pending(), "it is left to the event loop");
    assert!(node.store.commit_at_once(true));
    assert!(block_on(second).is_ok());
    // It has ended.
    is_there.store(false, Ordering::SeqCst);
    send_two().into_iter().for_each(|sent| assert!(block_on(sent).is_ok()));
    // It commits this store no more.
    is_there.store(true, Ordering::SeqCst);
    let [first, second] = send_two();
    node.store.ring_when_free(None);
    assert!(block_on(first).is_ok() && block_on(second).is_ok());
}

#[test]
fn batch_is_let_fill_behind_an_append_and_leaves_when_it_is_full() {
    let url = kept::server().database().unwrap();
    let node = Node::start_with(&url, LogOptions::default()).unwrap();
    node.store.ring_when_free(Some(Arc::new(|| true)));
    let wait_for_an_end = || {
        let begun = Instant::now();
        while !matches!(node.store.hand_over(), Fill::Waits { .. }) {
            assert!(begun.elapsed() < Duration::from_secs(10), "no append ended");
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    let step = || node.store.step(NOW, &node.next_send().1);
    assert_eq!(node.store.hand_over(), Fill::Enough, "nothing is under way");
    let sixteen: Vec<Submission> = (0..16).map(|_| step()).collect();
    assert!(node.store.commit_at_once(true));
    wait_for_an_end();
    assert!(sixteen.into_iter().all(|sent| block_on(sent).is_ok()));
    let most: Vec<Submission> = (0..14).map(|_| step()).collect();
    assert_eq!(node.store.hand_over(), Fill::Waits { target: 15 }, "fourteen of fifteen");
    let last = step();
    assert_eq!(node.store.hand_over(), Fill::Enough, "it is handed over");
    assert!(most.into_iter().chain([last]).all(|sent| block_on(sent).is_ok()));
    wait_for_an_end();
    let alone = step();
    assert!(node.store.commit_at_once(true), "the event loop waits no longer");
    assert!(block_on(alone).is_ok());
}

#[test]
fn old_owner_answers_nothing_once_another_has_taken_over() {
    let url = kept::server().database().unwrap();
    let old = Node::start(&url).unwrap();
    let (acknowledged, refused) = send_during(&old, || {
        std::thread::sleep(Duration::from_millis(100));
        let new = kept::take_over(&url, || Node::start(&url));
        let taken = Instant::now();
        // What the old one goes on with is refused from now on, whatever it is.
        while old.tenure.over().is_none() {
            assert!(taken.elapsed() < Duration::from_secs(5), "the old owner learned nothing");
            std::thread::sleep(Duration::from_millis(5));
        }
        drop(new);
    });
    assert!(refused > 0);
    assert!(old.ask(Command::Queues).is_err(), "not even a look is answered");
    assert!(old.store.health().is_err());
    let next = Node::start_when_free(&url);
    assert_kept(&acknowledged, next.drain());
}

#[test]
fn one_of_many_nodes_that_start_at_once_owns_the_shard() {
    let url = kept::server().database().unwrap();
    let owned: Vec<bool> = std::thread::scope(|scope| {
        let starts: Vec<_> = (0..6)
            .map(|_| {
                scope.spawn(|| match Node::start(&url) {
                    Ok(node) => Some(node),
                    Err(PgError::Owned { .. }) => None,
                    Err(error) => panic!("{error}"),
                })
            })
            .collect();
        // All of them are kept until the last has tried.
        let nodes: Vec<_> = starts.into_iter().map(|start| start.join().unwrap()).collect();
        nodes.iter().map(Option::is_some).collect()
    });
    assert_eq!(owned.iter().filter(|owned| **owned).count(), 1);
}

#[test]
fn node_that_ended_in_order_is_followed_at_once_and_one_that_vanished_within_five_seconds() {
    let url = kept::server().database().unwrap();
    let run = NEXT.fetch_add(1, Ordering::Relaxed);
    let first = kept::own_first(&url, run.into()).unwrap();
    first.disk.give_up();
    let begun = Instant::now();
    let node = Node::start(&url).unwrap();
    let acknowledged: Vec<u64> = (0..20).map(|_| node.send_soon()).collect();
    drop(node);
    let gone = Instant::now();
    let next = Node::start_when_free(&url);
    // Excludes that something else than the end of the tenure has to be waited for.
    assert!(gone.elapsed() < Duration::from_secs(5) + kept::STALL, "{:?}", gone.elapsed());
    // From before its first renewal: when the last one was, on a machine that stood still, is not known.
    assert!(begun.elapsed() > Duration::from_secs(2), "the tenure counted for nothing");
    assert_kept(&acknowledged, next.drain());
}

#[test]
fn database_that_cannot_be_used_is_refused_by_name() {
    let server = kept::server();
    let url = server.database().unwrap();
    let refused = |url: &str| match Node::start(url) {
        Ok(_) => panic!("it was opened"),
        Err(error) => error.to_string(),
    };
    let elsewhere = url.replace(name_in(&url), "nowhere");
    assert!(refused(&elsewhere).contains("database \"nowhere\" does not exist"), "{}", refused(&elsewhere));
    let nobody = url.replace("kew@", "nobody@");
    assert!(refused(&nobody).contains("role \"nobody\" does not exist"), "{}", refused(&nobody));
    assert!(refused("postgres://kew@127.0.0.1:1/kew").contains("cannot be reached"));
    assert!(refused("postgres://kew@127.0.0.1:port/kew").contains("URL cannot be understood"));
    drop(Node::start(&url).unwrap());
    server.psql(name_in(&url), "UPDATE kew_migration SET checksum = 'other'").unwrap();
    assert!(refused(&url).contains("migration 1"), "{}", refused(&url));
    server.psql(name_in(&url), "INSERT INTO kew_migration (number, checksum) VALUES (99, 'newer')").unwrap();
    server.psql(name_in(&url), "DELETE FROM kew_migration WHERE number < 99").unwrap();
    assert!(refused(&url).contains("use the newer program"), "{}", refused(&url));
}

#[test]
fn acknowledged_row_that_the_database_lost_ends_the_owner() {
    let url = kept::server().database().unwrap();
    let node = Node::start(&url).unwrap();
    node.send().unwrap();
    // As a fail-over to a standby that had not received it would.
    let lose = "DO $$ DECLARE t text; BEGIN
        FOR t IN SELECT relname FROM pg_class WHERE relname ~ '^kew_journal_[0-9]+$' LOOP
            EXECUTE format('DELETE FROM %I WHERE pos > 64', t);
        END LOOP; END $$";
    kept::server().psql(name_in(&url), lose).unwrap();
    let cut = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid()";
    kept::server().psql(name_in(&url), cut).unwrap();
    let begun = Instant::now();
    while node.tenure.over().is_none() {
        // The next append finds the connection cut.
        let _refused = node.send();
        assert!(begun.elapsed() < Duration::from_secs(10), "the loss went unnoticed");
    }
    assert!(node.tenure.over().unwrap().contains("has lost row"), "{:?}", node.tenure.over());
}

/// Whether a take-over that locks the shard's row as its update does waits for an insert under way.
fn take_over_waits() -> bool {
    let server = kept::server();
    let url = server.database().unwrap();
    let name = name_in(&url);
    let node = Node::start(&url).unwrap();
    // An insert that has locked the shard's row stands still for as long as somebody holds this lock.
    let slow = "CREATE FUNCTION stand_still() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN PERFORM pg_advisory_xact_lock_shared(42); RETURN NEW; END $$;
        DO $$ DECLARE t text; BEGIN
            FOR t IN SELECT relname FROM pg_class WHERE relname ~ '^kew_journal_[0-9]+$' LOOP
                EXECUTE format('CREATE TRIGGER slow BEFORE INSERT ON %I FOR EACH ROW
                    EXECUTE FUNCTION stand_still()', t);
            END LOOP; END $$";
    server.psql(name, slow).unwrap();
    let waiting = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
        AND wait_event_type = 'Lock' AND wait_event = 'advisory'";
    std::thread::scope(|scope| {
        let waits = server.while_held(name, "SELECT pg_advisory_lock(42)", || {
            // Until one is acknowledged, or the owner was taken over. One that is refused may be no insert.
            scope.spawn(|| {
                while node.send().is_err() && node.tenure.over().is_none() {
                    std::thread::sleep(Duration::from_millis(10));
                }
            });
            let begun = Instant::now();
            while server.psql(name, waiting).unwrap() == "0" {
                assert!(begun.elapsed() < Duration::from_secs(20), "no insert stands still");
            }
            let take = "SET lock_timeout = '300ms'; UPDATE kew_shard SET epoch = epoch + 1 WHERE id = 0";
            server.psql(name, take).is_err_and(|error| error.to_string().contains("lock timeout"))
        });
        waits.unwrap()
    })
}

#[test]
fn take_over_waits_for_inserts_under_way_and_would_not_with_a_lock_of_the_key() {
    assert!(take_over_waits());
    let _planted = kew_log_pg::planted::Planted::KeyShare.plant();
    assert!(!take_over_waits(), "the planted fault shows nothing");
}

#[test]
fn reader_of_a_removed_table_holds_up_neither_its_owner_nor_a_take_over() {
    let server = kept::server();
    let url = server.database().unwrap();
    let name = name_in(&url);
    let owner = kept::take(&url);
    let table = "SELECT count(*) FROM pg_class WHERE relkind = 'r' AND relname ~ '^kew_journal_[0-9]+$'";
    drop(owner.disk.create("segments/1").unwrap());
    std::thread::scope(|scope| {
        let read = "DO $$ DECLARE t text; BEGIN
            SELECT relname INTO t FROM pg_class WHERE relkind = 'r' AND relname ~ '^kew_journal_[0-9]+$';
            EXECUTE format('LOCK TABLE %I IN ACCESS SHARE MODE', t);
            PERFORM pg_sleep(600); END $$";
        let reads = scope.spawn(|| server.psql(name, read));
        let sleeps = "FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'";
        while server.psql(name, &format!("SELECT count(*) {sleeps}")).unwrap() == "0" {
            assert!(!reads.is_finished(), "the table is not read");
        }
        let begun = Instant::now();
        owner.disk.remove("segments/1").unwrap();
        // The table is read for ten minutes: the bounds exclude that its reader is waited for.
        let removed_by = Duration::from_secs(2) + kept::STALL;
        assert!(begun.elapsed() < removed_by, "the removal took {:?}", begun.elapsed());
        owner.disk.give_up();
        let begun = Instant::now();
        let next = kept::take(&url);
        let taken_by = Duration::from_secs(3) + kept::STALL;
        assert!(begun.elapsed() < taken_by, "the take-over took {:?}", begun.elapsed());
        while next.disk.undropped().is_none() {
            assert!(begun.elapsed() < Duration::from_secs(10), "the table was not tried");
        }
        assert_eq!(server.psql(name, table).unwrap(), "1");
        server.psql(name, &format!("SELECT count(pg_terminate_backend(pid)) {sleeps}")).unwrap();
        let _ended = reads.join().unwrap();
        let begun = Instant::now();
        while server.psql(name, table).unwrap() != "0" {
            assert!(begun.elapsed() < Duration::from_secs(20), "the table is not dropped when it is free");
            std::thread::sleep(Duration::from_millis(100));
        }
    });
}
