//! JSON with comments and commas at the ends of lists, made plain.

/// The same JSON without what only people need; lines stay where they are, so that errors name the right ones.
pub(super) fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    // Where the last comma stands, while nothing but space has followed it.
    let mut comma: Option<usize> = None;
    while let Some(character) = rest.next() {
        match (character, rest.peek()) {
            ('"', _) => {
                comma = None;
                plain.push('"');
                copy_string(&mut rest, &mut plain);
            }
            ('/', Some('/')) => while rest.next_if(|next| *next != '\n').is_some() {},
            ('/', Some('*')) => {
                rest.next();
                skip_comment(&mut rest, &mut plain);
            }
            (',', _) => {
                comma = Some(plain.len());
                plain.push(',');
            }
            ('}' | ']', _) => {
                if let Some(at) = comma.take() {
                    plain.replace_range(at..=at, " ");
                }
                plain.push(character);
            }
            (space, _) if space.is_whitespace() => plain.push(space),
            (other, _) => {
                comma = None;
                plain.push(other);
            }
        }
    }
    plain
}

/// Copies a string behind its first quotation mark, up to and with the last.
fn copy_string(rest: &mut impl Iterator<Item = char>, plain: &mut String) {
    while let Some(inner) = rest.next() {
        plain.push(inner);
        match inner {
            '\\' => plain.extend(rest.next()),
            '"' => break,
            _ => {}
        }
    }
}

/// Passes over a comment behind its beginning, up to and with its end; a space and its line ends stay.
fn skip_comment(rest: &mut impl Iterator<Item = char>, plain: &mut String) {
    let mut before = ' ';
    for inner in rest {
        if inner == '\n' {
            plain.push('\n');
        }
        if before == '*' && inner == '/' {
            break;
        }
        before = inner;
    }
    plain.push(' ');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_last_commas_go_and_texts_stay() {
        for (text, expected) in [
            (r#"{"a": 1}"#, r#"{"a": 1}"#),
            ("{\"a\": 1, // one\n}", "{\"a\": 1  \n}"),
            ("[1, /* two\nlines */ 2,\n]", "[1, \n  2 \n]"),
            (r#"{"a": "// no, \" /* comment,]"}"#, r#"{"a": "// no, \" /* comment,]"}"#),
            ("[\"a\",\"b\",]", "[\"a\",\"b\" ]"),
            ("[1,/**/]", "[1  ]"),
            ("/* never closed", " "),
            ("\"never closed", "\"never closed"),
        ] {
            assert_eq!(plain(text), expected, "{text}");
        }
    }
}
