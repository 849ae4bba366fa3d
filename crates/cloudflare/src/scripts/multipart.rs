//! A form in parts, as uploads of code come: bounded in number, split at its boundary, nothing guessed.

use bytes::Bytes;

/// The most parts of a form.
const PARTS_MAX: usize = 1_100;
/// The longest head of a part.
const HEAD_BYTES_MAX: usize = 4 << 10;

/// One part of a form.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Part {
    pub(super) name: String,
    /// What it is, in lower case and without parameters; empty when it does not say.
    pub(super) content_type: String,
    pub(super) content: Bytes,
}

/// The boundary a content type names.
pub(super) fn boundary(content_type: &str) -> Option<String> {
    let (kind, rest) = content_type.split_once(';')?;
    if !kind.trim().eq_ignore_ascii_case("multipart/form-data") {
        return None;
    }
    let boundary = parameter(rest, "boundary")?;
    (1..=70).contains(&boundary.len()).then_some(boundary)
}

/// The parts of a form, or what is wrong with it.
pub(super) fn parts(body: &Bytes, boundary: &str) -> Result<Vec<Part>, &'static str> {
    let delimiter = format!("--{boundary}");
    let mut parts = Vec::new();
    let mut rest = match find(body, delimiter.as_bytes()) {
        Some(at) if at == 0 || body.get(..at).is_some_and(|before| before.ends_with(b"\r\n")) => {
            body.slice(at + delimiter.len()..)
        }
        Some(_) | None => return Err("the form does not begin with its boundary"),
    };
    let inner = format!("\r\n--{boundary}");
    loop {
        if rest.starts_with(b"--") {
            return Ok(parts);
        }
        if parts.len() == PARTS_MAX {
            return Err("the form has too many parts");
        }
        rest = match rest.strip_prefix(b"\r\n".as_slice()) {
            Some(after) => rest.slice_ref(after),
            None => return Err("a boundary is not followed by a line's end"),
        };
        let end = find(&rest, inner.as_bytes()).ok_or("the form ends within a part")?;
        parts.push(part(&rest.slice(..end))?);
        rest = rest.slice(end + inner.len()..);
    }
}

fn part(text: &Bytes) -> Result<Part, &'static str> {
    // A part without any header begins with the empty line.
    let (head, content) = match find(text, b"\r\n\r\n") {
        Some(at) => (text.slice(..at), text.slice(at + 4..)),
        None => return Err("a part has no end of its headers"),
    };
    if head.len() > HEAD_BYTES_MAX {
        return Err("a part's headers are too long");
    }
    let head = std::str::from_utf8(&head).map_err(|_| "a part's headers are not text")?;
    let (mut name, mut content_type) = (None, String::new());
    for line in head.split("\r\n") {
        let Some((header, value)) = line.split_once(':') else { return Err("a part's header has no colon") };
        if header.trim().eq_ignore_ascii_case("content-disposition") {
            let (kind, rest) = value.split_once(';').unwrap_or((value, ""));
            if kind.trim().eq_ignore_ascii_case("form-data") {
                name = parameter(rest, "name");
            }
        } else if header.trim().eq_ignore_ascii_case("content-type") {
            let kind = value.split(';').next().unwrap_or_default();
            content_type = kind.trim().to_ascii_lowercase();
        }
    }
    Ok(Part { name: name.ok_or("a part has no name")?, content_type, content })
}

/// The value of a parameter, its quotes taken off.
fn parameter(text: &str, wanted: &str) -> Option<String> {
    let mut rest = text.trim_start_matches([' ', ';', '\t']);
    while !rest.is_empty() {
        let (name, value) = rest.split_once('=')?;
        let (found, after) = match value.strip_prefix('"') {
            Some(quoted) => unquoted(quoted)?,
            None => {
                let end = value.find(';').unwrap_or(value.len());
                let (plain, after) = value.split_at(end);
                (plain.trim().to_owned(), after)
            }
        };
        if name.trim().eq_ignore_ascii_case(wanted) {
            return Some(found);
        }
        rest = after.trim_start_matches([' ', ';', '\t']);
    }
    None
}

/// A quoted text, and what follows it. Browsers write a quote in it as `%22`, others as `\"`.
fn unquoted(text: &str) -> Option<(String, &str)> {
    let mut found = String::new();
    let mut letters = text.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return Some((found.replace("%22", "\""), text.get(at + 1..)?)),
            '\\' => found.push(letters.next()?.1),
            letter => found.push(letter),
        }
    }
    None
}

fn find(text: &[u8], wanted: &[u8]) -> Option<usize> {
    memchr::memmem::find(text, wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(body: &str) -> Result<Vec<(String, String, String)>, &'static str> {
        let found = parts(&Bytes::copy_from_slice(body.as_bytes()), "XX")?;
        let text = |bytes: &Bytes| String::from_utf8_lossy(bytes).into_owned();
        Ok(found.into_iter().map(|part| (part.name, part.content_type, text(&part.content))).collect())
    }

    #[test]
    fn parts_are_what_stands_between_boundaries() {
        let body = "--XX\r\nContent-Disposition: form-data; name=\"metadata\"; filename=\"blob\"\r\nContent-Type: application/json; charset=utf-8\r\n\r\n{\"a\":1}\r\n--XX\r\ncontent-disposition: form-data; name=index.js\r\n\r\n\r\n--x\r\n\r\n--XX--\r\n";
        let expected = [("metadata", "application/json", "{\"a\":1}"), ("index.js", "", "\r\n--x\r\n")];
        let expected = expected.map(|(name, kind, text)| (name.to_owned(), kind.to_owned(), text.to_owned()));
        assert_eq!(read(body), Ok(expected.to_vec()));
        assert_eq!(read("--XX--"), Ok(Vec::new()));
    }

    #[test]
    fn forms_that_are_none_are_refused() {
        for body in [
            "",
            "hello",
            "--XX",
            "--XX\r\n",
            "--XX\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\ntext",
            "--XX\r\nno colon\r\n\r\ntext\r\n--XX--",
            "--XX\r\nContent-Type: text/plain\r\n\r\ntext\r\n--XX--",
            "--XXjunk\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\ntext\r\n--XX--",
        ] {
            assert!(read(body).is_err(), "{body:?}");
        }
    }

    #[test]
    fn boundaries_are_read_with_quotes_and_without() {
        for (content_type, expected) in [
            ("multipart/form-data; boundary=abc", Some("abc")),
            ("Multipart/Form-Data; charset=utf-8; boundary=\"a b;c\"", Some("a b;c")),
            ("multipart/form-data", None),
            ("multipart/mixed; boundary=abc", None),
            ("application/json", None),
            ("multipart/form-data; boundary=", None),
        ] {
            assert_eq!(boundary(content_type).as_deref(), expected, "{content_type}");
        }
    }
}
