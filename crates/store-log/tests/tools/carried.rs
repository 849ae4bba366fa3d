//! Export with import, and backups of both kinds, carry every state a message can be in: the store that comes out
//! equals the model by the model's own comparison, and goes on living.
//!
//! Wherever a random history restarts the store, it is carried over instead: leases of all kinds, delays, turns of
//! groups, dead letters, open windows, move tasks, replaced contents, receives that may be repeated, documents.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use kew_core::command::{Extend, Extension, Lease};
use kew_core::outcome::Extended;
use kew_core::rules::retention::{ExpiryHold, HoldEnd};
use kew_core::{
    Command, Entropy, Outcome, QueueKey, ReceiptRule, ShardCount, ShardId, ShardPlace, Timestamp, WhenFree,
};
use kew_store::Store;
use kew_store::contract::model::{StoreSubject, histories, history};
use kew_store::contract::{Ending, Factory};
use kew_store_log::{
    Disk, Export, ExportHead, LogOptions, LogStore, RealDisk, Sharing, SimDisk, Unreadable, backup, check,
    export, import, import_into_shards,
};
use parking_lot::Mutex;
use serde_json::Value;

use crate::small_store::{Asked, START, a_bit_of_everything, bytes_of, entropy, options};

/// Carries a store over whenever it is restarted.
struct Carrying<C> {
    carry: C,
    /// The store that is open, and how to come by its disk once it is not.
    newest: Mutex<Option<(Home, Arc<LogStore>)>>,
    /// Chance goes on after a restart; it never repeats.
    starts: AtomicU64,
}

/// Where a store lies.
enum Home {
    Simulated(SimDisk),
    Real(tempfile::TempDir),
}

impl Home {
    fn disk(&self) -> Arc<dyn Disk> {
        match self {
            Self::Simulated(disk) => Arc::new(disk.clone()),
            Self::Real(folder) => Arc::new(RealDisk::open(folder.path()).unwrap()),
        }
    }
}

impl<C: Fn(Home, Option<Arc<LogStore>>, u64) -> Home> Carrying<C> {
    fn new(carry: C) -> Self {
        Self { carry, newest: Mutex::new(None), starts: AtomicU64::new(1) }
    }

    fn start(&self, home: Home) -> Arc<dyn Store> {
        let chance = entropy(self.starts.fetch_add(1, Ordering::Relaxed));
        let (store, _) = LogStore::open(home.disk(), options(), chance, Timestamp::ZERO).unwrap();
        let store = Arc::new(store);
        *self.newest.lock() = Some((home, store.clone()));
        store
    }
}

/// What a test carries with: the home, and the store in it unless it was closed or killed.
impl<C: Fn(Home, Option<Arc<LogStore>>, u64) -> Home> Factory for Carrying<C> {
    fn open(&self) -> Arc<dyn Store> {
        // A home of the kind that the carrier makes.
        self.start((self.carry)(Home::Simulated(SimDisk::new()), None, 0))
    }

    fn remembers(&self) -> bool {
        true
    }

    fn reopen(&self, store: Arc<dyn Store>, ending: Ending) -> Arc<dyn Store> {
        let (home, newest) = self.newest.lock().take().unwrap();
        drop(store);
        if ending == Ending::Close {
            newest.close().unwrap();
        }
        let started = self.starts.load(Ordering::Relaxed);
        self.start((self.carry)(home, Some(newest), started))
    }
}

/// Looks at the store that was closed or killed, and makes a new one of its lines.
fn exported_and_imported(home: Home, store: Option<Arc<LogStore>>, started: u64) -> Home {
    let Some(store) = store else { return home };
    let Home::Simulated(disk) = home else { panic!("exports are tested on simulated disks") };
    drop(store);
    let disk = disk.reopen_process_crash();
    let points = disk.points();
    let (looked, _) = LogStore::look(Arc::new(disk.clone()), options(), entropy(started)).unwrap();
    let mut lines = Vec::new();
    export(&looked, &mut lines).unwrap();
    assert_eq!(disk.points(), points, "an export writes nothing");
    let new = SimDisk::new();
    import(&mut &*lines, Arc::new(new.clone()), options(), entropy(started), Timestamp::ZERO).unwrap();
    Home::Simulated(new)
}

/// The same, over a store of several shards and back into one.
fn spread_and_gathered(home: Home, store: Option<Arc<LogStore>>, started: u64) -> Home {
    let Some(store) = store else { return home };
    let Home::Simulated(disk) = home else { panic!("exports are tested on simulated disks") };
    drop(store);
    let disk = disk.reopen_process_crash();
    let (looked, _) = LogStore::look(Arc::new(disk), options(), entropy(started)).unwrap();
    let mut before = Vec::new();
    export(&looked, &mut before).unwrap();
    let disks = spread(&before, SHARDS, started);
    let lines = with_tasks_of(&before, &gathered(&disks, started));
    let new = SimDisk::new();
    import(&mut &*lines, Arc::new(new.clone()), options(), entropy(started), Timestamp::ZERO).unwrap();
    Home::Simulated(new)
}

const SHARDS: u16 = 5;

/// The shards of a store that is made of the lines of an export.
fn spread(lines: &[u8], shards: u16, started: u64) -> Vec<Arc<dyn Disk>> {
    let disks: Vec<Arc<dyn Disk>> = (0..shards).map(|_| Arc::new(SimDisk::new()) as _).collect();
    let chance: Arc<dyn Entropy> = entropy(started);
    let mut name = |shard: ShardId, keys: Vec<QueueKey>| {
        assert!(shard.0 < shards && keys.is_sorted_by(|one, other| one != other));
        Ok(())
    };
    import_into_shards(&mut &*lines, &disks, options(), (&chance, Timestamp::ZERO), &mut name).unwrap();
    disks
}

/// The lines of an export of all shards.
fn gathered(disks: &[Arc<dyn Disk>], started: u64) -> Vec<u8> {
    let of = ShardCount::new(disks.len().try_into().unwrap()).unwrap();
    let looked: Vec<LogStore> = (0..)
        .zip(disks)
        .map(|(shard, disk)| {
            assert!(check(Arc::clone(disk)).unwrap().is_sound());
            let options = LogOptions { place: ShardPlace { shard: ShardId(shard), of }, ..options() };
            LogStore::look(Arc::clone(disk), options, entropy(started)).unwrap().0
        })
        .collect();
    let heads = looked.iter().map(|shard| ExportHead::of(shard).unwrap());
    let head = heads.reduce(|head, shard| head.with(&shard).unwrap()).unwrap();
    let (mut lines, mut leave_out) = (Vec::new(), |unread: Unreadable| Err(unread.cause));
    let mut export = Export::begin(&head, &mut lines, &mut leave_out).unwrap();
    looked.iter().for_each(|shard| export.add(shard).unwrap());
    export.end().unwrap();
    lines
}

/// The lines with the numbers of move tasks that they had before: a task goes to the shard of its source, and may get
/// another number there.
fn with_tasks_of(before: &[u8], lines: &[u8]) -> Vec<u8> {
    let parsed = |lines: &[u8]| -> Vec<Value> {
        let text = std::str::from_utf8(lines).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let without_id = |line: &Value| {
        let mut task = line["task"].clone();
        task.as_object_mut().map(|task| task.remove("id"));
        task
    };
    let before = parsed(before);
    let mut tasks: Vec<&Value> = before.iter().filter(|line| !line["task"].is_null()).collect();
    let mut lines = parsed(lines);
    lines[0]["store"]["next_task"] = before[0]["store"]["next_task"].clone();
    assert_eq!(lines[0]["store"]["next_queue"], before[0]["store"]["next_queue"]);
    for line in lines.iter_mut().filter(|line| !line["task"].is_null()) {
        let same = tasks.iter().position(|task| without_id(task) == without_id(line)).unwrap();
        line["task"]["id"] = tasks.remove(same)["task"]["id"].clone();
    }
    assert!(tasks.is_empty(), "tasks were lost");
    lines.iter().map(|line| format!("{line}\n")).collect::<String>().into_bytes()
}

/// Backs the store up and goes on in the backup.
fn backed_up(sharing: Sharing) -> impl Fn(Home, Option<Arc<LogStore>>, u64) -> Home {
    move |home, store, started| {
        let target = tempfile::tempdir().unwrap();
        let Some(store) = store else { return Home::Real(target) };
        drop(store);
        let (store, _) =
            LogStore::open(home.disk(), options(), entropy(started + (1 << 32)), Timestamp::ZERO).unwrap();
        let report = backup(&store, target.path(), sharing).unwrap();
        assert_eq!(report.linked > 0, sharing == Sharing::Links);
        let found = check(Arc::new(RealDisk::look(target.path()).unwrap())).unwrap();
        assert!(found.is_sound(), "{:?}", found.problems);
        Home::Real(target)
    }
}

#[test]
fn an_export_that_is_imported_equals_the_model_in_every_state() {
    let factory = Carrying::new(exported_and_imported);
    histories(&factory);
    let carried = factory.starts.load(Ordering::Relaxed);
    assert!(carried > 150, "stores were opened {carried} times");
}

#[test]
fn an_export_that_is_spread_over_shards_and_gathered_again_equals_the_model_in_every_state() {
    let factory = Carrying::new(spread_and_gathered);
    histories(&factory);
    let carried = factory.starts.load(Ordering::Relaxed);
    assert!(carried > 150, "stores were opened {carried} times");
}

#[test]
fn shards_are_not_opened_while_an_import_into_them_is_not_whole() {
    let one = a_bit_of_everything(Arc::new(SimDisk::new()));
    let mut lines = Vec::new();
    export(&one.store, &mut lines).unwrap();
    let disks: Vec<Arc<dyn Disk>> = (0..SHARDS).map(|_| Arc::new(SimDisk::new()) as _).collect();
    let chance: Arc<dyn Entropy> = entropy(5);
    let half = &lines[..lines.len() / 2];
    let imported = import_into_shards(&mut &*half, &disks, options(), (&chance, START), &mut |_, _| Ok(()));
    assert!(imported.is_err());
    let of = ShardCount::new(SHARDS).unwrap();
    for (shard, disk) in of.all().zip(&disks) {
        let options = LogOptions { place: ShardPlace { shard, of }, ..options() };
        let opened = LogStore::open(Arc::clone(disk), options, entropy(6), START).map(drop);
        assert!(opened.is_err_and(|error| error.to_string().contains("was cut short")), "shard {shard}");
        assert!(!check(Arc::clone(disk)).unwrap().is_sound());
    }
}

#[test]
fn receipts_sends_and_numbers_of_before_count_in_every_shard() {
    let one = a_bit_of_everything(Arc::new(SimDisk::new()));
    let plain = one.find("plain");
    let Outcome::Leased(leased) = one.ask(Command::Lease(Lease::of(plain, 2, one.now))) else {
        panic!("no lease")
    };
    let mut lines = Vec::new();
    export(&one.store, &mut lines).unwrap();
    let disks = spread(&lines, 3, 7);
    let of = ShardCount::new(3).unwrap();
    let shard = of.of_queue(plain);
    let options = LogOptions { place: ShardPlace { shard, of }, ..options() };
    let disk = Arc::clone(&disks[usize::from(shard.0)]);
    let mut other = Asked::of(LogStore::open(disk, options, entropy(6), START).unwrap().0);
    other.now = one.now;
    other.ack(plain, &leased[..1]);
    other.later(Duration::from_secs(3_600));
    let again = other.lease(plain, 100);
    assert!(!again.iter().any(|again| again.message.id == leased[0].message.id), "it was deleted");
    assert!(again.iter().any(|again| again.message.id == leased[1].message.id));
    let new = other.queue("new", kew_core::Policy::standard());
    assert_eq!(of.of_queue(new), shard);
    assert!(new > plain, "no number is used twice");
}

#[test]
fn a_backup_of_either_kind_equals_the_model_in_every_state() {
    for sharing in [Sharing::Nothing, Sharing::Links] {
        let factory = Carrying::new(backed_up(sharing));
        for seed in 1..=6 {
            let result = history(seed, &|_| Box::new(StoreSubject::new(&factory)));
            result.unwrap_or_else(|difference| panic!("{sharing:?}: {difference}"));
        }
    }
}

/// Everything an old receipt is good for, after its store was exported and imported.
#[test]
fn a_receipt_from_before_an_export_extends_and_acks_after_the_import() {
    let one = a_bit_of_everything(Arc::new(SimDisk::new()));
    let plain = one.find("plain");
    let Outcome::Leased(leased) = one.ask(Command::Lease(Lease::of(plain, 2, one.now))) else {
        panic!("no lease")
    };
    let mut lines = Vec::new();
    export(&one.store, &mut lines).unwrap();
    let disk = Arc::new(SimDisk::new());
    import(&mut &*lines, disk.clone(), options(), entropy(5), START).unwrap();
    let mut other = Asked::of(LogStore::open(disk, options(), entropy(6), START).unwrap().0);
    other.now = one.now;
    let entry = Extension { token: leased[0].token, length: Duration::from_secs(100), content: None };
    let heartbeat = Extend {
        queue: plain,
        receipt: ReceiptRule::Current,
        when_free: WhenFree::Ignore,
        renew: false,
        entries: vec![entry],
    };
    match other.ask(Command::Extend(heartbeat)) {
        Outcome::Extended(extended) => {
            assert!(matches!(extended[..], [Ok(Extended::Until { .. })]), "{extended:?}");
        }
        unexpected => panic!("{unexpected:?}"),
    }
    let is_offered = |asked: &Asked, which: usize| {
        asked.lease(plain, 100).iter().any(|again| again.message.id == leased[which].message.id)
    };
    // The other lease ends as it would have ended; the extended one goes on.
    other.later(Duration::from_secs(31));
    let again = other.lease(plain, 100);
    assert!(again.iter().any(|again| again.message.id == leased[1].message.id));
    assert!(!again.iter().any(|again| again.message.id == leased[0].message.id));
    other.ack(plain, &leased[..1]);
    other.later(Duration::from_secs(200));
    assert!(!is_offered(&other, 0));
}

#[test]
fn expiry_that_is_held_stays_held_after_an_import() {
    let one = a_bit_of_everything(Arc::new(SimDisk::new()));
    let hold = ExpiryHold { through: one.now, until: HoldEnd::Confirmed };
    one.ask(Command::HoldExpiry(Some(hold)));
    let mut lines = Vec::new();
    export(&one.store, &mut lines).unwrap();
    let disk = Arc::new(SimDisk::new());
    import(&mut &*lines, disk.clone(), options(), entropy(5), START).unwrap();
    let mut other = Asked::of(LogStore::open(disk, options(), entropy(6), START).unwrap().0);
    assert_eq!(other.store.expiry_hold(), Some(hold));
    other.later(Duration::from_secs(30 * 86_400));
    other.ask(Command::Due);
    assert!(!other.lease(other.find("plain"), 1).is_empty(), "nothing expired");
    other.ask(Command::HoldExpiry(None));
    other.later(Duration::from_secs(31));
    other.ask(Command::Due);
    assert!(other.lease(other.find("plain"), 1).is_empty(), "everything expired");
}

fn overwrite(path: &Path, at: u64) {
    use std::os::unix::fs::FileExt;
    let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
    file.write_all_at(b"OOPS", at).unwrap();
}

#[test]
fn what_happens_to_a_backup_does_not_happen_to_its_store_and_is_named_by_a_check() {
    let folder = tempfile::tempdir().unwrap();
    let (home, target) = (folder.path().join("home"), folder.path().join("backup"));
    let asked = a_bit_of_everything(Arc::new(RealDisk::open(&home).unwrap()));
    let report = backup(&asked.store, &target, Sharing::Nothing).unwrap();
    assert_eq!(report.linked, 0);
    asked.store.close().unwrap();
    drop(asked);
    let before: Vec<_> = {
        let disk = RealDisk::look(&home).unwrap();
        crate::small_store::files_of(&disk).iter().map(|name| bytes_of(&disk, name)).collect()
    };
    for file in &report.files {
        overwrite(&target.join(&file.name), file.bytes / 2);
    }
    std::fs::write(target.join("segments/0000000000000099.seg"), "x").unwrap();
    let missing = &report.files.iter().find(|file| file.name.ends_with(".ids")).unwrap().name;
    std::fs::remove_file(target.join(missing)).unwrap();
    let problems = check(Arc::new(RealDisk::look(&target).unwrap())).unwrap().problems;
    for name in report.files.iter().map(|file| file.name.as_str()).chain(["segments/0000000000000099.seg"]) {
        assert!(problems.iter().any(|problem| problem.file == name), "{name}: {problems:?}");
    }
    let disk = RealDisk::look(&home).unwrap();
    let after: Vec<_> =
        crate::small_store::files_of(&disk).iter().map(|name| bytes_of(&disk, name)).collect();
    assert!(after == before, "the backup shared its bytes with the store");
    assert!(check(Arc::new(disk)).unwrap().is_sound());
}
