//! Making, reading and refusing the folders of several shards, also where a making or a copy was cut short.

use super::*;
use crate::checkpoint::Named;
use crate::disk::{Found, SimDisk};
use kew_testing::CountingEntropy;

fn count(shards: u16) -> ShardCount {
    ShardCount::new(shards).expect("a store has a shard")
}

fn disk_of(folder: &Path) -> RealDisk {
    RealDisk::open(folder).expect("the folder can be opened")
}

/// Makes every shard that is not there, as the opening of its store does.
fn make(folders: &mut ShardFolders) -> TokenKey {
    let entropy = CountingEntropy::default();
    let key = folders.key(&entropy).expect("the key is read");
    for shard in folders.shards().all() {
        let disk = folders.disk(shard).expect("the folder is there");
        if Identity::load(&disk).expect("the identity can be read").is_none() {
            let identity = Identity { store_id: [1; 16], mac_key: key.0, created_ms: 1 };
            identity.create(&disk).expect("the identity can be written");
        }
    }
    folders.made().expect("the list is written");
    key
}

#[test]
fn list_is_read_as_it_was_written_and_no_other_bytes_are() {
    for are in ShardsAre::ALL {
        let list = ShardList { count: count(300), are };
        assert_eq!(ShardList::decode(&list.encode()), Ok(list));
    }
    let good = ShardList { count: count(4), are: ShardsAre::Made }.encode();
    for at in 0..good.len() {
        let mut bad = good;
        bad[at] ^= 1;
        assert!(ShardList::decode(&bad).is_err(), "byte {at}");
        assert!(ShardList::decode(&good[..at]).is_err(), "{at} bytes");
    }
}

#[test]
fn list_is_there_wholly_or_not_at_all_and_the_newer_one_wins() {
    let disk = SimDisk::new();
    assert_eq!(ShardList::load(&disk), Ok(None));
    let begun = ShardList { count: count(4), are: ShardsAre::BeingMade };
    let made = ShardList { are: ShardsAre::Made, ..begun };
    for (list, before) in [(begun, None), (made, Some(begun))] {
        disk.record_snapshots();
        list.write(&disk).expect("the list can be written");
        for (point, cut) in disk.take_snapshots() {
            for seed in 0..20 {
                let found = ShardList::load(&cut.reopen(seed, Found::Torn))
                    .expect("the list is read whole or is not there");
                assert!(found == before || found == Some(list), "point {point} seed {seed}");
            }
        }
        assert_eq!(ShardList::load(&disk.reopen(0, Found::Lost)), Ok(Some(list)));
    }
}

#[test]
fn directory_is_one_store_of_as_many_shards_as_it_was_made_with() {
    let home = tempfile::tempdir().expect("the machine has a temporary directory");
    let root = home.path().join("data");
    assert_eq!(laid_out(&root), Ok(Laid::Nothing));
    assert!(!root.exists(), "looking makes nothing");
    let mut folders = ShardFolders::take(&root, count(3)).expect("a store can begin here");
    assert_eq!((laid_out(&root), folders.is_made()), (Ok(Laid::Several(count(3))), false));
    let second = ShardFolders::take(&root, count(3)).map(drop);
    assert!(matches!(second, Err(LogError::Locked { .. })), "{second:?}");
    let key = make(&mut folders);
    drop(folders);
    let other = ShardFolders::take(&root, count(2)).map(drop);
    assert!(matches!(other, Err(LogError::Io { kind: io::ErrorKind::AlreadyExists, .. })), "{other:?}");
    let mut again = ShardFolders::take(&root, count(3)).expect("the store can be taken again");
    assert!(again.is_made());
    assert_eq!(make(&mut again).0, key.0, "all shards have one key");
    drop(again);
    assert_eq!(ShardFolders::look(&root).expect("the store can be looked at").shards(), count(3));
}

#[test]
fn making_that_was_cut_short_goes_on() {
    let home = tempfile::tempdir().expect("the machine has a temporary directory");
    let begun = ShardFolders::take(home.path(), count(2)).expect("a store can begin here");
    let first = begun.disk(ShardId(0)).expect("the folder is there");
    let identity = Identity { store_id: [1; 16], mac_key: [7; 16], created_ms: 1 };
    identity.create(&first).expect("the identity can be written");
    drop(begun);
    let mut again = ShardFolders::take(home.path(), count(2)).expect("the store can be taken again");
    assert!(!again.is_made());
    assert_eq!(make(&mut again).0, [7; 16]);
}

#[test]
fn shard_that_is_missing_or_of_another_store_is_refused_by_name() {
    let home = tempfile::tempdir().expect("the machine has a temporary directory");
    let mut folders = ShardFolders::take(home.path(), count(2)).expect("a store can begin here");
    make(&mut folders);
    drop(folders);
    let refusal = || match ShardFolders::take(home.path(), count(2)).map(drop) {
        Err(LogError::Damage { file, what, .. }) => format!("{file}: {what}"),
        other => panic!("{other:?}"),
    };
    let (second, aside) = (home.path().join("shard-0001"), home.path().join("aside"));
    std::fs::rename(&second, &aside).expect("the folder can be moved");
    assert!(refusal().starts_with("shard-0001: the shard is missing"), "{}", refusal());
    assert!(!second.exists(), "a refusal makes nothing");
    std::fs::create_dir(&second).expect("the directory is ours");
    let identity = Identity { store_id: [1; 16], mac_key: [9; 16], created_ms: 1 };
    identity.create(&disk_of(&second)).expect("the identity can be written");
    assert_eq!(refusal(), "shard-0001: the shard is one of another store");
    std::fs::remove_file(home.path().join(IDENTITY_FILE)).expect("the list can be removed");
    let lost = laid_out(home.path());
    assert!(matches!(&lost, Err(LogError::Damage { file, .. }) if file == IDENTITY_FILE), "{lost:?}");
}

#[test]
fn copy_that_was_cut_short_is_refused_and_one_that_is_undone_leaves_nothing() {
    let home = tempfile::tempdir().expect("the machine has a temporary directory");
    let cut = ShardFolders::take_for_copy(home.path(), count(2)).expect("the directory is empty");
    assert!(!cut.is_made());
    drop(cut);
    let refused = |taken: Result<(), LogError>| match taken {
        Err(LogError::Damage { file, what, .. }) => {
            assert_eq!(file, IDENTITY_FILE);
            assert!(what.starts_with("a backup into this directory was cut short"), "{what}");
        }
        other => panic!("{other:?}"),
    };
    refused(ShardFolders::take(home.path(), count(2)).map(drop));
    refused(ShardFolders::look(home.path()).map(drop));
    let again = ShardFolders::look_at_copy(home.path()).expect("a backup can be checked");
    assert_eq!((again.shards(), again.is_made()), (count(2), false));
    drop(again);

    let home = tempfile::tempdir().expect("the machine has a temporary directory");
    let undone = ShardFolders::take_for_copy(home.path(), count(2)).expect("the directory is empty");
    undone.undo().expect("the copy can be removed");
    assert_eq!(laid_out(home.path()), Ok(Laid::Nothing));
    let mut whole = ShardFolders::take_for_copy(home.path(), count(2)).expect("the directory is empty");
    make(&mut whole);
    drop(whole);
    assert!(ShardFolders::take(home.path(), count(2)).expect("the copy is whole").is_made());
}

#[test]
fn shard_is_not_opened_by_itself() {
    let home = tempfile::tempdir().expect("the machine has a temporary directory");
    make(&mut ShardFolders::take(home.path(), count(2)).expect("a store can begin here"));
    let alone = laid_out(&home.path().join("shard-0001"));
    assert!(
        matches!(&alone, Err(LogError::Io { detail, .. }) if detail.contains("one shard of a store")),
        "{alone:?}"
    );
}

#[test]
fn program_that_knows_no_lists_refuses_one_by_its_version() {
    let home = tempfile::tempdir().expect("the machine has a temporary directory");
    make(&mut ShardFolders::take(home.path(), count(2)).expect("a store can begin here"));
    let root = RealDisk::look(home.path()).expect("the folder can be opened");
    let read = Named::load(&root).map(drop);
    assert!(matches!(read, Err(LogError::UnsupportedVersion { found: LIST_VERSION, .. })), "{read:?}");
}

#[test]
fn store_of_one_shard_is_never_taken_for_several() {
    let home = tempfile::tempdir().expect("the machine has a temporary directory");
    let identity = Identity { store_id: [1; 16], mac_key: [9; 16], created_ms: 1 };
    identity.create(&disk_of(home.path())).expect("the identity can be written");
    assert_eq!(laid_out(home.path()), Ok(Laid::One));
    let taken = ShardFolders::take(home.path(), count(2)).map(drop);
    assert!(matches!(taken, Err(LogError::Io { kind: io::ErrorKind::AlreadyExists, .. })), "{taken:?}");
}
