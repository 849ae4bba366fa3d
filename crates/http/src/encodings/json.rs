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
    for (number, piece) in bytes.chunks(PIECE).enumerate() {
        if is_plain(piece) {
            continue;
        }
        for (offset, byte) in piece.iter().enumerate() {
            let escape = ESCAPES[usize::from(*byte)];
            if escape == PLAIN {
                continue;
            }
            let at = number * PIECE + offset;
            json.extend_from_slice(&bytes[copied..at]);
            copied = at + 1;
            push_escape(json, escape, *byte);
        }
    }
    json.extend_from_slice(&bytes[copied..]);
    json.push(b'"');
}

/// Bytes that are checked together: most hold nothing to escape.
const PIECE: usize = 64;

/// Looks at every byte, so that a compiler turns it into wide compares.
fn is_plain(bytes: &[u8]) -> bool {
    !bytes.iter().fold(false, |found, byte| found | (*byte < 0x20) | (*byte == b'"') | (*byte == b'\\'))
}

fn push_escape(json: &mut Vec<u8>, escape: u8, byte: u8) {
    if escape == AS_NUMBER {
        let digits = [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]];
        json.extend_from_slice(b"\\u00");
        json.extend_from_slice(&digits);
    } else {
        json.extend_from_slice(&[b'\\', escape]);
    }
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

    #[test]
    fn escapes_are_found_wherever_they_stand() {
        for length in [1, PIECE - 1, PIECE, PIECE + 1, 3 * PIECE] {
            for at in 0..length {
                let mut text = "x".repeat(length);
                text.replace_range(at..=at, "\n");
                let wanted = format!("\"{}\\n{}\"", "x".repeat(at), "x".repeat(length - at - 1));
                assert_eq!(written(&text), wanted.as_bytes(), "{at} of {length}");
            }
        }
    }

    proptest! {
        #[test]
        fn every_text_reads_back_as_itself(text in "\\PC*|[\\x00-\\x7f]*") {
            let read: String = serde_json::from_slice(&written(&text)).expect("an escaped text is a JSON string");
            prop_assert_eq!(read, text);
        }
    }
}
