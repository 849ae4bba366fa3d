//! JSON strings, written into a reply's buffer.
//!
//! Reading JSON is not ours to write; writing a string is a copy with the odd escape, and replies are made of them.

const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// Writes `text` as a JSON string, quotes included, at the end of `json`.
pub fn push_string(json: &mut Vec<u8>, text: &str) {
    json.reserve(text.len() + 2);
    json.push(b'"');
    let bytes = text.as_bytes();
    let mut copied = 0;
    for (at, byte) in bytes.iter().enumerate() {
        let escape = ESCAPES[usize::from(*byte)];
        if escape == PLAIN {
            continue;
        }
        json.extend_from_slice(&bytes[copied..at]);
        copied = at + 1;
        if escape == AS_NUMBER {
            json.extend_from_slice(b"\\u00");
            json.push(DIGITS[usize::from(byte >> 4)]);
            json.push(DIGITS[usize::from(byte & 15)]);
        } else {
            json.extend_from_slice(&[b'\\', escape]);
        }
    }
    json.extend_from_slice(&bytes[copied..]);
    json.push(b'"');
}

/// Writes bytes that are known to need no escape as a JSON string.
pub fn push_plain(json: &mut Vec<u8>, text: &[u8]) {
    json.push(b'"');
    json.extend_from_slice(text);
    json.push(b'"');
}

const PLAIN: u8 = 0;
const AS_NUMBER: u8 = b'u';

/// What stands behind the backslash, for each byte.
const ESCAPES: [u8; 256] = {
    let mut escapes = [PLAIN; 256];
    let mut control = 0;
    while control < 0x20 {
        escapes[control] = AS_NUMBER;
        control += 1;
    }
    escapes[0x08] = b'b';
    escapes[0x09] = b't';
    escapes[0x0a] = b'n';
    escapes[0x0c] = b'f';
    escapes[0x0d] = b'r';
    escapes[b'"' as usize] = b'"';
    escapes[b'\\' as usize] = b'\\';
    escapes
};

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn written(text: &str) -> Vec<u8> {
        let mut json = Vec::new();
        push_string(&mut json, text);
        json
    }

    #[test]
    fn quotes_backslashes_and_controls_are_escaped() {
        assert_eq!(
            written("a\"b\\c\n\r\t\u{8}\u{c}\u{1}\u{1f}é"),
            br#""a\"b\\c\n\r\t\b\f\u0001\u001f"#.iter().chain("é\"".as_bytes()).copied().collect::<Vec<_>>()
        );
        assert_eq!(written(""), b"\"\"");
    }

    proptest! {
        #[test]
        fn every_text_reads_back_as_itself(text in "\\PC*|[\\x00-\\x7f]*") {
            let read: String = serde_json::from_slice(&written(&text)).expect("it is JSON");
            prop_assert_eq!(read, text);
        }
    }
}
