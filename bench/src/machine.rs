//! What the system says of this process and this machine.

use std::fs;
use std::path::Path;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// CPU time this process has used, user and system, all threads.
pub fn process_cpu() -> Duration {
    read_clock(ClockId::ProcessCPUTime)
}

/// CPU time this thread has used.
pub fn thread_cpu() -> Duration {
    read_clock(ClockId::ThreadCPUTime)
}

fn read_clock(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// User and system time of this process, in the system's coarse ticks of 10 ms.
pub fn user_and_system() -> (Duration, Duration) {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The second field is the program's name in brackets and may hold anything.
    let after_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let ticks =
        |at: usize| after_name.split_whitespace().nth(at).and_then(|field| field.parse().ok()).unwrap_or(0);
    (Duration::from_millis(10 * ticks(11)), Duration::from_millis(10 * ticks(12)))
}

/// Memory of this process.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    /// Bytes resident now.
    pub resident: u64,
    /// Bytes resident at most so far.
    pub peak: u64,
}

/// Memory of this process now.
pub fn memory() -> Memory {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    Memory { resident: kilobytes(&status, "VmRSS:") << 10, peak: kilobytes(&status, "VmHWM:") << 10 }
}

fn kilobytes(text: &str, label: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(label));
    line.and_then(|rest| rest.split_whitespace().next()).and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// Bytes that may still be written where `dir` lies.
pub fn free_space(dir: &Path) -> u64 {
    rustix::fs::statvfs(dir).map_or(0, |found| found.f_bavail.saturating_mul(found.f_frsize))
}

/// One line on the machine, for the table.
pub fn description() -> String {
    let cpus = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpus.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or("unknown CPU");
    let model = model.trim_start_matches([' ', '\t', ':']);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let memory = kilobytes(&fs::read_to_string("/proc/meminfo").unwrap_or_default(), "MemTotal:") >> 20;
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let kernel = kernel.split('-').next().unwrap_or_default().trim();
    format!("{cores} × {model}, {memory} GiB, Linux {kernel}")
}

/// The file system that `dir` lies on, by its type and options.
pub fn file_system(dir: &Path) -> String {
    let dir = fs::canonicalize(dir).unwrap_or_else(|_| dir.to_owned());
    let mounts = fs::read_to_string("/proc/mounts").unwrap_or_default();
    let under = mounts.lines().filter_map(|line| {
        let mut fields = line.split_whitespace().skip(1);
        let (at, kind, options) = (fields.next()?, fields.next()?, fields.next()?);
        dir.starts_with(at).then(|| (at.len(), format!("{kind} ({options})")))
    });
    under
        .max_by_key(|(length, _)| *length)
        .map_or_else(|| "an unknown file system".to_owned(), |(_, text)| text)
}

/// The load averages now: above the number of cores, figures are doubtful.
pub fn load() -> String {
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    load.split_whitespace().next().unwrap_or("?").to_owned()
}
