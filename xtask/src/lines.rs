//! Lines of prose have at most 120 characters: in Markdown pages, and in comments that stand on lines of their own.
//!
//! Left out are what cannot wrap: tables, code blocks, headings, and a line that is one word (a link). Pages that a
//! script writes are left out too.

use std::fs;
use std::path::{Path, PathBuf};

use crate::Done;

/// Characters of a line of prose, indentation included.
const LENGTH_MAX: usize = 120;

/// Written by `make bench` and `cargo xtask compatibility`.
const WRITTEN_BY_SCRIPTS: [&str; 2] = ["docs/bench/report.md", "docs/dialects/compatibility.md"];

/// Folders that hold no source of this repository.
const SKIPPED: [&str; 5] = ["target", "node_modules", ".git", ".cache", ".venv"];

/// Refuses every line of prose that is too long, each with its file and line.
pub fn compare() -> Done {
    let files = sources(Path::new("."))?;
    let mut found = Vec::new();
    for (file, text) in &files {
        let lines = if is_rust(file) { in_rust(text) } else { in_markdown(text) };
        found
            .extend(lines.into_iter().map(|(line, length)| format!("{file}:{line} has {length} characters")));
    }
    if found.is_empty() {
        println!("lines: {} files, no line of prose over {LENGTH_MAX} characters", files.len());
        return Ok(());
    }
    Err(format!("lines of prose wrap at {LENGTH_MAX} characters:\n  {}", found.join("\n  ")))
}

/// Every Markdown page and Rust source by its path, in the order of paths.
pub fn sources(root: &Path) -> Result<Vec<(String, String)>, String> {
    let (mut files, mut folders) = (Vec::new(), vec![root.to_path_buf()]);
    while let Some(folder) = folders.pop() {
        let unread = |error| format!("cannot list {}: {error}", folder.display());
        for entry in fs::read_dir(&folder).map_err(unread)? {
            let entry = entry.map_err(unread)?;
            if entry.file_type().map_err(unread)?.is_dir() {
                folders.extend(wanted(&entry.path()));
            } else if let Some(name) = source_name(root, &entry.path()) {
                let text = fs::read_to_string(entry.path())
                    .map_err(|error| format!("cannot read {name}: {error}"))?;
                files.push((name, text));
            }
        }
    }
    files.sort_unstable();
    Ok(files)
}

fn wanted(folder: &Path) -> Option<PathBuf> {
    let name = folder.file_name()?.to_str()?;
    (!SKIPPED.contains(&name)).then(|| folder.to_path_buf())
}

fn source_name(root: &Path, file: &Path) -> Option<String> {
    let name = file.strip_prefix(root).ok()?.to_str()?;
    let is_source = is_rust(name) || name.ends_with(".md");
    (is_source && !WRITTEN_BY_SCRIPTS.contains(&name)).then(|| name.to_owned())
}

pub fn is_rust(file: &str) -> bool {
    file.ends_with(".rs")
}

/// The long lines of a page, each with its number and its length.
fn in_markdown(text: &str) -> Vec<(usize, usize)> {
    let mut is_code = false;
    let mut found = Vec::new();
    for (at, line) in text.lines().enumerate() {
        if is_fence(line) {
            is_code = !is_code;
        } else if !is_code && can_wrap(line) {
            found.extend(too_long(at, line));
        }
    }
    found
}

/// The long comments of a source. A code block ends with the comment that holds it.
fn in_rust(text: &str) -> Vec<(usize, usize)> {
    let mut is_code = false;
    let mut found = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let Some(comment) = comment(line) else {
            is_code = false;
            continue;
        };
        if is_fence(comment) {
            is_code = !is_code;
        } else if !is_code && can_wrap(comment) {
            found.extend(too_long(at, line));
        }
    }
    found
}

/// What stands behind the slashes of a line that is a comment.
pub fn comment(line: &str) -> Option<&str> {
    let behind = line.trim_start().strip_prefix("//")?;
    Some(behind.strip_prefix(['/', '!']).unwrap_or(behind).trim_start())
}

pub fn is_fence(line: &str) -> bool {
    line.trim_start().starts_with("```")
}

/// No table and no heading, and more than one word behind the mark of a list.
fn can_wrap(line: &str) -> bool {
    let text = line.trim_start();
    let words = text.trim_start_matches(['-', '*', '>']).split_whitespace().count();
    !text.starts_with(['|', '#']) && words > 1
}

fn too_long(at: usize, line: &str) -> Option<(usize, usize)> {
    let length = line.chars().count();
    (length > LENGTH_MAX).then_some((at + 1, length))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A line of this many characters that has two words.
    fn line(length: usize) -> String {
        format!("word {}", "é".repeat(length - 5))
    }

    #[test]
    fn a_line_of_prose_may_have_120_characters_and_no_more() {
        let text = format!("# Title\n\n{}\n{}\n- {}\n", line(120), line(121), line(119));
        assert_eq!(in_markdown(&text), [(4, 121), (5, 121)]);
    }

    #[test]
    fn tables_code_headings_and_lone_links_may_be_longer() {
        let long = line(130);
        let link = format!("- [link](https://{})", "a".repeat(120));
        let text = format!("# {long}\n\n| {long} |\n\n```sh\n{long}\n```\n  ```\n{long}\n  ```\n{link}\n");
        assert_eq!(in_markdown(&text), []);
        assert_eq!(in_markdown(&format!("```\n```\n{long}\n")), [(3, 130)]);
    }

    #[test]
    fn comments_count_with_their_indentation_and_code_does_not_count() {
        let (fits, long) = (line(112), line(113));
        let text =
            format!("    /// {fits}\n    /// {long}\n    // {long}\n//! {long}\nlet a = \"{long}\";\n");
        assert_eq!(in_rust(&text), [(2, 121)]);
        assert_eq!(in_rust(&format!("// {}\n//! {}\n", line(118), line(117))), [(1, 121), (2, 121)]);
    }

    #[test]
    fn a_code_block_in_a_comment_ends_with_the_comment() {
        let long = line(130);
        let text =
            format!("/// ```\n/// {long}\n/// ```\n/// | {long} |\n/// ```\nfn f() {{}}\n/// {long}\n");
        assert_eq!(in_rust(&text), [(7, 134)]);
    }
}
