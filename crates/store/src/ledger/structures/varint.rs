//! Numbers in as few bytes as they need: seven bits a byte, low ones first.

/// Numbers below this have at most eight bytes, and can be spread over them in a register.
const LONG: u64 = 1 << 56;

/// Appends a number.
#[inline]
pub fn put(out: &mut Vec<u8>, number: u64) {
    if number < 0x80 {
        out.push(number as u8);
    } else if number < 0x4000 {
        out.extend_from_slice(&two(number));
    } else if number < LONG {
        let (bytes, length) = short(number);
        let end = out.len() + length;
        out.extend_from_slice(&bytes);
        out.truncate(end);
    } else {
        put_long(out, number);
    }
}

/// The bytes of a number of two: lengths of bodies, mostly.
#[inline]
fn two(number: u64) -> [u8; 2] {
    [number as u8 | 0x80, (number >> 7) as u8]
}

/// The bytes of a number below [`LONG`], and how many of them count. A few shifts instead of a loop with a branch a
/// byte: every record has several instants and numbers.
#[inline]
fn short(number: u64) -> ([u8; 8], usize) {
    let length = (70 - number.leading_zeros()) / 7;
    let all_but_the_last = (1 << (8 * (length - 1))) - 1;
    let spread = spread(number) | (0x8080_8080_8080_8080 & all_but_the_last);
    (spread.to_le_bytes(), length as usize)
}

fn put_long(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// The groups of seven bits of a number below [`LONG`], each in a byte of its own: halves, quarters, eighths.
fn spread(number: u64) -> u64 {
    let number = (number & 0x0fff_ffff) | (number & 0x00ff_ffff_f000_0000) << 4;
    let number = (number & 0x0000_3fff_0000_3fff) | (number & 0x0fff_c000_0fff_c000) << 2;
    (number & 0x007f_007f_007f_007f) | (number & 0x3f80_3f80_3f80_3f80) << 1
}

/// The number whose groups of seven bits these are.
fn gather(spread: u64) -> u64 {
    let number = (spread & 0x007f_007f_007f_007f) | (spread & 0x7f00_7f00_7f00_7f00) >> 1;
    let number = (number & 0x0000_3fff_0000_3fff) | (number & 0x3fff_0000_3fff_0000) >> 2;
    (number & 0x0fff_ffff) | (number & 0x0fff_ffff_0000_0000) >> 4
}

/// Appends a number that may be negative; small ones of either sign are short.
pub fn put_signed(out: &mut Vec<u8>, number: i64) {
    put(out, zigzag(number));
}

#[inline]
fn zigzag(number: i64) -> u64 {
    ((number << 1) ^ (number >> 63)).cast_unsigned()
}

/// Appends bytes behind their length.
pub fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// The most bytes that [`put_fields`] appends at once, and one more: the beginning of a lease has up to 119.
const FIELDS_BYTES: usize = 120;

/// Short fields side by side, in room that was made for all of them at once: a buffer that looks for room before every
/// byte takes longer over that than over the bytes.
pub struct Fields<'a> {
    room: &'a mut [u8; FIELDS_BYTES],
    used: usize,
}

/// Appends what `write` writes, which is at most [`FIELDS_BYTES`] whatever its numbers are.
#[inline]
pub fn put_fields(out: &mut Vec<u8>, write: impl FnOnce(&mut Fields<'_>)) {
    let start = out.len();
    out.resize(start + FIELDS_BYTES, 0);
    let room = out[start..].first_chunk_mut().expect("a byte was appended just before");
    let mut fields = Fields { room, used: 0 };
    write(&mut fields);
    let end = start + fields.used;
    out.truncate(end);
}

impl Fields<'_> {
    /// Bytes as they are.
    #[inline]
    pub fn bytes<const N: usize>(&mut self, bytes: [u8; N]) {
        let room = self.room[self.used..].first_chunk_mut();
        *room.expect("the fields of one record fit into their room") = bytes;
        self.used += N;
    }

    /// A byte.
    #[inline]
    pub fn byte(&mut self, byte: u8) {
        self.room[self.used] = byte;
        self.used += 1;
    }

    /// The first `length` of some bytes.
    #[inline]
    pub fn beginning<const N: usize>(&mut self, bytes: [u8; N], length: usize) {
        let end = self.used + length.min(N);
        self.bytes(bytes);
        self.used = end;
    }

    /// A number, as [`put`] writes it.
    #[inline(always)]
    pub fn number(&mut self, number: u64) {
        if number < 0x80 {
            self.byte(number as u8);
        } else {
            self.number_of_several_bytes(number);
        }
    }

    fn number_of_several_bytes(&mut self, mut number: u64) {
        if number < LONG {
            let (bytes, length) = short(number);
            return self.beginning(bytes, length);
        }
        while number >= 0x80 {
            self.byte((number & 0x7f) as u8 | 0x80);
            number >>= 7;
        }
        self.byte(number as u8);
    }

    /// A number that may be negative.
    #[inline]
    pub fn signed(&mut self, number: i64) {
        self.number(zigzag(number));
    }

    /// Whether there is something, and that.
    #[inline]
    pub fn option<T>(&mut self, value: Option<T>, write: impl FnOnce(&mut Self, T)) {
        self.byte(u8::from(value.is_some()));
        if let Some(value) = value {
            write(self, value);
        }
    }
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
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// What was not read yet.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// One byte.
    #[inline]
    pub fn byte(&mut self) -> Option<u8> {
        let (byte, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*byte)
    }

    /// A number.
    #[inline]
    pub fn number(&mut self) -> Option<u64> {
        match self.rest.split_first()? {
            (byte, rest) if *byte < 0x80 => {
                self.rest = rest;
                Some(u64::from(*byte))
            }
            _ => self.number_of_several_bytes(),
        }
    }

    /// Passes over a number.
    #[inline]
    pub fn skip(&mut self) -> Option<()> {
        let last = match self.rest.first_chunk() {
            Some(next) => !u64::from_le_bytes(*next) & 0x8080_8080_8080_8080,
            None => 0,
        };
        if last == 0 {
            return self.number().map(drop);
        }
        self.rest = self.rest.get(last.trailing_zeros() as usize / 8 + 1..)?;
        Some(())
    }

    fn number_of_several_bytes(&mut self) -> Option<u64> {
        if let Some(next) = self.rest.first_chunk() {
            let next = u64::from_le_bytes(*next);
            let last = !next & 0x8080_8080_8080_8080;
            if last != 0 {
                // Everything through the last byte's topmost bit, which is not set there.
                let whole = next & (last ^ (last - 1));
                self.rest = self.rest.get(last.trailing_zeros() as usize / 8 + 1..)?;
                return Some(gather(whole));
            }
        }
        self.number_bytewise()
    }

    /// A number of more than eight bytes, or at the very end.
    fn number_bytewise(&mut self) -> Option<u64> {
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
    #[inline]
    pub fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.number()?).ok()?;
        self.take(length)
    }

    /// This number of bytes.
    #[inline]
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
        for number in (0..64).flat_map(|bit| [(1 << bit) - 1, 1 << bit, u64::MAX >> bit, 0xa5a5 << bit]) {
            let (mut bytes, mut plain) = (Vec::new(), Vec::new());
            put(&mut bytes, number);
            put_long(&mut plain, number);
            assert_eq!(bytes, plain, "{number:#x}");
            let mut fields = Vec::new();
            put_fields(&mut fields, |fields| fields.number(number));
            assert_eq!(fields, plain, "{number:#x}");
            put_signed(&mut bytes, number.cast_signed());
            for padding in 0..9 {
                bytes.extend(std::iter::repeat_n(0xff, padding));
                let mut reader = Reader::new(&bytes);
                assert_eq!(reader.number(), Some(number));
                assert_eq!(reader.signed(), Some(number.cast_signed()));
                assert_eq!(reader.rest().len(), padding);
                bytes.truncate(bytes.len() - padding);
            }
        }
    }

    #[test]
    fn number_cut_short_is_refused() {
        for bit in 7..64 {
            let mut bytes = Vec::new();
            put(&mut bytes, 1 << bit);
            assert!((0..bytes.len()).all(|end| Reader::new(&bytes[..end]).number().is_none()));
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
