//! Reads `e2e/scenarios.md`: what every client has to live through, written once and in no client's language.
//!
//! A heading of level two opens a chapter and says in its first code span how the server is started; one of level
//! three names a scenario; its fenced block holds the steps, one a line, and an indented line continues the one
//! above. Everything else in the file is prose for the reader.

use serde_json::Value;

/// Scenarios that share a server.
#[derive(Debug)]
pub struct Chapter {
    pub title: String,
    /// Flags the server is started with, beside those every server gets.
    pub flags: Vec<String>,
    /// The server's configuration file.
    pub config: Option<String>,
    pub scenarios: Vec<Scenario>,
}

#[derive(Debug)]
pub struct Scenario {
    pub name: String,
    /// Clients that leave it out, each with the reason the file gives.
    pub left_out_by: Vec<(String, String)>,
    pub steps: Vec<Step>,
}

#[derive(Debug)]
pub struct Step {
    /// Line of the file, for the report of a failure.
    pub line: usize,
    pub what: What,
}

#[derive(Debug)]
pub enum What {
    Call {
        call: Call,
        eventually: bool,
        want: Want,
    },
    /// A call whose answer is looked at later, by its label.
    Start {
        label: String,
        call: Call,
    },
    /// The answer of a started call.
    Finish {
        label: String,
        want: Want,
    },
    /// A started call has not been answered yet.
    Waiting {
        label: String,
    },
    /// Engine time goes on by this number of milliseconds.
    Clock {
        advance_ms: u64,
    },
    /// `kill -9`, then a start over the same data.
    Crash,
    /// Two values that must not be equal.
    Differ {
        left: String,
        right: String,
    },
}

#[derive(Debug, Clone)]
pub struct Call {
    /// Whose credentials sign it; none: those of the chapter's first account.
    pub caller: Option<String>,
    pub region: Option<String>,
    pub action: String,
    pub input: Value,
}

#[derive(Debug)]
pub enum Want {
    Success(Value),
    Failure { code: String, message: Option<String> },
}

/// Everything the file asks for, or the line that makes no sense.
pub fn parse(text: &str) -> Result<Vec<Chapter>, String> {
    let mut chapters: Vec<Chapter> = Vec::new();
    let mut lines = text.lines().enumerate().map(|(index, line)| (index + 1, line)).peekable();
    while let Some((number, line)) = lines.next() {
        if let Some(title) = line.strip_prefix("## ") {
            chapters.push(chapter(title));
        } else if let Some(name) = line.strip_prefix("### ") {
            let chapter =
                chapters.last_mut().ok_or_else(|| format!("line {number}: a scenario before any chapter"))?;
            let name = name.trim().to_owned();
            chapter.scenarios.push(Scenario { name, left_out_by: Vec::new(), steps: Vec::new() });
        } else if let Some(rest) = line.strip_prefix("Left out by ") {
            let scenario = open_scenario(&mut chapters, number)?;
            let (clients, reason) =
                rest.split_once(": ").ok_or_else(|| format!("line {number}: no reason is given"))?;
            for client in clients.split(", ") {
                scenario.left_out_by.push((client.to_owned(), reason.to_owned()));
            }
        } else if let Some(kind) = line.strip_prefix("```") {
            let mut block = Vec::new();
            for (number, line) in lines.by_ref().take_while(|(_, line)| !line.starts_with("```")) {
                block.push((number, line));
            }
            match kind {
                "toml" => {
                    let chapter =
                        chapters.last_mut().ok_or_else(|| format!("line {number}: no chapter yet"))?;
                    let lines: Vec<&str> = block.into_iter().map(|(_, line)| line).collect();
                    chapter.config = Some(lines.join("\n"));
                }
                "text" => {}
                _ => open_scenario(&mut chapters, number)?.steps.extend(steps(&block)?),
            }
        }
    }
    Ok(chapters)
}

fn chapter(title: &str) -> Chapter {
    let flags = title.split('`').nth(1).unwrap_or_default();
    Chapter {
        title: title.to_owned(),
        flags: flags.split_whitespace().map(str::to_owned).collect(),
        config: None,
        scenarios: Vec::new(),
    }
}

fn open_scenario(chapters: &mut [Chapter], number: usize) -> Result<&mut Scenario, String> {
    chapters
        .last_mut()
        .and_then(|chapter| chapter.scenarios.last_mut())
        .ok_or_else(|| format!("line {number}: outside any scenario"))
}

fn steps(block: &[(usize, &str)]) -> Result<Vec<Step>, String> {
    let mut whole: Vec<(usize, String)> = Vec::new();
    for &(number, line) in block {
        match whole.last_mut() {
            Some((_, above)) if line.starts_with(' ') => {
                above.push(' ');
                above.push_str(line.trim());
            }
            _ if line.trim().is_empty() || line.starts_with('#') => {}
            _ => whole.push((number, line.trim().to_owned())),
        }
    }
    whole
        .into_iter()
        .map(|(line, text)| match step(&text) {
            Ok(what) => Ok(Step { line, what }),
            Err(reason) => Err(format!("line {line}: {reason}: {text}")),
        })
        .collect()
}

fn step(text: &str) -> Result<What, String> {
    let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
    match word {
        "crash" => Ok(What::Crash),
        "clock" => Ok(What::Clock { advance_ms: duration(rest)? }),
        "differ" => {
            let (left, right) = rest.split_once(' ').ok_or("two values are needed")?;
            Ok(What::Differ { left: left.to_owned(), right: right.to_owned() })
        }
        "start" => {
            let (label, rest) = rest.split_once(' ').ok_or("a label and a call are needed")?;
            let (call, _) = call(rest)?;
            Ok(What::Start { label: label.to_owned(), call })
        }
        "waiting" => Ok(What::Waiting { label: rest.to_owned() }),
        "finish" => {
            let (label, rest) = rest.split_once(' ').unwrap_or((rest, ""));
            Ok(What::Finish { label: label.to_owned(), want: want(rest)? })
        }
        "eventually" => {
            let (call, rest) = call(rest)?;
            Ok(What::Call { call, eventually: true, want: want(rest)? })
        }
        _ => {
            let (call, rest) = call(text)?;
            Ok(What::Call { call, eventually: false, want: want(rest)? })
        }
    }
}

/// `+90s`, `+12h` or `+250ms`, as milliseconds.
fn duration(text: &str) -> Result<u64, String> {
    let digits = text.strip_prefix('+').ok_or("a duration begins with a plus")?;
    let unit = digits.trim_start_matches(|letter: char| letter.is_ascii_digit());
    let count: u64 = digits.trim_end_matches(unit).parse().map_err(|_| "a duration has a number")?;
    let factor = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return Err("a duration ends with ms, s, m, h or d".to_owned()),
    };
    count.checked_mul(factor).ok_or_else(|| "that is too long".to_owned())
}

/// The call at the front of a line, and what follows it.
fn call(text: &str) -> Result<(Call, &str), String> {
    let (mut caller, mut region, mut rest) = (None, None, text);
    while let Some(marked) = rest.strip_prefix('@') {
        let (name, after) = marked.split_once(' ').ok_or("no action is named")?;
        if name.contains('-') {
            region = Some(name.to_owned());
        } else {
            caller = Some(name.to_owned());
        }
        rest = after;
    }
    let (action, rest) = rest.split_once(' ').ok_or("no input is given")?;
    if !action.starts_with(|letter: char| letter.is_ascii_uppercase()) {
        return Err(format!("{action} is neither an action nor a word of this file"));
    }
    let (input, rest) = json(rest)?;
    Ok((Call { caller, region, action: action.to_owned(), input }, rest))
}

fn want(text: &str) -> Result<Want, String> {
    if text.is_empty() {
        return Ok(Want::Success(Value::Null));
    }
    if let Some(pattern) = text.strip_prefix("-> ") {
        let (pattern, rest) = json(pattern)?;
        return if rest.is_empty() { Ok(Want::Success(pattern)) } else { Err(format!("{rest} is too much")) };
    }
    let failure = text.strip_prefix("!! ").ok_or("an answer begins with -> or !!")?;
    let (code, message) = failure.split_once(' ').map_or((failure, None), |(code, rest)| (code, Some(rest)));
    let message = match message {
        Some(text) => Some(json(text)?.0.as_str().ok_or("a message is a string")?.to_owned()),
        None => None,
    };
    Ok(Want::Failure { code: code.to_owned(), message })
}

/// The JSON value at the front of the text, and what follows it.
fn json(text: &str) -> Result<(Value, &str), String> {
    let mut stream = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    let value = stream.next().ok_or("JSON is missing")?.map_err(|error| error.to_string())?;
    let rest = text.get(stream.byte_offset()..).unwrap_or_default();
    Ok((value, rest.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const TEXT: &str = "\
# Prose
## A server of its own: `--auth open`
### one
Some words. Left out by nobody.
Left out by cli, java: it refuses by itself
```
CreateQueue {\"QueueName\": \"a\"} -> {\"QueueUrl\": \"$q\"}
@bob @eu-west-1 SendMessage {\"QueueUrl\": \"$q\",
  \"MessageBody\": \"x\"} !! OverLimit \"~too*\"
start poll ReceiveMessage {}
finish poll
clock +90s
crash
```
";

    #[test]
    fn a_scenario_is_read_with_its_server_its_callers_and_its_exceptions() {
        let chapters = parse(TEXT).unwrap();
        assert_eq!(chapters[0].flags, ["--auth", "open"]);
        let scenario = &chapters[0].scenarios[0];
        assert_eq!(scenario.left_out_by[1], ("java".to_owned(), "it refuses by itself".to_owned()));
        assert_eq!(scenario.steps.len(), 6);
        let What::Call { call, want: Want::Failure { code, message }, .. } = &scenario.steps[1].what else {
            panic!("{:?}", scenario.steps[1]);
        };
        assert_eq!((call.caller.as_deref(), call.region.as_deref()), (Some("bob"), Some("eu-west-1")));
        assert_eq!(call.input, json!({"QueueUrl": "$q", "MessageBody": "x"}));
        assert_eq!((code.as_str(), message.as_deref()), ("OverLimit", Some("~too*")));
        assert!(matches!(scenario.steps[4].what, What::Clock { advance_ms: 90_000 }));
    }

    #[test]
    fn a_line_that_makes_no_sense_is_named() {
        for bad in ["sendMessage {}", "SendMessage", "SendMessage {", "SendMessage {} => {}", "clock 5s"] {
            let text = format!("## c\n### s\n```\n{bad}\n```\n");
            assert!(parse(&text).unwrap_err().starts_with("line 4"), "{bad}");
        }
    }
}
