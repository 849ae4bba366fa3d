//! Rust source as words: names, `::` and single signs, without comments, texts, and code that only tests compile.

/// The words of a source.
pub fn words(source: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let mut rest = source;
    while let Some(first) = rest.chars().next() {
        let len = match first {
            _ if first.is_whitespace() => first.len_utf8(),
            _ if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            _ if rest.starts_with("/*") => comment_len(rest),
            _ if text_len(rest).is_some() => text_len(rest).unwrap_or(1),
            '\'' => quote_len(rest),
            _ => {
                let len = word_len(rest);
                words.push(&rest[..len]);
                len
            }
        };
        rest = &rest[len..];
    }
    words
}

/// A name with its letters and digits, `::`, or one sign.
fn word_len(rest: &str) -> usize {
    if rest.starts_with("::") {
        return 2;
    }
    let name = rest.find(|sign: char| !is_name(sign)).unwrap_or(rest.len());
    if name > 0 { name } else { rest.chars().next().map_or(1, char::len_utf8) }
}

fn is_name(sign: char) -> bool {
    sign.is_alphanumeric() || sign == '_'
}

/// A comment in `/*` and `*/`, which may hold others.
fn comment_len(rest: &str) -> usize {
    let (mut at, mut depth) = (2, 1);
    while depth > 0 && at < rest.len() {
        let next = &rest.as_bytes()[at..];
        let step = match next {
            [b'/', b'*', ..] => (2, 1),
            [b'*', b'/', ..] => (2, -1),
            _ => (1, 0),
        };
        (at, depth) = (at + step.0, depth + step.1);
    }
    at
}

/// A text in quotes, of any kind; `None` when none begins here.
fn text_len(rest: &str) -> Option<usize> {
    let prefix = ["br", "cr", "r", "b", "c", ""].into_iter().find(|prefix| {
        let behind = rest.strip_prefix(prefix);
        behind.is_some_and(|behind| {
            let fence = behind.trim_start_matches('#');
            fence.starts_with('"') && (prefix.ends_with('r') || fence.len() == behind.len())
        })
    })?;
    let behind = &rest[prefix.len()..];
    let fences = behind.len() - behind.trim_start_matches('#').len();
    let start = prefix.len() + fences + 1;
    if prefix.ends_with('r') {
        let end = format!("\"{}", "#".repeat(fences));
        return Some(rest[start..].find(&end).map_or(rest.len(), |at| start + at + end.len()));
    }
    let mut at = start;
    while let Some(byte) = rest.as_bytes().get(at) {
        match byte {
            b'"' => return Some(at + 1),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    Some(rest.len())
}

/// One sign in quotes, or the quote that begins a lifetime.
fn quote_len(rest: &str) -> usize {
    let mut signs = rest.char_indices().skip(1);
    match signs.next() {
        Some((_, '\\')) => rest[3..].find('\'').map_or(rest.len(), |at| 3 + at + 1),
        Some((at, sign)) if rest[at + sign.len_utf8()..].starts_with('\'') => at + sign.len_utf8() + 1,
        _ => 1,
    }
}

/// The words without items that only tests compile, and the names of modules in files that are such items.
pub fn without_tests<'a>(words: &[&'a str]) -> (Vec<&'a str>, Vec<&'a str>) {
    const TESTS_ONLY: [&str; 7] = ["#", "[", "cfg", "(", "test", ")", "]"];
    let (mut kept, mut files) = (Vec::new(), Vec::new());
    let mut at = 0;
    while at < words.len() {
        if !words[at..].starts_with(&TESTS_ONLY) {
            kept.push(words[at]);
            at += 1;
            continue;
        }
        let end = at + item_len(&words[at..]);
        if let [.., "mod", name, ";"] = &words[at..end] {
            files.push(*name);
        }
        at = end;
    }
    (kept, files)
}

/// How many words an item has: up to its `;` or its last brace, and no further than what it lies in.
fn item_len(words: &[&str]) -> usize {
    let mut depth = 0_i32;
    for (at, word) in words.iter().enumerate() {
        match *word {
            "{" | "(" | "[" => depth += 1,
            "}" | ")" | "]" => depth -= 1,
            ";" if depth == 0 => return at + 1,
            _ => continue,
        }
        match depth {
            ..0 => return at,
            0 if *word == "}" => return at + 1 + usize::from(words.get(at + 1) == Some(&";")),
            _ => {}
        }
    }
    words.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_texts_and_signs_in_quotes_are_no_words() {
        let source = r##"a /* b /* c */ d */ e // f
            "g \" h" r#"i " j"# b"k" 'l' '\'' '\u{6d}' <'n> b'o' r"p""##;
        assert_eq!(words(source), ["a", "e", "<", "n", ">", "b"]);
    }

    #[test]
    fn a_path_is_its_names_and_the_signs_between() {
        assert_eq!(words("use a::{b_1, c};"), ["use", "a", "::", "{", "b_1", ",", "c", "}", ";"]);
    }

    #[test]
    fn what_only_tests_compile_is_left_out() {
        let source = "use a; #[cfg(test)] mod tests { fn f() { g[1]; } } #[cfg(test)] #[path = \"x\"] mod more; \
                      #[cfg(test)] use b::{c, d}; mod e;";
        let (kept, files) = without_tests(&words(source)[..]);
        assert_eq!(kept, ["use", "a", ";", "mod", "e", ";"]);
        assert_eq!(files, ["more"]);
    }
}
