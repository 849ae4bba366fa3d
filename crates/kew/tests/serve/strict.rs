//! Signed requests against the program in strict mode, signed by the vendor's own signer.

use std::time::{Duration, SystemTime};

use aws_credential_types::Credentials;
use aws_sigv4::http_request::{SignableBody, SignableRequest, SignatureLocation, SigningSettings, sign};
use aws_sigv4::sign::v4;

use super::program::{self, Kew, data_directory};

const CONFIG: &str = r#"
[server]
auth = "strict"
[admin]
token = "hush"
[[accounts]]
aws = { id = "123456789012", access_keys = [{ id = "AKIDANNA", secret = "annas/secret+", user = "anna" }] }
azure = { name = "acme", keys = ["a2V5"] }
"#;

/// Settings of the signature, and the request as the signer adds to it.
fn signed(kew: &Kew, key: (&str, &str), url: Option<Duration>, target: &str, body: &str) -> (u16, String) {
    let mut settings = SigningSettings::default();
    if url.is_some() {
        settings.signature_location = SignatureLocation::QueryParams;
        settings.expires_in = url;
    }
    let identity = Credentials::new(key.0, key.1, None, None, "test").into();
    let params = v4::SigningParams::builder()
        .identity(&identity)
        .region("eu-west-3")
        .name("sqs")
        .time(SystemTime::now())
        .settings(settings)
        .build()
        .expect("nothing is missing")
        .into();
    let host = kew.sqs.clone();
    let uri = format!("http://{host}{target}");
    let (method, headers) = match url {
        Some(_) => ("GET", vec![]),
        None => ("POST", vec![("content-type", "application/x-www-form-urlencoded")]),
    };
    let signable =
        SignableRequest::new(method, uri, headers.iter().copied(), SignableBody::Bytes(body.as_bytes()))
            .expect("it can be signed");
    let added = sign(signable, &params).expect("it is signed").into_parts().0;
    let mut headers: Vec<(String, String)> =
        headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    headers.push(("Host".to_owned(), host));
    headers.extend(added.headers().map(|(name, value)| (name.to_owned(), value.to_owned())));
    let mut target = target.to_owned();
    for (name, value) in added.params() {
        let value: String = form_urlencoded::byte_serialize(value.as_bytes()).collect();
        target.push_str(&format!("&{name}={value}"));
    }
    let headers: Vec<(&str, &str)> =
        headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    program::http(&kew.sqs, method, &target, &headers, body)
}

#[test]
fn a_strict_server_serves_whoever_signs_and_nobody_else() {
    let directory = data_directory();
    let config = directory.path().join("kew.toml");
    std::fs::write(&config, CONFIG).expect("the directory is ours");
    let data = directory.path().join("data");
    let (config, data) = (config.to_string_lossy(), data.to_string_lossy());
    let kew = Kew::start_with(directory.path(), &["--config", &config, "--store", &data]);
    let anna = ("AKIDANNA", "annas/secret+");
    let (status, created) = signed(&kew, anna, None, "/", "Action=CreateQueue&QueueName=orders");
    assert_eq!(status, 200, "{created}");
    assert!(created.contains(&format!("http://{}/123456789012/orders</QueueUrl>", kew.sqs)), "{created}");
    let (status, sent) =
        signed(&kew, anna, None, "/123456789012/orders", "Action=SendMessage&MessageBody=hello");
    assert_eq!(status, 200, "{sent}");
    let url = "/123456789012/orders?Action=ReceiveMessage&AttributeName=All";
    let (status, found) = signed(&kew, anna, Some(Duration::from_secs(60)), url, "");
    assert!(status == 200 && found.contains("<Body>hello</Body>"), "{status} {found}");
    assert!(found.contains("<Name>SenderId</Name><Value>anna</Value>"), "{found}");
    for (key, code) in [
        (("AKIDANNA", "anothers/secret"), "SignatureDoesNotMatch"),
        (("AKIDBERT", "annas/secret+"), "InvalidClientTokenId"),
    ] {
        let (status, refused) = signed(&kew, key, None, "/", "Action=ListQueues");
        assert!(status == 403 && refused.contains(&format!("<Code>{code}</Code>")), "{status} {refused}");
    }
    let (status, refused) = kew.ask("ListQueues", "{}");
    assert!(status == 403 && refused.contains("MissingAuthenticationToken"), "{status} {refused}");
    let azure = kew.ports["azure"].as_str().expect("it is served").to_owned();
    let (status, refused) = program::http(&azure, "GET", "/acme?comp=list", &[], "");
    assert!(status == 403 && refused.contains("AuthenticationFailed"), "{status} {refused}");
    assert_eq!(kew.admin("GET", "/api/v1/clock", &[], "").0, 401);
    assert_eq!(kew.admin("GET", "/readyz", &[], "").0, 200);
}
