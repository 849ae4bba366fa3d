//! Loads: `kew bench` run as anybody would run it, its JSON read.

use std::io::Read;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::Fault;
use super::server::Server;
use crate::report::median;

/// How loads are run.
#[derive(Clone)]
pub struct Loads {
    pub kew: PathBuf,
    pub rounds: usize,
    pub seconds: u64,
}

/// What a load printed, and how it was asked for.
pub struct Loaded {
    pub document: Value,
    pub command: String,
}

impl Loads {
    /// A load of several rounds on a server; `words` say which.
    pub fn run(&self, server: &Server, dialect: &str, words: &[&str]) -> Result<Loaded, Fault> {
        self.rounds(server, dialect, self.rounds, words)
    }

    /// One round of it.
    pub fn once(&self, server: &Server, dialect: &str, words: &[&str]) -> Result<Loaded, Fault> {
        self.rounds(server, dialect, 1, words)
    }

    fn rounds(&self, server: &Server, dialect: &str, rounds: usize, words: &[&str]) -> Result<Loaded, Fault> {
        let (endpoint, pid) = (format!("http://{}", server.address(dialect)), server.pid().to_string());
        self.against(&endpoint, &pid, dialect, rounds, words)
    }

    /// Rounds against any server that speaks a dialect.
    pub fn against(
        &self,
        endpoint: &str,
        pid: &str,
        dialect: &str,
        rounds: usize,
        words: &[&str],
    ) -> Result<Loaded, Fault> {
        let (rounds, seconds) = (rounds.to_string(), self.seconds.to_string());
        let mut all: Vec<&str> = Vec::new();
        if dialect != "sqs" {
            all.extend(["--dialect", dialect]);
        }
        all.extend(words);
        all.extend(["--rounds", &rounds, "--seconds", &seconds]);
        let command = format!("kew bench {} --pid PID", all.join(" "));
        all.extend(["--endpoint", endpoint, "--pid", pid, "--json"]);
        let output = bounded(Command::new(&self.kew).arg("bench").args(&all))?;
        let document =
            serde_json::from_str(&output).map_err(|error| format!("{command}: {error}: {output}"))?;
        Ok(Loaded { document, command })
    }
}

/// Far more than any load takes: what hangs must not keep the rest from being measured.
const AT_MOST: Duration = Duration::from_secs(1_200);

/// What a program prints, which must end well and in time.
pub fn bounded(command: &mut Command) -> Result<String, Fault> {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let (mut output, mut errors) = (child.stdout.take().ok_or("no output")?, child.stderr.take());
    let reader = std::thread::spawn(move || {
        let mut text = String::new();
        output.read_to_string(&mut text).map(|_| text)
    });
    let begun = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if begun.elapsed() > AT_MOST {
            let _killed = (child.kill(), child.wait());
            return Err(format!("{command:?} did not end").into());
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    let text = reader.join().map_err(|_| "reading failed")??;
    if status.success() {
        return Ok(text);
    }
    let mut said = String::new();
    if let Some(errors) = errors.as_mut() {
        errors.read_to_string(&mut said)?;
    }
    Err(format!("{status}: {said}{text}").into())
}

impl Loaded {
    fn medians(&self, of: &str, figure: impl Fn(&Value) -> Option<f64>) -> f64 {
        let rounds = self.document[of].as_array().map(Vec::as_slice).unwrap_or_default();
        median(rounds.iter().filter_map(figure).collect())
    }

    /// Messages a second.
    pub fn rate(&self) -> f64 {
        self.medians("rounds", |round| round["messages_per_second"].as_f64())
    }

    /// The server's CPU for a message, in microseconds.
    pub fn cpu(&self) -> f64 {
        self.medians("rounds", |round| round["cpu_us_per_message"].as_f64())
    }

    /// The same on an empty queue, in turn with a deep one.
    pub fn shallow(&self) -> f64 {
        self.medians("shallow", |round| round["cpu_us_per_message"].as_f64())
    }

    /// The floor's CPU for a request, in microseconds.
    pub fn null(&self) -> f64 {
        self.medians("floor", |round| round["cpu_us_per_message"].as_f64())
    }

    /// The floor's requests a second.
    pub fn null_rate(&self) -> f64 {
        self.medians("floor", |round| round["messages_per_second"].as_f64())
    }

    /// The median time of a null request, in microseconds.
    pub fn null_latency(&self) -> f64 {
        self.medians("floor", |round| round["latency"]["request"]["p50_us"].as_f64())
    }

    /// An operation's latency in microseconds: `p50_us`, `p99_us`.
    pub fn latency(&self, operation: &str, share: &str) -> f64 {
        self.medians("rounds", |round| round["latency"][operation][share].as_f64())
    }

    /// Bytes resident at the end of the last round.
    pub fn resident(&self) -> f64 {
        let rounds = self.document["rounds"].as_array();
        rounds.and_then(|rounds| rounds.last()?["resident_bytes"].as_f64()).unwrap_or(f64::NAN)
    }

    /// Bytes written for a message.
    pub fn written(&self) -> f64 {
        self.medians("rounds", |round| Some(round["written_bytes"].as_f64()? / round["messages"].as_f64()?))
    }

    /// A ratio that the load printed of all its rounds.
    pub fn ratio(&self, name: &str) -> f64 {
        self.document[name].as_f64().unwrap_or(f64::NAN)
    }
}
