//! Binary values: base64 on the wire, in both protocols.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde::de::{Deserializer, Error, Visitor};

/// Bytes.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Blob(pub(crate) Vec<u8>);

impl<'de> Deserialize<'de> for Blob {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Blobs;

        impl Visitor<'_> for Blobs {
            type Value = Blob;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string of Base64")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Blob, E> {
                STANDARD.decode(text).map(Blob).map_err(|_| E::custom("a binary value that is not Base64"))
            }
        }

        deserializer.deserialize_str(Blobs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blobs_are_base64_with_padding() {
        let read = |json: &str| serde_json::from_str::<Blob>(json).ok();
        assert_eq!(read("\"/wA=\""), Some(Blob(vec![255, 0])));
        assert_eq!(read("\"\""), Some(Blob(Vec::new())));
        for other in ["\"/wA\"", "\"*\"", "7", "[1]"] {
            assert_eq!(read(other), None, "{other}");
        }
    }
}
