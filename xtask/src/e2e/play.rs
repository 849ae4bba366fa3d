//! Plays a scenario: tells the client its calls, moves the server, compares the answers.

use super::agent::{Agent, Answer};
use super::pattern::{self, Values};
use super::scenario::{Call, Scenario, Step, Want, What};
use super::server::Server;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

/// How long a client may take for a call; long polls of 20 seconds included.
const CALL: Duration = Duration::from_secs(60);
/// How long `eventually` asks again, and how long it rests in between.
const EVENTUALLY: Duration = Duration::from_secs(15);
const REST: Duration = Duration::from_millis(50);
/// How long a started call must stay without an answer to count as waiting.
const STILL: Duration = Duration::from_millis(300);

const REGION: &str = "us-east-1";

/// Errors whose Query code differs from the name of their shape, and those that have no shape in the SDKs.
const CODES: &[(&str, &str)] = &[
    ("BatchEntryIdsNotDistinct", "AWS.SimpleQueueService.BatchEntryIdsNotDistinct"),
    ("BatchRequestTooLong", "AWS.SimpleQueueService.BatchRequestTooLong"),
    ("EmptyBatchRequest", "AWS.SimpleQueueService.EmptyBatchRequest"),
    ("InvalidBatchEntryId", "AWS.SimpleQueueService.InvalidBatchEntryId"),
    ("PurgeQueueInProgress", "AWS.SimpleQueueService.PurgeQueueInProgress"),
    ("QueueDeletedRecently", "AWS.SimpleQueueService.QueueDeletedRecently"),
    ("QueueDoesNotExist", "AWS.SimpleQueueService.NonExistentQueue"),
    ("QueueNameExists", "QueueAlreadyExists"),
    ("TooManyEntriesInBatchRequest", "AWS.SimpleQueueService.TooManyEntriesInBatchRequest"),
    ("UnsupportedOperation", "AWS.SimpleQueueService.UnsupportedOperation"),
];
/// Shapes every SDK has a class for, beside those of `CODES`.
const CLASSES: &[&str] = &[
    "InvalidAttributeName",
    "InvalidIdFormat",
    "InvalidMessageContents",
    "OverLimit",
    "ReceiptHandleIsInvalid",
    "ResourceNotFoundException",
];

/// One client on one server, and the scenario it is in.
pub struct Stage<'a> {
    pub agent: &'a mut Agent,
    pub server: &'a mut Server,
    /// Whether the client has classes for errors.
    pub classes: bool,
    values: Values,
    started: BTreeMap<String, u64>,
}

impl<'a> Stage<'a> {
    pub fn new(agent: &'a mut Agent, server: &'a mut Server, classes: bool) -> Self {
        Self { agent, server, classes, values: Values::new(), started: BTreeMap::new() }
    }

    /// Plays it to its end or to the first answer that is not as it should be. `id` names its queues.
    pub fn play(&mut self, scenario: &Scenario, id: &str) -> Result<(), String> {
        self.values.clear();
        self.started.clear();
        let endpoint = self.server.endpoint();
        let arn = format!("arn:aws:sqs:{REGION}:000000000000");
        for (name, value) in [("id", id), ("endpoint", &endpoint), ("arn", &arn)] {
            self.values.insert(name.to_owned(), json!(value));
        }
        for step in &scenario.steps {
            self.step(step).map_err(|reason| format!("line {}: {reason}", step.line))?;
        }
        Ok(())
    }

    fn step(&mut self, step: &Step) -> Result<(), String> {
        match &step.what {
            What::Call { call, eventually: false, want } => self.call(call, want),
            What::Call { call, eventually: true, want } => {
                let begun = Instant::now();
                loop {
                    match self.call(call, want) {
                        Err(_) if begun.elapsed() < EVENTUALLY => thread::sleep(REST),
                        result => return result,
                    }
                }
            }
            What::Start { label, call } => {
                let id = self.tell(call)?;
                self.started.insert(label.clone(), id);
                Ok(())
            }
            What::Waiting { label } => {
                let id = self.labelled(label)?;
                match self.agent.answer(id, STILL)? {
                    None => Ok(()),
                    Some(answer) => Err(format!("{label} is not waiting: {answer:?}")),
                }
            }
            What::Finish { label, want } => {
                let id = self.labelled(label)?;
                self.finish(id, label, want)
            }
            What::Clock { advance_ms } => self.server.advance(*advance_ms),
            What::Crash => self.server.crash(),
            What::Differ { left, right } => {
                let (one, other) = (self.value(left)?, self.value(right)?);
                if one == other { Err(format!("{left} and {right} are both {one}")) } else { Ok(()) }
            }
        }
    }

    fn labelled(&self, label: &str) -> Result<u64, String> {
        self.started.get(label).copied().ok_or_else(|| format!("{label} was never started"))
    }

    fn value(&self, name: &str) -> Result<Value, String> {
        pattern::fill(&json!(name), &self.values)
    }

    fn tell(&mut self, call: &Call) -> Result<u64, String> {
        let (key, secret) = match &call.caller {
            Some(name) => (name.clone(), format!("{name}-secret")),
            None => ("test".to_owned(), "test".to_owned()),
        };
        self.agent.tell(json!({
            "endpoint": self.server.endpoint(),
            "region": call.region.as_deref().unwrap_or(REGION),
            "key": key,
            "secret": secret,
            "action": call.action,
            "input": pattern::fill(&call.input, &self.values)?,
        }))
    }

    fn call(&mut self, call: &Call, want: &Want) -> Result<(), String> {
        let id = self.tell(call)?;
        self.finish(id, &call.action, want)
    }

    fn finish(&mut self, id: u64, name: &str, want: &Want) -> Result<(), String> {
        let answer = self.agent.answer(id, CALL)?;
        let answer = answer.ok_or_else(|| format!("{name}: no answer in {CALL:?}"))?;
        match (want, answer) {
            (Want::Success(pattern), Answer::Output(output)) => {
                // Values are taken in only when the whole answer is as wanted.
                let mut values = self.values.clone();
                pattern::check(pattern, &capitalised(output), &mut values)
                    .map_err(|reason| format!("{name}{reason}"))?;
                self.values = values;
                Ok(())
            }
            (Want::Failure { code, message }, Answer::Error { class, code: told, message: said }) => self
                .same_error(code, message.as_deref(), &class, &told, &said)
                .map_err(|reason| format!("{name}: {reason}: {class} {told:?} {said:?}")),
            (Want::Success(_), answer) => Err(format!("{name}: refused with {answer:?}")),
            (Want::Failure { code, .. }, Answer::Output(output)) => {
                Err(format!("{name}: wanted {code}, got {}", pattern::short(&output)))
            }
        }
    }

    fn same_error(
        &mut self,
        wanted: &str,
        message: Option<&str>,
        class: &str,
        code: &str,
        said: &str,
    ) -> Result<(), String> {
        let query = CODES.iter().find(|(shape, _)| *shape == wanted).map(|(_, query)| *query);
        // SDKs that speak Query see the Query code; of the others some show it and some the shape's name.
        let same_code =
            code == wanted || query == Some(code) || code.strip_suffix("Exception") == Some(wanted);
        if !same_code {
            return Err(format!("wanted {wanted}"));
        }
        let has_class = query.is_some() || CLASSES.contains(&wanted);
        let plain = |name: &str| name.trim_end_matches("Exception").to_owned();
        if self.classes && has_class && plain(class) != plain(wanted) {
            return Err(format!("wanted the class {wanted}"));
        }
        match message {
            Some(text) => pattern::check(&json!(text), &json!(said), &mut self.values),
            None => Ok(()),
        }
    }
}

/// SDKs differ in the case of the first letter of a result's members.
fn capitalised(output: Value) -> Value {
    let Value::Object(members) = output else { return output };
    let upper = |name: String| {
        let mut letters = name.chars();
        let first = letters.next().map(|letter| letter.to_ascii_uppercase());
        first.into_iter().chain(letters).collect::<String>()
    };
    Value::Object(members.into_iter().map(|(name, value)| (upper(name), value)).collect())
}
