//! Takes a chunked body apart: sizes in hexadecimal digits, extensions and trailers, which are ignored.
//!
//! As strict as the grammar: every line ends in a carriage return and a line feed, no byte stands where none belongs,
//! no size is larger than can be counted. Extensions and trailers are passed over, within a bound for the whole body.

use bytes::{Buf, BytesMut};

use crate::bounds::limits::HEADERS_USUAL;
use crate::refusal::Refusal;

/// All that says nothing in the lines of sizes, and all trailers, have fewer bytes than this.
const EXTRA_BYTES_MAX: usize = 16 << 10;

/// A chunked body on its way.
#[derive(Debug, Default)]
pub(super) struct Chunks {
    at: At,
    /// Of the chunk that is read: how many bytes it has, or has left.
    left: u64,
    passed_over: usize,
    trailers: Vec<u8>,
}

/// What the next byte belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum At {
    /// The first digit of a size.
    #[default]
    Size,
    /// A further digit, or what ends the size.
    MoreSize,
    /// White space behind a size.
    BehindSize,
    Extension,
    /// The line feed behind a size or an extension.
    SizeEnd,
    Data,
    /// The carriage return behind a chunk.
    DataEnd,
    /// The line feed after that.
    DataEndLine,
    /// The beginning of a trailer, or of the empty line at the end.
    Trailer,
    /// Within a trailer.
    InTrailer,
    /// The line feed behind a trailer.
    TrailerEnd,
    /// The line feed of the empty line.
    LastLine,
    End,
}

impl Chunks {
    pub(super) fn has_ended(&self) -> bool {
        self.at == At::End
    }

    /// Takes off `ahead` what belongs to the body, and gives its data to `put`, piece by piece.
    pub(super) fn read(
        &mut self,
        ahead: &mut BytesMut,
        mut put: impl FnMut(&[u8]) -> Result<(), Refusal>,
    ) -> Result<(), Refusal> {
        while self.at != At::End {
            let Some(&byte) = ahead.first() else { return Ok(()) };
            if self.at == At::Data {
                let bytes = usize::try_from(self.left).unwrap_or(usize::MAX).min(ahead.len());
                put(ahead.get(..bytes).unwrap_or_default())?;
                ahead.advance(bytes);
                self.left -= bytes as u64;
                if self.left == 0 {
                    self.at = At::DataEnd;
                }
                continue;
            }
            self.at = self.step(byte).ok_or(Refusal::BodyBroken)?;
            ahead.advance(1);
        }
        Ok(())
    }

    /// Where a byte leads that is no data; nowhere if it does not belong there.
    fn step(&mut self, byte: u8) -> Option<At> {
        match (self.at, byte) {
            (At::Size | At::MoreSize, _) if byte.is_ascii_hexdigit() => {
                let digit = char::from(byte).to_digit(16)?;
                self.left = self.left.checked_mul(16)?.checked_add(digit.into())?;
                if self.left > 0 { Some(At::MoreSize) } else { self.pass_over(At::MoreSize) }
            }
            (At::MoreSize | At::BehindSize, b' ' | b'\t') => self.pass_over(At::BehindSize),
            (At::MoreSize | At::BehindSize, b';') => Some(At::Extension),
            (At::MoreSize | At::BehindSize | At::Extension, b'\r') => Some(At::SizeEnd),
            (At::Extension, _) if byte != b'\n' => self.pass_over(At::Extension),
            (At::SizeEnd, b'\n') => Some(if self.left == 0 { At::Trailer } else { At::Data }),
            (At::DataEnd, b'\r') => Some(At::DataEndLine),
            (At::DataEndLine, b'\n') => Some(At::Size),
            (At::Trailer, b'\r') => Some(At::LastLine),
            (At::Trailer | At::InTrailer, _) if !matches!(byte, b'\r' | b'\n') => {
                self.trailers.push(byte);
                (self.trailers.len() < EXTRA_BYTES_MAX).then_some(At::InTrailer)
            }
            (At::InTrailer, b'\r') => Some(At::TrailerEnd),
            (At::TrailerEnd, b'\n') => {
                self.trailers.extend_from_slice(b"\r\n");
                Some(At::Trailer)
            }
            (At::LastLine, b'\n') => self.trailers_are_headers().then_some(At::End),
            _ => None,
        }
    }

    /// Passes over a byte that says nothing: of an extension, a zero in front, or white space.
    fn pass_over(&mut self, at: At) -> Option<At> {
        self.passed_over += 1;
        (self.passed_over < EXTRA_BYTES_MAX).then_some(at)
    }

    fn trailers_are_headers(&mut self) -> bool {
        let mut trailers = std::mem::take(&mut self.trailers);
        if trailers.is_empty() {
            return true;
        }
        trailers.extend_from_slice(b"\r\n");
        let mut headers = [httparse::EMPTY_HEADER; HEADERS_USUAL];
        matches!(httparse::parse_headers(&trailers, &mut headers), Ok(httparse::Status::Complete(_)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The data of a body that comes in these pieces, and what is left behind it; nothing left means it has not ended.
    fn read(pieces: &[&[u8]]) -> Result<(Vec<u8>, Option<Vec<u8>>), Refusal> {
        let (mut chunks, mut ahead, mut data) = (Chunks::default(), BytesMut::new(), Vec::new());
        for piece in pieces {
            ahead.extend_from_slice(piece);
            chunks.read(&mut ahead, |piece| {
                data.extend_from_slice(piece);
                Ok(())
            })?;
        }
        Ok((data, chunks.has_ended().then(|| ahead.to_vec())))
    }

    #[test]
    fn chunks_are_put_together_wherever_they_are_cut() {
        let body =
            b"3\r\nabc\r\n00A ;x=\"y\" \r\n0123456789\r\n1\t\r\nz\r\n0;last\r\nA: b\r\nC-D:\r\n\r\nGET";
        for cut in 0..body.len() {
            let (front, back) = body.split_at(cut);
            assert_eq!(
                read(&[front, back]),
                Ok((b"abc0123456789z".to_vec(), Some(b"GET".to_vec()))),
                "{cut}"
            );
        }
        let bytes: Vec<_> = body[..body.len() - 3].chunks(1).collect();
        assert_eq!(read(&bytes), Ok((b"abc0123456789z".to_vec(), Some(Vec::new()))));
        for end in 0..body.len() - 3 {
            assert_eq!(read(&[&body[..end]]).map(|read| read.1), Ok(None), "{end}");
        }
    }

    #[test]
    fn what_does_not_belong_there_breaks_the_body() {
        for broken in [
            &b"\r\n"[..],
            b";x\r\n",
            b" 1\r\na",
            b"g",
            b"+1",
            b"0x1\r\n",
            b"1 1\r\n",
            b"1\n",
            b"1\rx",
            b"1;x\n",
            b"1;\n",
            b"1\r\nab",
            b"1\r\na\n",
            b"1\r\na\rx",
            b"10000000000000000\r\n",
            b"fffffffffffffffff\r\n",
            b"0\r\n\n",
            b"0\r\n\rx",
            b"0\r\nA\r\n\r\n",
            b"0\r\nA: b\n\r\n",
            b"0\r\nA: b\rx",
            b"0\r\n : b\r\n\r\n",
            b"0\r\nA: \0\r\n\r\n",
        ] {
            assert_eq!(read(&[broken]), Err(Refusal::BodyBroken), "{:?}", String::from_utf8_lossy(broken));
        }
        assert_eq!(read(&[b"ffffffffffffffff\r\nab"]), Ok((b"ab".to_vec(), None)), "the largest there is");
    }

    #[test]
    fn unread_data_is_bounded() {
        let extension =
            |bytes: usize| read(&[format!("1;{}\r\na\r\n0\r\n\r\n", "x".repeat(bytes)).as_bytes()]);
        assert!(extension(EXTRA_BYTES_MAX - 2).is_ok());
        assert_eq!(extension(EXTRA_BYTES_MAX - 1), Err(Refusal::BodyBroken));
        let each = "1;xxxxxxxx\r\na\r\n".repeat(EXTRA_BYTES_MAX / 8);
        assert_eq!(read(&[each.as_bytes()]), Err(Refusal::BodyBroken), "all together");
        for endless in ["0", "1 "] {
            let line = format!("{}{}", endless, endless[endless.len() - 1..].repeat(EXTRA_BYTES_MAX));
            assert_eq!(read(&[line.as_bytes()]), Err(Refusal::BodyBroken), "{endless}");
        }
        let trailer = |bytes: usize| read(&[format!("0\r\nA:{}\r\n\r\n", "x".repeat(bytes)).as_bytes()]);
        assert!(trailer(EXTRA_BYTES_MAX - 3).is_ok());
        assert_eq!(trailer(EXTRA_BYTES_MAX - 2), Err(Refusal::BodyBroken));
        let trailers = |count: usize| read(&[format!("0\r\n{}\r\n", "A:\r\n".repeat(count)).as_bytes()]);
        assert!(trailers(HEADERS_USUAL).is_ok());
        assert_eq!(trailers(HEADERS_USUAL + 1), Err(Refusal::BodyBroken));
    }

    #[test]
    fn a_receiver_of_data_may_refuse_it() {
        let mut ahead = BytesMut::from(&b"1\r\na"[..]);
        let refused = Chunks::default().read(&mut ahead, |_| Err(Refusal::BodiesTooLarge));
        assert_eq!(refused, Err(Refusal::BodiesTooLarge));
    }
}
