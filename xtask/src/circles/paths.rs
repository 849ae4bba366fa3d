//! The paths of one source file that can lead to another folder: those in a `use`, and those in the code that begin
//! with `crate::` or `super::`.

use std::collections::BTreeSet;

use super::words::{without_tests, words};

/// A file's paths, and the modules in files of their own that only tests compile.
pub struct Parsed<'a> {
    pub paths: Vec<Found<'a>>,
    pub tests: Vec<&'a str>,
}

/// A path as it was found.
pub struct Found<'a> {
    names: Vec<&'a str>,
    /// What the last of its names is called from here on, if a `use` says so.
    called: Option<&'a str>,
    /// How many modules of its file it lies in.
    inside: usize,
}

impl<'a> Parsed<'a> {
    pub fn read(source: &'a str) -> Self {
        let (words, tests) = without_tests(&words(source));
        let mut paths = Vec::new();
        let (mut at, mut depth) = (0, 0_usize);
        // The depths of braces in which modules of the file lie.
        let mut modules: Vec<usize> = Vec::new();
        while at < words.len() {
            match &words[at..] {
                ["mod", _, "{", ..] => {
                    depth += 1;
                    modules.push(depth);
                    at += 2;
                }
                // `use<'a>` names what a type captures.
                ["use", next, ..] if *next != "<" => {
                    at = tree(&words, at + 1, &[], modules.len(), &mut paths);
                    continue;
                }
                ["crate" | "super", "::", ..] => {
                    let names = names_at(&words[at..]);
                    at += names.len() * 2 - 2;
                    paths.push(Found { names, called: None, inside: modules.len() });
                }
                ["{", ..] => depth += 1,
                ["}", ..] => {
                    if modules.last() == Some(&depth) {
                        modules.pop();
                    }
                    depth = depth.saturating_sub(1);
                }
                _ => {}
            }
            at += 1;
        }
        Self { paths, tests }
    }
}

/// The names of the path that begins here.
fn names_at<'a>(words: &[&'a str]) -> Vec<&'a str> {
    let is_name = |word: &str| word.chars().all(|sign| sign.is_alphanumeric() || sign == '_');
    let mut names = vec![words[0]];
    while let ["::", name, ..] = &words[names.len() * 2 - 1..]
        && is_name(name)
    {
        names.push(name);
    }
    names
}

/// Adds the paths of the tree of a `use` that goes on here behind other names. Answers where it ends.
fn tree<'a>(
    words: &[&'a str],
    mut at: usize,
    before: &[&'a str],
    inside: usize,
    paths: &mut Vec<Found<'a>>,
) -> usize {
    let (mut names, mut called) = (before.to_vec(), None);
    let mut is_group = false;
    while at < words.len() {
        match &words[at..] {
            ["{", ..] => {
                is_group = true;
                at += 1;
                while at < words.len() && !matches!(words[at], "}" | ";") {
                    at = tree(words, at, &names, inside, paths);
                    at += usize::from(words.get(at) == Some(&","));
                }
            }
            [";" | "," | "}", ..] => break,
            ["as", name, ..] => {
                called = Some(*name);
                at += 1;
            }
            ["::", ..] => {}
            [name, ..] => names.push(name),
            [] => {}
        }
        at += 1;
    }
    if !is_group {
        paths.push(Found { names, called, inside });
    }
    at
}

impl<'a> Found<'a> {
    /// The first name of it as seen from the crate's root, for a path in a file whose module lies so deep; `None` when
    /// it begins below the root.
    pub fn seen_from_root(&self, depth: usize) -> Option<&'a str> {
        let names = match self.names.first() {
            Some(&"self") => &self.names[1..],
            _ => &self.names[..],
        };
        if names.first() == Some(&"crate") {
            return names.get(1).copied();
        }
        let climbed = names.iter().take_while(|name| **name == "super").count();
        (climbed > 0 && climbed == depth + self.inside).then(|| names.get(climbed).copied()).flatten()
    }

    /// What a path of the crate's root gives on: a name, and the folder that it comes from.
    pub fn given_on(&self, folders: &BTreeSet<&'a str>) -> Option<(&'a str, &'a str)> {
        let names = match self.names.first() {
            Some(&("self" | "crate")) => &self.names[1..],
            _ => &self.names[..],
        };
        let [folder, .., last] = names else { return None };
        let name = self.called.unwrap_or(last);
        (self.inside == 0 && folders.contains(folder)).then_some((name, *folder))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(source: &str) -> Vec<String> {
        let parsed = Parsed::read(source);
        parsed
            .paths
            .iter()
            .map(|found| format!("{}{}", found.names.join("::"), found.called.unwrap_or("")))
            .collect()
    }

    #[test]
    fn a_use_is_all_paths_of_its_tree() {
        let found = paths("pub(crate) use a::{self, b::{c as d, e}, f::*}; use g;");
        assert_eq!(found, ["a::self", "a::b::cd", "a::b::e", "a::f::*", "g"]);
    }

    #[test]
    fn paths_in_the_code_begin_at_the_root_or_climb() {
        assert_eq!(
            paths("fn a() -> super::b::C<crate::d> { crate::e::f::<G>(h::i) }"),
            ["super::b::C", "crate::d", "crate::e::f"]
        );
    }

    #[test]
    fn what_a_type_captures_is_no_import() {
        assert_eq!(paths("fn a() -> impl B + use<'_, C> { d(); crate::e() }"), ["crate::e"]);
    }

    #[test]
    fn modules_of_a_file_count_as_depth() {
        let parsed = Parsed::read(
            "use super::a; mod m { fn f() {} mod n { use super::super::super::b; } use super::super::c; } use super::d;",
        );
        let names: Vec<_> = parsed.paths.iter().map(|found| found.seen_from_root(1)).collect();
        assert_eq!(names, [Some("a"), Some("b"), Some("c"), Some("d")]);
        assert!(parsed.paths.iter().all(|found| found.seen_from_root(2).is_none()));
    }
}
