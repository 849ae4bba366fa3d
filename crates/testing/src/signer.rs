//! The vendor's own signer of SQS requests, and requests that can be changed after it signed them.

use std::time::{Duration, SystemTime};

use aws_credential_types::Credentials;
use aws_sigv4::http_request::{
    PayloadChecksumKind, SignableRequest, SignatureLocation, SigningInstructions, SigningSettings, sign,
};
use aws_sigv4::sign::v4;
use kew_core::Timestamp;

pub use aws_sigv4::http_request::SignableBody;

use crate::NOW;

/// Signs requests with Signature Version 4.
#[derive(Clone, Debug)]
pub struct TestSigner {
    /// The id of the access key.
    pub id: String,
    /// The secret of the access key.
    pub secret: String,
    /// A session token, when the key is a temporary one.
    pub token: Option<String>,
    /// The region that the signature names.
    pub region: String,
    /// The service that the signature names.
    pub service: &'static str,
    /// The date of the signature.
    pub at: Timestamp,
}

impl TestSigner {
    /// Signs with this key for SQS in us-east-1, at [`NOW`].
    pub fn of(id: &str, secret: &str) -> Self {
        let (id, secret) = (id.to_owned(), secret.to_owned());
        Self { id, secret, token: None, region: "us-east-1".to_owned(), service: "sqs", at: NOW }
    }

    /// The request with an Authorization header.
    pub fn sign(&self, request: &PlainRequest) -> PlainRequest {
        self.sign_body(request, SignableBody::Bytes(request.body.as_bytes()))
    }

    /// The same, the body hashed as `body` says.
    pub fn sign_body(&self, request: &PlainRequest, body: SignableBody<'_>) -> PlainRequest {
        self.sign_as(request, body, SigningSettings::default())
    }

    fn sign_as(
        &self,
        request: &PlainRequest,
        body: SignableBody<'_>,
        settings: SigningSettings,
    ) -> PlainRequest {
        let instructions = self.instructions(request, body, settings);
        let mut signed = request.clone();
        let added = instructions.headers().map(|(name, value)| (name.to_owned(), value.to_owned()));
        signed.headers.extend(added);
        signed
    }

    /// The request with an Authorization header, and with the hash of its body in a header.
    pub fn sign_with_hash(&self, request: &PlainRequest) -> PlainRequest {
        let mut settings = SigningSettings::default();
        settings.payload_checksum_kind = PayloadChecksumKind::XAmzSha256;
        self.sign_as(request, SignableBody::Bytes(request.body.as_bytes()), settings)
    }

    /// The request with a signature in its URL, valid for this number of seconds.
    pub fn presign(&self, request: &PlainRequest, seconds: u64) -> PlainRequest {
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
        request: &PlainRequest,
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
            .expect("all parameters of a signature are set")
            .into();
        let headers = request.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let uri = format!("http://{}{}", request.host, request.target);
        let signable = SignableRequest::new(request.method, uri, headers, body)
            .expect("method, URI and headers are well formed");
        sign(signable, &params).expect("a well-formed request can be signed").into_parts().0
    }
}

/// A request before it becomes bytes. `Host` and `Content-Length` are written by [`PlainRequest::bytes`].
#[derive(Clone, Debug)]
pub struct PlainRequest {
    /// The method.
    pub method: &'static str,
    /// The server that the request is for.
    pub host: String,
    /// Path and query.
    pub target: String,
    /// Names and values.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: String,
}

impl PlainRequest {
    fn new(method: &'static str, target: &str, body: &str) -> Self {
        let (target, body) = (target.to_owned(), body.to_owned());
        Self { method, host: "kew.test".to_owned(), target, headers: Vec::new(), body }
    }

    /// A request of the JSON protocol.
    pub fn json(action: &str, body: &str) -> Self {
        let mut plain = Self::new("POST", "/", body);
        plain.set("x-amz-target", &format!("AmazonSQS.{action}"));
        plain.set("content-type", "application/x-amz-json-1.0");
        plain
    }

    /// A form of the Query protocol.
    pub fn form(target: &str, body: &str) -> Self {
        let mut plain = Self::new("POST", target, body);
        plain.set("content-type", "application/x-www-form-urlencoded");
        plain
    }

    /// A URL of the Query protocol.
    pub fn get(target: &str) -> Self {
        Self::new("GET", target, "")
    }

    /// The same for another server than `kew.test`.
    pub fn to(self, host: &str) -> Self {
        Self { host: host.to_owned(), ..self }
    }

    /// The value of a header, to be changed.
    #[track_caller]
    pub fn header(&mut self, name: &str) -> &mut String {
        let found = self.headers.iter_mut().find(|header| header.0 == name);
        found.map(|header| &mut header.1).unwrap_or_else(|| panic!("the request has no header {name}"))
    }

    /// Adds a header.
    pub fn set(&mut self, name: &str, value: &str) {
        self.headers.push((name.to_owned(), value.to_owned()));
    }

    /// Removes a header.
    #[track_caller]
    pub fn unset(&mut self, name: &str) {
        let before = self.headers.len();
        self.headers.retain(|header| header.0 != name);
        assert!(self.headers.len() < before, "the request has no header {name}");
    }

    /// Replaces a part of a header.
    #[track_caller]
    pub fn replace(&mut self, name: &str, from: &str, to: &str) {
        let value = self.header(name);
        assert!(value.contains(from), "{name} is {value}, which does not hold {from}");
        *value = value.replace(from, to);
    }

    /// Replaces a part of the target.
    #[track_caller]
    pub fn retarget(&mut self, from: &str, to: &str) {
        assert!(self.target.contains(from), "the target {} does not hold {from}", self.target);
        self.target = self.target.replace(from, to);
    }

    /// The request as it is sent.
    pub fn bytes(&self) -> Vec<u8> {
        let mut text = format!("{} {} HTTP/1.1\r\n", self.method, self.target);
        if self.headers.iter().all(|header| header.0 != "host") {
            text.push_str(&format!("Host: {}\r\n", self.host));
        }
        for (name, value) in &self.headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        text.push_str(&format!("Content-Length: {}\r\n\r\n{}", self.body.len(), self.body));
        text.into_bytes()
    }
}
