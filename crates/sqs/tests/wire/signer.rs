//! The vendor's own signer, and requests that can be tampered with after it signed them.

use std::time::{Duration, SystemTime};

use aws_credential_types::Credentials;
use aws_sigv4::http_request::{
    SignableBody, SignableRequest, SignatureLocation, SigningInstructions, SigningSettings, sign,
};
use aws_sigv4::sign::v4;
use kew_core::Timestamp;

use super::house::NOW;

/// Who signs, when and for where.
#[derive(Clone, Debug)]
pub struct Signer {
    pub id: String,
    pub secret: String,
    pub token: Option<String>,
    pub region: String,
    pub service: &'static str,
    pub at: Timestamp,
}

impl Signer {
    pub fn of(id: &str, secret: &str) -> Self {
        let (id, secret) = (id.to_owned(), secret.to_owned());
        Self { id, secret, token: None, region: "us-east-1".to_owned(), service: "sqs", at: NOW }
    }

    /// The request with an Authorization header.
    pub fn sign(&self, request: &Plain) -> Plain {
        self.sign_body(request, SignableBody::Bytes(request.body.as_bytes()))
    }

    /// The same, the body hashed as `body` says.
    pub fn sign_body(&self, request: &Plain, body: SignableBody<'_>) -> Plain {
        let instructions = self.instructions(request, body, SigningSettings::default());
        let mut signed = request.clone();
        let added = instructions.headers().map(|(name, value)| (name.to_owned(), value.to_owned()));
        signed.headers.extend(added);
        signed
    }

    /// The request with a signature in its URL, good for so many seconds.
    pub fn presign(&self, request: &Plain, seconds: u64) -> Plain {
        let mut settings = SigningSettings::default();
        settings.signature_location = SignatureLocation::QueryParams;
        settings.expires_in = Some(Duration::from_secs(seconds));
        let body = SignableBody::Bytes(request.body.as_bytes());
        let instructions = self.instructions(request, body, settings);
        let mut signed = request.clone();
        for (name, value) in instructions.params() {
            let between = if signed.target.contains('?') { '&' } else { '?' };
            let value: String = form_urlencoded::byte_serialize(value.as_bytes()).collect();
            signed.target.push_str(&format!("{between}{name}={value}"));
        }
        signed
    }

    fn instructions(
        &self,
        request: &Plain,
        body: SignableBody<'_>,
        settings: SigningSettings,
    ) -> SigningInstructions {
        let credentials = Credentials::new(&self.id, &self.secret, self.token.clone(), None, "test");
        let identity = credentials.into();
        let params = v4::SigningParams::builder()
            .identity(&identity)
            .region(&self.region)
            .name(self.service)
            .time(SystemTime::UNIX_EPOCH + Duration::from_millis(self.at.0))
            .settings(settings)
            .build()
            .expect("nothing is missing")
            .into();
        let headers = request.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let uri = format!("http://kew.test{}", request.target);
        let signable = SignableRequest::new(request.method, uri, headers, body).expect("it can be signed");
        sign(signable, &params).expect("it is signed").into_parts().0
    }
}

/// A request before it becomes bytes. Its host and length are written by themselves.
#[derive(Clone, Debug)]
pub struct Plain {
    pub method: &'static str,
    pub target: String,
    pub headers: Vec<(String, String)>,
    pub body: String,
}

impl Plain {
    /// A request of the JSON protocol.
    pub fn json(action: &str, body: &str) -> Self {
        let mut plain =
            Self { method: "POST", target: "/".to_owned(), headers: vec![], body: body.to_owned() };
        plain.set("x-amz-target", &format!("AmazonSQS.{action}"));
        plain.set("content-type", "application/x-amz-json-1.0");
        plain
    }

    /// A form of the Query protocol.
    pub fn form(target: &str, body: &str) -> Self {
        let mut plain =
            Self { method: "POST", target: target.to_owned(), headers: vec![], body: body.to_owned() };
        plain.set("content-type", "application/x-www-form-urlencoded");
        plain
    }

    /// A URL of the Query protocol.
    pub fn get(target: &str) -> Self {
        Self { method: "GET", target: target.to_owned(), headers: vec![], body: String::new() }
    }

    /// The value of a header, to be changed.
    #[track_caller]
    pub fn header(&mut self, name: &str) -> &mut String {
        let found = self.headers.iter_mut().find(|header| header.0 == name);
        found.map(|header| &mut header.1).unwrap_or_else(|| panic!("there is a header {name}"))
    }

    /// One more header.
    pub fn set(&mut self, name: &str, value: &str) {
        self.headers.push((name.to_owned(), value.to_owned()));
    }

    /// No such header.
    #[track_caller]
    pub fn unset(&mut self, name: &str) {
        let before = self.headers.len();
        self.headers.retain(|header| header.0 != name);
        assert!(self.headers.len() < before, "there is a header {name}");
    }

    /// Something else in a header.
    #[track_caller]
    pub fn replace(&mut self, name: &str, from: &str, to: &str) {
        let value = self.header(name);
        assert!(value.contains(from), "{value} holds {from}");
        *value = value.replace(from, to);
    }

    /// Something else in the target.
    #[track_caller]
    pub fn retarget(&mut self, from: &str, to: &str) {
        assert!(self.target.contains(from), "{} holds {from}", self.target);
        self.target = self.target.replace(from, to);
    }

    pub fn bytes(&self) -> Vec<u8> {
        let mut text = format!("{} {} HTTP/1.1\r\n", self.method, self.target);
        if self.headers.iter().all(|header| header.0 != "host") {
            text.push_str("Host: kew.test\r\n");
        }
        for (name, value) in &self.headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        text.push_str(&format!("Content-Length: {}\r\n\r\n{}", self.body.len(), self.body));
        text.into_bytes()
    }
}
