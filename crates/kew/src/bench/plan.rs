//! What is to be measured: the command line of `kew bench`.

use std::time::Duration;

use clap::{Args, ValueEnum};

/// Puts a running server under load and verifies every message
#[derive(Args, Clone, Debug)]
pub struct BenchArgs {
    /// Which protocol to speak
    #[arg(long, value_enum, default_value_t = DialectName::Sqs)]
    pub dialect: DialectName,
    /// The server's address, as http://host:port; the dialect's usual one otherwise
    #[arg(long)]
    pub endpoint: Option<String>,
    /// What to do to it
    #[arg(long, value_enum, default_value_t = ScenarioName::Cycle)]
    pub scenario: ScenarioName,
    /// Connections at once
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=20_000))]
    pub connections: u32,
    /// How long one round lasts
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub seconds: u64,
    /// Ends a round after this number of messages, if that comes first
    #[arg(long)]
    pub count: Option<u64>,
    /// Bytes of each body
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u32).range(40..=1_048_576))]
    pub body: u32,
    /// FIFO groups (scenario fifo, and backlog with --fifo)
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub groups: u32,
    /// Makes the queue of the scenario backlog a FIFO queue, its messages spread over the groups
    #[arg(long)]
    pub fifo: bool,
    /// Messages that lie in the queue beforehand (scenarios backlog and push)
    #[arg(long, default_value_t = 100_000)]
    pub backlog: u64,
    /// Queues that lie idle beside the one used (scenario idle-queues)
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=200_000))]
    pub queues: u32,
    /// How SQS requests are written
    #[arg(long, value_enum, default_value_t = Protocol::Json)]
    pub protocol: Protocol,
    /// Signs requests with this key: an SQS access key's id, an Azure account's name, a Cloudflare account's id
    #[arg(long, requires = "secret")]
    pub access_key: Option<String>,
    /// The key's secret; Azure's in Base64, Cloudflare's is an API token
    #[arg(long)]
    pub secret: Option<String>,
    /// The region requests are signed for
    #[arg(long, default_value = "us-east-1")]
    pub region: String,
    /// The server's process id: adds its CPU, memory and bytes written per message
    #[arg(long)]
    pub pid: Option<u32>,
    /// Runs the bare floor and the target in turn and prints ratios; needs --pid
    #[arg(long, requires = "pid")]
    pub compare: bool,
    /// Rounds; figures are medians of them
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub rounds: u32,
    /// Goes on when the server goes away and comes back: what was acknowledged must still be there
    #[arg(long)]
    pub survive: bool,
    /// Leaves the queue and what is in it (scenario backlog)
    #[arg(long)]
    pub keep: bool,
    /// Brings messages to a Worker in the server's runtime, not to a webhook (scenario push); the server must let
    /// Workers reach this machine: [workers] outbound = "all"
    #[arg(long)]
    pub worker: bool,
    /// Prints one JSON object instead of a table
    #[arg(long)]
    pub json: bool,
}

impl BenchArgs {
    /// The server's host and port.
    pub(super) fn address(&self) -> &str {
        let usual = match self.dialect {
            DialectName::Sqs => "127.0.0.1:9324",
            DialectName::Azure => "127.0.0.1:10001",
            DialectName::Cloudflare => "127.0.0.1:9326",
        };
        let given = self.endpoint.as_deref().unwrap_or(usual);
        given.trim_start_matches("http://").trim_end_matches('/')
    }

    /// Refuses scenarios that a dialect has no words for, and what else makes no sense.
    pub(super) fn check(&self) -> Result<(), String> {
        let unspoken = match self.dialect {
            DialectName::Sqs => self.scenario == ScenarioName::Push,
            DialectName::Azure => matches!(
                self.scenario,
                ScenarioName::Batch | ScenarioName::Fifo | ScenarioName::Longpoll | ScenarioName::Push
            ),
            DialectName::Cloudflare => matches!(self.scenario, ScenarioName::Fifo | ScenarioName::Longpoll),
        };
        if unspoken {
            let (dialect, scenario) = (word(&self.dialect), word(&self.scenario));
            return Err(format!("--dialect {dialect} has no scenario {scenario}"));
        }
        if let Some(endpoint) = &self.endpoint
            && !is_host_and_port(self.address())
        {
            return Err(format!("--endpoint {endpoint} is not allowed; it must be http://HOST:PORT"));
        }
        if self.fifo && (self.dialect != DialectName::Sqs || self.scenario != ScenarioName::Backlog) {
            return Err(
                "--fifo is for the backlog scenario of SQS; scenario fifo is FIFO by itself".to_owned()
            );
        }
        if self.scenario == ScenarioName::Push && self.compare {
            return Err("the push scenario has no floor to compare with".to_owned());
        }
        Ok(())
    }

    /// How long one round lasts.
    pub(super) fn length(&self) -> Duration {
        Duration::from_secs(self.seconds)
    }
}

fn is_host_and_port(text: &str) -> bool {
    let parts = text.rsplit_once(':');
    parts.is_some_and(|(host, port)| !host.is_empty() && !host.contains('/') && port.parse::<u16>().is_ok())
}

/// How a value is written on the command line.
fn word(value: &impl ValueEnum) -> String {
    value.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}

/// The protocols it speaks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum DialectName {
    /// Amazon SQS
    Sqs,
    /// Azure Queue Storage
    Azure,
    /// Cloudflare Queues
    Cloudflare,
}

/// The loads it makes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum ScenarioName {
    /// Send, receive and delete one message after the other
    Cycle,
    /// Send only
    Send,
    /// The same as cycle, ten messages at a time
    Batch,
    /// The same as cycle in a FIFO queue, its order verified
    Fifo,
    /// The same as cycle behind many stored messages, in turn with an empty queue
    Backlog,
    /// Half the connections send, half wait for messages
    Longpoll,
    /// The same as cycle beside many idle queues
    IdleQueues,
    /// A backlog brought to a webhook, then messages one at a time (dialect cloudflare)
    Push,
    /// Requests against a bare HTTP server: what nothing can be cheaper than
    Null,
}

/// How SQS requests are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Protocol {
    /// AWS JSON 1.0
    Json,
    /// AWS Query
    Query,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        bench: BenchArgs,
    }

    #[test]
    fn what_makes_no_sense_is_refused_in_the_words_of_the_command_line() {
        let check = |line: &str| {
            let words = std::iter::once("kew").chain(line.split_whitespace());
            Line::try_parse_from(words).map_err(|error| error.to_string())?.bench.check()
        };
        assert_eq!(check("--scenario push"), Err("--dialect sqs has no scenario push".to_owned()));
        let said = check("--dialect azure --scenario idle-queues --endpoint foo");
        assert_eq!(said, Err("--endpoint foo is not allowed; it must be http://HOST:PORT".to_owned()));
        for endpoint in ["https://h:1", ":1", "h:1/x", "h:99999", ""] {
            assert!(check(&format!("--endpoint={endpoint}")).is_err(), "{endpoint}");
        }
        for endpoint in ["http://127.0.0.1:9324/", "localhost:1", "http://[::1]:9324"] {
            assert_eq!(check(&format!("--endpoint={endpoint}")), Ok(()), "{endpoint}");
        }
    }
}
