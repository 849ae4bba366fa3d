//! The end: the first signal ends the server gracefully, a second one at once.

use std::future::pending;
use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// SIGTERM, Ctrl-C and, where it is not ignored, SIGHUP, from the moment this is made.
#[derive(Debug)]
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
    /// What a terminal that closes sends; `None` where that is to go on being what it was.
    hang_up: Option<Signal>,
}

impl Signals {
    /// Starts to listen. Needs a runtime.
    pub fn listen() -> io::Result<Self> {
        let hang_up = if hang_up_ends_it() { Some(signal(SignalKind::hangup())?) } else { None };
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hang_up,
        })
    }

    /// Returns at the next of them, with its name.
    pub async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
            () = hung_up(self.hang_up.as_mut()) => "SIGHUP",
        }
    }

    /// Returns at the next one that is meant to end at once what is ending already. SIGHUP is none: a terminal that
    /// closes sends it, and so does the shell in it.
    pub async fn next_at_once(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

async fn hung_up(signal: Option<&mut Signal>) {
    match signal {
        Some(signal) => drop(signal.recv().await),
        None => pending().await,
    }
}

/// Whether SIGHUP ends a program that does nothing about it. Under `nohup` it is ignored, and stays so. A system that
/// does not say which it is keeps what it has.
fn hang_up_ends_it() -> bool {
    std::fs::read_to_string("/proc/self/status").is_ok_and(|status| ignores_hang_up(&status) == Some(false))
}

/// Whether the status of a process says that it ignores SIGHUP.
fn ignores_hang_up(status: &str) -> Option<bool> {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"))?;
    // Signal 1 is the lowest bit.
    Some(u64::from_str_radix(mask.trim(), 16).ok()? & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ignored_hang_up_is_the_lowest_bit_of_a_mask() {
        for (status, expected) in [
            ("Name:\tkew\nSigIgn:\t0000000000001001\nSigCgt:\t0\n", Some(true)),
            ("SigIgn:\t0000000000001000\n", Some(false)),
            ("SigIgn:\tx\n", None),
            ("SigBlk:\t0000000000000001\n", None),
        ] {
            assert_eq!(ignores_hang_up(status), expected, "{status}");
        }
    }
}
