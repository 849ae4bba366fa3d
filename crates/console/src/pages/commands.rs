//! A message as commands that send it again whole: with `kew`, with curl, with boto3.

use kew_http::percent;
use serde_json::{Map, Value, json};

use super::server_places::{Places, Proof};
use super::{query_of, read, text};

/// Bodies and attributes that are longer than this together are sent from a file, or not offered as a command.
const SHOWN_MAX: usize = 8 << 10;
/// The text type of attributes that `kew send --attribute` gives.
const STRING: &str = "String";

/// One command.
pub(super) struct Command {
    pub(super) title: &'static str,
    pub(super) text: String,
}

/// A message that is sent again.
pub(super) struct Message<'a> {
    queue: &'a str,
    /// Where the search for it went on, if it took one.
    cursor: &'a str,
    found: &'a Value,
    bytes: &'a [u8],
    base64: &'a str,
    /// The body where it is text.
    text: Option<&'a str>,
}

/// One attribute.
struct Attribute<'a> {
    name: &'a str,
    data_type: &'a str,
    value: &'a str,
}

impl<'a> Message<'a> {
    /// A message that the API shows, whose body is given as bytes and in Base64.
    pub(super) fn of(
        found: &'a Value,
        (queue, cursor): (&'a str, &'a str),
        (bytes, base64): (&'a [u8], &'a str),
    ) -> Self {
        let text = read::given(found, "body");
        Self { queue, cursor, found, bytes, base64, text }
    }

    /// All commands about it.
    pub(super) fn commands(&self, places: &Places) -> Vec<Command> {
        let mut all = vec![Command { title: "Show it with kew", text: self.shown_with_kew(places) }];
        let mut put = |title, text: Option<String>| all.extend(text.map(|text| Command { title, text }));
        if self.attribute_bytes() > SHOWN_MAX {
            return all;
        }
        put("Send it again with kew", self.sent_with_kew(places));
        if self.bytes.len() + self.attribute_bytes() <= SHOWN_MAX {
            put("Send it again with curl", Some(self.sent_with_curl(places)));
            put("Send it again with boto3", self.sent_with_boto3(places));
        }
        all
    }

    /// What the commands need beside themselves, and why some are missing.
    pub(super) fn notes(&self, places: &Places) -> Vec<&'static str> {
        let mut notes = Vec::new();
        match places.proof {
            Proof::None => {}
            Proof::Token => notes.push("KEW_ADMIN_TOKEN stands for the admin token of the server."),
            Proof::Session => {
                notes.push("This server has users and no admin token, which commands for kew and curl need.");
            }
        }
        if self.attribute_bytes() > SHOWN_MAX {
            notes.push("The attributes are too long for a command that sends the message again.");
        }
        notes
    }

    fn attributes(&self) -> Vec<Attribute<'a>> {
        let all = self.found.get("attributes").and_then(Value::as_object).into_iter().flatten();
        let one = |(name, one): (&'a String, &'a Value)| Attribute {
            name,
            data_type: read::text(one, "type"),
            value: read::text(one, "value"),
        };
        all.map(one).collect()
    }

    fn attribute_bytes(&self) -> usize {
        self.attributes().iter().map(|one| one.name.len() + one.data_type.len() + one.value.len()).sum()
    }

    fn shown_with_kew(&self, places: &Places) -> String {
        format!("kew message show {}{}", read::text(self.found, "id"), target(places))
    }

    /// Nothing where an attribute is not what `--attribute` can say.
    fn sent_with_kew(&self, places: &Places) -> Option<String> {
        let mut flags = String::new();
        let names = [
            ("--group", "group"),
            ("--deduplication-id", "deduplication_id"),
            ("--content-type", "content_type"),
        ];
        for (name, member) in names {
            let value =
                read::given(self.found, member).filter(|value| *value != "text" || name != "--content-type");
            flags.extend(value.map(|value| flag(name, value)));
        }
        for one in self.attributes() {
            if one.data_type != STRING || !is_plain(one.name) || !is_plain(one.value) {
                return None;
            }
            flags.push_str(&flag("--attribute", &format!("{}={}", one.name, one.value)));
        }
        flags.push_str(&target(places));
        let queue = quoted(self.queue);
        if self.bytes.len() + self.attribute_bytes() > SHOWN_MAX {
            let (id, cursor) = (read::text(self.found, "id"), query_of(&[("cursor", self.cursor)]));
            let path = format!("{}/{id}/body{cursor}", self.messages(places, ""));
            let (path, proof) = (quoted(&path), bearer(places));
            return Some(format!(
                "curl -sS --fail{proof} {path} -o body.bin\nkew send {queue} -{flags} < body.bin"
            ));
        }
        Some(match self.text.filter(|text| is_plain(text)) {
            // A body that begins so would be read as a flag, and `-` alone as standard input.
            Some(text) if text.starts_with('-') => {
                format!("printf %s {} | kew send {queue} -{flags}", quoted(text))
            }
            Some(text) => format!("kew send {queue} {}{flags}", quoted(text)),
            None => format!("printf %s {} | base64 -d | kew send {queue} -{flags}", self.base64),
        })
    }

    fn sent_with_curl(&self, places: &Places) -> String {
        let mut body = Map::new();
        match self.text {
            Some(text) => body.insert("body".to_owned(), text.into()),
            None => body.insert("body_base64".to_owned(), self.base64.into()),
        };
        // A text that is none is shown, and sent, as bytes.
        let content_type = match (self.text, read::text(self.found, "content_type")) {
            (None, "text" | "json") => "bytes",
            (_, other) => other,
        };
        body.insert("content_type".to_owned(), content_type.into());
        for name in ["group", "deduplication_id"] {
            body.extend(read::given(self.found, name).map(|value| (name.to_owned(), value.into())));
        }
        if let Some(Value::Object(all)) = self.found.get("attributes").filter(|_| self.attribute_bytes() > 0)
        {
            body.insert("attributes".to_owned(), Value::Object(all.clone()));
        }
        format!(
            "curl -sS --fail-with-body {} \\\n  -H 'Content-Type: application/json'{} \\\n  -d {}",
            quoted(&self.messages(places, "/api/v1")),
            bearer(places).replace(" -H", " \\\n  -H"),
            quoted(&ascii(&Value::Object(body).to_string(), json_escape))
        )
    }

    /// Nothing where the server speaks no SQS, or the body is no text.
    fn sent_with_boto3(&self, places: &Places) -> Option<String> {
        let (sqs, text) = (places.sqs.as_deref()?, self.text?);
        let parts: Vec<&str> = self.queue.split(':').collect();
        let (account, region, name) = match parts.as_slice() {
            [account, region, name] => (Some(*account), *region, *name),
            _ => (None, places.region.as_str(), self.queue),
        };
        let mut arguments = format!("QueueUrl=url, MessageBody={}", literal(text));
        for (argument, member) in
            [("MessageGroupId", "group"), ("MessageDeduplicationId", "deduplication_id")]
        {
            if let Some(value) = read::given(self.found, member) {
                arguments.push_str(&format!(", {argument}={}", literal(value)));
            }
        }
        let attributes = self.attributes();
        if !attributes.is_empty() {
            let all: Vec<String> = attributes.iter().map(of_boto3).collect();
            arguments.push_str(&format!(", MessageAttributes={{{}}}", all.join(", ")));
        }
        let has_bytes = attributes.iter().any(|one| one.data_type.starts_with("Binary"));
        let owner = account.map(|account| format!(", QueueOwnerAWSAccountId={}", literal(account)));
        Some(format!(
            "{}import boto3\n\nsqs = boto3.client(\"sqs\", endpoint_url={}, region_name={})\n\
             url = sqs.get_queue_url(QueueName={}{})[\"QueueUrl\"]\nsqs.send_message({arguments})",
            if has_bytes { "import base64\n" } else { "" },
            literal(sqs),
            literal(region),
            literal(name),
            owner.unwrap_or_default(),
        ))
    }

    /// The address of the queue's messages, below this prefix.
    fn messages(&self, places: &Places, prefix: &str) -> String {
        format!("{}{prefix}/queues/{}/messages", places.admin, percent::encode(self.queue.as_bytes()))
    }
}

/// An attribute as boto3 takes it.
fn of_boto3(one: &Attribute<'_>) -> String {
    let value = match one.data_type.starts_with("Binary") {
        true => format!("\"BinaryValue\": base64.b64decode({})", literal(one.value)),
        false => format!("\"StringValue\": {}", literal(one.value)),
    };
    format!("{}: {{\"DataType\": {}, {value}}}", literal(one.name), literal(one.data_type))
}

/// What `kew` needs to find the server and to be let in.
fn target(places: &Places) -> String {
    let token = if places.proof == Proof::Token { " --token \"$KEW_ADMIN_TOKEN\"" } else { "" };
    format!(" --admin {}{token}", quoted(&places.admin))
}

/// What curl needs to be let in.
fn bearer(places: &Places) -> &'static str {
    match places.proof {
        Proof::Token => " -H \"Authorization: Bearer $KEW_ADMIN_TOKEN\"",
        Proof::None | Proof::Session => "",
    }
}

fn flag(name: &str, value: &str) -> String {
    let apart = if value.starts_with('-') { '=' } else { ' ' };
    format!(" {name}{apart}{}", quoted(value))
}

/// A word of the shell.
fn quoted(text: &str) -> String {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./:=@%+,".contains(&byte);
    if !text.is_empty() && !text.starts_with('-') && text.bytes().all(is_word) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// Whether every character can be seen, and so be copied safely.
fn is_plain(text: &str) -> bool {
    !text.chars().any(|one| text::is_odd(one) && one != '\n')
}

/// A text of Python.
fn literal(text: &str) -> String {
    ascii(&json!(text).to_string(), |one| match u32::from(one) {
        small @ 0..=0xffff => format!("\\u{small:04x}"),
        large => format!("\\U{large:08x}"),
    })
}

fn json_escape(one: char) -> String {
    one.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")).collect()
}

/// The same text with an escape for every character that cannot be seen.
fn ascii(text: &str, escape: impl Fn(char) -> String) -> String {
    let one = |one: char| if text::is_odd(one) { escape(one) } else { one.to_string() };
    text.chars().map(one).collect()
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;

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

    fn places(proof: Proof) -> Places {
        let sqs = Some("https://h:2".to_owned());
        Places { admin: "http://h:1".to_owned(), sqs, region: "here".to_owned(), proof }
    }

    /// The texts of all commands about a message with this body.
    fn texts(found: &Value, body: &[u8], proof: Proof) -> Vec<String> {
        let base64 = STANDARD.encode(body);
        let message = Message::of(found, ("q", "7-9"), (body, &base64));
        message.commands(&places(proof)).into_iter().map(|command| command.text).collect()
    }

    fn whole() -> Value {
        json!({
            "id": "1", "body": "b", "content_type": "text", "group": "g", "deduplication_id": "-d",
            "attributes": { "colour": { "type": "String", "value": "it's" } },
        })
    }

    #[test]
    fn a_command_sends_everything_that_the_message_has() {
        let all = texts(&whole(), b"b", Proof::None);
        assert_eq!(
            all[1],
            "kew send q b --group g --deduplication-id='-d' --attribute 'colour=it'\\''s' --admin http://h:1"
        );
        for part in [
            "http://h:1/api/v1/queues/q/messages \\\n",
            r#""attributes":{"colour":{"type":"String","value":"it'\''s"}}"#,
            r#""group":"g""#,
            r#""deduplication_id":"-d""#,
        ] {
            assert!(all[2].contains(part), "{part}: {}", all[2]);
        }
        for part in [
            "endpoint_url=\"https://h:2\"",
            "MessageGroupId=\"g\", MessageDeduplicationId=\"-d\"",
            "MessageAttributes={\"colour\": {\"DataType\": \"String\", \"StringValue\": \"it's\"}}",
        ] {
            assert!(all[3].contains(part), "{part}: {}", all[3]);
        }
    }

    #[test]
    fn commands_bring_the_token_where_the_server_asks_for_it() {
        for text in &texts(&whole(), b"b", Proof::Token)[..3] {
            assert!(text.contains("$KEW_ADMIN_TOKEN\""), "{text}");
        }
        let long = vec![b'x'; SHOWN_MAX];
        let all = texts(&whole(), &long, Proof::Token);
        assert_eq!(all.len(), 2);
        assert_eq!(
            all[1],
            "curl -sS --fail -H \"Authorization: Bearer $KEW_ADMIN_TOKEN\" \
             'http://h:1/queues/q/messages/1/body?cursor=7-9' -o body.bin\nkew send q - --group g \
             --deduplication-id='-d' --attribute 'colour=it'\\''s' --admin http://h:1 \
             --token \"$KEW_ADMIN_TOKEN\" < body.bin"
        );
        for text in texts(&whole(), b"b", Proof::Session) {
            assert!(!text.contains("TOKEN"), "{text}");
        }
    }

    #[test]
    fn a_body_that_looks_like_a_flag_or_standard_input_is_piped() {
        for body in ["-", "--json"] {
            let all = texts(
                &json!({ "id": "1", "body": body, "content_type": "text" }),
                body.as_bytes(),
                Proof::None,
            );
            assert_eq!(all[1], format!("printf %s '{body}' | kew send q - --admin http://h:1"));
        }
    }

    #[test]
    fn characters_that_cannot_be_seen_are_written_as_escapes() {
        let body = "a\u{202e}\u{e0001}b";
        let found = json!({ "id": "1", "body": body, "content_type": "text" });
        let all = texts(&found, body.as_bytes(), Proof::None);
        assert!(all[1].starts_with("printf %s YeKArvOggIFi | base64 -d | kew send q -"), "{}", all[1]);
        assert!(all[2].contains(r#"{"body":"a\u202e\udb40\udc01b","content_type":"text"}"#), "{}", all[2]);
        assert!(all[3].contains(r#"MessageBody="a\u202e\U000e0001b""#), "{}", all[3]);
        assert!(all.iter().all(|text| is_plain(text)), "{all:?}");
    }

    #[test]
    fn an_attribute_that_a_flag_cannot_say_is_left_to_the_others() {
        let attributes =
            json!({ "n": { "type": "Number", "value": "7" }, "b": { "type": "Binary", "value": "/w==" } });
        let found = json!({ "id": "1", "body": "b", "content_type": "text", "attributes": attributes });
        let all = texts(&found, b"b", Proof::None);
        assert_eq!(all.len(), 3);
        assert!(all[1].starts_with("curl"), "{}", all[1]);
        assert!(
            all[2].contains("base64.b64decode(\"/w==\")") && all[2].starts_with("import base64"),
            "{}",
            all[2]
        );
    }

    #[test]
    fn commands_stay_short_whatever_the_message_holds() {
        let long = "x".repeat(SHOWN_MAX + 1);
        let found = json!({ "id": "1", "body": long, "content_type": "text" });
        assert!(texts(&found, long.as_bytes(), Proof::None).iter().all(|text| text.len() < 400));
        let attributes = json!({ "a": { "type": "String", "value": long } });
        let found = json!({ "id": "1", "body": "b", "content_type": "text", "attributes": attributes });
        assert_eq!(texts(&found, b"b", Proof::None).len(), 1);
    }

    #[test]
    fn a_queue_of_another_account_and_region_is_named_as_boto3_names_it() {
        let found = json!({ "id": "1", "body": "b", "content_type": "text" });
        let message = Message::of(&found, ("000000000007:eu-west-3:far", ""), (b"b", "Yg=="));
        let all = message.commands(&places(Proof::None));
        let boto3 = &all.last().expect("a text has a command for boto3").text;
        assert!(boto3.contains("region_name=\"eu-west-3\""), "{boto3}");
        assert!(boto3.contains("QueueName=\"far\", QueueOwnerAWSAccountId=\"000000000007\""), "{boto3}");
    }
}
