//! What the server's process, or one thread of ours, has used so far.

use super::Fault;

/// The kernel counts CPU in hundredths of a second.
const TICKS_A_SECOND: f64 = 100.0;

/// Whose use is measured.
#[derive(Clone, Copy, Debug)]
pub(super) enum Process {
    /// A process.
    Other(u32),
    /// A thread of this process.
    Thread(i32),
}

/// What it has used.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Usage {
    pub(super) cpu_seconds: f64,
    pub(super) resident_bytes: u64,
    pub(super) written_bytes: u64,
}

impl Process {
    fn folder(self) -> String {
        match self {
            Self::Other(pid) => format!("/proc/{pid}"),
            Self::Thread(tid) => format!("/proc/self/task/{tid}"),
        }
    }

    /// What it has used so far.
    pub(super) fn usage(self) -> Result<Usage, Fault> {
        let folder = self.folder();
        let read = |file: &str| {
            let path = format!("{folder}/{file}");
            std::fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))
        };
        // Behind the name, which may hold anything, user and system time are the twelfth and thirteenth.
        let stat = read("stat")?;
        let behind_the_name = stat.rsplit(')').next().unwrap_or_default();
        let ticks: f64 = behind_the_name
            .split_whitespace()
            .skip(11)
            .take(2)
            .filter_map(|field| field.parse::<f64>().ok())
            .sum();
        Ok(Usage {
            cpu_seconds: ticks / TICKS_A_SECOND,
            resident_bytes: figure(&read("status")?, "VmRSS:").unwrap_or_default() * 1024,
            // Another user's process does not show it.
            written_bytes: read("io").ok().and_then(|io| figure(&io, "write_bytes:")).unwrap_or_default(),
        })
    }
}

fn figure(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_uses_memory() {
        let usage = Process::Other(std::process::id()).usage().expect("the process of the test has figures");
        assert!(usage.resident_bytes > 100_000, "{usage:?}");
    }
}
