//! The file of `kew init`: TOML or JSON, from its bytes to one object for each queue. What an object may hold is
//! decided in `entry`.

use std::fs::File;
use std::io::{self, IsTerminal, Read};
use std::path::Path;

use kew_console::MembersOnce;
use serde_json::{Map, Value};
use toml::de::{DeTable, DeValue};

use crate::cli::remote::output;
use crate::config;

/// Bytes of a file.
const FILE_BYTES_MAX: u64 = 4 << 20;
/// Queues of a file.
const QUEUES_MAX: usize = 10_000;
/// The name of the list.
const QUEUES: &str = "queues";
/// What a page of the API holds beside its queues.
const PAGE: [&str; 2] = ["next", "silent"];

/// What a file says of one queue, not looked at yet.
#[derive(Debug)]
pub(super) struct Raw {
    /// Where it is, for people.
    pub(super) place: String,
    pub(super) members: Map<String, Value>,
    /// Whether it may be an object that the API printed.
    pub(super) is_json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum FileFormat {
    Toml,
    Json,
}

/// Reads a file; `-` is standard input to its end.
pub(super) fn read(from: &Path) -> Result<Vec<Raw>, String> {
    let text = text(from)?;
    let ending = from.extension().and_then(|ending| ending.to_str()).map(str::to_ascii_lowercase);
    let format = match ending.as_deref() {
        Some("toml") => FileFormat::Toml,
        Some("json" | "jsonl" | "ndjson") => FileFormat::Json,
        _ => format_of(&text),
    };
    match format {
        FileFormat::Toml => of_toml(&text),
        FileFormat::Json => of_json(&text),
    }
}

fn text(from: &Path) -> Result<String, String> {
    let mut bytes = Vec::new();
    let read = if from == Path::new("-") {
        let stdin = io::stdin();
        if stdin.is_terminal() {
            output::note("the queues are read from here to its end (Ctrl-D)");
        }
        stdin.lock().take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)
    } else {
        File::open(from).and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes))
    };
    let length = read.map_err(|error| format!("cannot read it: {error}"))?;
    if length as u64 > FILE_BYTES_MAX {
        return Err(format!("it is longer than {FILE_BYTES_MAX} bytes"));
    }
    let text = String::from_utf8(bytes).map_err(|_| "it is not UTF-8".to_owned())?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    // The output of a command that failed, most likely.
    if text.trim().is_empty() {
        return Err("it is empty".to_owned());
    }
    Ok(text.to_owned())
}

/// What a text is that no ending of a name says it of: JSON begins with an object, or an array of objects.
fn format_of(text: &str) -> FileFormat {
    let mut marks = text.chars().filter(|character| !character.is_whitespace());
    match (marks.next(), marks.next()) {
        (Some('{'), _) | (Some('['), Some('{' | ']')) => FileFormat::Json,
        _ => FileFormat::Toml,
    }
}

fn of_toml(text: &str) -> Result<Vec<Raw>, String> {
    let document = DeTable::parse(text).map_err(|error| {
        let (line, column) = config::place(text, error.span().unwrap_or_default().start);
        format!("no TOML: line {line}, column {column}: {}", error.message())
    })?;
    let mut queues = None;
    for (name, value) in document.get_ref() {
        let (line, _) = config::place(text, name.span().start);
        if name.get_ref() != QUEUES {
            return Err(format!("line {line}: {} is not known; write [[{QUEUES}]]", name.get_ref()));
        }
        let DeValue::Array(list) = value.get_ref() else {
            return Err(format!("line {line}: {QUEUES} must be a list: write [[{QUEUES}]]"));
        };
        queues = Some(list);
    }
    let queues = queues.ok_or_else(|| format!("it declares no queues: write [[{QUEUES}]]"))?;
    check_count(queues.len())?;
    let mut lines = LineCount { text, at: 0, line: 1 };
    let raw = queues.iter().enumerate().map(|(number, value)| {
        let line = lines.at(value.span().start);
        let place = format!("line {line}, {QUEUES}[{number}]");
        let value = of_toml_value(value.get_ref()).map_err(|why| format!("{place}: {why}"))?;
        raw(place, value, false)
    });
    raw.collect()
}

fn of_toml_value(value: &DeValue<'_>) -> Result<Value, String> {
    Ok(match value {
        DeValue::String(text) => text.as_ref().into(),
        DeValue::Integer(number) => {
            let read = i64::from_str_radix(number.as_str(), number.radix());
            read.map_err(|_| format!("{} is too large a number", number.as_str()))?.into()
        }
        DeValue::Boolean(flag) => (*flag).into(),
        DeValue::Float(number) => return Err(format!("{} is no whole number", number.as_str())),
        DeValue::Datetime(instant) => return Err(format!("{instant} is a date; write a text in quotes")),
        DeValue::Array(list) => {
            let list = list.iter().map(|value| of_toml_value(value.get_ref()));
            Value::Array(list.collect::<Result<_, _>>()?)
        }
        DeValue::Table(table) => {
            let members = table.iter().map(|(name, value)| {
                let value =
                    of_toml_value(value.get_ref()).map_err(|why| format!("{}: {why}", name.get_ref()))?;
                Ok::<_, String>((name.get_ref().clone().into_owned(), value))
            });
            Value::Object(members.collect::<Result<_, _>>()?)
        }
    })
}

/// An object of a queue, a list of such, an object with `queues`, or any number of these one after the other.
fn of_json(text: &str) -> Result<Vec<Raw>, String> {
    let mut all = Vec::new();
    let mut lines = LineCount { text, at: 0, line: 1 };
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<MembersOnce>();
    loop {
        let behind = text.get(values.byte_offset()..).unwrap_or_default();
        let begins = text.len() - behind.trim_start().len();
        let Some(value) = values.next() else { return Ok(all) };
        let MembersOnce(value) = value.map_err(|error| format!("no JSON: {error}"))?;
        let line = lines.at(begins);
        let list = list(value).map_err(|why| format!("line {line}: {why}"))?;
        let is_alone = matches!(list, List::One(_));
        let list = match list {
            List::One(queue) => vec![queue],
            List::Many(queues) => queues,
        };
        check_count(all.len().saturating_add(list.len()))?;
        for value in list {
            let number = all.len();
            let line = if is_alone { format!("line {line}, ") } else { String::new() };
            all.push(raw(format!("{line}{QUEUES}[{number}]"), value, true)?);
        }
    }
}

/// The lines of places that are asked for in their order: each part of the text is looked at once.
struct LineCount<'a> {
    text: &'a str,
    at: usize,
    /// The line of `at`, from 1.
    line: usize,
}

impl LineCount<'_> {
    fn at(&mut self, place: usize) -> usize {
        let passed = self.text.as_bytes().get(self.at..place).unwrap_or_default();
        self.line += passed.iter().filter(|byte| **byte == b'\n').count();
        self.at = self.at.max(place);
        self.line
    }
}

enum List {
    One(Value),
    Many(Vec<Value>),
}

fn list(value: Value) -> Result<List, String> {
    let mut members = match value {
        Value::Array(list) => return Ok(List::Many(list)),
        Value::Object(members) => members,
        _ => return Err("a queue must be an object".to_owned()),
    };
    let Some(queues) = members.remove(QUEUES) else { return Ok(List::One(Value::Object(members))) };
    if let Some(other) = members.keys().find(|name| !PAGE.contains(&name.as_str())) {
        return Err(format!("{other:?} is not known beside {QUEUES:?}"));
    }
    if members.get("next").is_some_and(|next| !next.is_null()) {
        return Err("it is one page of a longer list; `kew queue ls --json` prints all of it".to_owned());
    }
    match queues {
        Value::Array(list) => Ok(List::Many(list)),
        _ => Err(format!("{QUEUES:?} must be an array")),
    }
}

fn raw(place: String, value: Value, is_json: bool) -> Result<Raw, String> {
    match value {
        Value::Object(members) => Ok(Raw { place, members, is_json }),
        _ if is_json => Err(format!("{place} must be an object")),
        _ => Err(format!("{place} must be a table")),
    }
}

fn check_count(queues: usize) -> Result<(), String> {
    if queues <= QUEUES_MAX {
        return Ok(());
    }
    Err(format!("it declares more than {QUEUES_MAX} queues"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(raw: Result<Vec<Raw>, String>) -> Vec<String> {
        let raw = raw.expect("the file is right");
        let name = |one: &Raw| one.members.get("name").and_then(Value::as_str).unwrap_or("-").to_owned();
        raw.iter().map(|one| format!("{}: {}", one.place, name(one))).collect()
    }

    #[test]
    fn tables_of_toml_are_named_by_their_lines() {
        let text =
            "# ours\n[[queues]]\nname = \"a\"\n\n[[queues]]\nname = \"b\"\n[queues.settings]\nx = 0x10\n";
        assert_eq!(names(of_toml(text)), ["line 2, queues[0]: a", "line 5, queues[1]: b"]);
        let inline = "queues = [\n  { name = \"a\" },\n  { name = \"b\" },\n]\n";
        assert_eq!(names(of_toml(inline)), ["line 2, queues[0]: a", "line 3, queues[1]: b"]);
        let settings = of_toml(text).expect("the file is right").remove(1).members.remove("settings");
        assert_eq!(settings, Some(serde_json::json!({ "x": 16 })));
        assert_eq!(names(of_toml("queues = []")), [""; 0]);
    }

    #[test]
    fn json_is_an_object_a_list_or_lines() {
        let expected = ["queues[0]: a", "queues[1]: b"];
        assert_eq!(names(of_json(r#"{"queues":[{"name":"a"},{"name":"b"}]}"#)), expected);
        assert_eq!(
            names(of_json(r#"{"queues":[{"name":"a"},{"name":"b"}],"next":null,"silent":[]}"#)),
            expected
        );
        assert_eq!(names(of_json(r#"[{"name":"a"},{"name":"b"}]"#)), expected);
        let lines = "{\"name\":\"a\"}\n\n{\n  \"name\":\"b\"}\n";
        assert_eq!(names(of_json(lines)), ["line 1, queues[0]: a", "line 3, queues[1]: b"]);
        assert_eq!(names(of_json("{\"queues\":[]}")), [""; 0]);
    }

    #[test]
    fn what_is_wrong_is_named_by_its_place() {
        for (text, expected) in [
            ("[[queues]]\nname = a\n", "no TOML: line 2, column 8: "),
            ("[[queues]]\nname = \"a\"\nname = \"b\"\n", "no TOML: line 3, column 1: "),
            ("\n[queues]\nname = \"a\"\n", "line 2: queues must be a list: write [[queues]]"),
            ("[[queues]]\n[server]\n", "line 2: server is not known; write [[queues]]"),
            ("# nothing\n", "it declares no queues"),
            ("queues = [1]", "line 1, queues[0] must be a table"),
            ("[[queues]]\nsettings = { a = 1.5 }", "line 1, queues[0]: settings: a: 1.5 is no whole number"),
            ("[[queues]]\nname = nan", "line 1, queues[0]: name: nan is no whole number"),
            ("[[queues]]\nname = 1979-05-27", "line 1, queues[0]: name: 1979-05-27 is a date"),
            ("[[queues]]\na = 9223372036854775808", "a: 9223372036854775808 is too large"),
        ] {
            let why = of_toml(text).expect_err(text);
            assert!(why.contains(expected), "{why}");
        }
        for (text, expected) in [
            ("{\"name\":\"a\"}\n{\"name\"}", "no JSON: expected `:` at line 2 column 8"),
            ("{\"name\":\"a\",\n\"name\":\"b\"}", "no JSON: \"name\" is given twice at line 2"),
            ("[1]", "queues[0] must be an object"),
            ("{}\n7", "line 2: a queue must be an object"),
            ("{\"queues\":{}}", "\"queues\" must be an array"),
            ("{\"queues\":[],\"name\":\"a\"}", "\"name\" is not known beside \"queues\""),
            ("{\"queues\":[],\"next\":\"a\"}", "one page of a longer list"),
        ] {
            let why = of_json(text).expect_err(text);
            assert!(why.contains(expected), "{why}");
        }
        let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
        assert!(of_json(&deep).is_err() && of_toml(&format!("queues = {deep}")).is_err(), "depth is bounded");
        let many = "{}".repeat(QUEUES_MAX + 1);
        assert!(of_json(&many).is_err_and(|why| why.contains("more than 10000 queues")));
    }

    #[test]
    fn a_text_without_a_name_is_what_it_looks_like() {
        for (text, format) in [
            ("{\"queues\":[]}", FileFormat::Json),
            (" [ {", FileFormat::Json),
            ("[]", FileFormat::Json),
            ("[[queues]]", FileFormat::Toml),
            ("[ queues ]", FileFormat::Toml),
            ("queues = []", FileFormat::Toml),
            ("# {", FileFormat::Toml),
        ] {
            assert_eq!(format_of(text), format, "{text}");
        }
    }
}
