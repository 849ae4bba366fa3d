//! SQS as the bench speaks it: JSON or Query, signed or not.

use std::borrow::Cow;
use std::cell::RefCell;

use serde::Deserialize;

use super::Fault;
use super::client::Reply;
use super::dialect::{Dialect, Outgoing, Queue, Received, check_status};
use super::plan::Protocol;
use super::sign::Signer;

/// Requests of SQS to one server.
pub(super) struct Sqs {
    pub(super) host: String,
    pub(super) protocol: Protocol,
    pub(super) region: String,
    pub(super) signer: Option<Signer>,
    /// Whose the queues are, as the URL of the first one says.
    pub(super) account: RefCell<String>,
}

impl Sqs {
    fn url(&self, queue: &Queue) -> String {
        format!("http://{}/{}/{}", self.host, self.account.borrow(), queue.name)
    }

    /// A request for `action`: its members as JSON, or as a form.
    fn request(&self, action: &str, json: impl FnOnce() -> String, form: impl FnOnce(&mut Form)) -> Vec<u8> {
        let (target, kind, body) = match self.protocol {
            Protocol::Json => (Some(format!("AmazonSQS.{action}")), "application/x-amz-json-1.0", json()),
            Protocol::Query => {
                let mut fields = Form::of(action);
                form(&mut fields);
                (None, "application/x-www-form-urlencoded", fields.0.finish())
            }
        };
        let mut headers = vec![("content-type", kind), ("host", self.host.as_str())];
        headers.extend(target.as_deref().map(|target| ("x-amz-target", target)));
        let signature = match &self.signer {
            Some(signer) => signer.headers(&headers, body.as_bytes()),
            None => format!(
                "authorization: AWS4-HMAC-SHA256 Credential=bench/20260101/{}/sqs/aws4_request, SignedHeaders=host, Signature=0\r\n",
                self.region
            ),
        };
        let mut request = String::from("POST / HTTP/1.1\r\n");
        for (name, value) in &headers {
            request.push_str(&format!("{name}: {value}\r\n"));
        }
        let length = body.len();
        request
            .push_str(&format!("{signature}user-agent: kew-bench\r\ncontent-length: {length}\r\n\r\n{body}"));
        request.into_bytes()
    }
}

/// The fields of a Query request.
struct Form(form_urlencoded::Serializer<'static, String>);

impl Form {
    fn of(action: &str) -> Self {
        let mut form = Self(form_urlencoded::Serializer::new(String::new()));
        form.put("Action", action);
        form.put("Version", "2012-11-05");
        form
    }

    fn put(&mut self, name: &str, value: &str) {
        self.0.append_pair(name, value);
    }
}

fn quoted(text: &str) -> String {
    let mut json = Vec::with_capacity(text.len() + 2);
    kew_http::json::push_string(&mut json, text);
    String::from_utf8(json).unwrap_or_default()
}

impl Dialect for Sqs {
    fn batch_max(&self) -> u32 {
        10
    }

    fn waits(&self) -> bool {
        true
    }

    fn create(&self, queue: &Queue) -> Vec<u8> {
        let lease = queue.lease_seconds.to_string();
        let mut attributes = vec![("VisibilityTimeout", lease.as_str())];
        attributes.extend(queue.fifo.then_some(("FifoQueue", "true")));
        let json = || {
            let pairs: Vec<String> =
                attributes.iter().map(|(name, value)| format!("\"{name}\":\"{value}\"")).collect();
            format!(r#"{{"QueueName":"{}","Attributes":{{{}}}}}"#, queue.name, pairs.join(","))
        };
        self.request("CreateQueue", json, |form| {
            form.put("QueueName", &queue.name);
            for (place, (name, value)) in attributes.iter().enumerate() {
                form.put(&format!("Attribute.{}.Name", place + 1), name);
                form.put(&format!("Attribute.{}.Value", place + 1), value);
            }
        })
    }

    /// Notes the account, which a server that checks signatures derives from the key.
    fn created(&self, queue: &Queue, reply: &Reply<'_>) -> Result<Option<Vec<u8>>, Fault> {
        let text = std::str::from_utf8(reply.body)?;
        let before = text.split(&format!("/{}", queue.name)).next().unwrap_or_default();
        let account = before.rsplit('/').next().unwrap_or_default();
        if account.is_empty() || !account.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(format!("no URL of the queue {} in {text}", queue.name).into());
        }
        account.clone_into(&mut self.account.borrow_mut());
        Ok(None)
    }

    fn remove(&self, queue: &Queue) -> Vec<u8> {
        let url = self.url(queue);
        self.request(
            "DeleteQueue",
            || format!(r#"{{"QueueUrl":"{url}"}}"#),
            |form| form.put("QueueUrl", &url),
        )
    }

    fn send(&self, queue: &Queue, messages: &[Outgoing<'_>]) -> Vec<u8> {
        let url = self.url(queue);
        let member = |message: &Outgoing<'_>| {
            let body = quoted(message.body);
            match message.fifo {
                None => format!(r#""MessageBody":{body}"#),
                Some((group, id)) => format!(
                    r#""MessageBody":{body},"MessageGroupId":"g{group}","MessageDeduplicationId":"d{group}-{id}""#
                ),
            }
        };
        let fields = |form: &mut Form, prefix: &str, message: &Outgoing<'_>| {
            form.put(&format!("{prefix}MessageBody"), message.body);
            if let Some((group, id)) = message.fifo {
                form.put(&format!("{prefix}MessageGroupId"), &format!("g{group}"));
                form.put(&format!("{prefix}MessageDeduplicationId"), &format!("d{group}-{id}"));
            }
        };
        if let [message] = messages {
            let json = || format!(r#"{{"QueueUrl":"{url}",{}}}"#, member(message));
            return self.request("SendMessage", json, |form| {
                form.put("QueueUrl", &url);
                fields(form, "", message);
            });
        }
        let json = || {
            let entries: Vec<String> = messages
                .iter()
                .enumerate()
                .map(|(place, message)| format!(r#"{{"Id":"{place}",{}}}"#, member(message)))
                .collect();
            format!(r#"{{"QueueUrl":"{url}","Entries":[{}]}}"#, entries.join(","))
        };
        self.request("SendMessageBatch", json, |form| {
            form.put("QueueUrl", &url);
            for (place, message) in messages.iter().enumerate() {
                let prefix = format!("SendMessageBatchRequestEntry.{}.", place + 1);
                form.put(&format!("{prefix}Id"), &place.to_string());
                fields(form, &prefix, message);
            }
        })
    }

    fn receive(&self, queue: &Queue, max: u32, wait_seconds: u32) -> Vec<u8> {
        let url = self.url(queue);
        let json = || {
            format!(r#"{{"QueueUrl":"{url}","MaxNumberOfMessages":{max},"WaitTimeSeconds":{wait_seconds}}}"#)
        };
        self.request("ReceiveMessage", json, |form| {
            form.put("QueueUrl", &url);
            form.put("MaxNumberOfMessages", &max.to_string());
            form.put("WaitTimeSeconds", &wait_seconds.to_string());
        })
    }

    fn received(&self, reply: &Reply<'_>) -> Result<Vec<Received>, Fault> {
        check_status(reply)?;
        match self.protocol {
            Protocol::Json => {
                let result: ReceiveResult<'_> = serde_json::from_slice(reply.body)?;
                let messages = result.messages.into_iter();
                Ok(messages
                    .map(|message| Received { body: message.body.into(), receipt: message.receipt.into() })
                    .collect())
            }
            Protocol::Query => {
                let text = std::str::from_utf8(reply.body)?;
                let messages = text.split("<Message>").skip(1);
                let read = |message| {
                    let body = element(message, "Body").ok_or("a message without a body")?.to_owned();
                    let receipt = element(message, "ReceiptHandle").ok_or("a message without a receipt")?;
                    Ok(Received { body, receipt: receipt.to_owned() })
                };
                messages.map(read).collect()
            }
        }
    }

    fn delete(&self, queue: &Queue, messages: &[Received]) -> Vec<u8> {
        let url = self.url(queue);
        if let [message] = messages {
            let receipt = &message.receipt;
            let json = || format!(r#"{{"QueueUrl":"{url}","ReceiptHandle":"{receipt}"}}"#);
            return self.request("DeleteMessage", json, |form| {
                form.put("QueueUrl", &url);
                form.put("ReceiptHandle", receipt);
            });
        }
        let json = || {
            let entries: Vec<String> = messages
                .iter()
                .enumerate()
                .map(|(place, message)| {
                    format!(r#"{{"Id":"{place}","ReceiptHandle":"{}"}}"#, message.receipt)
                })
                .collect();
            format!(r#"{{"QueueUrl":"{url}","Entries":[{}]}}"#, entries.join(","))
        };
        self.request("DeleteMessageBatch", json, |form| {
            form.put("QueueUrl", &url);
            for (place, message) in messages.iter().enumerate() {
                let prefix = format!("DeleteMessageBatchRequestEntry.{}.", place + 1);
                form.put(&format!("{prefix}Id"), &place.to_string());
                form.put(&format!("{prefix}ReceiptHandle"), &message.receipt);
            }
        })
    }

    fn count(&self, queue: &Queue) -> Vec<u8> {
        let url = self.url(queue);
        let json = || format!(r#"{{"QueueUrl":"{url}","AttributeNames":["All"]}}"#);
        self.request("GetQueueAttributes", json, |form| {
            form.put("QueueUrl", &url);
            form.put("AttributeName.1", "All");
        })
    }

    fn counted(&self, reply: &Reply<'_>) -> Result<u64, Fault> {
        check_status(reply)?;
        let text = std::str::from_utf8(reply.body)?;
        let names = ["", "NotVisible", "Delayed"].map(|state| format!("ApproximateNumberOfMessages{state}"));
        let figure = |name: &String| -> Result<u64, Fault> {
            let (json, xml) = (format!("\"{name}\":\""), format!("<Name>{name}</Name><Value>"));
            let rest = text.split(&json).nth(1).or_else(|| text.split(&xml).nth(1));
            let digits = rest.and_then(|rest| rest.split(['"', '<']).next());
            Ok(digits.ok_or_else(|| format!("no {name} in {text}"))?.parse()?)
        };
        names.iter().map(figure).sum()
    }

    fn check(&self, reply: &Reply<'_>, count: usize) -> Result<(), Fault> {
        check_status(reply)?;
        if count < 2 {
            return Ok(());
        }
        let text = std::str::from_utf8(reply.body)?;
        let failed = ["\"Failed\"", "<BatchResultErrorEntry>"].iter().any(|word| text.contains(word));
        if failed { Err(format!("a part of a batch failed: {text}").into()) } else { Ok(()) }
    }
}

#[derive(Deserialize)]
struct ReceiveResult<'a> {
    #[serde(borrow, default, rename = "Messages")]
    messages: Vec<Message<'a>>,
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow, rename = "Body")]
    body: Cow<'a, str>,
    #[serde(borrow, rename = "ReceiptHandle")]
    receipt: Cow<'a, str>,
}

/// Bodies of the bench hold nothing that XML escapes.
fn element<'a>(xml: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = xml.split_once(&format!("<{name}>"))?;
    Some(rest.split_once(&format!("</{name}>"))?.0)
}
