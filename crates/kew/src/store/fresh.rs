//! Where a new store may be made: in a directory of its own. A store takes the whole directory and closes it to other
//! users of the machine, so one that holds anything else is refused before a byte or a mode of it is changed.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::Path;

use kew_store_log::{IDENTITY_FILE, RealDisk, is_untouched, laid_out};

use crate::start_error::Occupied;

/// What may lie where a store is made, beside files whose names begin with a dot, such as `.gitkeep` or a new user's
/// `.profile`: what a start that was cut short leaves before the file `STORE` is there, and what a new file system
/// brings.
const MAY_LIE_THERE: [&str; 5] = ["LOCK", "STORE.tmp", "lost+found", "aquota.user", "aquota.group"];
/// Names that are said of what lies there.
const SAID_MAX: usize = 3;
/// Characters of such a name that are said.
const NAME_MAX: usize = 40;

/// What stands in the way of a new store in a directory, which may be missing. Nothing does where a store is already,
/// or what is left of one: opening it says what is wrong with it.
pub(crate) fn stands_in_the_way(path: &Path) -> io::Result<Option<Occupied>> {
    let entries = match fs::read_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        entries => entries?,
    };
    let names: Vec<_> = entries.map(|entry| Ok(entry?.file_name())).collect::<io::Result<_>>()?;
    if names.iter().any(|name| name == IDENTITY_FILE) || is_left_of_a_store(path)? {
        return Ok(None);
    }
    let may_lie = |name: &OsString| {
        name.as_encoded_bytes().starts_with(b".") || MAY_LIE_THERE.iter().any(|ours| name == ours)
    };
    let foreign = names.iter().filter(|name| !may_lie(name));
    let foreign: Vec<String> = foreign.map(|name| name.to_string_lossy().into_owned()).collect();
    Ok((!foreign.is_empty()).then(|| Occupied { path: path.to_owned(), what: said(foreign) }))
}

/// Whether a store lost the file that names it: a journal or a checkpoint is there, or folders of shards are.
fn is_left_of_a_store(path: &Path) -> io::Result<bool> {
    Ok(laid_out(path).is_err()
        || is_untouched(&RealDisk::look(path)?).is_ok_and(|is_untouched| !is_untouched))
}

/// The first of these names, and how many more there are.
fn said(mut names: Vec<String>) -> String {
    names.sort_unstable();
    let short = |name: &String| -> String {
        let cut = if name.chars().count() > NAME_MAX { "…" } else { "" };
        let shown: String = name.chars().take(NAME_MAX).flat_map(char::escape_debug).collect();
        format!("{shown}{cut}")
    };
    let said: Vec<String> = names.iter().take(SAID_MAX).map(short).collect();
    match names.len().saturating_sub(SAID_MAX) {
        0 => said.join(", "),
        more => format!("{} and {more} more", said.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holding(names: &[&str]) -> (tempfile::TempDir, Option<String>) {
        let directory = tempfile::tempdir().expect("the machine has a temporary directory");
        for name in names {
            let path = directory.path().join(name);
            match name.ends_with('/') {
                true => fs::create_dir_all(path),
                false => fs::write(path, "x"),
            }
            .expect("the test can write to its own directory");
        }
        let found = stands_in_the_way(directory.path()).expect("the test can read its own directory");
        (directory, found.map(|found| found.what))
    }

    #[test]
    fn what_a_start_leaves_that_was_cut_short_is_in_no_way() {
        for ours in [
            &[][..],
            &["LOCK"],
            &["LOCK", "STORE.tmp"],
            &["lost+found/", "aquota.user"],
            &[".bash_logout", ".bashrc", ".profile"],
            &[".gitkeep", ".snapshot/", ".DS_Store"],
            &["LOCK", "STORE"],
            &["LOCK", "STORE", "segments/"],
            &["STORE", "letter"],
        ] {
            assert_eq!(holding(ours).1, None, "{ours:?}");
        }
        let missing = Path::new("/nowhere/at/all");
        assert!(stands_in_the_way(missing).expect("a missing directory is no failure").is_none());
    }

    #[test]
    fn what_is_left_of_a_store_is_for_the_opening_to_judge() {
        for left in [&["segments/", "segments/0000000000000001.seg"][..], &["shard-0000/", "letter"]] {
            assert_eq!(holding(left).1, None, "{left:?}");
        }
    }

    #[test]
    fn anything_else_is_said_by_its_first_names() {
        let long = "n".repeat(200);
        for (foreign, what) in [
            (&["letter"][..], "letter".to_owned()),
            (&["LOCK", "b/", "a"], "a, b".to_owned()),
            (&["d", "c", "b", "a", "e"], "a, b, c and 2 more".to_owned()),
            (&["segments/"], "segments".to_owned()),
            (&["MANIFEST"], "MANIFEST".to_owned()),
            (&["0000000000000001.seg"], "0000000000000001.seg".to_owned()),
            (&["a\nb\u{1b}"], "a\\nb\\u{1b}".to_owned()),
            (&[&long], format!("{}…", "n".repeat(40))),
        ] {
            assert_eq!(holding(foreign).1, Some(what));
        }
    }
}
