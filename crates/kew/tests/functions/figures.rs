//! `docs/functions-figures.md` names a test for each figure: all of them are there.

use std::fs;
use std::path::Path;

/// The names of tests in the last column of the page's tables.
fn named(page: &str) -> Vec<&str> {
    let rows = page.lines().filter(|line| line.starts_with("| ") && line.ends_with("` |"));
    let last = rows.filter_map(|row| row.trim_end_matches(" |").rsplit(" | ").next());
    last.flat_map(|cell| cell.split(", ")).map(|name| name.trim_matches('`')).collect()
}

/// All source below a folder.
fn sources(folder: &Path, text: &mut String) {
    for entry in fs::read_dir(folder).expect("the folder is one of the repository") {
        let path = entry.expect("the folder can be read").path();
        if path.is_dir() {
            sources(&path, text);
        } else {
            text.push_str(&fs::read_to_string(path).expect("a source is UTF-8"));
        }
    }
}

#[test]
fn each_figure_of_the_page_has_its_test() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(here.join("../../docs/functions-figures.md")).expect("the file exists");
    let mut text = String::new();
    sources(&here.join("tests/functions"), &mut text);
    sources(&here.join("../functions/src"), &mut text);
    let names = named(&page);
    let rows = page.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| scenario")).count();
    assert!(rows >= 29 && names.len() >= rows, "{rows} rows, {} tests", names.len());
    let lost: Vec<&str> = names.into_iter().filter(|name| !text.contains(&format!("fn {name}("))).collect();
    assert!(lost.is_empty(), "the page names tests that are not there: {lost:?}");
}
