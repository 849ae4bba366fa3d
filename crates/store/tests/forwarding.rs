//! A store that stands before another one hands every call on. Methods of `Store` have defaults, so the compiler does
//! not name one that was forgotten: this test reads the sources.

use std::fs;
use std::path::Path;

/// Their defaults are right before a store of one shard.
const OF_SEVERAL_SHARDS: [&str; 10] = [
    "step_in",
    "health_for",
    "may_answer_for",
    "keeps",
    "shard_of",
    "sees",
    "knows_all",
    "define",
    "share",
    "lease_elsewhere",
];
/// Its default is a step of the store in front, which is right for each.
const RECORD_TIME: &str = "record_time";

/// Stores that stand before others, and whether those may have several shards.
const STORES: [(&str, bool); 4] = [
    ("crates/kew/src/listen/commit/mod.rs", true),
    ("crates/testing/src/wrapped.rs", true),
    ("crates/log-pg/src/store.rs", false),
    ("crates/fleet/src/ahead.rs", false),
];

/// Stores that stand before no other one: they take steps, or hand them to the shard of a queue.
const LAST: [&str; 3] =
    ["crates/store/src/memory.rs", "crates/store-log/src/store/log_store.rs", "crates/fleet/src/fleet.rs"];

/// Sources below a folder that keep the contract of a store, by their paths from `root`; without those of tests.
fn stores_below(root: &Path, folder: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(folder).expect("the workspace's folders can be listed") {
        let path = entry.expect("the workspace's folders can be listed").path();
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        if path.is_dir() && name != "tests" && name != "target" {
            stores_below(root, &path, found);
        } else if name.ends_with(".rs") && name != "tests.rs" {
            let source = fs::read_to_string(&path).expect("the workspace's sources can be read");
            let without_tests = source.split("#[cfg(test)]").next().unwrap_or_default();
            if without_tests.lines().any(|line| line.starts_with("impl") && line.contains(" Store for ")) {
                let path = path.strip_prefix(root).expect("what is below the root begins with it");
                found.push(path.to_string_lossy().into_owned());
            }
        }
    }
}

/// The names of methods that begin a line of a source, after four blanks.
fn methods(source: &str) -> Vec<&str> {
    let named = source.lines().filter_map(|line| line.strip_prefix("    fn "));
    named.filter_map(|rest| rest.split(['(', '<']).next()).collect()
}

#[test]
fn store_before_another_one_hands_every_call_on() {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let read =
        |file: &str| fs::read_to_string(sources.join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
    let contract = read("crates/store/src/lib.rs");
    let (_, contract) = contract.split_once("pub trait Store").expect("the contract is in lib.rs");
    let wanted = methods(contract);
    assert!(wanted.len() >= 25 && wanted.contains(&"know_others"), "{wanted:?}");
    for (file, has_several) in STORES {
        let source = read(file);
        let (_, forwards) = source.split_once(" Store for ").expect("the store keeps the contract");
        let there = methods(forwards);
        let is_missing = |method: &&&str| {
            let has_default = **method == RECORD_TIME || !has_several && OF_SEVERAL_SHARDS.contains(method);
            !has_default && !there.contains(method)
        };
        let missing: Vec<&&str> = wanted.iter().filter(is_missing).collect();
        assert!(missing.is_empty(), "{file} does not hand on {missing:?}");
    }
}

#[test]
fn every_store_is_one_of_those_above() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut found = Vec::new();
    stores_below(&root, &root.join("crates"), &mut found);
    let mut known: Vec<&str> = STORES.iter().map(|(file, _)| *file).chain(LAST).collect();
    found.sort_unstable();
    known.sort_unstable();
    assert_eq!(found, known, "a store that stands before another one is named in STORES, any other in LAST");
}
