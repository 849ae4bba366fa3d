//! The `date` of replies, written once a second.

use std::time::{SystemTime, UNIX_EPOCH};

use kew_core::Timestamp;
use parking_lot::Mutex;

use crate::encodings::date::http_date;

const LINE_BYTES: usize = "date: Sun, 06 Nov 1994 08:49:37 GMT\r\n".len();

/// Today, as the machine has it: clients compare it with their own clock, so the engine's would mislead them.
#[derive(Debug)]
pub(crate) struct Today {
    /// Guards the second that was written last, and its line.
    written: Mutex<(u64, [u8; LINE_BYTES])>,
}

impl Default for Today {
    fn default() -> Self {
        Self { written: Mutex::new((0, line(0))) }
    }
}

impl Today {
    /// The header's line at this moment.
    pub(crate) fn line(&self) -> [u8; LINE_BYTES] {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let mut written = self.written.lock();
        if written.0 != now {
            *written = (now, line(now));
        }
        written.1
    }
}

fn line(second: u64) -> [u8; LINE_BYTES] {
    let text = format!("date: {}\r\n", http_date(Timestamp(second.saturating_mul(1_000))));
    // A year of five digits has no place in this header.
    text.as_bytes().try_into().unwrap_or(*b"date: Fri, 31 Dec 9999 23:59:59 GMT\r\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_written_for_each_second_there_is() {
        assert_eq!(&line(0), b"date: Thu, 01 Jan 1970 00:00:00 GMT\r\n");
        assert_eq!(&line(784_111_777), b"date: Sun, 06 Nov 1994 08:49:37 GMT\r\n");
        assert_eq!(&line(u64::MAX), b"date: Fri, 31 Dec 9999 23:59:59 GMT\r\n");
        assert_ne!(Today::default().line(), line(0));
    }
}
