//! Files and directories that only their owner may read: 0600 and 0700, whatever the umask allows.
//!
//! A store holds everybody's messages and the key of their receipts. What is made here is private from its first
//! instant; [`make_private`] closes what an older version, or somebody's `mkdir`, left open.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::names::{
    BACKUP_LIST, CHECKPOINTS_FOLDER, DAMAGED_FOLDER, DEDUPLICATION_FOLDER, IDENTITY_FILE, LOCK_FILE,
    MANIFEST_FILE, SEGMENTS_FOLDER,
};

const FILE: u32 = 0o600;
const DIRECTORY: u32 = 0o700;
/// The bits that let group and others in.
const OTHERS: u32 = 0o077;
/// A directory that many share, such as `/tmp`.
const STICKY: u32 = 0o1000;

/// How files are opened for reading and writing; one that is made on the way is private.
pub(super) fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(FILE);
    options
}

/// Makes a new file; fails when the name is taken.
pub(super) fn make_file(path: &Path) -> io::Result<File> {
    options().create_new(true).open(path)
}

/// Makes one directory; fails when the name is taken.
pub(super) fn make_directory(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(DIRECTORY).create(path)
}

/// Makes a directory and those above it that are missing. Answers the directories that hold a new name, from the top:
/// a name is durable when its directory is synced.
pub(super) fn make_directories(path: &Path) -> io::Result<Vec<PathBuf>> {
    let is_missing = |above: &&Path| !above.as_os_str().is_empty() && !above.exists();
    let missing: Vec<&Path> = path.ancestors().take_while(is_missing).collect();
    DirBuilder::new().recursive(true).mode(DIRECTORY).create(path)?;
    let holds = |made: &&Path| match made.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    };
    Ok(missing.iter().rev().map(holds).collect())
}

/// Takes group and others the right to read a store's directory, its folders and its files. Answers how many of them
/// were open before. A directory that many share (with the sticky bit) is left as it is: it is not the store's alone.
pub fn make_private(root: &Path) -> io::Result<u64> {
    let mut closed = 0;
    if fs::metadata(root)?.permissions().mode() & STICKY == 0 {
        closed += u64::from(close(root, DIRECTORY)?);
    }
    for folder in ["", SEGMENTS_FOLDER, CHECKPOINTS_FOLDER, DEDUPLICATION_FOLDER, DAMAGED_FOLDER] {
        let folder_path = root.join(folder);
        if !folder.is_empty() && folder_path.is_dir() {
            closed += u64::from(close(&folder_path, DIRECTORY)?);
        }
        closed += close_files(&folder_path, folder)?;
    }
    Ok(closed)
}

/// Closes the files of one folder; in the directory itself only the store's own, which are recognised by their names.
fn close_files(path: &Path, folder: &str) -> io::Result<u64> {
    let entries = match fs::read_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        entries => entries?,
    };
    let mut closed = 0;
    for entry in entries {
        let entry = entry?;
        let is_ours = !folder.is_empty() || OWN_FILES.iter().any(|name| entry.file_name() == *name);
        if is_ours && entry.file_type()?.is_file() {
            closed += u64::from(close(&entry.path(), FILE)?);
        }
    }
    Ok(closed)
}

/// The files that lie in a store's directory itself.
const OWN_FILES: [&str; 4] = [IDENTITY_FILE, MANIFEST_FILE, BACKUP_LIST, LOCK_FILE];

/// Whether it was open to others. One that was removed meanwhile is as private as can be.
fn close(path: &Path, mode: u32) -> io::Result<bool> {
    let found = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        found => found?,
    };
    if found.is_symlink() || found.permissions().mode() & OTHERS == 0 {
        return Ok(false);
    }
    match fs::set_permissions(path, Permissions::from_mode(mode)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        closed => closed.map(|()| true),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::{Disk, RealDisk};

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).expect("the file exists").permissions().mode() & 0o7777
    }

    #[test]
    fn what_a_disk_makes_is_readable_by_its_owner_alone() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let root = folder.path().join("above/store");
        let disk = RealDisk::open(&root).expect("a directory can be made");
        disk.create_dir("segments").expect("the temporary folder takes files");
        drop(disk.create("segments/a").expect("the temporary folder takes files"));
        drop(disk.create("STORE").expect("the temporary folder takes files"));
        let _held = disk.lock().expect("the directory has no other holder");
        for directory in [&folder.path().join("above"), &root, &root.join("segments")] {
            assert_eq!(mode(directory), 0o700, "{}", directory.display());
        }
        for file in ["segments/a", "STORE", "LOCK"] {
            assert_eq!(mode(&root.join(file)), 0o600, "{file}");
        }
        assert_eq!(make_private(&root).expect("the test owns its files"), 0, "nothing was open");
    }

    #[test]
    fn every_directory_with_a_new_name_in_it_is_told_from_the_top() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let top = folder.path().join("top");
        let made = make_directories(&top.join("middle/store")).expect("a directory can be made");
        assert_eq!(made, [folder.path().to_owned(), top.clone(), top.join("middle")]);
        let made = make_directories(&top.join("middle/other")).expect("a directory can be made");
        assert_eq!(made, [top.join("middle")]);
        assert_eq!(make_directories(&top).expect("the directory exists"), [] as [PathBuf; 0]);
    }

    #[test]
    fn a_store_that_was_open_to_all_is_closed_and_other_files_beside_it_are_left_alone() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let root = folder.path();
        fs::create_dir(root.join("segments")).expect("the temporary folder takes files");
        for (name, found) in [("STORE", 0o644), ("segments/a.seg", 0o666), ("letter", 0o644)] {
            fs::write(root.join(name), "x").expect("the temporary folder takes files");
            fs::set_permissions(root.join(name), Permissions::from_mode(found))
                .expect("the test owns its files");
        }
        for open in [root, &root.join("segments")] {
            fs::set_permissions(open, Permissions::from_mode(0o755)).expect("the test owns its files");
        }
        assert_eq!(make_private(root).expect("the test owns its files"), 4);
        let modes = ["STORE", "segments/a.seg", "letter", "segments"].map(|name| mode(&root.join(name)));
        assert_eq!(modes, [0o600, 0o600, 0o644, 0o700]);
        assert_eq!(mode(root), 0o700);
    }

    #[test]
    fn a_directory_that_many_share_stays_open_to_them() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let root = folder.path();
        fs::write(root.join("STORE"), "x").expect("the temporary folder takes files");
        fs::set_permissions(root, Permissions::from_mode(0o1777)).expect("the test owns its files");
        make_private(root).expect("the test owns its files");
        assert_eq!((mode(root), mode(&root.join("STORE"))), (0o1777, 0o600));
    }
}
