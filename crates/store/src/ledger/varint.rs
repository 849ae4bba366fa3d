//! Numbers in as few bytes as they need: seven bits a byte, low ones first.

/// Appends a number.
pub fn put(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Appends a number that may be negative; small ones of either sign are short.
pub fn put_signed(out: &mut Vec<u8>, number: i64) {
    put(out, ((number << 1) ^ (number >> 63)).cast_unsigned());
}

/// Appends bytes behind their length.
pub fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Reads what the functions above wrote. Every read is `None` past the end or on bytes they never write.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Reads from the beginning of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Whether everything was read.
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// What was not read yet.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// One byte.
    pub fn byte(&mut self) -> Option<u8> {
        let (byte, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*byte)
    }

    /// A number.
    pub fn number(&mut self) -> Option<u64> {
        let mut number = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return None;
            }
            number |= bits << shift;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    /// A number that may be negative.
    pub fn signed(&mut self) -> Option<i64> {
        let number = self.number()?;
        Some((number >> 1).cast_signed() ^ -((number & 1).cast_signed()))
    }

    /// Bytes behind their length.
    pub fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.number()?).ok()?;
        self.take(length)
    }

    /// So many bytes.
    pub fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_survive_their_bytes() {
        for number in [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX - 1, u64::MAX] {
            let mut bytes = Vec::new();
            put(&mut bytes, number);
            put_signed(&mut bytes, number.cast_signed());
            let mut reader = Reader::new(&bytes);
            assert_eq!(reader.number(), Some(number));
            assert_eq!(reader.signed(), Some(number.cast_signed()));
            assert!(reader.is_empty());
        }
    }

    #[test]
    fn endless_number_is_refused() {
        assert_eq!(Reader::new(&[0xff; 11]).number(), None);
        assert_eq!(Reader::new(&[0x80]).number(), None);
    }

    #[test]
    fn length_past_the_end_is_refused() {
        let mut bytes = Vec::new();
        put(&mut bytes, u64::MAX);
        assert_eq!(Reader::new(&bytes).bytes(), None);
    }
}
