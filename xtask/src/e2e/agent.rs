//! A client in a process of its own: it reads calls, one JSON object a line, makes them with the vendor's SDK and
//! prints what the SDK returned.
//!
//! Call: `{"id", "endpoint", "region", "key", "secret", "action", "input"}`. Answers, in any order:
//! `{"id", "output": {…}}`, or `{"id", "error": {"class", "code", "message"}}` with the SDK's own error class, or
//! `{"id", "broken": "…"}` when the client failed in a way no service error explains.

use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

/// The answer to one call.
#[derive(Debug, Clone)]
pub enum Answer {
    Output(Value),
    Error { class: String, code: String, message: String },
}

pub struct Agent {
    child: Child,
    calls: Option<ChildStdin>,
    answers: Receiver<Value>,
    /// Answers that came while another was waited for.
    early: BTreeMap<u64, Value>,
    last: u64,
}

impl Agent {
    pub fn start(mut command: Command, errors: &Path) -> Result<Self, String> {
        let errors = File::create(errors).map_err(|error| format!("{}: {error}", errors.display()))?;
        let name = format!("{command:?}");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(errors);
        let mut child = command.spawn().map_err(|error| format!("{name}: {error}"))?;
        let calls = child.stdin.take();
        let output = child.stdout.take().ok_or("the client has no standard output")?;
        let (sender, answers) = channel();
        // Ends with the client's output, so it need not be joined.
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                let answer = serde_json::from_str(&line).unwrap_or_else(|_| json!({ "said": line }));
                if sender.send(answer).is_err() {
                    return;
                }
            }
        });
        Ok(Self { child, calls, answers, early: BTreeMap::new(), last: 0 })
    }

    /// Tells a call and returns the number its answer will bear.
    pub fn tell(&mut self, mut call: Value) -> Result<u64, String> {
        self.last += 1;
        call["id"] = json!(self.last);
        let calls = self.calls.as_mut().ok_or("the client is gone")?;
        let line = format!("{call}\n");
        calls.write_all(line.as_bytes()).and_then(|()| calls.flush()).map_err(|error| {
            let ended = self.child.try_wait();
            format!("the client does not listen: {error}, {ended:?}")
        })?;
        Ok(self.last)
    }

    /// The answer to a call, or `None` while there is none.
    pub fn answer(&mut self, id: u64, patience: Duration) -> Result<Option<Answer>, String> {
        let begun = Instant::now();
        loop {
            if let Some(answer) = self.early.remove(&id) {
                return read(&answer).map(Some);
            }
            match self.answers.recv_timeout(patience.saturating_sub(begun.elapsed())) {
                Ok(answer) => match answer["id"].as_u64() {
                    Some(id) => drop(self.early.insert(id, answer)),
                    None => return Err(format!("the client said {answer}")),
                },
                Err(RecvTimeoutError::Timeout) => return Ok(None),
                Err(RecvTimeoutError::Disconnected) => return Err("the client ended".to_owned()),
            }
        }
    }
}

fn read(answer: &Value) -> Result<Answer, String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    if let Some(output) = answer.get("output") {
        return Ok(Answer::Output(output.clone()));
    }
    match answer.get("error") {
        Some(error) => Ok(Answer::Error {
            class: text(&error["class"]),
            code: text(&error["code"]),
            message: text(&error["message"]),
        }),
        None => Err(format!("the client broke: {}", text(&answer["broken"]))),
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        // A client ends when its input ends; one that does not is ended.
        self.calls = None;
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(2) {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            thread::sleep(Duration::from_millis(5));
        }
        let _ended = (self.child.kill(), self.child.wait());
    }
}
