//! SQS on its hot paths: JSON or Query, signed or not, one message a request or ten.

use std::sync::Arc;

use hmac::{Hmac, KeyInit, Mac};
use kew_core::{AccountId, Clock, Timestamp};
use kew_http::{Method, Reply, Request};
use kew_sqs::{AccessKey, Auth, Keys, Settings, Sqs};
use sha2::{Digest, Sha256};

use super::NOW;
use super::road::{Road, between, message, pass, request, text};
use crate::rig::Rig;

const HOST: &str = "127.0.0.1:9324";
const KEY: (&str, &str) = ("GUARD", "a secret that everybody knows");
const DATE: &str = "20260101T000000Z";
const BATCH: usize = 10;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Words {
    Json,
    Batches,
    Fifo,
    Query,
}

/// SQS in one manner of speaking.
pub struct SqsRoad {
    front_end: Sqs,
    words: Words,
    signed: bool,
}

pub fn json(rig: &Rig) -> SqsRoad {
    road(rig, Words::Json, false)
}

pub fn signed(rig: &Rig) -> SqsRoad {
    road(rig, Words::Json, true)
}

pub fn batches(rig: &Rig) -> SqsRoad {
    road(rig, Words::Batches, false)
}

pub fn fifo(rig: &Rig) -> SqsRoad {
    road(rig, Words::Fifo, false)
}

pub fn query(rig: &Rig) -> SqsRoad {
    road(rig, Words::Query, false)
}

/// The instant of all signatures.
struct Standing;

impl Clock for Standing {
    fn now(&self) -> Timestamp {
        NOW
    }
}

fn road(rig: &Rig, words: Words, signed: bool) -> SqsRoad {
    let auth = if signed {
        let (id, secret) = (KEY.0.to_owned(), KEY.1.to_owned());
        let key = AccessKey { id, secret, account: AccountId(0), user: None };
        Auth::Strict(Arc::new(Keys::new([key], Arc::new(Standing)).expect("the key is fine")))
    } else {
        Auth::Open
    };
    let front_end = Sqs::new(rig.engine.clone(), Settings { auth, ..Settings::default() });
    let road = SqsRoad { front_end, words, signed };
    let fifo = if words == Words::Fifo { r#","FifoQueue":"true""# } else { "" };
    let create =
        format!(r#"{{"QueueName":"{}","Attributes":{{"VisibilityTimeout":"43200"{fifo}}}}}"#, road.queue());
    pass(&rig.engine, &road.front_end, vec![road.json("CreateQueue", &create)], false);
    road
}

impl SqsRoad {
    fn queue(&self) -> &'static str {
        if self.words == Words::Fifo { "guard.fifo" } else { "guard" }
    }

    fn url(&self) -> String {
        format!("http://{HOST}/000000000000/{}", self.queue())
    }

    fn json(&self, action: &str, body: &str) -> Request {
        self.post(Some(&format!("AmazonSQS.{action}")), "application/x-amz-json-1.0", body)
    }

    fn form(&self, action: &str, fields: &[(&str, &str)]) -> Request {
        let mut form = form_urlencoded::Serializer::new(String::new());
        form.append_pair("Action", action).append_pair("Version", "2012-11-05");
        form.append_pair("QueueUrl", &self.url()).extend_pairs(fields);
        self.post(None, "application/x-www-form-urlencoded", &form.finish())
    }

    fn post(&self, target: Option<&str>, kind: &str, body: &str) -> Request {
        let length = body.len().to_string();
        let mut headers = vec![("content-type", kind), ("host", HOST), ("x-amz-date", DATE)];
        headers.extend(target.map(|target| ("x-amz-target", target)));
        let authorization = if self.signed {
            signature(&headers, body)
        } else {
            format!(
                "AWS4-HMAC-SHA256 Credential={}/20260101/us-east-1/sqs/aws4_request, SignedHeaders=host, Signature=0",
                KEY.0
            )
        };
        headers.extend([
            ("authorization", authorization.as_str()),
            ("user-agent", "kew-bench"),
            ("content-length", &length),
        ]);
        request(Method::POST, "/", &headers, body.as_bytes().to_vec())
    }
}

impl Road for SqsRoad {
    type FrontEnd = Sqs;

    fn front_end(&self) -> &Sqs {
        &self.front_end
    }

    fn send(&self, number: u64) -> Request {
        let (url, body) = (self.url(), message());
        match self.words {
            Words::Json => {
                self.json("SendMessage", &format!(r#"{{"QueueUrl":"{url}","MessageBody":"{body}"}}"#))
            }
            Words::Fifo => {
                let ids = format!(r#""MessageGroupId":"g{number}","MessageDeduplicationId":"d{number}""#);
                self.json("SendMessage", &format!(r#"{{"QueueUrl":"{url}","MessageBody":"{body}",{ids}}}"#))
            }
            Words::Batches => {
                let entry = |place| format!(r#"{{"Id":"{place}","MessageBody":"{body}"}}"#);
                let entries: Vec<String> = (0..BATCH).map(entry).collect();
                let entries = entries.join(",");
                self.json("SendMessageBatch", &format!(r#"{{"QueueUrl":"{url}","Entries":[{entries}]}}"#))
            }
            Words::Query => self.form("SendMessage", &[("MessageBody", &body)]),
        }
    }

    fn receive(&self) -> Request {
        let max = if self.words == Words::Batches { BATCH } else { 1 };
        match self.words {
            Words::Query => self.form("ReceiveMessage", &[("MaxNumberOfMessages", "1")]),
            Words::Json | Words::Fifo | Words::Batches => {
                let body = format!(r#"{{"QueueUrl":"{}","MaxNumberOfMessages":{max}}}"#, self.url());
                self.json("ReceiveMessage", &body)
            }
        }
    }

    fn delete(&self, reply: &Reply) -> Request {
        let (reply, url) = (text(reply), self.url());
        if self.words == Words::Query {
            let receipts = between(reply, "<ReceiptHandle>", '<');
            return self.form("DeleteMessage", &[("ReceiptHandle", receipts[0])]);
        }
        let receipts = between(reply, "\"ReceiptHandle\":\"", '"');
        if self.words != Words::Batches {
            let body = format!(r#"{{"QueueUrl":"{url}","ReceiptHandle":"{}"}}"#, receipts[0]);
            return self.json("DeleteMessage", &body);
        }
        assert_eq!(receipts.len(), BATCH, "{reply}");
        let entry =
            |(place, receipt): (usize, &&str)| format!(r#"{{"Id":"{place}","ReceiptHandle":"{receipt}"}}"#);
        let entries: Vec<String> = receipts.iter().enumerate().map(entry).collect();
        let entries = entries.join(",");
        self.json("DeleteMessageBatch", &format!(r#"{{"QueueUrl":"{url}","Entries":[{entries}]}}"#))
    }
}

/// Signature Version 4 over these headers, which are sorted by name.
fn signature(headers: &[(&str, &str)], body: &str) -> String {
    let lines: String = headers.iter().map(|(name, value)| format!("{name}:{value}\n")).collect();
    let names: Vec<&str> = headers.iter().map(|(name, _)| *name).collect();
    let names = names.join(";");
    let canonical = format!("POST\n/\n\n{lines}\n{names}\n{}", hex(&Sha256::digest(body)));
    let scope = "20260101/us-east-1/sqs/aws4_request";
    let text = format!("AWS4-HMAC-SHA256\n{DATE}\n{scope}\n{}", hex(&Sha256::digest(canonical)));
    let mut key = format!("AWS4{}", KEY.1).into_bytes();
    for part in scope.split('/') {
        key = hmac(&key, part);
    }
    let signature = hex(&hmac(&key, &text));
    format!("AWS4-HMAC-SHA256 Credential={}/{scope}, SignedHeaders={names}, Signature={signature}", KEY.0)
}

fn hmac(key: &[u8], text: &str) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("any length of key will do");
    mac.update(text.as_bytes());
    mac.finalize().into_bytes().to_vec()
}

fn hex(bytes: &[u8]) -> String {
    let mut text = Vec::with_capacity(bytes.len() * 2);
    kew_http::hex::push(&mut text, bytes);
    String::from_utf8(text).expect("hex digits are text")
}
