//! A shard moves from one database of its store to another.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use kew_core::ShardId;
use kew_log_pg::{IsWanted, Look, PgDisk, PgError, PgMove, PgNode, own_all};
use kew_store_log::{BatchMark, Disk, DiskFile};

use super::{block_on, count, founding, is_owned, kept, key, node, psql, run, store, wait_until};

const ONE: ShardId = ShardId(1);

fn always() -> IsWanted {
    Arc::new(|| true)
}

/// Begins to move a shard that an operator wants in another database.
fn begin(node: &PgNode, disk: &PgDisk, database: u16) -> PgMove {
    block_on(node.want_in(disk.shard(), database)).unwrap();
    node.begin_move(disk, database, always()).unwrap()
}

/// A file of the journal, to which rows are appended one after the other.
struct Journal {
    file: Arc<dyn DiskFile>,
    end: u64,
    batch: u64,
}

impl Journal {
    fn create(disk: &PgDisk, name: &str) -> Self {
        Self { file: disk.create(name).unwrap(), end: 0, batch: 0 }
    }

    fn append(&mut self, bytes: &[u8]) {
        self.batch += 1;
        self.file.append(self.end, bytes, BatchMark { number: self.batch, must_sync: true }).unwrap();
        self.end += bytes.len() as u64;
    }
}

/// A file of the journal that holds this.
fn journal(disk: &PgDisk, name: &str, bytes: &[u8]) {
    let mut journal = Journal::create(disk, name);
    journal.append(bytes);
    journal.file.sync_data().unwrap();
}

fn small(disk: &PgDisk, name: &str, bytes: &[u8]) {
    let file = disk.create(name).unwrap();
    file.write_at(0, bytes).unwrap();
    file.sync_data().unwrap();
}

fn read(disk: &PgDisk, name: &str) -> Vec<u8> {
    let file = disk.open(name).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_at(0, &mut bytes).unwrap();
    bytes
}

/// Takes a shard as soon as that is possible.
fn take(node: &PgNode, shard: ShardId) -> PgDisk {
    let taken = std::cell::RefCell::new(None);
    wait_until("the shard is taken", || match node.take(shard) {
        Ok(disk) => taken.replace(Some(disk)).is_none(),
        Err(PgError::Elsewhere { .. } | PgError::Owned { .. }) => false,
        Err(error) => panic!("{error}"),
    });
    taken.take().unwrap()
}

/// Where a database says that a shard is.
fn row(url: &str) -> String {
    psql(url, "SELECT concat_ws(' ', epoch, moves, moved_to, arriving) FROM kew_shard WHERE id = 1")
}

fn files(url: &str) -> String {
    psql(
        url,
        "SELECT string_agg(name, ' ' ORDER BY name) FROM kew_file WHERE shard = 1 AND name NOT LIKE '#%'",
    )
}

/// Tables of large files.
fn tables(url: &str) -> String {
    psql(url, "SELECT count(*) FROM pg_tables WHERE tablename ~ '^kew_(journal|slice)_'")
}

#[test]
fn shard_lies_in_the_other_database_with_all_that_was_written_before_and_while_it_was_copied() {
    let urls = store::<2>(4);
    let node = node(&urls[0]);
    let disk = node.take(ONE).unwrap();
    assert_eq!(block_on(disk.claim_name(key("orders"))).unwrap(), ONE);
    let mut long = Journal::create(&disk, "segments/1");
    let piece = |round: u64| vec![round as u8; 3_000];
    (0..20).for_each(|round| long.append(&piece(round)));
    small(&disk, "MANIFEST", b"first");
    let slice = disk.create("checkpoints/1").unwrap();
    slice.write_at(0, b"abcdef").unwrap();
    slice.write_at(2, b"XY").unwrap();
    slice.sync_data().unwrap();
    // Written to while it is copied: by one that goes on until the first copy is there.
    let (is_copied, rounds) = (AtomicBool::new(false), AtomicU64::new(20));
    let mut moving = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_copied.load(Ordering::SeqCst) {
                long.append(&piece(rounds.fetch_add(1, Ordering::SeqCst)));
                long.file.sync_data().unwrap();
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        let moving = begin(&node, &disk, 0);
        is_copied.store(true, Ordering::SeqCst);
        moving
    });
    let mut later = Journal::create(&disk, "segments/2");
    later.append(b"later");
    small(&disk, "NEW", b"new");
    disk.remove("segments/2").unwrap();
    let mut last = Journal::create(&disk, "segments/3");
    moving.copy_again().unwrap();
    last.append(b"and last");
    disk.rename("NEW", "MANIFEST").unwrap();
    last.file.sync_data().unwrap();
    long.file.sync_data().unwrap();
    assert_eq!(row(&urls[1]), "1 0 f");
    assert!(row(&urls[0]).ends_with(" 1 t"), "{}", row(&urls[0]));
    moving.finish().unwrap();
    assert!(disk.tenure().over().is_some() || !disk.tenure().is_held(), "it is held no more");
    assert_eq!(row(&urls[1]), "2 0 0 f", "its row stays");
    let moved = take(&node, ONE);
    assert_eq!(node.database_of(ONE), 0);
    assert!(moved.tenure().epoch() > 2, "{}", moved.tenure().epoch());
    assert_eq!(files(&urls[0]), "MANIFEST checkpoints/1 segments/1 segments/3");
    let rounds = rounds.load(Ordering::SeqCst);
    let expected: Vec<u8> = (0..rounds).flat_map(piece).collect();
    assert!(read(&moved, "segments/1") == expected, "{rounds} rounds");
    assert_eq!(read(&moved, "segments/3"), b"and last");
    assert_eq!(read(&moved, "MANIFEST"), b"new");
    assert_eq!(&read(&moved, "checkpoints/1")[..6], b"abXYef");
    // Its names are still its own, and it writes.
    assert_eq!(block_on(moved.claim_name(key("orders"))).unwrap(), ONE);
    journal(&moved, "segments/4", b"here");
    drop(disk);
    wait_until("what it leaves behind is dropped", || tables(&urls[1]) == "0");
    assert_eq!(psql(&urls[0], "SELECT max(compatible_from) FROM kew_migration"), "5", "an older program");
}

#[test]
fn shard_comes_back_to_the_database_that_it_came_from() {
    let urls = store::<3>(6);
    let (node, other) = (node(&urls[0]), node(&urls[0]));
    let mut disk = node.take(ONE).unwrap();
    small(&disk, "MANIFEST", b"0");
    let mut epoch = disk.tenure().epoch();
    for (moves, database) in [2, 0, 1, 2, 1].into_iter().enumerate() {
        begin(&node, &disk, database).finish().unwrap();
        drop(disk);
        disk = take(&node, ONE);
        assert_eq!(node.database_of(ONE), database);
        assert!(disk.tenure().epoch() > epoch);
        epoch = disk.tenure().epoch();
        assert_eq!(read(&disk, "MANIFEST"), moves.to_string().as_bytes());
        let file = disk.open("MANIFEST").unwrap();
        file.write_at(0, (moves + 1).to_string().as_bytes()).unwrap();
        file.sync_data().unwrap();
    }
    let lies = urls.each_ref().map(|url| {
        psql(url, "SELECT count(*) FROM kew_shard WHERE id = 1 AND moved_to IS NULL AND NOT arriving")
    });
    assert_eq!(lies, ["0", "1", "0"]);
    wait_until("the other node knows", || other.database_of(ONE) == 1);
    drop((disk, node, other));
    // The hold of a node that has gone counts for a while.
    wait_until("no node owns it", || !is_owned(&Look::open(&urls[0]).unwrap().disk(ONE)));
    let looked = Look::open(&urls[0]).unwrap();
    assert_eq!(read(&looked.disk(ONE).unwrap(), "MANIFEST"), b"5");
    looked.end().unwrap();
    let all = own_all(&urls[0], &run(), (founding(1), None)).unwrap();
    assert_eq!(all.iter().map(PgDisk::shard).collect::<Vec<_>>(), count(6).all().collect::<Vec<_>>());
    assert_eq!(read(&all[1], "MANIFEST"), b"5");
}

#[test]
fn move_that_no_node_ended_is_ended_by_another_one() {
    let urls = store::<2>(4);
    let (node, other) = (node(&urls[0]), node(&urls[0]));
    let disk = node.take(ONE).unwrap();
    small(&disk, "MANIFEST", b"kept");
    begin(&node, &disk, 0).finish().unwrap();
    drop((disk, node));
    // As if it had died between the two steps.
    let undone = psql(
        &urls[0],
        "UPDATE kew_shard SET arriving = true, is_whole = true, wanted = '' WHERE id = 1 RETURNING 1",
    );
    assert!(undone.starts_with('1'), "{undone}");
    wait_until("another node ends it", || row(&urls[0]).ends_with(" f"));
    let disk = take(&other, ONE);
    assert_eq!(other.database_of(ONE), 0);
    assert_eq!(read(&disk, "MANIFEST"), b"kept");
}

#[test]
fn owner_that_lost_its_shard_moves_nothing_and_what_it_copied_is_dropped() {
    let urls = store::<2>(4);
    let (node, other) = (node(&urls[0]), node(&urls[0]));
    let disk = node.take(ONE).unwrap();
    journal(&disk, "segments/1", b"one");
    let mut moving = begin(&node, &disk, 0);
    assert_eq!(tables(&urls[0]), "1");
    let new = kept::take_over(&urls[1], || other.take(ONE));
    assert!(moving.finish().is_err());
    assert_eq!(row(&urls[1]), "2 0 f");
    assert_eq!(other.database_of(ONE), 1);
    assert_eq!(read(&new, "segments/1"), b"one");
    wait_until("the copy is dropped", || tables(&urls[0]) == "0");
    // Nothing of the old attempt is in the way of the new owner's.
    moving.give_up();
    begin(&other, &new, 0).finish().unwrap();
    drop(new);
    assert_eq!(read(&take(&other, ONE), "segments/1"), b"one");
    assert_eq!(other.database_of(ONE), 0);
}

#[test]
fn attempt_that_was_given_up_changes_nothing_of_the_next_one() {
    let urls = store::<2>(4);
    let node = node(&urls[0]);
    let disk = node.take(ONE).unwrap();
    let mut long = Journal::create(&disk, "segments/1");
    long.append(b"one");
    long.file.sync_data().unwrap();
    let mut first = begin(&node, &disk, 0);
    let mut second = begin(&node, &disk, 0);
    journal(&disk, "segments/2", b"two");
    let late = first.copy_again();
    assert!(matches!(late, Err(PgError::Fenced { shard: 1, .. })), "{late:?}");
    first.give_up();
    // Written to an old file once the first one has ended.
    long.append(b" and more");
    long.file.sync_data().unwrap();
    second.finish().unwrap();
    drop(disk);
    let moved = take(&node, ONE);
    assert_eq!(read(&moved, "segments/1"), b"one and more");
    assert_eq!(read(&moved, "segments/2"), b"two");
}

#[test]
fn move_that_is_not_wanted_any_more_ends_and_leaves_no_copy() {
    let urls = store::<2>(4);
    let node = node(&urls[0]);
    let disk = node.take(ONE).unwrap();
    let mut journal = Journal::create(&disk, "segments/1");
    (0..40).for_each(|_| journal.append(&[7; 1 << 20]));
    journal.file.sync_data().unwrap();
    let looks = AtomicU64::new(0);
    let for_a_while: IsWanted = Arc::new(move || looks.fetch_add(1, Ordering::SeqCst) < 3);
    let moved = node.begin_move(&disk, 0, for_a_while).map(drop);
    assert!(matches!(moved, Err(PgError::Stays { shard: ONE })), "{moved:?}");
    assert_eq!((tables(&urls[0]), row(&urls[1])), ("0".to_owned(), "1 0 f".to_owned()));
    journal.append(b"goes on");
    journal.file.sync_data().unwrap();
}

#[test]
fn shard_is_not_taken_where_its_copy_is_not_whole_and_nothing_is_dropped_where_it_came_from() {
    let urls = store::<2>(4);
    let (node, other) = (node(&urls[0]), node(&urls[0]));
    let disk = node.take(ONE).unwrap();
    journal(&disk, "segments/1", b"one");
    begin(&node, &disk, 0).finish().unwrap();
    // As if the database had been failed over to a server that had not received the end of the copy.
    psql(
        &urls[0],
        "UPDATE kew_shard SET arriving = true, wanted = '' WHERE id = 1; UPDATE kew_file SET name = '#' || id",
    );
    drop((disk, node));
    wait_until("it is said", || {
        let stuck = other.membership(0).stuck;
        stuck.is_some_and(|why| why.contains("shard 1 was moved here and its files are not"))
    });
    std::thread::sleep(Duration::from_secs(6));
    assert!(row(&urls[0]).ends_with(" t"));
    assert_eq!(tables(&urls[1]), "1");
}

#[test]
fn shard_whose_leaving_was_lost_by_a_fail_over_leaves_again() {
    let urls = store::<2>(4);
    let node = node(&urls[0]);
    let disk = node.take(ONE).unwrap();
    journal(&disk, "segments/1", b"one");
    begin(&node, &disk, 0).finish().unwrap();
    drop(disk);
    let moved = take(&node, ONE);
    psql(&urls[1], "UPDATE kew_shard SET moved_to = NULL, arrives_as = NULL, epoch = epoch - 1 WHERE id = 1");
    wait_until("it leaves again", || row(&urls[1]) == "2 0 0 f");
    assert_eq!(node.database_of(ONE), 0);
    assert_eq!(read(&moved, "segments/1"), b"one");
}

#[test]
fn move_that_is_not_wanted_when_it_is_decided_leaves_the_shard() {
    let urls = store::<2>(4);
    let node = node(&urls[0]);
    let disk = node.take(ONE).unwrap();
    journal(&disk, "segments/1", b"one");
    let mut moving = begin(&node, &disk, 0);
    block_on(node.want_in(ONE, 1)).unwrap();
    let finished = moving.finish();
    assert!(matches!(finished, Err(PgError::Stays { shard: ONE })), "{finished:?}");
    disk.give_up();
    moving.give_up();
    drop(disk);
    let disk = take(&node, ONE);
    assert_eq!(node.database_of(ONE), 1);
    assert_eq!(read(&disk, "segments/1"), b"one");
}

#[test]
fn what_cannot_be_moved_is_refused() {
    let urls = store::<2>(4);
    let node = node(&urls[0]);
    let disk = node.take(ONE).unwrap();
    let refused = |database| node.begin_move(&disk, database, always()).map(drop).unwrap_err().to_string();
    assert_eq!(refused(1), "shard 1 cannot be moved to database 2: it lies there");
    assert_eq!(refused(2), "shard 1 cannot be moved to database 3: the store has fewer");
    let wanted = |shard, database| block_on(node.want_in(ShardId(shard), database));
    assert!(matches!(wanted(1, 2), Err(PgError::CannotMove { .. })));
    assert!(matches!(wanted(4, 0), Err(PgError::NoShard { .. })));
    wanted(1, 0).unwrap();
    wait_until("all nodes know", || node.wanted_in(ONE) == Some(0));
    wanted(1, 1).unwrap();
    wait_until("it is to stay", || node.wanted_in(ONE).is_none());
}
