//! Settings files as people write them: JSON with comments, with or without an editor's mark at the beginning, names in
//! any case.

use serde_json::{Map, Value};

/// An object of a settings file.
pub(crate) type Object = Map<String, Value>;

/// The object that a file holds; else what is wrong with it, with line and column.
pub(crate) fn parse(bytes: &[u8]) -> Result<Object, String> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let text = std::str::from_utf8(bytes).map_err(|_| "it is not UTF-8".to_owned())?;
    match serde_json::from_str(&without_comments(text)) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => Err("it must hold a JSON object: { … }".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// A member by its name in any case; the exact one first. One that is `null` is not there.
pub(crate) fn member<'a>(object: &'a Object, name: &str) -> Option<&'a Value> {
    let found = object.get(name).or_else(|| {
        object.iter().find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    });
    found.filter(|value| !value.is_null())
}

/// A section by its name in any case.
pub(crate) fn section<'a>(object: &'a Object, name: &str) -> Option<&'a Object> {
    member(object, name).and_then(Value::as_object)
}

/// Blanks in the place of comments, so that lines and columns stay what they are.
fn without_comments(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    let mut in_string = false;
    while let Some(char) = chars.next() {
        match char {
            '\\' if in_string => {
                out.push(char);
                out.extend(chars.next());
            }
            '"' => {
                in_string = !in_string;
                out.push(char);
            }
            '/' if !in_string && chars.peek() == Some(&'/') => {
                out.push(' ');
                while let Some(comment) = chars.next_if(|char| *char != '\n') {
                    out.extend(std::iter::repeat_n(' ', comment.len_utf8()));
                }
            }
            '/' if !in_string && chars.peek() == Some(&'*') => {
                out.push_str("  ");
                chars.next();
                let mut last = ' ';
                for comment in chars.by_ref() {
                    out.push(if comment == '\n' { '\n' } else { ' ' });
                    if last == '*' && comment == '/' {
                        break;
                    }
                    last = comment;
                }
            }
            char => out.push(char),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_marks_are_passed_over() {
        let text = "\u{feff}{ // one\n \"a//b\": 1, /* two\n */ \"c\\\"/*\": 2 }";
        let object = parse(text.as_bytes()).expect("the text with comments is a JSON object");
        assert_eq!(object.keys().collect::<Vec<_>>(), ["a//b", "c\"/*"]);
    }

    #[test]
    fn an_error_names_its_line() {
        for (text, told) in
            [("{\n \"a\": }", "line 2"), ("[]", "must hold a JSON object"), ("", "EOF"), ("{ /* ", "EOF")]
        {
            let error = parse(text.as_bytes()).expect_err(text);
            assert!(error.contains(told), "{text}: {error}");
        }
        assert_eq!(parse(b"{\xff}"), Err("it is not UTF-8".to_owned()));
    }

    #[test]
    fn names_are_found_in_any_case_and_null_is_nothing() {
        let object = parse(br#"{"BatchSize":1,"batchsize":2,"x":null}"#)
            .expect("names that differ in case are a JSON object");
        assert_eq!(member(&object, "batchsize"), Some(&Value::from(2)));
        assert_eq!(member(&object, "BATCHSIZE"), Some(&Value::from(1)));
        assert_eq!(member(&object, "x"), None);
    }
}
