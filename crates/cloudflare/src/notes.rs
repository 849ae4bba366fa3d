//! What this dialect keeps with a message beside its body: who published it, and with which delay.
//!
//! The bytes, which the store keeps as they are, are described in `docs/storage-format.md`: `C`, a format
//! version (1), the source, and the delay as four bytes. A message of another front-end has other annotations or none.

use bytes::Bytes;
use kew_core::Content;

const WRITER: u8 = b'C';
const VERSION: u8 = 1;

/// Where a message was published.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Source {
    /// Over REST, or by another dialect's clients.
    Api = 0,
    /// By a Worker's producer binding.
    Worker = 1,
}

impl Source {
    /// Its name in a message's metadata.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Api => "api",
            Self::Worker => "worker",
        }
    }
}

/// What is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Notes {
    pub(crate) source: Source,
    /// The delay it was published with, in seconds; zero when it named none.
    pub(crate) delay_seconds: u32,
}

impl Notes {
    /// The annotations.
    pub(crate) fn write(self) -> Bytes {
        let [a, b, c, d] = self.delay_seconds.to_be_bytes();
        Bytes::copy_from_slice(&[WRITER, VERSION, self.source as u8, a, b, c, d])
    }

    /// What is kept with a message; of another's, that it came over an API.
    pub(crate) fn of(content: &Content) -> Self {
        match *content.noted().0 {
            [WRITER, VERSION, source, a, b, c, d] => Self {
                source: if source == Source::Worker as u8 { Source::Worker } else { Source::Api },
                delay_seconds: u32::from_be_bytes([a, b, c, d]),
            },
            _ => Self { source: Source::Api, delay_seconds: 0 },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_survive_their_bytes_and_those_of_others_are_not_read() {
        let notes = Notes { source: Source::Worker, delay_seconds: 86_400 };
        let content = |annotations| Content { annotations, ..Content::default() };
        assert_eq!(Notes::of(&content(notes.write())), notes);
        let none = Notes { source: Source::Api, delay_seconds: 0 };
        for other in [&b""[..], b"S\x01abcdefghijklmnop", b"C\x02\x01\0\0\0\x01", b"C\x01\x01"] {
            assert_eq!(Notes::of(&content(Bytes::copy_from_slice(other))), none);
        }
    }
}
