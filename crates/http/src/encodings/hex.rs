//! Bytes as lower-case hex digits, and sixteen of them as a UUID.

/// The two digits of every byte.
const PAIRS: [[u8; 2]; 256] = {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut pairs = [[0; 2]; 256];
    let mut byte = 0;
    while byte < 256 {
        pairs[byte] = [DIGITS[byte >> 4], DIGITS[byte & 15]];
        byte += 1;
    }
    pairs
};

/// Writes `bytes` as hex digits at the end of `text`.
pub fn push(text: &mut Vec<u8>, bytes: &[u8]) {
    text.extend(bytes.iter().flat_map(|byte| digits(*byte)));
}

/// A 128-bit hash as hex digits.
pub fn hash(bytes: &[u8; 16]) -> [u8; 32] {
    let mut text = [0; 32];
    for (byte, place) in bytes.iter().zip(text.chunks_exact_mut(2)) {
        place.copy_from_slice(&digits(*byte));
    }
    text
}

/// Sixteen bytes in the form of a UUID.
pub fn uuid(bytes: [u8; 16]) -> [u8; 36] {
    let mut text = [b'-'; 36];
    // Where each byte's two digits stand: hyphens are at 8, 13, 18 and 23.
    const PLACES: [usize; 16] = [0, 2, 4, 6, 9, 11, 14, 16, 19, 21, 24, 26, 28, 30, 32, 34];
    for (byte, place) in bytes.iter().zip(PLACES) {
        let [high, low] = digits(*byte);
        text[place] = high;
        text[place + 1] = low;
    }
    text
}

/// Sixteen bytes from their 32 hex digits, in either case; `None` for any other text.
pub fn sixteen(text: &str) -> Option<[u8; 16]> {
    // A sign is no digit, and `from_str_radix` takes one.
    let is_hex = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_hex.then(|| u128::from_str_radix(text, 16).ok()).flatten().map(u128::to_be_bytes)
}

fn digits(byte: u8) -> [u8; 2] {
    PAIRS[usize::from(byte)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use kew_core::MessageId;

    #[test]
    fn digits_are_lower_case_and_high_first() {
        let mut text = Vec::new();
        push(&mut text, &[0x00, 0x1f, 0xab, 0xff]);
        assert_eq!(text, b"001fabff");
        assert_eq!(&hash(&[0x1f; 16]), b"1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f");
    }

    #[test]
    fn sixteen_bytes_are_read_from_32_digits_and_from_nothing_else() {
        assert_eq!(sixteen("1F1f1F1f1F1f1F1f1F1f1F1f1F1f1F1f"), Some([0x1f; 16]));
        for wrong in [
            "",
            "1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1",
            "+f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f",
            "1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1",
            "1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f\u{e9}",
        ] {
            assert_eq!(sixteen(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn uuid_is_what_a_message_id_shows() {
        let id = MessageId::from_chance(0x0123_4567_89ab_cdef_fedc_ba98_7654_3210);
        assert_eq!(uuid(id.0), id.to_string().as_bytes());
    }
}
