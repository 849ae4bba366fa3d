//! What every disk must keep, whatever it lies on: each law is a function, and [`disk_law_tests`] makes a test of each.
//!
//! Laws of what a crash leaves are not here: they differ, and each disk has tests of its own.

use std::io;
use std::sync::Arc;

use kew_store_log::{BatchMark, Disk, DiskFile};

/// Where a disk lies.
pub trait Place {
    /// Opens the disk. The one that was opened before is dropped by then.
    fn open(&self) -> Arc<dyn Disk>;
}

/// A file of each kind: a small one, a part of a checkpoint, a segment of the journal.
const KINDS: [&str; 3] = ["FILE", "checkpoints/file", "segments/file"];
/// Files whose bytes may be written twice. A segment is written from its begin to its end.
const REWRITABLE: [&str; 2] = ["FILE", "checkpoints/file"];

fn opened(place: &dyn Place) -> Arc<dyn Disk> {
    let disk = place.open();
    for folder in ["checkpoints", "segments"] {
        disk.create_dir(folder).unwrap();
    }
    disk
}

/// All bytes of a file.
fn bytes_of(file: &dyn DiskFile) -> Vec<u8> {
    let length = usize::try_from(file.len().unwrap()).unwrap();
    // More than there is: only what is there is read.
    let mut bytes = vec![b'?'; length + 7];
    assert_eq!(file.read_at(0, &mut bytes).unwrap(), length, "a read ends with the file");
    bytes.truncate(length);
    bytes
}

fn made(disk: &dyn Disk, name: &str, bytes: &[u8]) -> Arc<dyn DiskFile> {
    let file = disk.create(name).unwrap();
    file.write_at(0, bytes).unwrap();
    file
}

fn kind_of<T>(result: io::Result<T>) -> Option<io::ErrorKind> {
    result.err().map(|error| error.kind())
}

pub fn bytes_are_read_where_they_were_written_and_gaps_are_zeros(place: &dyn Place) {
    let disk = opened(place);
    for name in KINDS {
        let file = disk.create(name).unwrap();
        assert!(file.is_empty().unwrap(), "{name}");
        file.write_at(3, b"abc").unwrap();
        file.write_at(10, b"xyz").unwrap();
        assert_eq!(bytes_of(&*file), b"\0\0\0abc\0\0\0\0xyz", "{name}");
        let mut some = [0; 4];
        assert_eq!(file.read_at(4, &mut some).unwrap(), 4, "{name}");
        assert_eq!(&some, b"bc\0\0", "{name}");
        assert_eq!(file.read_at(11, &mut some).unwrap(), 2, "{name}: fewer only at the end");
        assert_eq!(file.read_at(13, &mut some).unwrap(), 0, "{name}");
        assert_eq!(file.read_at(1_000, &mut some).unwrap(), 0, "{name}: nothing lies behind the end");
    }
}

pub fn later_write_covers_what_it_overlaps(place: &dyn Place) {
    let disk = opened(place);
    for name in REWRITABLE {
        let file = made(&*disk, name, b"0123456789");
        file.write_at(2, b"ab").unwrap();
        file.write_at(1, b"cd").unwrap();
        assert_eq!(bytes_of(&*file), b"0cdb456789", "{name}");
        file.sync_data().unwrap();
        file.write_at(0, b"zz").unwrap();
        assert_eq!(bytes_of(&*file), b"zzdb456789", "{name}: also over what is synced");
    }
}

pub fn bytes_may_be_written_again_by_a_handle_that_was_opened_later(place: &dyn Place) {
    let disk = opened(place);
    for name in REWRITABLE {
        for round in [b"one", b"two", b"six"] {
            let file = disk.open(name).or_else(|_| disk.create(name)).unwrap();
            file.write_at(0, round).unwrap();
            file.sync_data().unwrap();
            drop(file);
            assert_eq!(bytes_of(&*disk.open(name).unwrap()), round, "{name}");
        }
    }
}

pub fn file_that_was_not_synced_is_there_when_it_is_opened_again(place: &dyn Place) {
    let disk = opened(place);
    for name in KINDS {
        drop(made(&*disk, name, b"not synced"));
        assert_eq!(bytes_of(&*disk.open(name).unwrap()), b"not synced", "{name}");
    }
}

pub fn handles_of_a_file_see_the_same_bytes(place: &dyn Place) {
    let disk = opened(place);
    for name in KINDS {
        let one = made(&*disk, name, b"one");
        let other = disk.open(name).unwrap();
        assert_eq!(bytes_of(&*other), b"one", "{name}");
        other.write_at(3, b" and another").unwrap();
        assert_eq!(bytes_of(&*one), b"one and another", "{name}");
    }
}

pub fn name_is_given_once_and_is_free_after_its_removal(place: &dyn Place) {
    let disk = opened(place);
    for name in KINDS {
        assert_eq!(kind_of(disk.open(name)), Some(io::ErrorKind::NotFound), "{name}");
        assert_eq!(kind_of(disk.remove(name)), Some(io::ErrorKind::NotFound), "{name}");
        assert_eq!(kind_of(disk.rename(name, name)), Some(io::ErrorKind::NotFound), "{name}");
        drop(made(&*disk, name, b"first"));
        assert_eq!(kind_of(disk.create(name)), Some(io::ErrorKind::AlreadyExists), "{name}");
        disk.remove(name).unwrap();
        assert_eq!(kind_of(disk.open(name)), Some(io::ErrorKind::NotFound), "{name}");
        let second = disk.create(name).unwrap();
        assert!(second.is_empty().unwrap(), "{name}: nothing is left of the first");
    }
}

pub fn removed_file_is_read_by_who_has_it_open(place: &dyn Place) {
    let disk = opened(place);
    for name in KINDS {
        let file = made(&*disk, name, b"still here");
        file.sync_data().unwrap();
        disk.remove(name).unwrap();
        assert_eq!(bytes_of(&*file), b"still here", "{name}");
        let other = made(&*disk, name, b"another one");
        assert_eq!(bytes_of(&*file), b"still here", "{name}");
        assert_eq!(bytes_of(&*other), b"another one", "{name}");
    }
}

pub fn rename_replaces_what_had_the_name(place: &dyn Place) {
    let disk = opened(place);
    for name in KINDS {
        let new = format!("{name}.new");
        let old = made(&*disk, name, b"old");
        drop(made(&*disk, &new, b"new"));
        disk.rename(&new, name).unwrap();
        assert_eq!(bytes_of(&*disk.open(name).unwrap()), b"new", "{name}");
        assert_eq!(bytes_of(&*old), b"old", "{name}: who has the replaced one open reads on");
        assert_eq!(kind_of(disk.open(&new)), Some(io::ErrorKind::NotFound), "{name}");
        disk.rename(name, name).unwrap();
        assert_eq!(bytes_of(&*disk.open(name).unwrap()), b"new", "{name}: renamed to itself it stays");
    }
}

pub fn folder_lists_its_files_in_order(place: &dyn Place) {
    let disk = opened(place);
    for name in ["segments/b", "segments/a", "checkpoints/c", "FILE", "ANOTHER", "segments/ab"] {
        drop(disk.create(name).unwrap());
    }
    assert_eq!(disk.list("segments").unwrap(), ["a", "ab", "b"]);
    assert_eq!(disk.list("checkpoints").unwrap(), ["c"]);
    let own = disk.list("").unwrap();
    assert_eq!(own.iter().filter(|name| *name == "FILE" || *name == "ANOTHER").count(), 2, "{own:?}");
    assert!(own.iter().all(|name| !name.contains('/') && *name != "segments"), "{own:?}");
    assert!(own.is_sorted());
    assert_eq!(disk.list("nowhere").unwrap(), [""; 0], "a missing folder has none");
    disk.remove("segments/a").unwrap();
    assert_eq!(disk.list("segments").unwrap(), ["ab", "b"]);
}

pub fn allocated_room_is_zeros_and_never_shrinks(place: &dyn Place) {
    let disk = opened(place);
    for name in ["checkpoints/file", "segments/file"] {
        let file = made(&*disk, name, b"begin");
        file.allocate(64).unwrap();
        assert_eq!(file.len().unwrap(), 64, "{name}");
        let bytes = bytes_of(&*file);
        assert!(bytes.starts_with(b"begin") && bytes[5..].iter().all(|byte| *byte == 0), "{name}");
        file.allocate(8).unwrap();
        assert_eq!(file.len().unwrap(), 64, "{name}");
        file.write_at(60, b"past it").unwrap();
        assert_eq!(file.len().unwrap(), 67, "{name}");
    }
}

pub fn what_is_cut_off_is_zeros_and_may_be_written_again(place: &dyn Place) {
    let disk = opened(place);
    let file = made(&*disk, "segments/file", b"kept");
    file.write_at(4, b"gone").unwrap();
    file.sync_data().unwrap();
    if !file.cut(4).unwrap() {
        // It is overwritten where the disk cannot.
        file.write_at(4, &[0; 4]).unwrap();
    }
    assert_eq!(bytes_of(&*file), b"kept\0\0\0\0");
    file.write_at(4, b"anew").unwrap();
    file.sync_data().unwrap();
    assert_eq!(bytes_of(&*file), b"keptanew");
}

pub fn batch_is_read_as_soon_as_it_was_handed_over(place: &dyn Place) {
    let disk = opened(place);
    let file = disk.create("segments/file").unwrap();
    for number in 1..=9_u8 {
        let mark = BatchMark { number: number.into(), must_sync: number % 3 == 0 };
        file.append(u64::from(number - 1), &[b'0' + number], mark).unwrap();
        assert_eq!(bytes_of(&*file).last(), Some(&(b'0' + number)));
    }
    assert_eq!(bytes_of(&*file), b"123456789");
    file.sync_data().unwrap();
    assert_eq!(bytes_of(&*file), b"123456789");
}

pub fn what_was_synced_is_there_when_the_disk_is_opened_again(place: &dyn Place) {
    let disk = opened(place);
    for name in KINDS {
        let file = made(&*disk, &format!("{name}.tmp"), b"kept for ever");
        file.sync_data().unwrap();
        file.write_at(13, b" and longer").unwrap();
        file.sync_all().unwrap();
        disk.rename(&format!("{name}.tmp"), name).unwrap();
        drop(made(&*disk, &format!("{name}.gone"), b"removed"));
        disk.remove(&format!("{name}.gone")).unwrap();
    }
    let allocated = disk.create("segments/spare").unwrap();
    allocated.allocate(100).unwrap();
    allocated.sync_all().unwrap();
    for folder in ["", "checkpoints", "segments"] {
        disk.sync_dir(folder).unwrap();
    }
    drop((allocated, disk));
    let disk = place.open();
    for name in KINDS {
        assert_eq!(bytes_of(&*disk.open(name).unwrap()), b"kept for ever and longer", "{name}");
        assert_eq!(kind_of(disk.open(&format!("{name}.gone"))), Some(io::ErrorKind::NotFound), "{name}");
        assert_eq!(kind_of(disk.open(&format!("{name}.tmp"))), Some(io::ErrorKind::NotFound), "{name}");
    }
    assert_eq!(disk.open("segments/spare").unwrap().len().unwrap(), 100);
}

/// A test of each law on the place that an expression makes.
macro_rules! disk_law_tests {
    ($place:expr) => {
        $crate::laws::disk_law_tests! {
            $place =>
            bytes_are_read_where_they_were_written_and_gaps_are_zeros,
            later_write_covers_what_it_overlaps,
            bytes_may_be_written_again_by_a_handle_that_was_opened_later,
            file_that_was_not_synced_is_there_when_it_is_opened_again,
            handles_of_a_file_see_the_same_bytes,
            name_is_given_once_and_is_free_after_its_removal,
            removed_file_is_read_by_who_has_it_open,
            rename_replaces_what_had_the_name,
            folder_lists_its_files_in_order,
            allocated_room_is_zeros_and_never_shrinks,
            what_is_cut_off_is_zeros_and_may_be_written_again,
            batch_is_read_as_soon_as_it_was_handed_over,
            what_was_synced_is_there_when_the_disk_is_opened_again,
        }
    };
    ($place:expr => $($law:ident,)+) => {
        $(
            #[test]
            fn $law() {
                $crate::laws::$law(&$place);
            }
        )+
    };
}
pub(crate) use disk_law_tests;
