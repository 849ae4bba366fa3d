//! What an answer must look like, and the words that stand for values in inputs and patterns.
//!
//! `$name` is a value met before, or, in a pattern that meets it first, whatever is there; `${name}` stands for it
//! inside a longer text. `"~a*c"` is a text with anything in place of the star. `null` means absent. Objects may
//! have more members than the pattern unless it says `"<exact>": true`; lists have exactly the entries given, in their
//! order unless the first is `"<any order>"`. `"<x times 1024>"` is a text too long to be written down.

use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Values met so far in one scenario.
pub type Values = BTreeMap<String, Value>;

/// As a member of a pattern: the answer has no other members.
const EXACT: &str = "<exact>";
/// As the first entry of a list.
const UNORDERED: &str = "<any order>";

/// The input with every word replaced by what it stands for.
pub fn fill(input: &Value, values: &Values) -> Result<Value, String> {
    match input {
        Value::String(text) => fill_text(text, values),
        Value::Array(entries) => entries.iter().map(|entry| fill(entry, values)).collect(),
        Value::Object(members) => {
            let mut filled = Map::new();
            for (name, value) in members {
                let value = fill(value, values)?;
                // Queue attributes are texts: a policy written as an object travels as JSON inside a string.
                let value = if name == "Attributes" { texts(value) } else { value };
                filled.insert(name.clone(), value);
            }
            Ok(Value::Object(filled))
        }
        plain => Ok(plain.clone()),
    }
}

fn texts(attributes: Value) -> Value {
    let Value::Object(members) = attributes else { return attributes };
    let text = |value: Value| if value.is_string() { value } else { Value::String(value.to_string()) };
    Value::Object(members.into_iter().map(|(name, value)| (name, text(value))).collect())
}

fn fill_text(text: &str, values: &Values) -> Result<Value, String> {
    let known = |name: &str| values.get(name).cloned().ok_or_else(|| format!("${name} is not known yet"));
    if let Some((unit, count)) = repeated(text) {
        return Ok(Value::String(unit.repeat(count)));
    }
    if let Some(name) = variable(text) {
        return known(name);
    }
    let mut filled = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        let (name, after) = after.split_once('}').ok_or("a ${ is never closed")?;
        filled.push_str(before);
        filled.push_str(known(name)?.as_str().ok_or("only texts stand inside texts")?);
        rest = after;
    }
    filled.push_str(rest);
    Ok(Value::String(filled))
}

/// `$name` and nothing else.
fn variable(text: &str) -> Option<&str> {
    let name = text.strip_prefix('$')?;
    let plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    (!name.is_empty() && name.chars().all(plain)).then_some(name)
}

/// `<x times 1024>`: a text too long to be written down.
fn repeated(text: &str) -> Option<(&str, usize)> {
    let (unit, count) = text.strip_prefix('<')?.strip_suffix('>')?.split_once(" times ")?;
    Some((unit, count.parse().ok()?))
}

/// Says nothing when the answer is as the pattern wants it; takes in the values it meets first.
pub fn check(pattern: &Value, answer: &Value, values: &mut Values) -> Result<(), String> {
    check_at("", pattern, answer, values)
}

fn check_at(path: &str, pattern: &Value, answer: &Value, values: &mut Values) -> Result<(), String> {
    let differs = |wanted: &Value| Err(format!("{path}: wanted {}, got {}", short(wanted), short(answer)));
    match pattern {
        Value::Null if path.is_empty() || answer.is_null() => Ok(()),
        Value::Object(wanted) => match answer {
            Value::Object(members) => members_match(path, wanted, members, values),
            // A queue attribute that is JSON inside a text.
            Value::String(text) => match serde_json::from_str::<Value>(text) {
                Ok(inner @ Value::Object(_)) => check_at(path, pattern, &inner, values),
                _ => differs(pattern),
            },
            _ => differs(pattern),
        },
        Value::Array(wanted) => match answer {
            Value::Array(entries) => entries_match(path, wanted, entries, values),
            _ => differs(pattern),
        },
        Value::String(text) => match text.as_str() {
            "<any>" if !answer.is_null() => Ok(()),
            "<uuid>" if answer.as_str().is_some_and(is_uuid) => Ok(()),
            "<digits>" if answer.as_str().is_some_and(is_digits) => Ok(()),
            "<any>" | "<uuid>" | "<digits>" => differs(pattern),
            _ => text_matches(path, text, answer, values),
        },
        plain if plain == answer => Ok(()),
        plain => differs(plain),
    }
}

fn text_matches(path: &str, text: &str, answer: &Value, values: &mut Values) -> Result<(), String> {
    if let Some(name) = variable(text)
        && !values.contains_key(name)
    {
        if answer.is_null() {
            return Err(format!("{path}: wanted anything, got nothing"));
        }
        values.insert(name.to_owned(), answer.clone());
        return Ok(());
    }
    let wanted = fill_text(text, values)?;
    let matches = match (wanted.as_str().and_then(|wanted| wanted.strip_prefix('~')), answer.as_str()) {
        (Some(pattern), Some(answer)) => like(pattern, answer),
        _ => wanted == *answer,
    };
    if matches { Ok(()) } else { Err(format!("{path}: wanted {}, got {}", short(&wanted), short(answer))) }
}

fn members_match(
    path: &str,
    wanted: &Map<String, Value>,
    members: &Map<String, Value>,
    values: &mut Values,
) -> Result<(), String> {
    for (name, pattern) in wanted.iter().filter(|(name, _)| *name != EXACT) {
        let name = fill_text(name, values)?.as_str().unwrap_or_default().to_owned();
        let value = members.get(&name).unwrap_or(&Value::Null);
        check_at(&format!("{path}.{name}"), pattern, value, values)?;
    }
    let extra = members.iter().find(|(name, value)| !wanted.contains_key(*name) && !value.is_null());
    match extra {
        Some((name, value)) if wanted.contains_key(EXACT) => {
            Err(format!("{path}.{name}: wanted nothing, got {}", short(value)))
        }
        _ => Ok(()),
    }
}

fn entries_match(path: &str, wanted: &[Value], entries: &[Value], values: &mut Values) -> Result<(), String> {
    let (wanted, any_order) = match wanted.split_first() {
        Some((first, rest)) if first == UNORDERED => (rest, true),
        _ => (wanted, false),
    };
    if wanted.len() != entries.len() {
        let got = short(&Value::Array(entries.to_vec()));
        return Err(format!("{path}: wanted {} entries, got {}: {got}", wanted.len(), entries.len()));
    }
    let mut left: Vec<&Value> = entries.iter().collect();
    for (index, pattern) in wanted.iter().enumerate() {
        let path = format!("{path}[{index}]");
        let fits = |entry: &&Value| check_at(&path, pattern, entry, &mut values.clone()).is_ok();
        let place = if any_order { left.iter().position(fits).unwrap_or(0) } else { 0 };
        check_at(&path, pattern, left.remove(place), values)?;
    }
    Ok(())
}

/// A text against a pattern with stars.
pub fn like(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = text.strip_prefix(parts.next().unwrap_or_default()) else { return false };
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        match rest.split_once(part) {
            Some((_, after)) => rest = after,
            None => return false,
        }
    }
    true
}

fn is_uuid(text: &str) -> bool {
    let groups: Vec<usize> = text.split('-').map(str::len).collect();
    groups == [8, 4, 4, 4, 12] && text.chars().all(|letter| letter == '-' || letter.is_ascii_hexdigit())
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// The value as JSON, cut to 300 characters.
pub fn short(value: &Value) -> String {
    const ENOUGH: usize = 300;
    let text = value.to_string();
    match text.char_indices().nth(ENOUGH) {
        Some((end, _)) => format!("{}… ({} bytes)", text.get(..end).unwrap_or_default(), text.len()),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn passes(pattern: &Value, answer: &Value) -> bool {
        check(pattern, answer, &mut Values::new()).is_ok()
    }

    #[test]
    fn a_variable_is_taken_once_and_compared_from_then_on() {
        let mut values = Values::new();
        check(&json!({"a": "$x"}), &json!({"a": "1"}), &mut values).unwrap();
        assert!(check(&json!({"b": "$x"}), &json!({"b": "1"}), &mut values).is_ok());
        assert!(check(&json!({"b": "$x"}), &json!({"b": "2"}), &mut values).is_err());
        assert!(check(&json!({"b": "$y"}), &json!({}), &mut values).is_err());
        assert_eq!(fill(&json!({"c": "<${x}>"}), &values).unwrap(), json!({"c": "<1>"}));
    }

    #[test]
    fn null_is_absent_and_exact_admits_nothing_more() {
        assert!(passes(&json!({"a": null}), &json!({"b": 1})));
        assert!(!passes(&json!({"b": null}), &json!({"b": 1})));
        assert!(passes(&json!({"b": 1}), &json!({"a": 1, "b": 1})));
        assert!(!passes(&json!({"<exact>": true, "b": 1}), &json!({"a": 1, "b": 1})));
    }

    #[test]
    fn lists_keep_their_order_unless_any_order_is_said() {
        assert!(!passes(&json!(["1", "2"]), &json!(["2", "1"])));
        assert!(passes(&json!(["<any order>", "1", "2"]), &json!(["2", "1"])));
        assert!(!passes(&json!(["<any order>", "1", "1"]), &json!(["2", "1"])));
        assert!(!passes(&json!(["1"]), &json!(["1", "2"])));
    }

    #[test]
    fn texts_match_with_stars_and_json_inside_a_text_is_looked_into() {
        assert!(passes(&json!("~a*c*"), &json!("abcd")));
        assert!(!passes(&json!("~a*c"), &json!("abcd")));
        assert!(!passes(&json!("~ab"), &json!("abc")));
        assert!(passes(&json!({"p": {"n": 1}}), &json!({"p": "{\"n\":1}"})));
        assert!(!passes(&json!({"p": {"n": "1"}}), &json!({"p": "{\"n\":1}"})));
    }

    #[test]
    fn an_attribute_written_as_an_object_travels_as_text() {
        let filled = fill(&json!({"Attributes": {"P": {"n": 1}}}), &Values::new()).unwrap();
        assert_eq!(filled, json!({"Attributes": {"P": "{\"n\":1}"}}));
        assert_eq!(fill(&json!("<ab times 2>"), &Values::new()).unwrap(), json!("abab"));
    }
}
