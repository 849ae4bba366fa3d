//! Whether a project's files have changed, by looking at them every now and then.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Files that are looked at.
const FILES_MAX: usize = 5_000;

/// When each file was last written, and how long it is.
pub(super) type Look = BTreeMap<PathBuf, (Option<SystemTime>, u64)>;

/// The configuration and everything beside the main module.
pub(super) fn look(config: &Path, main: Option<&Path>) -> Look {
    let mut seen = Look::new();
    note(config.to_owned(), &mut seen);
    let sources = main
        .and_then(Path::parent)
        .map(|folder| if folder.as_os_str().is_empty() { PathBuf::from(".") } else { folder.to_owned() });
    let mut folders: Vec<PathBuf> = sources.into_iter().collect();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().map_while(Result::ok) {
            let name = entry.file_name();
            let is_ours = !name.to_string_lossy().starts_with('.') && name != "node_modules";
            match entry.file_type() {
                Ok(kind) if kind.is_dir() && is_ours => folders.push(entry.path()),
                Ok(kind) if kind.is_file() && is_ours && seen.len() < FILES_MAX => {
                    note(entry.path(), &mut seen);
                }
                Ok(_) | Err(_) => {}
            }
        }
    }
    seen
}

fn note(path: PathBuf, seen: &mut Look) {
    // A file that is just being replaced is not there: that is a change too.
    if let Ok(found) = std::fs::metadata(&path) {
        seen.insert(path, (found.modified().ok(), found.len()));
    }
}
