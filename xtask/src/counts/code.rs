//! Long functions and names of types of a Rust source, without code that only tests compile.

use std::collections::BTreeSet;

use super::FUNCTION_LINES_MAX;
use crate::circles::words::{without_tests, words};

/// Functions over the length: line, name and number of lines of each.
pub fn long_functions(source: &str) -> Vec<(usize, &str, usize)> {
    let all = words(source);
    let (words, _) = without_tests(&all);
    let mut found = Vec::new();
    for (at, _) in words.iter().enumerate().filter(|(_, word)| **word == "fn") {
        let Some(end) = body_end(&words[at..]) else { continue };
        let (first, last) = (line_of(source, words[at]), line_of(source, words[at + end]));
        let length = last - first + 1;
        if length > FUNCTION_LINES_MAX {
            found.push((first, words[at + 1], length));
        }
    }
    found
}

/// Names of the structs, enums, traits and type aliases that a source declares. Those within an `impl` or a trait are
/// associated types and have no name of their own.
pub fn types(source: &str) -> Vec<&str> {
    let all = words(source);
    let (words, _) = without_tests(&all);
    let (mut found, mut depth, mut hidden) = (Vec::new(), 0_usize, None);
    let mut is_block_of_types = false;
    for (at, word) in words.iter().enumerate() {
        match *word {
            "impl" | "trait" | "fn" => is_block_of_types = true,
            ";" if hidden.is_none() => is_block_of_types = false,
            "{" => {
                depth += 1;
                if std::mem::take(&mut is_block_of_types) && hidden.is_none() {
                    hidden = Some(depth);
                }
            }
            "}" => {
                hidden = hidden.filter(|hidden| *hidden != depth);
                depth = depth.saturating_sub(1);
            }
            _ => {}
        }
        let declares = matches!(*word, "struct" | "enum" | "trait" | "type");
        let is_item = at == 0 || matches!(words[at - 1], "pub" | ")" | ";" | "}" | "{" | "]" | "unsafe");
        if declares && is_item && hidden.is_none() {
            found.extend(words.get(at + 1));
        }
    }
    found
}

/// Paths of modules that only tests compile, without their ending: `crates/core/src/trial`.
pub fn test_only(files: &[(String, String)]) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (file, text) in files.iter().filter(|(file, _)| file.ends_with(".rs")) {
        let all = words(text);
        let (_, modules) = without_tests(&all);
        let folder = folder_of_modules(file);
        found.extend(modules.into_iter().map(|module| format!("{folder}/{module}")));
    }
    found
}

/// The folder that holds the modules which a file names.
fn folder_of_modules(file: &str) -> &str {
    let (folder, name) = file.rsplit_once('/').unwrap_or(("", file));
    let is_root = matches!(name, "mod.rs" | "lib.rs" | "main.rs");
    if is_root { folder } else { file.trim_end_matches(".rs") }
}

/// Where the body of the function at the first word ends; `None` without a body.
fn body_end(words: &[&str]) -> Option<usize> {
    let (mut depth, mut has_body) = (0_i32, false);
    for (at, word) in words.iter().enumerate() {
        match *word {
            // A type of a function, `fn(u8)`, has no name and no body.
            "(" if at == 1 => return None,
            "{" | "(" | "[" => {
                has_body |= *word == "{" && depth == 0;
                depth += 1;
            }
            "}" | ")" | "]" => depth -= 1,
            ";" if depth == 0 => return None,
            _ => continue,
        }
        if has_body && depth == 0 {
            return Some(at);
        }
    }
    None
}

/// The line of a word that is a part of the source.
fn line_of(source: &str, word: &str) -> usize {
    let at = word.as_ptr().addr() - source.as_ptr().addr();
    source[..at].matches('\n').count() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(lines: usize) -> String {
        format!("fn long(a: [u8; 4]) {{{}}}\n", "\n".repeat(lines - 1))
    }

    #[test]
    fn a_function_of_51_lines_is_long_and_one_of_50_is_not() {
        assert_eq!(long_functions(&function(50)), []);
        assert_eq!(long_functions(&format!("\n{}", function(51))), [(2, "long", 51)]);
        assert_eq!(
            long_functions(&format!("trait T {{ fn f(); }} type F = fn(u8);\n{}", function(51))).len(),
            1
        );
        assert_eq!(long_functions(&format!("#[cfg(test)] mod tests {{ {} }}", function(60))), []);
    }

    #[test]
    fn types_are_what_items_declare() {
        let source = "pub struct A; enum B { X } #[derive(Debug)] pub(crate) struct C(u8); pub type D = u8;
            trait E { type Item; fn f() {} } impl E for A { type Item = u8; } fn g() { struct Within; }
            #[cfg(test)] mod tests { struct A; } fn h(kind: u8) -> impl Fn() { } struct F;";
        assert_eq!(types(source), ["A", "B", "C", "D", "E", "F"]);
    }

    #[test]
    fn modules_of_tests_are_known_by_their_paths() {
        let files = [
            ("crates/a/src/lib.rs".to_owned(), "#[cfg(test)] mod one; mod two;".to_owned()),
            ("crates/a/src/two.rs".to_owned(), "#[cfg(test)] mod three;".to_owned()),
        ];
        let found: Vec<String> = test_only(&files).into_iter().collect();
        assert_eq!(found, ["crates/a/src/one", "crates/a/src/two/three"]);
    }
}
