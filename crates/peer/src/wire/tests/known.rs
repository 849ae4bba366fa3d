//! The texts of bounds are those of the sources.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use bytes::Bytes;
use kew_store::StoreError;

use crate::wire::bounds::{KNOWN, OTHER};
use crate::wire::{decode, encode};

/// The crates whose errors reach an engine's answer.
const CRATES: [&str; 4] = ["store", "store-log", "log-pg", "engine"];

/// The sources of a folder.
fn sources(folder: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(folder).expect("the sources of the workspace can be listed") {
        let path = entry.expect("the sources of the workspace can be listed").path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|end| end == "rs") {
            found.push(fs::read_to_string(&path).expect("the sources of the workspace can be read"));
        }
    }
}

/// Every text of a bound in a source. A constant is that of the source, or else one of all sources.
fn texts<'a>(source: &'a str, all: &'a str) -> impl Iterator<Item = String> + 'a {
    source.split("Overloaded").skip(1).filter_map(move |part| {
        let part = part.trim_start().strip_prefix('{').map(str::trim_start);
        let what = part.and_then(|part| part.strip_prefix("what: "))?;
        text_of(what, source).or_else(|| text_of(what, all))
    })
}

/// The text that stands there, or that of the constant whose name does.
fn text_of(what: &str, source: &str) -> Option<String> {
    let is_of_name = |letter: char| letter.is_ascii_uppercase() || letter == '_';
    let text = match what.split_once(|letter| !is_of_name(letter)) {
        Some(("", _)) => what,
        Some((name, _)) => source.split_once(&format!("const {name}: &str ="))?.1,
        None => return None,
    };
    text.trim_start().strip_prefix('"')?.split('"').next().map(str::to_owned)
}

#[test]
fn texts_of_bounds_are_all_those_of_the_sources() {
    let mut all = Vec::new();
    for name in CRATES {
        sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name).join("src"), &mut all);
    }
    let whole = all.join("\n");
    let found: BTreeSet<String> = all.iter().flat_map(|source| texts(source, &whole)).collect();
    let known: BTreeSet<String> = KNOWN.into_iter().map(str::to_owned).collect();
    assert_eq!(found, known, "wire/bounds.rs lists the texts of StoreError::Overloaded");
}

#[test]
fn text_of_another_version_becomes_a_general_one() {
    for (text, read) in [(KNOWN[0], KNOWN[0]), ("something new", OTHER)] {
        let frame = Bytes::from(encode(&StoreError::Overloaded { what: text }));
        assert_eq!(decode(&frame), Ok(StoreError::Overloaded { what: read }));
    }
}
