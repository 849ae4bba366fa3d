//! The compatibility tables: what each dialect does as its service does, a row for each test that shows it.
//!
//! The rows are the wire tests themselves, whose names are sentences. So a row can't outlive its test, and a test can't
//! be left out. A line `/// Vendor: …` above a test names where the vendor's answer is written or was recorded.
//! `cargo xtask compatibility` writes the page; a check compares it.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use crate::Done;

const PAGE: &str = "docs/dialects/compatibility.md";
const SCENARIOS: &str = "e2e/scenarios.md";

/// The dialects, each with the crate whose wire tests are its rows.
const DIALECTS: &[(&str, &str, &str)] = &[
    ("Amazon SQS", "sqs.md", "crates/sqs"),
    ("Azure Queue Storage", "azure.md", "crates/azure"),
    ("Cloudflare Queues", "cloudflare.md", "crates/cloudflare"),
];

const INTRODUCTION: &str = "\
# Compatibility, test by test

What Kew does as each service does it. Each row is a test that sends a request's bytes to Kew and compares the reply's with
what the service answers, and has the name of that test. The last column names the page, the source of an SDK or the recording
that has the vendor's answer, where a test names one. What differs is said on each dialect's own page.

Run one with `cargo test --workspace --test wire -- NAME`. This page is made from the tests by `cargo xtask compatibility`.
";

const TABLE_HEAD: &str = "| what holds | test | the vendor's answer |\n|---|---|---|\n";

/// Writes the page.
pub fn write() -> Done {
    let page = page()?;
    fs::write(PAGE, page).map_err(|error| format!("cannot write {PAGE}: {error}"))?;
    println!("{PAGE} is written");
    Ok(())
}

/// Compares the page with the tests.
pub fn compare() -> Done {
    let found = read(Path::new(PAGE))?;
    if found == page()? {
        println!("compatibility: {} rows, each a test", found.lines().filter(|line| is_row(line)).count());
        return Ok(());
    }
    Err(format!("{PAGE} is not what the tests say: run `cargo xtask compatibility`"))
}

fn is_row(line: &str) -> bool {
    line.starts_with("| ") && line.contains("` | ")
}

fn page() -> Result<String, String> {
    let mut page = INTRODUCTION.to_owned();
    for (name, document, folder) in DIALECTS {
        let mut count = 0;
        let mut tables = String::new();
        for topic in topics(Path::new(folder))? {
            count += topic.tests.len();
            let _text = write!(tables, "\n### {}\n\n{TABLE_HEAD}", topic.about);
            for Test { name, vendor } in &topic.tests {
                let _text = writeln!(tables, "| {} | `{name}` | {vendor} |", sentence(name));
            }
        }
        let _text = write!(
            page,
            "\n## {name}\n\n{count} tests in `{folder}/tests/wire`; the dialect's page is [{document}]({document}).\n{tables}"
        );
    }
    page.push_str(&clients(&read(Path::new(SCENARIOS))?));
    Ok(page)
}

/// The tests of one file, and what they are about.
#[derive(Debug, PartialEq, Eq)]
struct Topic {
    about: String,
    tests: Vec<Test>,
}

#[derive(Debug, PartialEq, Eq)]
struct Test {
    name: String,
    /// Where the vendor's answer is; may be empty.
    vendor: String,
}

fn topics(folder: &Path) -> Result<Vec<Topic>, String> {
    let folder = folder.join("tests/wire");
    let unread = |error| format!("cannot list {}: {error}", folder.display());
    let mut files = Vec::new();
    for entry in fs::read_dir(&folder).map_err(unread)? {
        files.push(entry.map_err(unread)?.path());
    }
    files.sort_unstable();
    let mut topics = Vec::new();
    for file in files.iter().filter(|file| file.extension().is_some_and(|extension| extension == "rs")) {
        topics.push(topic(&read(file)?));
    }
    topics.retain(|topic| !topic.tests.is_empty());
    Ok(topics)
}

/// What a file of tests says: its first sentence, and the names of its tests in their order.
fn topic(source: &str) -> Topic {
    let words: Vec<&str> = source.lines().map_while(|line| line.strip_prefix("//!")).map(str::trim).collect();
    let words = words.join(" ");
    let about = words.split(". ").next().unwrap_or_default().trim().trim_end_matches('.').to_owned();
    let (mut tests, mut is_test, mut vendor) = (Vec::new(), false, Vec::new());
    for line in source.lines().map(str::trim) {
        if let Some(first) = line.strip_prefix("/// Vendor: ") {
            vendor = vec![first];
        } else if let Some(next) = line.strip_prefix("/// ").filter(|_| !vendor.is_empty()) {
            vendor.push(next);
        } else if line.starts_with("#[test") || line.starts_with("#[tokio::test") {
            is_test = true;
        } else if let Some(name) = function(line) {
            let vendor = std::mem::take(&mut vendor).join(" ");
            if std::mem::take(&mut is_test) {
                tests.push(Test { name: name.to_owned(), vendor });
            }
        }
    }
    Topic { about, tests }
}

fn function(line: &str) -> Option<&str> {
    let line = line.strip_prefix("async ").unwrap_or(line);
    line.strip_prefix("fn ")?.split('(').next()
}

/// A test's name as a sentence.
fn sentence(name: &str) -> String {
    let words = name.replace('_', " ");
    let mut letters = words.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// What the vendors' own clients play, with how many scenarios each.
fn clients(scenarios: &str) -> String {
    let mut text = "\n## The vendors' own clients\n\nPlayed against a running Kew by `cargo xtask e2e`; the scenarios are in \
                    `e2e/scenarios.md`.\n\n| client | scenarios |\n|---|---|\n"
        .to_owned();
    let chapters = scenarios.split("\n## ").skip(1);
    for chapter in chapters {
        let title = chapter.lines().next().unwrap_or_default().replace('|', "/");
        let count = chapter.lines().filter(|line| line.starts_with("### ")).count();
        let _text = writeln!(text, "| {title} | {count} |");
    }
    text
}

fn read(file: &Path) -> Result<String, String> {
    fs::read_to_string(file).map_err(|error| format!("cannot read {}: {error}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_the_tests_of_a_file_in_their_order() {
        let source = "//! Queues: made,\n//! found. More words.\n\n/// Vendor: of no test\nfn helper() {}\n\n\
                      /// Vendor: a page,\n/// its second part\n#[tokio::test]\nasync fn b_comes_first() {}\n\
                      #[test]\n#[ignore]\nfn a_is_last() {}\nfn other() {}\n";
        let test = |name: &str, vendor: &str| Test { name: name.to_owned(), vendor: vendor.to_owned() };
        let tests = vec![test("b_comes_first", "a page, its second part"), test("a_is_last", "")];
        assert_eq!(topic(source), Topic { about: "Queues: made, found".to_owned(), tests });
        assert_eq!(sentence("b_comes_first"), "B comes first");
    }

    #[test]
    fn clients_are_the_chapters_with_their_scenarios() {
        let text = clients("# Title\n\n## one: `--auth open`\n### a\n### b\n\n## two\n### c\n");
        assert!(text.ends_with("| one: `--auth open` | 2 |\n| two | 1 |\n"), "{text}");
    }
}
