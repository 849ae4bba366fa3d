//! The list of a backup: all its files with lengths and checksums, and whether they still are as it says.

use std::path::Path;
use std::sync::Arc;

use super::problem::Problem;
use crate::disk::{
    BACKUP_LIST, CHECKPOINTS_FOLDER, DAMAGED_FOLDER, DEDUPLICATION_FOLDER, Disk, DiskFile, RealDisk,
    SEGMENTS_FOLDER, read_exact_at, read_whole,
};
use crate::error::{Doing, LogError, missing};

const FIRST_LINE: &str = "kew backup 1";
/// Bytes that are read at a time.
const STEP: u64 = 1 << 20;

/// One file of a backup.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BackedUp {
    /// Its name within the directory.
    pub name: String,
    /// Its length.
    pub bytes: u64,
    /// CRC32C of its bytes.
    pub sum: u32,
}

/// The list of these files.
pub(super) fn list_of(files: &[BackedUp]) -> String {
    let mut list = format!("{FIRST_LINE}\n");
    for file in files {
        list.push_str(&format!("{:08x} {} {}\n", file.sum, file.bytes, file.name));
    }
    list
}

/// Reads a backup's list and every file on it, and fails at the first that is changed, missing or not on it.
pub fn verify_backup(target: &Path) -> Result<Vec<BackedUp>, LogError> {
    // Opening would make it.
    if !target.is_dir() {
        return Err(LogError::Io {
            doing: format!("opening {}", target.display()),
            kind: std::io::ErrorKind::NotFound,
            detail: "there is no such directory".to_owned(),
        });
    }
    let disk = RealDisk::look(target).doing("opening", &target.display().to_string())?;
    let (listed, problems) = compare(&disk)?;
    match problems.into_iter().next() {
        None => Ok(listed),
        Some(Problem { file, offset, what }) => Err(LogError::Damage { file, offset, what }),
    }
}

/// Reads the list of a backup, and tells every file that is not as it says, is missing, or is not on it.
pub(crate) fn compare(disk: &dyn Disk) -> Result<(Vec<BackedUp>, Vec<Problem>), LogError> {
    let list = disk.open(BACKUP_LIST).map_err(|error| missing(BACKUP_LIST, &error))?;
    let bytes = read_whole(&*list, 1 << 30).doing("reading", BACKUP_LIST)?;
    let listed = read_list(&bytes)?;
    let mut problems = Vec::new();
    let mut problem = |file: &str, offset: u64, what: String| {
        problems.push(Problem { file: file.to_owned(), offset, what });
    };
    for file in &listed {
        match measure(disk, &file.name) {
            Ok(found) if found == *file => {}
            Ok(_) => {
                let what = format!("{} bytes with checksum {:08x} were backed up", file.bytes, file.sum);
                problem(&file.name, 0, what);
            }
            Err(LogError::Damage { file, offset, what }) => problem(&file, offset, what),
            Err(error) => return Err(error),
        }
    }
    for name in names(disk)? {
        let is_ours = ["LOCK", BACKUP_LIST].contains(&name.as_str());
        if !is_ours && !listed.iter().any(|file| file.name == name) {
            problem(&name, 0, "the file was not backed up: it is not on the list".to_owned());
        }
    }
    Ok((listed, problems))
}

/// The names of all files in a store's directory and its folders.
fn names(disk: &dyn Disk) -> Result<Vec<String>, LogError> {
    let mut names = Vec::new();
    for folder in ["", SEGMENTS_FOLDER, CHECKPOINTS_FOLDER, DEDUPLICATION_FOLDER, DAMAGED_FOLDER] {
        for name in disk.list(folder).doing("listing", folder)? {
            names.push(if folder.is_empty() { name } else { format!("{folder}/{name}") });
        }
    }
    Ok(names)
}

/// A file as it is now.
fn measure(disk: &dyn Disk, name: &str) -> Result<BackedUp, LogError> {
    measure_by(disk, name, |_| Ok(()))
}

/// The same, with a word after each piece that was read: how many bytes it has.
pub(super) fn measure_by(
    disk: &dyn Disk,
    name: &str,
    mut read: impl FnMut(u64) -> Result<(), LogError>,
) -> Result<BackedUp, LogError> {
    let file: Arc<dyn DiskFile> = disk.open(name).map_err(|error| missing(name, &error))?;
    let bytes = file.len().doing("measuring", name)?;
    let (mut at, mut sum) = (0, 0);
    while at < bytes {
        let step = read_exact_at(&*file, at, (bytes - at).min(STEP) as usize);
        let step = step.doing("reading", name)?;
        sum = crc32c::crc32c_append(sum, &step);
        at += step.len() as u64;
        read(step.len() as u64)?;
    }
    Ok(BackedUp { name: name.to_owned(), bytes, sum })
}

fn read_list(bytes: &[u8]) -> Result<Vec<BackedUp>, LogError> {
    let damaged = |what: &str| LogError::damage(BACKUP_LIST, 0, what);
    let text = std::str::from_utf8(bytes).map_err(|_| damaged("not text"))?;
    let mut lines = text.lines();
    if lines.next() != Some(FIRST_LINE) {
        return Err(damaged("not the list of a backup this program knows"));
    }
    let entry = |line: &str| {
        let (sum, rest) = line.split_once(' ')?;
        let (bytes, name) = rest.split_once(' ')?;
        let sum = u32::from_str_radix(sum, 16).ok()?;
        Some(BackedUp { name: name.to_owned(), bytes: bytes.parse().ok()?, sum })
    };
    lines.map(|line| entry(line).ok_or_else(|| damaged(line))).collect()
}
