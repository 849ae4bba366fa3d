//! The case in which a client writes header names, which the HTTP library gives in lower case only.
//!
//! For front-ends that ask for it, and on HTTP/1 only (HTTP/2 has no other case than the lower): a tap on what is
//! read from the socket looks at heads and takes down the names with one prefix. It rests from the end of a head until
//! the request's body has been read, so bodies cost nothing. A client that sends its next head sooner, which hardly
//! any does, has its names in lower case.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Longer names are not taken down. No front-end accepts them.
const NAME_BYTES_MAX: usize = 1 << 10;
/// Of one head so much is taken down.
const HEAD_BYTES_MAX: usize = 16 << 10;

/// Header names of one request as they were sent.
#[derive(Clone, Debug, Default)]
pub struct SentNames(Vec<Box<str>>);

impl SentNames {
    /// The name in the case in which it was first sent, if that was taken down.
    pub fn find(&self, name: &str) -> Option<&str> {
        self.0.iter().map(|sent| &**sent).find(|sent| sent.eq_ignore_ascii_case(name))
    }
}

/// What the tap of a connection takes down for its requests.
#[derive(Debug, Default)]
pub(crate) struct TakenDown {
    names: Mutex<Vec<Box<str>>>,
    rests: AtomicBool,
}

impl TakenDown {
    /// The names of the head that has just been read.
    pub(crate) fn take(&self) -> SentNames {
        SentNames(std::mem::take(&mut *self.names.lock().unwrap_or_else(PoisonError::into_inner)))
    }

    /// A request has been read to its end: what comes next is a head.
    pub(crate) fn resume(&self) {
        self.rests.store(false, Ordering::Relaxed);
    }
}

/// Looks at the bytes of one connection, in pieces as they come.
#[derive(Debug)]
pub(crate) struct Tap {
    prefix: &'static str,
    taken_down: Arc<TakenDown>,
    at: At,
    /// What has been read of a line that may begin with such a name.
    name: Vec<u8>,
    head_bytes: usize,
}

/// Where in a head.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum At {
    /// In a line without such a name, or behind it.
    Line,
    /// At the beginning of a line, or in what may become a name.
    Name,
    /// Behind the carriage return of an empty line.
    Empty,
}

impl Tap {
    pub(crate) fn new(prefix: &'static str, taken_down: Arc<TakenDown>) -> Self {
        Self { prefix, taken_down, at: At::Line, name: Vec::new(), head_bytes: 0 }
    }

    /// Looks at the next piece.
    pub(crate) fn look(&mut self, mut piece: &[u8]) {
        if self.taken_down.rests.load(Ordering::Relaxed) {
            return;
        }
        while let Some((&byte, rest)) = piece.split_first() {
            match self.at {
                At::Line => match piece.iter().position(|&byte| byte == b'\n') {
                    None => return,
                    Some(end) => {
                        self.at = At::Name;
                        piece = piece.get(end..).and_then(|line| line.get(1..)).unwrap_or_default();
                        continue;
                    }
                },
                At::Name | At::Empty if byte == b'\n' => {
                    let is_end = self.name.is_empty();
                    self.name.clear();
                    self.at = At::Name;
                    if is_end {
                        return self.rest();
                    }
                }
                At::Name if byte == b'\r' && self.name.is_empty() => self.at = At::Empty,
                At::Name if byte == b':' && self.name.len() > self.prefix.len() => self.take_down(),
                At::Name if self.goes_on_with(byte) => self.name.push(byte),
                At::Name | At::Empty => self.pass_over(),
            }
            piece = rest;
        }
    }

    /// Whether what has been read of the line and this byte may still be such a name.
    fn goes_on_with(&self, byte: u8) -> bool {
        match self.prefix.as_bytes().get(self.name.len()) {
            Some(expected) => expected.eq_ignore_ascii_case(&byte),
            None => byte.is_ascii_graphic() && self.name.len() < NAME_BYTES_MAX,
        }
    }

    fn take_down(&mut self) {
        self.head_bytes = self.head_bytes.saturating_add(self.name.len());
        if self.head_bytes <= HEAD_BYTES_MAX {
            let name = String::from_utf8_lossy(&self.name).into_owned().into_boxed_str();
            self.taken_down.names.lock().unwrap_or_else(PoisonError::into_inner).push(name);
        }
        self.pass_over();
    }

    fn pass_over(&mut self) {
        self.name.clear();
        self.at = At::Line;
    }

    fn rest(&mut self) {
        self.at = At::Line;
        self.head_bytes = 0;
        self.taken_down.rests.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &[u8] =
        b"PUT /q HTTP/1.1\r\nHost: a\r\nX-Ms-Meta-Colour: red\r\nx-ms-metal: x\r\nx-ms-meta-: y\r\n\
        x-ms-meta-SIZE:x-ms-meta-Value: 1\r\nx-ms-meta-colouR: blue\r\n\r\n";

    fn tap() -> (Tap, Arc<TakenDown>) {
        let taken_down = Arc::new(TakenDown::default());
        (Tap::new("x-ms-meta-", Arc::clone(&taken_down)), taken_down)
    }

    #[test]
    fn names_are_found_wherever_a_head_is_cut() {
        for cut in 0..HEAD.len() {
            let (mut tap, taken_down) = tap();
            let (front, back) = HEAD.split_at(cut);
            tap.look(front);
            tap.look(back);
            let names = taken_down.take();
            assert_eq!(names.0.len(), 3, "cut at {cut}: {names:?}");
            assert_eq!(names.find("x-ms-meta-colour"), Some("X-Ms-Meta-Colour"), "the first counts");
            assert_eq!(names.find("x-ms-meta-size"), Some("x-ms-meta-SIZE"));
            assert_eq!(names.find("x-ms-meta-value"), None);
        }
    }

    #[test]
    fn bodies_are_not_looked_at_and_the_next_head_is() {
        let (mut tap, taken_down) = tap();
        for byte in HEAD {
            tap.look(std::slice::from_ref(byte));
        }
        tap.look(b"\nx-ms-meta-Body: 1\r\n");
        assert_eq!(taken_down.take().0.len(), 3);
        taken_down.resume();
        tap.look(b"GET / HTTP/1.1\nX-MS-META-a: 1\n\n\nx-ms-meta-b: 1\n");
        assert_eq!(taken_down.take().0, ["X-MS-META-a".into()]);
    }

    #[test]
    fn what_is_taken_down_is_bounded() {
        let (mut tap, taken_down) = tap();
        tap.look(b"GET / HTTP/1.1\r\n");
        tap.look(format!("x-ms-meta-{}: 1\r\n", "a".repeat(NAME_BYTES_MAX)).as_bytes());
        for _ in 0..10_000 {
            tap.look(b"x-ms-meta-abcdef: 1\r\n");
        }
        let names = taken_down.take();
        assert_eq!(names.0.len(), HEAD_BYTES_MAX / "x-ms-meta-abcdef".len());
    }
}
