//! The access log: one line of standard error for each request that ended, of every dialect and the admin API.
//!
//! Requests end on event loops, which must not wait for the reader of standard error. They leave a record in a bounded
//! queue; a thread makes lines of them and writes these. What finds the queue full is counted and has no line.

use std::io::{self, Write as _};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use kew_http::{Droppable, Dropped, Exchange, Witness};

use crate::log::{Area, Level, Log};

/// Records that wait for their lines.
const WAITING_MAX: usize = 8_192;
/// Bytes of lines that are written at once.
const WRITE_BYTES: usize = 64 << 10;
/// How long the end waits for lines that are not read.
const END_WITHIN: Duration = Duration::from_secs(1);

/// Which requests have a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Access {
    /// None.
    #[default]
    Off,
    /// All.
    On,
    /// Those with a status of 400 or above, and those whose client went away.
    Errors,
}

/// Takes requests that ended, for the thread that writes their lines.
pub struct AccessLog {
    lines: SyncSender<Exchange>,
    which: Access,
    dropped: Arc<Dropped>,
}

/// The thread, until it is stopped.
pub struct AccessWriter {
    thread: JoinHandle<()>,
    ended: Receiver<()>,
}

impl AccessLog {
    /// Starts the thread, if any request has a line.
    pub fn start(
        which: Access,
        log: Log,
        dropped: Arc<Dropped>,
    ) -> io::Result<Option<(Arc<Self>, AccessWriter)>> {
        if which == Access::Off {
            return Ok(None);
        }
        let write = move |lines: &[u8]| match log.outlet() {
            // This thread may wait for the reader.
            Some(outlet) => outlet.give_when_there_is_room(lines.to_vec()),
            None => {
                // Nowhere to write to is no reason to stop serving.
                let _written = io::stderr().lock().write_all(lines);
            }
        };
        Self::start_with(which, log, dropped, write).map(Some)
    }

    fn start_with(
        which: Access,
        log: Log,
        dropped: Arc<Dropped>,
        write: impl FnMut(&[u8]) + Send + 'static,
    ) -> io::Result<(Arc<Self>, AccessWriter)> {
        let (lines, records) = sync_channel(WAITING_MAX);
        let (ends, ended) = sync_channel(1);
        let run = move || {
            write_all(log.of(Area::Access), &records, write);
            // The end of the server may have stopped waiting.
            let _told = ends.send(());
        };
        let thread = std::thread::Builder::new().name("kew-access".into()).spawn(run)?;
        Ok((Arc::new(Self { lines, which, dropped }), AccessWriter { thread, ended }))
    }
}

impl Witness for AccessLog {
    fn note(&self, exchange: Exchange) {
        let is_wanted = self.which == Access::On || exchange.status.is_none_or(|status| status >= 400);
        if is_wanted && self.lines.try_send(exchange).is_err() {
            self.dropped.add(Droppable::AccessLine, 1);
        }
    }
}

impl AccessWriter {
    /// Writes what waits, for a moment at most. Every [`AccessLog`] must be gone before.
    pub fn stop(self) {
        if self.ended.recv_timeout(END_WITHIN) != Err(RecvTimeoutError::Timeout) {
            // One that panicked has said so itself.
            let _ended = self.thread.join();
        }
    }
}

/// Writes lines until no record can come any more. All that wait are written at once, up to a size.
fn write_all(log: Log, records: &Receiver<Exchange>, mut write: impl FnMut(&[u8])) {
    let mut lines = Vec::new();
    while let Ok(first) = records.recv() {
        lines.extend_from_slice(&line(log, &first));
        while lines.len() < WRITE_BYTES
            && let Ok(next) = records.try_recv()
        {
            lines.extend_from_slice(&line(log, &next));
        }
        write(&lines);
        lines.clear();
    }
}

/// The line of one request.
fn line(log: Log, exchange: &Exchange) -> Vec<u8> {
    let subject = &exchange.subject;
    let number = |value: u64| value.to_string();
    let at = exchange.at.0.to_string();
    let status = exchange.status.map(|status| number(status.into()));
    let (bytes_in, bytes_out) = (number(exchange.bytes_in), number(exchange.bytes_out));
    let duration = format!("{:.3}", exchange.took.as_secs_f64() * 1_000.0);
    let client = exchange.client.to_string();
    let trace = subject.trace.map(|trace| format!("{:032x}", trace.trace));
    let operation = subject.operation.unwrap_or("unknown");
    let level = match exchange.status {
        Some(500..) => Level::Warn,
        Some(_) | None => Level::Info,
    };
    let fields = [
        ("at_ms", Some(at.as_str())),
        ("dialect", Some(subject.dialect).filter(|dialect| !dialect.is_empty())),
        ("operation", Some(operation)),
        ("queue", subject.queue.as_deref()),
        ("status", status.as_deref()),
        ("error", subject.error.as_deref()),
        ("bytes_in", Some(&bytes_in)),
        ("bytes_out", Some(&bytes_out)),
        ("duration_ms", Some(&duration)),
        ("request_id", Some(exchange.id.as_str())),
        ("client", Some(&client)),
        ("key_id", subject.key.as_deref()),
        ("trace_id", trace.as_deref()),
    ];
    let fields: Vec<(&str, &str)> =
        fields.into_iter().filter_map(|(name, value)| value.map(|value| (name, value))).collect();
    let message = if exchange.status.is_some() { "request" } else { "request given up by its client" };
    log.line(exchange.at, level, message, &fields)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::{Format, Levels};
    use kew_core::Timestamp;
    use kew_http::{RequestId, Subject};
    use parking_lot::Mutex;
    use std::sync::mpsc::channel;

    fn exchange(status: Option<u16>) -> Exchange {
        Exchange {
            at: Timestamp(1_500),
            took: Duration::from_micros(1_250),
            status,
            bytes_in: 10,
            bytes_out: 20,
            id: RequestId::from_chance(0),
            client: [127, 0, 0, 1].into(),
            subject: Subject {
                operation: Some("SendMessage"),
                queue: Some("orders".into()),
                ..Subject::of("sqs")
            },
        }
    }

    fn text(format: Format, exchange: &Exchange) -> String {
        let log = Log::new(format, Levels::default()).of(Area::Access);
        String::from_utf8(line(log, exchange)).expect("lines are text")
    }

    #[test]
    fn a_line_holds_what_is_known_and_leaves_out_the_rest() {
        assert_eq!(
            text(Format::Json, &exchange(Some(200))),
            "{\"time\":\"1970-01-01T00:00:01.500Z\",\"level\":\"info\",\"area\":\"access\",\"message\":\"request\",\
             \"at_ms\":1500,\"dialect\":\"sqs\",\"operation\":\"SendMessage\",\"queue\":\"orders\",\"status\":200,\
             \"bytes_in\":10,\"bytes_out\":20,\"duration_ms\":1.250,\
             \"request_id\":\"00000000-0000-4000-8000-000000000000\",\"client\":\"127.0.0.1\"}\n"
        );
        let gone = text(Format::Text, &exchange(None));
        assert!(gone.contains("request given up by its client") && !gone.contains("status="), "{gone}");
    }

    #[test]
    fn a_reader_that_hangs_delays_no_request_and_what_is_lost_is_counted() {
        let dropped = Arc::new(Dropped::default());
        let (go_on, waits) = channel::<()>();
        let lines = Arc::new(Mutex::new(0));
        let written = Arc::clone(&lines);
        let write = move |text: &[u8]| {
            let _going = waits.recv();
            *written.lock() += text.iter().filter(|byte| **byte == b'\n').count();
        };
        let log = Log::new(Format::Text, Levels::default());
        let (access, writer) = AccessLog::start_with(Access::On, log, Arc::clone(&dropped), write)
            .expect("a thread can be started");
        let noted = WAITING_MAX * 2;
        for _ in 0..noted {
            access.note(exchange(Some(200)));
        }
        let lost = usize::try_from(dropped.count(Droppable::AccessLine)).expect("the count is small");
        assert!(lost > 0 && lost <= WAITING_MAX, "{lost}");
        drop((access, go_on));
        // On a busy machine this may take longer than the end of a server waits.
        writer.thread.join().expect("the thread writes what waits and ends");
        assert_eq!(*lines.lock(), noted - lost);
    }

    #[test]
    fn errors_alone_are_those_refused_and_those_given_up() {
        let lines = Arc::new(Mutex::new(String::new()));
        let written = Arc::clone(&lines);
        let write = move |text: &[u8]| written.lock().push_str(&String::from_utf8_lossy(text));
        let log = Log::new(Format::Text, Levels::default());
        let (access, writer) = AccessLog::start_with(Access::Errors, log, Arc::default(), write)
            .expect("a thread can be started");
        for status in [Some(200), Some(304), Some(400), Some(503), None] {
            access.note(exchange(status));
        }
        drop(access);
        writer.stop();
        let lines = lines.lock();
        assert_eq!(lines.lines().count(), 3, "{lines}");
        assert!(lines.contains("status=400") && lines.contains("status=503"), "{lines}");
    }
}
