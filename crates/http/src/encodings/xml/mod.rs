//! XML: replies written by hand, bodies read by a bounded reader.

mod read;
mod write;

pub use read::{Bounds, Element, XmlError, parse};
pub use write::{Writer, push_attribute, push_text};

/// Whether XML 1.0 can hold this text at all; escapes do not help where it cannot.
pub fn can_hold(text: &str) -> bool {
    text.chars().all(can_hold_char)
}

fn can_hold_char(char: char) -> bool {
    matches!(char, '\t' | '\n' | '\r' | ' '..='\u{fffd}' | '\u{10000}'..)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn controls_and_two_noncharacters_cannot_be_held() {
        assert!(can_hold("a\t\n\r\u{7f}\u{fffd}\u{10ffff}\u{e000}"));
        for char in ['\0', '\u{1}', '\u{8}', '\u{b}', '\u{c}', '\u{1f}', '\u{fffe}', '\u{ffff}'] {
            assert!(!can_hold(&format!("a{char}b")), "{char:?}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back_the_same(text in "\\PC*|[\\x00-\\x7f]*|[<>&\"'\\r\\n\\t \\]]*") {
            prop_assume!(can_hold(&text));
            let mut writer = Writer::new("");
            writer.open_with("root", &[("name", &text)]);
            writer.element("text", &text);
            writer.close("root");
            let root = parse(&writer.finish(), Bounds::default()).expect("a written document is well formed");
            prop_assert_eq!(root.attribute("name"), Some(text.as_str()));
            prop_assert_eq!(root.child("text").map(|child| child.text.as_str()), Some(text.as_str()));
        }
    }
}
