//! What is asked of a message's body: a text in it, or a value at a place of its JSON.

use kew_core::{Content, ContentType};

use super::json::{self, Asked, Step};
use super::messages::{Shown, shown_body};
use crate::error::ApiError;

/// Members and indexes of one path.
const STEPS_MAX: usize = 32;

/// All that is asked; a message must fit every part of it.
#[derive(Debug, Default)]
pub(super) struct Filter {
    text: Option<String>,
    json: Option<(Vec<Step>, Asked)>,
}

impl Filter {
    /// A filter from the parameters `text` and `json`.
    pub(super) fn new(text: Option<&str>, json: Option<&str>) -> Result<Self, ApiError> {
        Ok(Self { text: text.map(str::to_owned), json: json.map(condition).transpose()? })
    }

    /// Whether a message's content is as asked.
    pub(super) fn fits(&self, content: &Content) -> bool {
        self.text.as_deref().is_none_or(|text| has_text(content, text))
            && self.json.as_ref().is_none_or(|(path, asked)| has_value(content, path, asked))
    }
}

fn has_text(content: &Content, text: &str) -> bool {
    match shown_body(content) {
        Shown::Text(body) => body.contains(text),
        Shown::Base64(body) => body.contains(text),
    }
}

fn has_value(content: &Content, path: &[Step], asked: &Asked) -> bool {
    if !matches!(content.content_type, ContentType::Text | ContentType::Json) {
        return false;
    }
    json::has(&content.body, path, asked)
}

/// A path, `=`, and a JSON value or a text.
fn condition(text: &str) -> Result<(Vec<Step>, Asked), ApiError> {
    let malformed = || {
        ApiError::bad_request(
            "json must be a path, = and a value, such as $.order.id=17 or $.lines[0].sku=A-1",
        )
    };
    let (path, value) = text.split_once('=').ok_or_else(malformed)?;
    let path = steps(path).ok_or_else(malformed)?;
    let deep = || ApiError::bad_request("the value of json is nested more than 32 levels deep");
    Ok((path, Asked::read(value).ok_or_else(deep)?))
}

fn steps(path: &str) -> Option<Vec<Step>> {
    let mut rest = path.strip_prefix('$')?;
    let mut steps = Vec::new();
    while !rest.is_empty() {
        if steps.len() >= STEPS_MAX {
            return None;
        }
        if let Some(after) = rest.strip_prefix('.') {
            let end = after.find(['.', '[']).unwrap_or(after.len());
            let (name, others) = after.split_at(end);
            if name.is_empty() {
                return None;
            }
            steps.push(Step::Member(name.to_owned()));
            rest = others;
        } else {
            let (index, others) = rest.strip_prefix('[')?.split_once(']')?;
            if !index.bytes().all(|byte| byte.is_ascii_digit()) {
                return None;
            }
            steps.push(Step::Index(index.parse().ok()?));
            rest = others;
        }
    }
    Some(steps)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(content_type: ContentType, body: &'static str) -> Content {
        Content { content_type, body: body.into(), ..Content::default() }
    }

    fn fits(body: &'static str, json: &str) -> bool {
        let filter = Filter::new(None, Some(json)).expect("the test writes a path and a value");
        filter.fits(&content(ContentType::Text, body))
    }

    #[test]
    fn values_are_found_at_members_and_indexes() {
        const BODY: &str = r#"{"order":{"id":17,"lines":[{"sku":"A=1"},null]},"paid":true,"n":"17"}"#;
        for (json, expected) in [
            ("$.order.id=17", true),
            ("$.order.id=17.0", true),
            ("$.order.id=\"17\"", false),
            ("$.n=17", false),
            ("$.n=\"17\"", true),
            ("$.order.lines[0].sku=A=1", true),
            ("$.order.lines[1]=null", true),
            ("$.order.lines[2]=null", false),
            ("$.missing=null", false),
            ("$.paid=true", true),
            ("$.paid.deeper=true", false),
            ("$[0]=1", false),
        ] {
            assert_eq!(fits(BODY, json), expected, "{json}");
        }
        assert!(fits("17", "$=17") && fits("[1,[2]]", "$[1][0]=2"));
        assert!(!fits("no json", "$.a=1") && !fits("", "$.a="));
        let text = Filter::new(None, Some("$=1")).expect("a root and a value are a condition");
        assert!(!text.fits(&content(ContentType::Bytes, "1")), "bytes are no JSON");
    }

    #[test]
    fn what_is_no_path_and_value_is_refused() {
        let long = format!("${}=1", ".a".repeat(STEPS_MAX + 1));
        let wrong = [
            "", "$.a", "a=1", ".a=1", "$a=1", "$.=1", "$..a=1", "$[x]=1", "$[]=1", "$[1=1", "$[-1]=1", &long,
        ];
        for json in wrong {
            assert!(Filter::new(None, Some(json)).is_err(), "{json}");
        }
    }

    #[test]
    fn text_is_searched_in_the_body_as_it_is_shown() {
        let filter = |text| Filter::new(Some(text), None).expect("any text is a filter");
        assert!(filter("lo w").fits(&content(ContentType::Text, "hello world")));
        assert!(!filter("LO").fits(&content(ContentType::Text, "hello world")));
        assert!(filter("aGVs").fits(&content(ContentType::Bytes, "hello")));
        assert!(!filter("hel").fits(&content(ContentType::Bytes, "hello")));
    }
}
