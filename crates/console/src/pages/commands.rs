//! A message as commands that send it again: with `kew`, with curl, with boto3.

use kew_http::{Request, percent};
use serde_json::{Map, Value, json};

use super::{read, text};
use crate::{Settings, ShownSetting};

/// Bodies longer than this are sent from a file.
const BODY_MAX: usize = 8 << 10;

/// One command.
pub(super) struct Command {
    pub(super) title: &'static str,
    pub(super) text: String,
}

/// Where commands find the server.
pub(super) struct Places {
    /// This console, as its browser sees it.
    pub(super) admin: String,
    /// The SQS listener, as it is set up.
    pub(super) sqs: String,
    pub(super) region: String,
}

impl Places {
    pub(super) fn of(settings: &Settings, request: &Request) -> Self {
        let is_listener = |one: &&ShownSetting| (&*one.section, &*one.key) == ("server", "sqs");
        let set = settings.shown.iter().find(is_listener).and_then(|one| one.value.as_deref());
        // Neither "off" nor port 0 is an address to ask.
        let set = set.filter(|address| address.contains(':') && !address.ends_with(":0"));
        Self {
            admin: base(request),
            sqs: format!("http://{}", set.unwrap_or("127.0.0.1:9324")),
            region: settings.region.to_string(),
        }
    }
}

fn base(request: &Request) -> String {
    let scheme = if request.secure { "https" } else { "http" };
    let host = request.header("host").unwrap_or("127.0.0.1:9325");
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-:[]".contains(&byte);
    let host = if host.bytes().all(is_plain) { host } else { "127.0.0.1:9325" };
    format!("{scheme}://{host}")
}

/// Commands about a message, whose body is given as bytes and in Base64.
pub(super) fn of_message(
    queue: &str,
    found: &Value,
    (bytes, base64): (&[u8], &str),
    places: &Places,
) -> Vec<Command> {
    let host = places.admin.as_str();
    let id = read::text(found, "id");
    let show = format!("kew message show {id} --admin {}", quoted(host));
    let mut all = vec![Command { title: "Show it with kew", text: show }];
    if bytes.len() > BODY_MAX {
        let path = format!("{host}/queues/{}/messages/{id}/body", percent::encode(queue.as_bytes()));
        let text = format!(
            "curl -sS --fail {} -o body.bin\nkew send {} - --admin {} < body.bin",
            quoted(&path),
            quoted(queue),
            quoted(host)
        );
        all.push(Command { title: "Send it again with kew", text });
        return all;
    }
    // Characters that cannot be seen cannot be copied safely either.
    let plain = std::str::from_utf8(bytes)
        .ok()
        .filter(|text| !text.chars().any(|one| text::is_odd(one) && one != '\n'));
    let plain = plain.filter(|_| read::given(found, "body").is_some());
    all.push(Command {
        title: "Send it again with kew",
        text: with_kew(queue, found, (plain, base64), host),
    });
    all.push(Command {
        title: "Send it again with curl",
        text: with_curl(queue, found, (plain, base64), host),
    });
    if let Some(plain) = plain {
        all.push(Command {
            title: "Send it again with boto3",
            text: with_boto3(queue, found, plain, places),
        });
    }
    all
}

fn with_kew(queue: &str, found: &Value, (plain, base64): (Option<&str>, &str), host: &str) -> String {
    let mut flags = String::new();
    for (flag, name) in [("--group", "group"), ("--content-type", "content_type")] {
        let value = read::given(found, name).filter(|value| *value != "text");
        if let Some(value) = value {
            flags.push_str(&format!(" {flag} {}", quoted(value)));
        }
    }
    let (queue, host) = (quoted(queue), quoted(host));
    match plain {
        Some(body) => format!("kew send {queue} {}{flags} --admin {host}", quoted(body)),
        None => format!("printf %s {base64} | base64 -d | kew send {queue} -{flags} --admin {host}"),
    }
}

fn with_curl(queue: &str, found: &Value, (plain, base64): (Option<&str>, &str), host: &str) -> String {
    let mut body = Map::new();
    match plain {
        Some(plain) => body.insert("body".to_owned(), plain.into()),
        None => body.insert("body_base64".to_owned(), base64.into()),
    };
    let content_type = match (plain, read::text(found, "content_type")) {
        (None, "text" | "json") => "bytes",
        (_, other) => other,
    };
    body.insert("content_type".to_owned(), content_type.into());
    body.extend(read::given(found, "group").map(|group| ("group".to_owned(), group.into())));
    let path = format!("{host}/api/v1/queues/{}/messages", percent::encode(queue.as_bytes()));
    format!(
        "curl -sS --fail-with-body {} \\\n  -H 'Content-Type: application/json' \\\n  -d {}",
        quoted(&path),
        quoted(&Value::Object(body).to_string())
    )
}

fn with_boto3(queue: &str, found: &Value, body: &str, places: &Places) -> String {
    // A text of JSON is one of Python as well.
    let literal = |text: &str| json!(text).to_string();
    let group = read::given(found, "group").map(|group| format!(", MessageGroupId={}", literal(group)));
    format!(
        "import boto3\n\nsqs = boto3.client(\"sqs\", endpoint_url={}, region_name={})\n\
         url = sqs.get_queue_url(QueueName={})[\"QueueUrl\"]\n\
         sqs.send_message(QueueUrl=url, MessageBody={}{})",
        literal(&places.sqs),
        literal(&places.region),
        literal(queue.rsplit(':').next().unwrap_or(queue)),
        literal(body),
        group.unwrap_or_default()
    )
}

/// A word of the shell.
fn quoted(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./:=@%+,".contains(&byte);
    if !text.is_empty() && !text.starts_with('-') && text.bytes().all(is_plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_the_shell_mean_what_they_hold() {
        for (text, expected) in [
            ("orders", "orders"),
            ("it's", "'it'\\''s'"),
            ("", "''"),
            ("$HOME `x`", "'$HOME `x`'"),
            ("-n", "'-n'"),
        ] {
            assert_eq!(quoted(text), expected);
        }
    }

    fn places() -> Places {
        Places { admin: "http://h:1".to_owned(), sqs: "http://h:2".to_owned(), region: "here".to_owned() }
    }

    #[test]
    fn a_body_that_cannot_be_seen_is_sent_in_base64() {
        let found = json!({ "id": "1", "body": "a\u{202e}b", "content_type": "text" });
        let all = of_message("q", &found, ("a\u{202e}b".as_bytes(), "YeKArmI="), &places());
        assert!(all[1].text.contains("printf %s YeKArmI= | base64 -d | kew send q -"), "{}", all[1].text);
        assert!(
            all[2].text.contains(r#"{"body_base64":"YeKArmI=","content_type":"bytes"}"#),
            "{}",
            all[2].text
        );
        assert_eq!(all.len(), 3, "Python gets no characters that cannot be seen");
        let long = "x".repeat(BODY_MAX + 1);
        let found = json!({ "id": "1", "body": long, "content_type": "text" });
        let all = of_message("q", &found, (long.as_bytes(), ""), &places());
        assert!(all.iter().all(|command| command.text.len() < 400));
    }
}
