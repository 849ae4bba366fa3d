//! Signs requests as AWS clients do (Signature Version 4, headers).

use hmac::{Hmac, KeyInit, Mac};
use kew_core::Timestamp;
use sha2::{Digest, Sha256};

/// Signs for one key and region; the key of a day is derived once.
pub(super) struct Signer {
    access_key: String,
    region: String,
    day: String,
    date: String,
    key: [u8; 32],
}

impl Signer {
    /// A signer for requests of the next quarter of an hour.
    pub(super) fn new(access_key: &str, secret: &str, region: &str, now: Timestamp) -> Self {
        let date = kew_http::date::iso_basic(now);
        let day = date.get(..8).unwrap_or_default().to_owned();
        let mut key = hmac(format!("AWS4{secret}").as_bytes(), day.as_bytes());
        for part in [region, "sqs", "aws4_request"] {
            key = hmac(&key, part.as_bytes());
        }
        Self { access_key: access_key.to_owned(), region: region.to_owned(), day, date, key }
    }

    /// The headers that sign a POST of `body` to `/` with these headers, which must be sorted by name.
    pub(super) fn headers(&self, headers: &[(&str, &str)], body: &[u8]) -> String {
        let mut all: Vec<(&str, &str)> = headers.to_vec();
        all.push(("x-amz-date", &self.date));
        all.sort_unstable();
        let canonical: String = all.iter().map(|(name, value)| format!("{name}:{value}\n")).collect();
        let names: Vec<&str> = all.iter().map(|(name, _)| *name).collect();
        let names = names.join(";");
        let request = format!("POST\n/\n\n{canonical}\n{names}\n{}", hex(&Sha256::digest(body)));
        let scope = format!("{}/{}/sqs/aws4_request", self.day, self.region);
        let hash = hex(&Sha256::digest(request.as_bytes()));
        let signature =
            hex(&hmac(&self.key, format!("AWS4-HMAC-SHA256\n{}\n{scope}\n{hash}", self.date).as_bytes()));
        format!(
            "x-amz-date: {}\r\nauthorization: AWS4-HMAC-SHA256 Credential={}/{scope}, SignedHeaders={names}, Signature={signature}\r\n",
            self.date, self.access_key
        )
    }
}

fn hmac(key: &[u8], text: &[u8]) -> [u8; 32] {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("any length of key will do");
    mac.update(text);
    mac.finalize().into_bytes().into()
}

fn hex(bytes: &[u8]) -> String {
    let mut text = Vec::with_capacity(bytes.len() * 2);
    kew_http::hex::push(&mut text, bytes);
    String::from_utf8(text).unwrap_or_default()
}
