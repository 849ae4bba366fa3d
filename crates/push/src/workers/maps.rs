//! Source maps that came with a Worker's code: places in what runs, said as places in what was written.
//!
//! A map is what somebody uploaded. What cannot be read of one counts for nothing, and there is a bound for what is
//! kept of all of them.

use std::collections::HashMap;
use std::fmt::Write as _;

use serde::Deserialize;

use super::script::{ModuleKind, Script};

/// The most places kept of all maps of a Worker: 20 bytes each.
const PLACES_MAX: usize = 1_000_000;
/// The most letters of a source's name.
const NAME_LETTERS_MAX: usize = 256;
/// The most lines of a text whose places are looked for.
const LINES_MAX: usize = 200;
/// Maximum digits of a number, five bits each.
const DIGITS_MAX: u32 = 7;

/// The maps of a Worker.
#[derive(Debug, Default)]
pub(super) struct Maps(HashMap<String, SourceMap>);

#[derive(Debug, Default)]
struct SourceMap {
    sources: Vec<String>,
    /// In order.
    places: Vec<MappedPlace>,
}

#[derive(Clone, Copy, Debug)]
struct MappedPlace {
    line: u32,
    column: u32,
    /// None of a place that no source has.
    source: Option<u16>,
    source_line: u32,
    source_column: u32,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Raw {
    #[serde(default)]
    source_root: Option<String>,
    sources: Vec<Option<String>>,
    mappings: String,
}

impl Maps {
    /// Reads the maps of a Worker; takes a while where they are large.
    pub(super) fn read(script: &Script) -> Self {
        let mut room = PLACES_MAX;
        let mut maps = HashMap::new();
        for module in script.modules.iter().filter(|module| module.kind == ModuleKind::SourceMap) {
            let Some(of) = module.name.strip_suffix(".map") else { continue };
            let Some(map) = SourceMap::read(&module.content, room) else { continue };
            room -= map.places.len();
            maps.insert(of.to_owned(), map);
        }
        Self(maps)
    }

    /// A text with the places of its stack as they were written.
    pub(super) fn told(&self, text: String) -> String {
        if self.0.is_empty() || !text.contains("\n    at ") {
            return text;
        }
        let mut told = String::with_capacity(text.len());
        for (number, line) in text.split_inclusive('\n').enumerate() {
            match self.line(line).filter(|_| number < LINES_MAX) {
                Some(line) => told.push_str(&line),
                None => told.push_str(line),
            }
        }
        told
    }

    /// A line of a stack, `at name (module:line:column)` or `at module:line:column`; nothing of a line that is none.
    fn line(&self, line: &str) -> Option<String> {
        let body = line.trim_end();
        let rest = line.get(body.len()..)?;
        if !body.trim_start().starts_with("at ") {
            return None;
        }
        let (body, close) = body.strip_suffix(')').map_or((body, ""), |body| (body, ")"));
        let begins = body.rfind('(').filter(|_| !close.is_empty()).map(|open| open + 1);
        let begins = begins.or_else(|| body.find("at ").map(|at| at + 3))?;
        let (head, place) = body.split_at_checked(begins)?;
        let (place, column) = place.rsplit_once(':')?;
        let (module, line) = place.rsplit_once(':')?;
        let (source, line, column) = self.0.get(module)?.find(line.parse().ok()?, column.parse().ok()?)?;
        let mut told = String::new();
        // Writing into a string does not fail.
        let _written = write!(told, "{head}{source}:{line}:{column}{close}{rest}");
        Some(told)
    }
}

impl SourceMap {
    fn read(bytes: &[u8], room: usize) -> Option<Self> {
        let Raw { source_root, sources, mappings } = serde_json::from_slice(bytes).ok()?;
        let root = source_root.unwrap_or_default();
        let sources = sources.iter().map(|source| shown(&root, source.as_deref().unwrap_or("?")));
        let mut places = places(mappings.as_bytes(), room)?;
        places.sort_by_key(|place| (place.line, place.column));
        Some(Self { sources: sources.take(usize::from(u16::MAX)).collect(), places })
    }

    /// Where it was written what stands there, all counted from one.
    fn find(&self, line: u32, column: u32) -> Option<(&str, u64, u64)> {
        let (line, column) = (line.checked_sub(1)?, column.checked_sub(1)?);
        let after = self.places.partition_point(|place| (place.line, place.column) <= (line, column));
        let place = self.places.get(after.checked_sub(1)?).filter(|place| place.line == line)?;
        let source = self.sources.get(usize::from(place.source?))?;
        Some((source, u64::from(place.source_line) + 1, u64::from(place.source_column) + 1))
    }
}

/// A source's name in one line, without the way out of the folder that was uploaded from.
fn shown(root: &str, source: &str) -> String {
    let mut name =
        if root.is_empty() { source.to_owned() } else { format!("{}/{source}", root.trim_end_matches('/')) };
    while let Some(rest) = name.strip_prefix("../").or_else(|| name.strip_prefix("./")) {
        name = rest.to_owned();
    }
    name.chars().filter(|letter| !letter.is_control()).take(NAME_LETTERS_MAX).collect()
}

/// All places of a map, up to the room there is; nothing of one that is none.
fn places(mappings: &[u8], room: usize) -> Option<Vec<MappedPlace>> {
    let mut places = Vec::new();
    let (mut source, mut source_line, mut source_column) = (0, 0, 0);
    for (line, text) in mappings.split(|byte| *byte == b';').enumerate() {
        let line = u32::try_from(line).ok()?;
        let mut column = 0;
        for segment in text.split(|byte| *byte == b',').filter(|segment| !segment.is_empty()) {
            if places.len() == room {
                return Some(places);
            }
            let (numbers, count) = numbers(segment)?;
            column = moved(column, numbers[0])?;
            let is_written = count >= 4;
            if is_written {
                source = moved(source, numbers[1])?;
                source_line = moved(source_line, numbers[2])?;
                source_column = moved(source_column, numbers[3])?;
            }
            let source = u16::try_from(source).ok().filter(|_| is_written);
            places.push(MappedPlace { line, column, source, source_line, source_column });
        }
    }
    Some(places)
}

fn moved(from: u32, by: i64) -> Option<u32> {
    u32::try_from(i64::from(from) + by).ok()
}

/// The numbers of a segment, one to five, and how many they are.
fn numbers(segment: &[u8]) -> Option<([i64; 5], usize)> {
    let (mut numbers, mut count) = ([0; 5], 0);
    let (mut value, mut digits) = (0_i64, 0);
    for byte in segment {
        let digit = digit(*byte)?;
        if digits == DIGITS_MAX {
            return None;
        }
        value |= i64::from(digit & 31) << (5 * digits);
        digits += 1;
        if digit & 32 == 0 {
            // The lowest bit is the sign.
            *numbers.get_mut(count)? = if value & 1 == 1 { -(value >> 1) } else { value >> 1 };
            count += 1;
            (value, digits) = (0, 0);
        }
    }
    (digits == 0 && matches!(count, 1 | 4 | 5)).then_some((numbers, count))
}

fn digit(byte: u8) -> Option<u8> {
    Some(match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::super::script::tests::{module, script};
    use super::*;
    use crate::workers::Module;

    fn maps(content: &str) -> Maps {
        let content = content.as_bytes().to_vec().into();
        let map = Module { kind: ModuleKind::SourceMap, content, ..module("index.js.map", "") };
        Maps::read(&script(vec![module("index.js", ""), map]))
    }

    /// Line 2 of what runs: column 1 is line 1 of `a.ts`, column 5 is line 11, column 3, of `b.ts`, column 9 in no
    /// source.
    const MAP: &str =
        r#"{"version":3,"sources":["../src/a.ts","b\n.ts"],"names":["x"],"mappings":";AAAA,ICUEA,I"}"#;

    #[test]
    fn places_of_a_stack_are_said_as_they_were_written() {
        let maps = maps(MAP);
        for (line, expected) in [
            ("    at Object.queue (index.js:2:1)", "    at Object.queue (src/a.ts:1:1)"),
            ("    at index.js:2:4", "    at src/a.ts:1:1"),
            ("    at async f (index.js:2:5)", "    at async f (b.ts:11:3)"),
            ("    at f (index.js:2:8)\n", "    at f (b.ts:11:3)\n"),
            ("    at f (index.js:2:9)", "    at f (index.js:2:9)"),
            ("    at f (index.js:1:1)", "    at f (index.js:1:1)"),
            ("    at f (index.js:3:1)", "    at f (index.js:3:1)"),
            ("    at f (index.js:0:0)", "    at f (index.js:0:0)"),
            ("    at f (index.js:99999999999:1)", "    at f (index.js:99999999999:1)"),
            ("    at f (other.js:2:1)", "    at f (other.js:2:1)"),
            ("    at f (index.js)", "    at f (index.js)"),
            ("    at )", "    at )"),
            ("index.js:2:1", "index.js:2:1"),
        ] {
            let text = format!("Error: é\n{line}");
            assert_eq!(maps.told(text), format!("Error: é\n{expected}"));
        }
        let one = "at index.js:2:1";
        assert_eq!(maps.told(one.to_owned()), one, "a text that merely begins so is no stack");
    }

    #[test]
    fn what_is_no_map_counts_for_nothing() {
        let place = "Error: x\n    at f (index.js:1:1)";
        let with = |mappings: &str| format!(r#"{{"version":3,"sources":["a"],"mappings":"{mappings}"}}"#);
        assert_eq!(maps(&with("AAAA")).told(place.to_owned()), "Error: x\n    at f (a:1:1)");
        for map in [
            String::new(),
            "[]".to_owned(),
            "{}".to_owned(),
            r#"{"sections":[]}"#.to_owned(),
            "[".repeat(100_000),
            with("AA"),
            with("AAAAAA"),
            with("AAA!"),
            with("g"),
            with("AAAD"),
            with("gggggggggA"),
            with("ACAA"),
            with("A/////DAA"),
            with("é"),
        ] {
            let shown: String = map.chars().take(60).collect();
            assert_eq!(maps(&map).told(place.to_owned()), place, "{shown}");
        }
    }

    #[test]
    fn of_a_map_with_many_places_the_first_are_kept() {
        let mappings = vec!["AAAA"; PLACES_MAX + 10].join(";");
        let maps = maps(&format!(r#"{{"sources":["a"],"mappings":"{mappings}"}}"#));
        let found = |line: usize| maps.told(format!("x\n    at index.js:{line}:1"));
        assert_eq!(found(PLACES_MAX), "x\n    at a:1:1");
        assert_eq!(found(PLACES_MAX + 1), format!("x\n    at index.js:{}:1", PLACES_MAX + 1));
    }
}
