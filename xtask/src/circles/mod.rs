//! Circles of imports between the folders of a crate: the modules that its root names.
//!
//! Cargo refuses circles of crates; within a crate the compiler allows them. Here the sources are read, without what
//! only tests compile: an import is a path that begins with `crate::` or climbs with `super::`, in a `use` or in the
//! code. A name that the root gives on (`pub use journal::Frame`) belongs to the folder it comes from. What is counted
//! are imports that lie on a circle: those from a folder to one that in the end imports it as well.
//!
//! On the way modules are refused that are a file beside their folder.

mod paths;
pub mod words;

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use paths::Parsed;

/// Crates with circles, and how many of their imports lie on one. A count may only shrink; one that is 0 has no row.
const KNOWN: &[(&str, usize)] = &[];

/// What was found: a sentence with the counts, and one for each count that is not as known.
pub struct Findings {
    pub summary: String,
    pub violations: Vec<String>,
}

/// Reads the sources of every crate that `cargo metadata --no-deps` tells.
pub fn compare(metadata: &Value) -> Result<Findings, String> {
    let packages =
        metadata.get("packages").and_then(Value::as_array).ok_or("cargo metadata has no packages")?;
    let (mut found, mut misplaced) = (Vec::new(), Vec::new());
    for package in packages {
        let text = |key| package.get(key).and_then(Value::as_str).ok_or("cargo metadata has no such text");
        let folder = Path::new(text("manifest_path")?).parent().ok_or("a manifest lies in no folder")?;
        let sources = read(&folder.join("src")).map_err(|error| format!("{}: {error}", folder.display()))?;
        let name = text("name")?;
        misplaced.extend(beside_their_folders(name, &sources));
        found.push((name.to_owned(), on_circles(&imports(&sources))));
    }
    let mut findings = judge(&found, KNOWN);
    findings.violations.extend(misplaced);
    Ok(findings)
}

/// How many imports of a crate lie on circles; `folder` is its `src`.
pub fn count(folder: &Path) -> std::io::Result<usize> {
    Ok(on_circles(&imports(&read(folder)?)).len())
}

/// A sentence for each module that is a file beside its folder.
fn beside_their_folders(name: &str, sources: &[Source]) -> Vec<String> {
    let misplaced = sources.iter().filter(|source| source.beside_its_folder);
    misplaced
        .map(|source| {
            format!(
                "{name}: {} stands beside its folder, it belongs into its mod.rs",
                source.module.join("::")
            )
        })
        .collect()
}

fn judge(found: &[(String, Vec<Import>)], known: &[(&str, usize)]) -> Findings {
    let mut violations = Vec::new();
    for (name, circles) in found {
        let known = known.iter().find(|(known, _)| known == name).map_or(0, |(_, count)| *count);
        let count = circles.len();
        if count > known {
            let places: Vec<String> = circles.iter().map(ToString::to_string).collect();
            violations.push(format!(
                "{name} has {count} imports on circles between its folders, {known} are known: move down what both need, \
                 or hand it in. They are {}",
                places.join(", ")
            ));
        } else if count < known {
            let change = if count == 0 { "take its row out of" } else { "write that into" };
            violations.push(format!(
                "{name} has {count} imports on circles, fewer than the {known} known: {change} KNOWN of \
                 xtask/src/circles/mod.rs"
            ));
        }
    }
    for (name, _) in known {
        if !found.iter().any(|(found, _)| found == name) {
            violations.push(format!("KNOWN of xtask/src/circles/mod.rs names {name}, which is no crate"));
        }
    }
    let counts: Vec<String> = found
        .iter()
        .filter(|(_, circles)| !circles.is_empty())
        .map(|(name, circles)| format!("{name} {}", circles.len()))
        .collect();
    let total: usize = found.iter().map(|(_, circles)| circles.len()).sum();
    let of_each = if counts.is_empty() { String::new() } else { format!(" ({})", counts.join(", ")) };
    let summary = format!("{total} imports on circles between folders of {} crates{of_each}", found.len());
    Findings { summary, violations }
}

/// One source file: its module's path from the crate's root, and its text.
struct Source {
    module: Vec<String>,
    /// It is `a.rs` beside the folder `a`, where the house has `a/mod.rs`.
    beside_its_folder: bool,
    text: String,
}

/// All sources of a crate. A program beside a library of the same crate is left out.
fn read(folder: &Path) -> std::io::Result<Vec<Source>> {
    let has_library = folder.join("lib.rs").is_file();
    let mut sources = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs")
                && !(has_library && path == folder.join("main.rs"))
            {
                let module = module_of(path.strip_prefix(folder).unwrap_or(&path));
                let beside_its_folder = path.with_extension("").is_dir();
                sources.push(Source { module, beside_its_folder, text: fs::read_to_string(&path)? });
            }
        }
    }
    Ok(sources)
}

/// The path of a file's module: `a/b.rs` and `a/b/mod.rs` are `a::b`, the root is nothing.
fn module_of(file: &Path) -> Vec<String> {
    let file: PathBuf = file.with_extension("");
    let mut module: Vec<String> = file.iter().map(|part| part.to_string_lossy().into_owned()).collect();
    let is_named_by_its_folder = match module.as_slice() {
        [only] => only == "lib" || only == "main",
        [.., last] => last == "mod",
        [] => false,
    };
    if is_named_by_its_folder {
        module.pop();
    }
    module
}

/// An import of one folder by another.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Import {
    from: String,
    to: String,
    /// The module in which it was found first.
    place: String,
}

impl std::fmt::Display for Import {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} → {} (in {})", self.from, self.to, self.place)
    }
}

/// All imports between the folders of a crate, each once.
fn imports(sources: &[Source]) -> Vec<Import> {
    let folders: BTreeSet<&str> =
        sources.iter().filter_map(|source| source.module.first()).map(String::as_str).collect();
    let parsed: Vec<(&Source, Parsed<'_>)> =
        sources.iter().map(|source| (source, Parsed::read(&source.text))).collect();
    let tests: BTreeSet<Vec<String>> = parsed
        .iter()
        .flat_map(|(source, parsed)| {
            parsed.tests.iter().map(|name| [source.module.clone(), vec![(*name).to_owned()]].concat())
        })
        .collect();
    let face: BTreeMap<&str, &str> = parsed
        .iter()
        .filter(|(source, _)| source.module.is_empty())
        .flat_map(|(_, parsed)| &parsed.paths)
        .filter_map(|path| path.given_on(&folders))
        .collect();
    let mut first: BTreeMap<(String, String), String> = BTreeMap::new();
    for (source, parsed) in &parsed {
        let Some(from) = source.module.first() else { continue };
        if (1..=source.module.len()).any(|len| tests.contains(&source.module[..len])) {
            continue;
        }
        for path in &parsed.paths {
            let Some(name) = path.seen_from_root(source.module.len()) else { continue };
            let folder = folders.get(name).or_else(|| face.get(name));
            if let Some(to) = folder.filter(|to| *to != from) {
                let place = source.module.join("::");
                let known = first.entry((from.clone(), (*to).to_owned())).or_insert_with(|| place.clone());
                *known = place.min(known.clone());
            }
        }
    }
    first.into_iter().map(|((from, to), place)| Import { from, to, place }).collect()
}

/// Imports from a folder to one that in the end imports it as well.
fn on_circles(imports: &[Import]) -> Vec<Import> {
    imports.iter().filter(|import| reaches(imports, &import.to, &import.from)).cloned().collect()
}

fn reaches(imports: &[Import], from: &str, to: &str) -> bool {
    let mut seen = BTreeSet::from([from]);
    let mut open = vec![from];
    while let Some(next) = open.pop() {
        if next == to {
            return true;
        }
        let further = imports.iter().filter(|import| import.from == next).map(|import| import.to.as_str());
        open.extend(further.filter(|further| seen.insert(further)));
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crate_of(files: &[(&str, &str)]) -> Vec<Source> {
        files
            .iter()
            .map(|(file, text)| Source {
                module: module_of(Path::new(file)),
                beside_its_folder: false,
                text: (*text).to_owned(),
            })
            .collect()
    }

    #[test]
    fn a_module_beside_its_folder_is_refused() {
        let mut sources = crate_of(&[("lib.rs", ""), ("a/mod.rs", ""), ("b/c.rs", "")]);
        assert_eq!(beside_their_folders("kew-x", &sources), [""; 0]);
        sources[2].beside_its_folder = true;
        let found = beside_their_folders("kew-x", &sources);
        assert_eq!(found, ["kew-x: b::c stands beside its folder, it belongs into its mod.rs"]);
    }

    fn circles(files: &[(&str, &str)]) -> Vec<String> {
        on_circles(&imports(&crate_of(files))).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn two_folders_that_import_each_other_are_a_circle_of_two_imports() {
        let found = circles(&[
            ("lib.rs", "mod a; mod b; mod c;"),
            ("a.rs", "use crate::b::Thing;"),
            ("b/mod.rs", "mod deep; fn f() { crate::c::g() }"),
            ("b/deep.rs", "use super::super::a;"),
            ("c.rs", "fn g() {}"),
        ]);
        assert_eq!(found, ["a → b (in a)", "b → a (in b::deep)"]);
    }

    #[test]
    fn a_longer_circle_is_one_too() {
        let found = circles(&[
            ("main.rs", ""),
            ("a.rs", "use crate::{b::{X, Y}, z::Z};"),
            ("b.rs", "type T = crate::c::C;"),
            ("c.rs", "use super::a::A;"),
        ]);
        assert_eq!(found, ["a → b (in a)", "b → c (in b)", "c → a (in c)"]);
    }

    #[test]
    fn imports_in_one_direction_and_within_a_folder_are_none() {
        let found = circles(&[
            ("lib.rs", "pub use b::Thing;"),
            ("a/mod.rs", "mod one; mod two; use crate::b::Thing;"),
            ("a/one.rs", "use super::two::Two; use crate::a::two;"),
            (
                "a/two.rs",
                "use super::one::One; mod within { use super::super::one; use super::super::super::b; }",
            ),
            ("b.rs", "// crate::a\nconst TEXT: &str = \"crate::a::X\";"),
        ]);
        assert_eq!(found, [""; 0]);
    }

    #[test]
    fn a_name_that_the_root_gives_on_belongs_to_its_folder() {
        let files = [
            ("lib.rs", "mod a; mod b; pub use a::{Thing, other::Old as New}; use self::b::B;"),
            ("a.rs", "use crate::b::B;"),
        ];
        for import in ["use crate::Thing;", "fn f() -> super::New {}"] {
            let found = circles(&[files[0], files[1], ("b.rs", import)]);
            assert_eq!(found, ["a → b (in a)", "b → a (in b)"], "{import}");
        }
        assert_eq!(circles(&[files[0], files[1], ("b.rs", "use crate::{Old, Unknown};")]), [""; 0]);
    }

    #[test]
    fn what_only_tests_compile_may_look_anywhere() {
        let found = circles(&[
            ("lib.rs", "mod a; mod b; #[cfg(test)] mod house;"),
            ("a.rs", "use crate::b::B; #[cfg(test)] mod tests { use crate::house; }"),
            ("b.rs", "#[cfg(test)] mod trial; #[cfg(test)] use crate::a::A; fn f() {}"),
            ("b/trial.rs", "use crate::a::A;"),
            ("house.rs", "use crate::a::A;"),
        ]);
        assert_eq!(found, [""; 0]);
    }

    fn import(from: &str, to: &str) -> Import {
        Import { from: from.to_owned(), to: to.to_owned(), place: from.to_owned() }
    }

    #[test]
    fn more_circles_than_known_are_refused_with_their_places() {
        let found =
            [("kew-a".to_owned(), vec![import("x", "y"), import("y", "x")]), ("kew-b".to_owned(), vec![])];
        let Findings { summary, violations } = judge(&found, &[]);
        assert_eq!(summary, "2 imports on circles between folders of 2 crates (kew-a 2)");
        assert_eq!(violations.len(), 1, "{violations:?}");
        assert!(violations[0].starts_with("kew-a has 2 imports on circles between its folders, 0 are known"));
        assert!(violations[0].ends_with("x → y (in x), y → x (in y)"));
        assert_eq!(judge(&found, &[("kew-a", 1)]).violations.len(), 1);
        assert_eq!(judge(&found, &[("kew-a", 2)]).violations, [""; 0]);
    }

    #[test]
    fn a_known_count_that_is_too_high_or_of_no_crate_is_refused() {
        let found = [("kew-a".to_owned(), vec![]), ("kew-b".to_owned(), vec![import("x", "y")])];
        let violations = judge(&found, &[("kew-a", 1), ("kew-b", 2), ("kew-c", 1)]).violations;
        assert_eq!(violations.len(), 3, "{violations:?}");
        assert!(
            violations[0]
                .starts_with("kew-a has 0 imports on circles, fewer than the 1 known: take its row out")
        );
        assert!(
            violations[1].starts_with("kew-b has 1 imports on circles, fewer than the 2 known: write that")
        );
        assert!(violations[2].contains("names kew-c, which is no crate"));
    }

    #[test]
    fn unreadable_metadata_is_an_error_not_a_pass() {
        for metadata in ["{}", r#"{ "packages": [{ "name": "kew-core" }] }"#] {
            assert!(compare(&serde_json::from_str(metadata).unwrap()).is_err(), "{metadata}");
        }
    }
}
