//! Counts of what makes code hard to read, a row for the documents and one for each crate. Printed, never refused.
//!
//! `prose` counts words in pages, comments and `expect` texts; `code` finds long functions and the names of types.
//! Circles are those of `circles`. Functions and types of code that only tests compile are left out.

mod code;
mod prose;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::{Done, circles, lines};

/// Words that hide who does what, or how much of it there is.
const AVOIDED: [&str; 4] = ["told", "whoever", "nobody", "so many"];

/// Lines of a function, from its `fn` to its last brace.
const FUNCTION_LINES_MAX: usize = 50;

/// The counts of one crate, or of the documents.
#[derive(Default, Debug, PartialEq, Eq)]
struct Counts {
    words: [usize; AVOIDED.len()],
    long_functions: usize,
    shared_names: usize,
    circles: usize,
    expects: usize,
    vague_expects: usize,
}

/// Prints the table. With a crate's folder, also every place in it.
pub fn print(places_of: Option<&str>) -> Done {
    let files = lines::sources(Path::new("."))?;
    let mut rows = count(&files);
    for (area, counts) in &mut rows {
        let folder = Path::new(area).join("src");
        if folder.is_dir() {
            counts.circles = circles::count(&folder).map_err(|error| format!("{area}: {error}"))?;
        }
    }
    print!("{}", table(&rows));
    if let Some(area) = places_of {
        let known = rows.contains_key(area).then_some(()).ok_or_else(|| format!("no row is named {area}"));
        known?;
        places(&files, area).iter().for_each(|place| println!("{place}"));
    }
    Ok(())
}

fn count(files: &[(String, String)]) -> BTreeMap<String, Counts> {
    let mut rows: BTreeMap<String, Counts> = BTreeMap::new();
    let mut types: BTreeMap<String, BTreeMap<String, usize>> = BTreeMap::new();
    let tests = code::test_only(files);
    for (file, text) in files {
        let row = rows.entry(area(file)).or_default();
        let is_rust = lines::is_rust(file);
        for (_, word) in prose::avoided(text, is_rust) {
            row.words[word] += 1;
        }
        if !is_rust {
            continue;
        }
        for (_, text) in prose::expects(text) {
            row.expects += 1;
            row.vague_expects += usize::from(prose::is_vague(text));
        }
        if is_product(file, &tests) {
            row.long_functions += code::long_functions(text).len();
            let names = types.entry(area(file)).or_default();
            code::types(text).into_iter().for_each(|name| *names.entry(name.to_owned()).or_default() += 1);
        }
    }
    for (area, names) in types {
        rows.entry(area).or_default().shared_names = names.values().filter(|count| **count > 1).count();
    }
    rows
}

/// Every place of an area that a count is made of.
fn places(files: &[(String, String)], of: &str) -> Vec<String> {
    let mut found = Vec::new();
    let tests = code::test_only(files);
    for (file, text) in files.iter().filter(|(file, _)| area(file) == of) {
        let is_rust = lines::is_rust(file);
        let words = prose::avoided(text, is_rust);
        found.extend(words.into_iter().map(|(line, word)| format!("{file}:{line} {}", AVOIDED[word])));
        if !is_rust {
            continue;
        }
        let vague = prose::expects(text).into_iter().filter(|(_, text)| prose::is_vague(text));
        found.extend(vague.map(|(line, text)| format!("{file}:{line} expect \"{text}\"")));
        if is_product(file, &tests) {
            let long = code::long_functions(text).into_iter();
            found.extend(
                long.map(|(line, name, length)| format!("{file}:{line} fn {name} has {length} lines")),
            );
            found.extend(code::types(text).into_iter().map(|name| format!("{file} type {name}")));
        }
    }
    found.retain(|place| !place.contains(" type ") || is_shared(place, files, of, &tests));
    found
}

fn is_shared(place: &str, files: &[(String, String)], of: &str, tests: &BTreeSet<String>) -> bool {
    let Some((_, name)) = place.rsplit_once(" type ") else { return false };
    let sources = files.iter().filter(|(file, _)| area(file) == of && is_product(file, tests));
    sources.flat_map(|(_, text)| code::types(text)).filter(|found| *found == name).count() > 1
}

fn is_product(file: &str, tests: &BTreeSet<String>) -> bool {
    lines::is_rust(file)
        && file.contains("src/")
        && !tests
            .iter()
            .any(|test| file.strip_prefix(test.as_str()).is_some_and(|rest| rest.starts_with(['.', '/'])))
}

/// The crate that a file belongs to, `docs` for every page.
fn area(file: &str) -> String {
    if !lines::is_rust(file) {
        return "docs".to_owned();
    }
    let parts: Vec<&str> = file.split('/').collect();
    let depth = if parts[0] == "crates" { 2 } else { 1 };
    parts[..depth.min(parts.len())].join("/")
}

fn table(rows: &BTreeMap<String, Counts>) -> String {
    let mut text = String::from("| | ");
    text += &AVOIDED.join(" | ");
    text += " | functions over 50 lines | types that share a name | imports on circles | expect | of them vague |\n|";
    text += &"---|".repeat(AVOIDED.len() + 6);
    text.push('\n');
    let mut total = [0; AVOIDED.len() + 5];
    for (area, counts) in rows {
        let cells = counts.cells();
        total.iter_mut().zip(cells).for_each(|(sum, cell)| *sum += cell);
        text += &line(area, &cells);
    }
    text + &line("all", &total)
}

fn line(area: &str, cells: &[usize]) -> String {
    let cells: Vec<String> = cells.iter().map(ToString::to_string).collect();
    format!("| {area} | {} |\n", cells.join(" | "))
}

impl Counts {
    fn cells(&self) -> [usize; AVOIDED.len() + 5] {
        let [a, b, c, d] = self.words;
        [a, b, c, d, self.long_functions, self.shared_names, self.circles, self.expects, self.vague_expects]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(files: &[(&str, &str)]) -> Vec<(String, String)> {
        files.iter().map(|(file, text)| ((*file).to_owned(), (*text).to_owned())).collect()
    }

    #[test]
    fn each_count_stands_in_the_row_of_its_crate() {
        let files = files(&[
            ("README.md", "Nobody is told.\n```\ntold\n```\n"),
            ("crates/core/src/lib.rs", "mod a; mod b; #[cfg(test)] mod trial;\n"),
            ("crates/core/src/a.rs", "/// So many.\nstruct Twice; fn f() { x.expect(\"it is there\") }"),
            (
                "crates/core/src/b/mod.rs",
                "enum Twice {} struct Once; fn f() { x.expect(\"index knows the message\") }",
            ),
            ("crates/core/src/trial.rs", "struct Once;"),
            ("crates/core/tests/t.rs", "// whoever\nstruct Once;"),
        ]);
        let rows = count(&files);
        assert_eq!(rows["docs"], Counts { words: [1, 0, 1, 0], ..Counts::default() });
        let core = Counts {
            words: [0, 1, 0, 1],
            shared_names: 1,
            expects: 2,
            vague_expects: 1,
            ..Counts::default()
        };
        assert_eq!(rows["crates/core"], core);
        let text = table(&rows);
        assert!(text.ends_with("| all | 1 | 1 | 1 | 1 | 0 | 1 | 0 | 2 | 1 |\n"), "{text}");
        let places = places(&files, "crates/core");
        assert!(places.contains(&"crates/core/src/b/mod.rs type Twice".to_owned()), "{places:?}");
        assert!(places.contains(&"crates/core/src/a.rs:2 expect \"it is there\"".to_owned()), "{places:?}");
        assert_eq!(places.len(), 5, "{places:?}");
    }

    #[test]
    fn a_crate_below_crates_and_one_beside_it_have_rows() {
        assert_eq!(area("crates/core/src/id.rs"), "crates/core");
        assert_eq!(area("xtask/src/main.rs"), "xtask");
        assert_eq!(area("e2e/scenarios.md"), "docs");
    }
}
