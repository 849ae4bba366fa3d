//! Signed requests against the program in strict mode, signed by the vendor's own signer.

use std::time::Duration;

use kew_testing::{PlainRequest, TestSigner};

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

/// The reply to a form, signed in a header, or to a URL, signed in its query for `url`.
fn signed(kew: &Kew, key: (&str, &str), url: Option<Duration>, target: &str, body: &str) -> (u16, String) {
    let (at, region) = (kew::machine::system_now(), "eu-west-3".to_owned());
    let signer = TestSigner { at, region, ..TestSigner::of(key.0, key.1) };
    let mut request = match url {
        Some(valid) => signer.presign(&PlainRequest::get(target).to(&kew.sqs), valid.as_secs()),
        None => signer.sign(&PlainRequest::form(target, body).to(&kew.sqs)),
    };
    request.set("Host", &kew.sqs);
    let headers: Vec<(&str, &str)> =
        request.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    program::http(&kew.sqs, request.method, &request.target, &headers, body)
}

#[test]
fn a_strict_server_serves_only_signed_requests() {
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
    let azure = kew.ports["azure"].as_str().expect("the listener is on").to_owned();
    let (status, refused) = program::http(&azure, "GET", "/acme?comp=list", &[], "");
    assert!(status == 403 && refused.contains("AuthenticationFailed"), "{status} {refused}");
    assert_eq!(kew.admin("GET", "/api/v1/clock", &[], "").0, 401);
    assert_eq!(kew.admin("GET", "/readyz", &[], "").0, 200);
}
