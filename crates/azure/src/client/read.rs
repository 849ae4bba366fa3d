//! What a server's answers mean to its client.

use kew_core::Timestamp;
use kew_http::client::Answer;
use kew_http::{date, xml};

/// A message that was received.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct QueueMessage {
    /// Its id.
    pub id: String,
    /// When it was put.
    pub inserted: Timestamp,
    /// When it goes by itself.
    pub expires: Timestamp,
    /// Until when it is hidden.
    pub next_visible: Timestamp,
    /// How often it has been received, this time included.
    pub dequeue_count: u32,
    /// What it is changed with.
    pub pop_receipt: String,
    /// Its text as it is stored.
    pub text: String,
}

/// The messages in the answer to Get Messages; an error names what is malformed.
pub fn messages(body: &[u8]) -> Result<Vec<QueueMessage>, String> {
    let body = body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(body);
    let root = xml::parse(body, xml::Bounds::default()).map_err(|error| error.to_string())?;
    if root.name != "QueueMessagesList" {
        return Err(format!("expected QueueMessagesList, found {}", root.name));
    }
    root.children.iter().filter(|child| child.name == "QueueMessage").map(message).collect()
}

fn message(element: &xml::Element) -> Result<QueueMessage, String> {
    let text = |name: &str| {
        element
            .child(name)
            .map(|child| child.text.as_str())
            .ok_or_else(|| format!("a message without {name}"))
    };
    let instant = |name: &str| {
        let text = text(name)?;
        date::parse_http_date(text).ok_or_else(|| format!("{name} is no date: '{text}'"))
    };
    let count = text("DequeueCount")?;
    Ok(QueueMessage {
        id: text("MessageId")?.to_owned(),
        inserted: instant("InsertionTime")?,
        expires: instant("ExpirationTime")?,
        next_visible: instant("TimeNextVisible")?,
        dequeue_count: count.parse().map_err(|_| format!("DequeueCount is no number: '{count}'"))?,
        pop_receipt: text("PopReceipt")?.to_owned(),
        text: text("MessageText")?.to_owned(),
    })
}

fn header<'a>(answer: &'a Answer, name: &str) -> Option<&'a str> {
    answer.headers.get(name).and_then(|value| value.to_str().ok())
}

/// The new receipt in the answer to Update Message.
pub fn receipt(answer: &Answer) -> Option<&str> {
    header(answer, "x-ms-popreceipt")
}

/// Whether the answer is Kew's, which can hold requests.
pub fn is_of_kew(answer: &Answer) -> bool {
    header(answer, "server").is_some_and(|server| server.starts_with("Kew-Queue/"))
}

/// Whether the server held the request until the wait that was asked for was over.
pub fn has_waited(answer: &Answer) -> bool {
    answer.headers.contains_key(super::WAITED_HEADER)
}

/// Code and message of a refusal, from wherever the server put them.
pub fn refusal(answer: &Answer) -> (Option<String>, Option<String>) {
    let document = xml::parse(&answer.body, xml::Bounds::default()).ok().filter(|root| root.name == "Error");
    let element = |name: &str| {
        let child = document.as_ref().and_then(|root| root.child(name));
        child.map(|child| child.text.clone()).filter(|text| !text.is_empty())
    };
    let code = header(answer, "x-ms-error-code").map(str::to_owned).or_else(|| element("Code"));
    (code, element("AuthenticationErrorDetail").or_else(|| element("Message")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use kew_http::{HeaderMap, HeaderValue, StatusCode};

    const ONE: &str = "<?xml version=\"1.0\" encoding=\"utf-8\"?><QueueMessagesList><QueueMessage>\
        <MessageId>77ad22a3-23c6-4811-839a-57f9437a5a4e</MessageId>\
        <InsertionTime>Mon, 24 Apr 2023 12:41:09 GMT</InsertionTime>\
        <ExpirationTime>Mon, 01 May 2023 12:41:09 GMT</ExpirationTime>\
        <PopReceipt>AgAAAAMAAAAAAAAA==</PopReceipt>\
        <TimeNextVisible>Mon, 24 Apr 2023 12:51:09 GMT</TimeNextVisible>\
        <DequeueCount>2</DequeueCount><MessageText>a &lt;&#xD; b</MessageText></QueueMessage></QueueMessagesList>";

    #[test]
    fn messages_are_read_with_all_they_bring() {
        let messages = messages(ONE.as_bytes()).expect("a list of messages is read");
        let [message] = messages.as_slice() else { panic!("{messages:?}") };
        assert_eq!(message.id, "77ad22a3-23c6-4811-839a-57f9437a5a4e");
        assert_eq!(message.text, "a <\r b");
        assert_eq!(message.dequeue_count, 2);
        assert_eq!(message.next_visible.since(message.inserted).as_secs(), 600);
        assert_eq!(super::messages(b"<QueueMessagesList />"), Ok(Vec::new()));
    }

    #[test]
    fn garbage_is_an_error_that_names_it() {
        for (garbage, told) in [
            ("", "not well formed"),
            ("<html/>", "expected QueueMessagesList, found html"),
            ("<QueueMessagesList><QueueMessage/></QueueMessagesList>", "a message without DequeueCount"),
            (&ONE.replace("<DequeueCount>2", "<DequeueCount>two"), "DequeueCount is no number: 'two'"),
            (&ONE.replace("24 Apr 2023 12:41", "44 Apr 2023 12:41"), "InsertionTime is no date"),
        ] {
            let error = messages(garbage.as_bytes()).expect_err(garbage);
            assert!(error.contains(told), "{error}");
        }
    }

    #[test]
    fn a_refusal_is_read_from_header_or_body() {
        let mut answer = Answer {
            status: StatusCode::NOT_FOUND,
            headers: HeaderMap::new(),
            body: Bytes::from_static(
                b"<Error><Code>QueueNotFound</Code><Message>It is not there.</Message></Error>",
            ),
        };
        let told = (Some("QueueNotFound".to_owned()), Some("It is not there.".to_owned()));
        assert_eq!(refusal(&answer), told);
        answer.headers.insert("x-ms-error-code", HeaderValue::from_static("MessageNotFound"));
        assert_eq!(refusal(&answer).0.as_deref(), Some("MessageNotFound"));
        answer.body = Bytes::from_static(b"<html>");
        assert_eq!(refusal(&answer).1, None);
    }
}
