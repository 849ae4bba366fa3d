//! Words in pages and comments, and the texts of `expect`.

use super::AVOIDED;
use crate::lines;

/// Every avoided word in the prose of a file: its line, and its place among the words that are looked for.
///
/// In a Rust source the texts of `expect` count as prose too. Two words count also where a line ends between them.
pub fn avoided(text: &str, is_rust: bool) -> Vec<(usize, usize)> {
    let mut found = in_words(&prose(text, is_rust));
    if is_rust {
        for (line, text) in expects(text) {
            let words = words(text).map(|word| (line, word)).collect::<Vec<_>>();
            found.extend(in_words(&words));
        }
    }
    found.sort_unstable();
    found
}

/// The words of a file's prose, in small letters, each with its line. Blocks of code have none.
fn prose(text: &str, is_rust: bool) -> Vec<(usize, String)> {
    let (mut is_code, mut found) = (false, Vec::new());
    for (at, line) in text.lines().enumerate() {
        let prose = if is_rust { comment_of(line) } else { Some(line) };
        match prose {
            Some(prose) if lines::is_fence(prose) => is_code = !is_code,
            Some(prose) if !is_code => found.extend(words(prose).map(|word| (at + 1, word))),
            Some(_) => {}
            None => {
                is_code = false;
                // A word of another comment does not go on from here.
                found.push((at + 1, String::new()));
            }
        }
    }
    found
}

/// A line's comment: the whole line, or what stands behind its code.
fn comment_of(line: &str) -> Option<&str> {
    lines::comment(line).or_else(|| line.split_once(" // ").map(|(_, comment)| comment))
}

fn words(text: &str) -> impl Iterator<Item = String> {
    text.split(|sign: char| !sign.is_alphanumeric() && sign != '_')
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
}

fn in_words(words: &[(usize, String)]) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    for (place, avoided) in AVOIDED.iter().enumerate() {
        let avoided: Vec<&str> = avoided.split(' ').collect();
        for window in words.windows(avoided.len()) {
            if window.iter().zip(&avoided).all(|((_, word), avoided)| word == avoided) {
                found.push((window[0].0, place));
            }
        }
    }
    found
}

/// The text of each `expect("…")`, with its line.
pub fn expects(source: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    for (at, line) in source.lines().enumerate().filter(|(_, line)| lines::comment(line).is_none()) {
        for rest in line.split(".expect(\"").skip(1) {
            found.push((at + 1, rest.split("\")").next().unwrap_or(rest)));
        }
    }
    found
}

/// It begins with a pronoun, so it names nothing.
pub fn is_vague(text: &str) -> bool {
    const PRONOUNS: [&str; 10] = ["it", "its", "they", "there", "this", "that", "these", "he", "we", "one"];
    words(text).next().is_none_or(|first| PRONOUNS.contains(&first.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_a_page_count_whatever_their_case_and_across_lines() {
        let text = "Whoever asks is told so\nmany things; untold ones not.\n```\nnobody\n```\nNobody.";
        assert_eq!(avoided(text, false), [(1, 0), (1, 1), (1, 3), (6, 2)]);
    }

    #[test]
    fn words_of_a_source_count_in_comments_and_expect_texts_only() {
        let source = format!(
            "/// So\n/// many\nfn told() {{ nobody(\"told\") }} {} whoever\n x.expect(\"nobody else\");\n// so\nf();\n// many",
            "//"
        );
        assert_eq!(avoided(&source, true), [(1, 3), (3, 1), (4, 2)]);
    }

    #[test]
    fn texts_of_expect_that_begin_with_a_pronoun_are_vague() {
        let source = "a.expect(\"it is there\").b.expect(\"a lease has an owner\");\n// c.expect(\"no\")\n";
        let found = expects(source);
        assert_eq!(found, [(1, "it is there"), (1, "a lease has an owner")]);
        assert!(
            is_vague(found[0].1) && is_vague("") && !is_vague(found[1].1) && !is_vague("items are sorted")
        );
    }
}
