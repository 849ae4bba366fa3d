//! Strict mode: requests with a valid signature are served; everything forged, stale or tampered with is refused, each
//! with its own error in both protocols.

use std::sync::Arc;

use kew_core::{AccountId, Clock, Timestamp};
use kew_sqs::{AccessKey, Auth, Keys, Settings};
use kew_testing::SignableBody;
use proptest::prelude::*;

use super::server::{Answer, NOW, SqsAnswer, SqsServer};
use kew_testing::{PlainRequest, TestSigner};

/// Each key has a secret of its own.
fn secret(id: &str) -> String {
    format!("wJalrXUtnFEMI/K7MDENG+{id}")
}

const MISMATCH: &str = "The request signature we calculated does not match the signature you provided. Check your AWS Secret Access Key and signing method. Consult the service documentation for details.";

struct Still;

impl Clock for Still {
    fn now(&self) -> Timestamp {
        NOW
    }
}

/// A key by which tests ask.
pub fn key(id: &str, account: u64, user: Option<&str>) -> AccessKey {
    AccessKey {
        id: id.to_owned(),
        secret: secret(id),
        account: AccountId(account),
        user: user.map(str::to_owned),
    }
}

/// A front-end that knows these keys.
pub async fn server(keys: impl IntoIterator<Item = AccessKey>) -> SqsServer {
    let keys = Keys::new(keys, Arc::new(Still)).expect("the keys are legal");
    SqsServer::with(Settings { auth: Auth::Strict(Arc::new(keys)), ..Settings::default() }).await
}

/// Signs with one of the keys.
pub fn signer(id: &str) -> TestSigner {
    TestSigner::of(id, &secret(id))
}

async fn ask(server: &SqsServer, request: &PlainRequest) -> Answer {
    server.send(&request.bytes()).await
}

async fn server_with_orders() -> SqsServer {
    let server = server([key("AKID", 1, Some("anna")), key("ROOT", 1, None)]).await;
    let create = PlainRequest::json("CreateQueue", r#"{"QueueName":"orders"}"#);
    ask(&server, &signer("AKID").sign(&create)).await.ok();
    server
}

fn send_json() -> PlainRequest {
    PlainRequest::json("SendMessage", r#"{"QueueUrl":"orders","MessageBody":"m"}"#)
}

fn send_form() -> PlainRequest {
    PlainRequest::form("/000000000001/orders", "Action=SendMessage&MessageBody=m")
}

fn send_url() -> PlainRequest {
    PlainRequest::get("/000000000001/orders?Action=SendMessage&MessageBody=m&MessageBody=m")
}

/// How many messages there are.
async fn drain(server: &SqsServer) -> usize {
    let receive = PlainRequest::json("ReceiveMessage", r#"{"QueueUrl":"orders","MaxNumberOfMessages":10}"#);
    let receive = signer("AKID").sign(&receive);
    let mut found = 0;
    loop {
        let answer = ask(server, &receive).await;
        match answer.ok().matches("MessageId").count() {
            0 => return found,
            more => found += more,
        }
    }
}

/// Tampers with a signed request.
type Tamper = Box<dyn Fn(&mut PlainRequest)>;

/// What is done to it, what is refused, and how.
struct Case {
    name: &'static str,
    tamper: Tamper,
    code: &'static str,
    status: u16,
}

fn case(name: &'static str, code: &'static str, tamper: impl Fn(&mut PlainRequest) + 'static) -> Case {
    let status = match code {
        "IncompleteSignature" | "RequestExpired" => 400,
        _ => 403,
    };
    Case { name, tamper: Box::new(tamper), code, status }
}

fn authorization(name: &'static str, code: &'static str, from: &'static str, to: &'static str) -> Case {
    case(name, code, move |request| request.replace("authorization", from, to))
}

/// Signed again by `signer`.
fn signed_by(name: &'static str, code: &'static str, signer: TestSigner) -> Case {
    case(name, code, move |request| {
        request.unset("authorization");
        request.unset("x-amz-date");
        *request = signer.sign(request);
    })
}

fn at(seconds: i64) -> Timestamp {
    Timestamp(NOW.0.saturating_add_signed(seconds * 1_000))
}

fn header_cases() -> Vec<Case> {
    const NO: &str = "SignatureDoesNotMatch";
    const HALF: &str = "IncompleteSignature";
    let base = || signer("AKID");
    vec![
        // Missing.
        case("no signature", "MissingAuthenticationToken", |request| request.unset("authorization")),
        authorization("no credential", HALF, "Credential=", "Nothing="),
        authorization("no signed headers", HALF, "SignedHeaders=", "Nothing="),
        authorization("no signature in it", HALF, "Signature=", "Nothing="),
        case("no date", HALF, |request| request.unset("x-amz-date")),
        case("the scheme alone", HALF, |request| {
            *request.header("authorization") = "AWS4-HMAC-SHA256".to_owned();
        }),
        // Malformed.
        authorization("another algorithm", HALF, "AWS4-HMAC-SHA256", "AWS4-ECDSA-P256-SHA256"),
        authorization("a scheme in small letters", HALF, "AWS4-HMAC", "aws4-hmac"),
        case("basic authentication", HALF, |request| {
            *request.header("authorization") = "Basic dGVzdDp0ZXN0".to_owned();
        }),
        case("an empty header", HALF, |request| request.header("authorization").clear()),
        authorization("no equals sign", HALF, "Signature=", "Signature"),
        authorization("no commas", HALF, ", ", " "),
        authorization("a short scope", HALF, "/aws4_request", ""),
        authorization("a credential named twice", HALF, "Credential=", "Credential=x, Credential="),
        authorization("a header listed twice", HALF, "host;", "host;host;"),
        authorization("an empty name in the list", HALF, "host;", "host;;"),
        case("two authorizations", HALF, |request| {
            let again = request.header("authorization").clone();
            request.set("authorization", &again);
        }),
        case("a date in words", HALF, |request| *request.header("x-amz-date") = "yesterday".to_owned()),
        case("a date that never was", HALF, |request| {
            *request.header("x-amz-date") = "20260230T000000Z".to_owned();
        }),
        case("two dates", HALF, |request| request.set("x-amz-date", "20260101T000001Z")),
        case("a signature here and in the URL", HALF, |request| {
            let between = if request.target.contains('?') { '&' } else { '?' };
            request.target.push_str(&format!("{between}X-Amz-Algorithm=AWS4-HMAC-SHA256"));
        }),
        // Forged.
        signed_by("an unknown key", "InvalidClientTokenId", signer("NOBODY")),
        signed_by("a key in small letters", "InvalidClientTokenId", TestSigner::of("akid", &secret("AKID"))),
        signed_by("another secret", NO, TestSigner::of("AKID", "guessed")),
        authorization("another key's name", NO, "Credential=AKID", "Credential=ROOT"),
        case("another signature", NO, |request| {
            let value = request.header("authorization");
            let last = if value.ends_with('0') { '1' } else { '0' };
            value.pop();
            value.push(last);
        }),
        case("a signature cut short", NO, |request| {
            request.header("authorization").pop();
        }),
        case("a longer signature", NO, |request| request.header("authorization").push('0')),
        case("an empty signature", NO, |request| {
            let value = request.header("authorization");
            value.truncate(value.find("Signature=").map_or(0, |place| place + 10));
        }),
        case("a signature in capitals", NO, |request| {
            let value = request.header("authorization");
            let from = value.find("Signature=").map_or(0, |place| place + 10);
            value.replace_range(from.., &value[from..].to_uppercase());
        }),
        // Of another scope.
        authorization("another region", NO, "/us-east-1/", "/us-east-2/"),
        authorization("an illegal region", NO, "/us-east-1/", "/us_east_1/"),
        authorization("another day", NO, "/20260101/", "/20260102/"),
        authorization("another terminator", NO, "/aws4_request", "/aws5_request"),
        signed_by("another service", NO, TestSigner { service: "s3", ..base() }),
        // Stale.
        signed_by("a date 15 minutes and a second ago", NO, TestSigner { at: at(-901), ..base() }),
        signed_by("a date in 15 minutes and a second", NO, TestSigner { at: at(901), ..base() }),
        signed_by("a date of last year", NO, TestSigner { at: at(-86_400 * 200), ..base() }),
        case("a date moved on", NO, |request| {
            *request.header("x-amz-date") = "20260101T000001Z".to_owned();
        }),
        // Tampered with.
        case("another body", NO, |request| request.body.push(' ')),
        case("no body", NO, |request| request.body = "x".repeat(usize::from(request.body.is_empty()))),
        case("another path", NO, |request| request.target = request.target.replacen('/', "/x/", 1)),
        case("one more parameter", NO, |request| {
            let between = if request.target.contains('?') { '&' } else { '?' };
            request.target.push_str(&format!("{between}DelaySeconds=0"));
        }),
        case("another method", NO, |request| {
            request.method = if request.method == "POST" { "PUT" } else { "POST" };
        }),
        case("another host", NO, |request| request.set("host", "localhost")),
        case("another signed header", NO, |request| *request.header("x-signed") = "b".to_owned()),
        case("a signed header twice", NO, |request| request.set("x-signed", "a")),
        case("a signed header taken away", NO, |request| request.unset("x-signed")),
        case("an unsigned header of the service", NO, |request| {
            request.set("x-amz-security-token", "stolen");
        }),
        case("a body said to be unsigned", NO, |request| {
            request.set("x-amz-content-sha256", "UNSIGNED-PAYLOAD");
        }),
        authorization("a host that is not signed", NO, "host;", ""),
        authorization("a date that is not signed", NO, ";x-amz-date", ""),
    ]
}

#[tokio::test]
async fn forged_stale_and_tampered_requests_are_refused_in_both_protocols() {
    let server = server_with_orders().await;
    let cases = header_cases();
    assert!(cases.len() >= 40);
    let mut proper = 0;
    for Case { name, tamper, code, status } in &cases {
        for mut plain in [send_json(), send_form(), send_url()] {
            plain.set("x-signed", "a");
            let mut request = signer("AKID").sign(&plain);
            ask(&server, &request).await.ok();
            proper += 1;
            tamper(&mut request);
            let answer = ask(&server, &request).await;
            assert_eq!(answer.status, *status, "{name}: {}", answer.body);
            let query_code = format!("{code};Sender");
            assert_eq!(answer.header("x-amzn-query-error"), Some(query_code.as_str()), "{name}");
            if plain.headers.iter().any(|header| header.0 == "x-amz-target") {
                assert!(
                    answer.body.starts_with(r#"{"__type":"com.amazon.coral.service#"#),
                    "{}",
                    answer.body
                );
            } else {
                assert!(answer.body.contains(&format!("<Code>{code}</Code>")), "{name}: {}", answer.body);
            }
        }
    }
    assert_eq!(drain(&server).await, proper, "what was refused did nothing");
}

#[tokio::test]
async fn forged_stale_and_tampered_urls_are_refused() {
    const NO: &str = "SignatureDoesNotMatch";
    const HALF: &str = "IncompleteSignature";
    let retarget = |name, code, from: &'static str, to: &'static str| {
        case(name, code, move |request: &mut PlainRequest| request.retarget(from, to))
    };
    let server = server_with_orders().await;
    let cases = [
        retarget("no algorithm", HALF, "X-Amz-Algorithm", "X-Nothing"),
        retarget("no credential", HALF, "X-Amz-Credential", "X-Nothing"),
        retarget("no date", HALF, "X-Amz-Date", "X-Nothing"),
        retarget("no end", HALF, "X-Amz-Expires", "X-Nothing"),
        retarget("no signed headers", HALF, "X-Amz-SignedHeaders", "X-Nothing"),
        retarget("no signature", HALF, "X-Amz-Signature", "X-Nothing"),
        retarget("another algorithm", HALF, "AWS4-HMAC-SHA256", "AWS4-HMAC-SHA1"),
        retarget("no time at all", HALF, "X-Amz-Expires=60", "X-Amz-Expires=0"),
        retarget("more than a week", HALF, "X-Amz-Expires=60", "X-Amz-Expires=604801"),
        retarget("a time in words", HALF, "X-Amz-Expires=60", "X-Amz-Expires=soon"),
        retarget("a time with a sign", HALF, "X-Amz-Expires=60", "X-Amz-Expires=%2B60"),
        retarget("a date in words", HALF, "X-Amz-Date=2026", "X-Amz-Date=year"),
        retarget("two signatures", HALF, "X-Amz-Signature=", "X-Amz-Signature=x&X-Amz-Signature="),
        retarget("two dates", HALF, "X-Amz-Date=", "X-Amz-Date=x&X-Amz-Date="),
        retarget("an unknown key", "InvalidClientTokenId", "=AKID", "=NOBODY"),
        retarget("another key's name", NO, "=AKID", "=ROOT"),
        retarget("another signature", NO, "X-Amz-Signature=", "X-Amz-Signature=0"),
        retarget("more time", NO, "X-Amz-Expires=60", "X-Amz-Expires=61"),
        retarget("another region", NO, "us-east-1", "us-east-2"),
        retarget("another body", NO, "MessageBody=m", "MessageBody=n"),
        retarget("one more parameter", NO, "?", "?DelaySeconds=1&"),
        retarget("another queue", NO, "/orders", "/other"),
        retarget("another service", NO, "%2Fsqs%2F", "%2Fs3%2F"),
        retarget("an unsigned host", NO, "=host%3B", "="),
        case("an unsigned target", NO, |request| request.set("x-amz-target", "AmazonSQS.DeleteQueue")),
        case("a body", NO, |request| request.body.push_str("MessageBody=n")),
        case("another method", NO, |request| request.method = "POST"),
        case("its time over", "RequestExpired", |request| {
            let late = TestSigner { at: at(-61), ..signer("AKID") };
            *request =
                late.presign(&PlainRequest::get("/000000000001/orders?Action=SendMessage&MessageBody=m"), 60);
        }),
        case("a date to come", NO, |request| {
            let early = TestSigner { at: at(901), ..signer("AKID") };
            *request = early
                .presign(&PlainRequest::get("/000000000001/orders?Action=SendMessage&MessageBody=m"), 60);
        }),
        case("an old signature version", "InvalidSecurity", |request| {
            request.target =
                "/?Action=SendMessage&AWSAccessKeyId=AKID&SignatureVersion=2&Signature=x".to_owned();
        }),
    ];
    for Case { name, tamper, code, status } in &cases {
        let mut plain = PlainRequest::get("/000000000001/orders?Action=SendMessage&MessageBody=m");
        plain.set("x-signed", "a");
        let mut request = signer("AKID").presign(&plain, 60);
        ask(&server, &request).await.ok();
        tamper(&mut request);
        let answer = ask(&server, &request).await;
        let query_code = format!("{code};Sender");
        assert_eq!(answer.header("x-amzn-query-error"), Some(query_code.as_str()), "{name}: {}", answer.body);
        assert_eq!(answer.status, *status, "{name}");
    }
    assert_eq!(drain(&server).await, cases.len(), "what was refused did nothing");
}

#[tokio::test]
async fn each_refusal_has_its_text() {
    let server = server_with_orders().await;
    let is = |answer: Answer, kind: &str, query: &str, status: u16, text: &str| {
        let kind = format!("com.amazon.coral.service#{kind}");
        answer.is_error(status, &kind, &format!("{query};Sender"), text);
    };
    let unsigned = ask(&server, &send_json()).await;
    let text = "Request is missing Authentication Token";
    is(unsigned, "MissingAuthenticationTokenException", "MissingAuthenticationToken", 403, text);
    let unknown = ask(&server, &signer("NOBODY").sign(&send_json())).await;
    let text = "The security token included in the request is invalid.";
    is(unknown, "UnrecognizedClientException", "InvalidClientTokenId", 403, text);
    let forged = ask(&server, &TestSigner::of("AKID", "guessed").sign(&send_json())).await;
    is(forged, "InvalidSignatureException", "SignatureDoesNotMatch", 403, MISMATCH);
    let stale = ask(&server, &TestSigner { at: at(-901), ..signer("AKID") }.sign(&send_json())).await;
    let text = "Signature expired: 20251231T234459Z is now earlier than 20251231T234500Z (20260101T000000Z - 15 min.)";
    is(stale, "InvalidSignatureException", "SignatureDoesNotMatch", 403, text);
    let early = ask(&server, &TestSigner { at: at(901), ..signer("AKID") }.sign(&send_json())).await;
    let text = "Signature not yet current: 20260101T001501Z is still later than 20260101T001500Z (20260101T000000Z + 15 min.)";
    is(early, "InvalidSignatureException", "SignatureDoesNotMatch", 403, text);
    let expired = TestSigner { at: at(-61), ..signer("AKID") }.presign(&send_url(), 60);
    let expired = ask(&server, &expired).await;
    let told = "<Code>RequestExpired</Code><Message>Request has expired.</Message>";
    assert!(expired.status == 400 && expired.body.contains(told), "{}", expired.body);
}

#[tokio::test]
async fn signatures_hold_at_the_edges_of_their_time() {
    let server = server_with_orders().await;
    for seconds in [-900, 0, 900] {
        ask(&server, &TestSigner { at: at(seconds), ..signer("AKID") }.sign(&send_json())).await.ok();
    }
    for (seconds, expires) in [(-60, 60), (0, 1), (900, 1), (-604_800, 604_800)] {
        ask(&server, &TestSigner { at: at(seconds), ..signer("AKID") }.presign(&send_url(), expires))
            .await
            .ok();
    }
}

#[tokio::test]
async fn what_proxies_and_clients_may_do_to_a_signed_request_does_not_break_it() {
    let server = server_with_orders().await;
    let mut plain = send_json();
    plain.set("x-many", "a   b");
    plain.set("x-many", "c");
    plain.set("x-padded", "  a  ");
    let mut signed = signer("AKID").sign(&plain);
    signed.set("x-amzn-trace-id", "Root=1-5759e988-bd862e3fe1be46a994272793");
    signed.set("x-amz-user-agent", "unsigned by some");
    signed.set("x-forwarded-for", "192.0.2.1");
    ask(&server, &signed).await.ok();
    *signed.header("authorization") = signed.header("authorization").replace(", ", ",");
    ask(&server, &signed).await.ok();
    let token = TestSigner { token: Some("session/+token=".to_owned()), ..signer("AKID") };
    ask(&server, &token.sign(&send_form())).await.ok();
    ask(&server, &token.presign(&send_url(), 60)).await.ok();
}

#[tokio::test]
async fn a_body_that_was_signed_as_unsigned_may_be_any() {
    let server = server_with_orders().await;
    let mut plain = send_json();
    plain.set("x-amz-content-sha256", "UNSIGNED-PAYLOAD");
    let mut signed = signer("AKID").sign_body(&plain, SignableBody::UnsignedPayload);
    signed.body.push(' ');
    ask(&server, &signed).await.ok();
}

#[tokio::test]
async fn a_body_that_was_not_signed_overrides_nothing_that_was() {
    let server = server_with_orders().await;
    let unsigned = |mut plain: PlainRequest| {
        plain.set("x-amz-content-sha256", "UNSIGNED-PAYLOAD");
        signer("AKID").sign_body(&plain, SignableBody::UnsignedPayload)
    };
    let create = PlainRequest::json("CreateQueue", r#"{"QueueName":"others"}"#);
    ask(&server, &signer("AKID").sign(&create)).await.ok();
    let send = "Action=SendMessage&MessageBody=m";
    for (target, body) in [
        ("/000000000001/orders?Action=SendMessage&MessageBody=m", "MessageBody=forged"),
        ("/000000000001/orders?Action=SendMessage&MessageBody=m", "Action=DeleteQueue"),
        ("/?Action=SendMessage&QueueUrl=orders&MessageBody=m", "QueueUrl=others"),
        ("/000000000001/orders", "Action=SendMessage&MessageBody=m&QueueUrl=others"),
        ("/000000000001/orders", send),
    ] {
        let mut request = unsigned(PlainRequest::form(target, ""));
        request.body = body.to_owned();
        let answer = ask(&server, &request).await;
        assert_eq!(answer.status, 403, "{target} {body}");
        assert!(answer.body.contains("SignatureDoesNotMatch"), "{}", answer.body);
        // Without a body, or with one that is signed, the same is fine as far as the signature goes.
        let mut signed = PlainRequest::form(target, body);
        signed.body = body.to_owned();
        assert_ne!(ask(&server, &signer("AKID").sign(&signed)).await.status, 403, "{target} {body}");
    }
    let mut json = PlainRequest::json("SendMessage", r#"{"MessageBody":"m"}"#);
    json.target = "/000000000001/orders".to_owned();
    assert_eq!(ask(&server, &unsigned(json)).await.status, 403, "the body could name another queue");
    let mut whole = unsigned(PlainRequest::form("/", ""));
    whole.body = format!("{send}&QueueUrl=others");
    ask(&server, &whole).await.ok();
}

#[tokio::test]
async fn the_date_may_stand_in_a_plain_date_header() {
    use hmac::{Hmac, KeyInit, Mac};
    use sha2::{Digest, Sha256};

    fn mac(key: &[u8], text: &str) -> Vec<u8> {
        let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("any key will do");
        mac.update(text.as_bytes());
        mac.finalize().into_bytes().to_vec()
    }
    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    let server = server_with_orders().await;
    for date in ["Thu, 01 Jan 2026 00:00:00 GMT", "20260101T000000Z"] {
        let mut plain = send_form();
        let body = hex(&Sha256::digest(&plain.body));
        let canonical =
            format!("POST\n/000000000001/orders\n\ndate:{date}\nhost:kew.test\n\ndate;host\n{body}");
        let scope = "20260101/us-east-1/sqs/aws4_request";
        let text =
            format!("AWS4-HMAC-SHA256\n20260101T000000Z\n{scope}\n{}", hex(&Sha256::digest(canonical)));
        let key = scope
            .split('/')
            .fold(format!("AWS4{}", secret("AKID")).into_bytes(), |key, part| mac(&key, part));
        plain.set("date", date);
        plain.set(
            "authorization",
            &format!(
                "AWS4-HMAC-SHA256 Credential=AKID/{scope}, SignedHeaders=date;host, Signature={}",
                hex(&mac(&key, &text))
            ),
        );
        ask(&server, &plain).await.ok();
    }
}

#[tokio::test]
async fn messages_show_who_signed_their_send() {
    let server = server_with_orders().await;
    let receive = r#"{"QueueUrl":"orders","AttributeNames":["SenderId"]}"#;
    for (id, sender) in [("AKID", "anna"), ("ROOT", "000000000001")] {
        ask(&server, &signer(id).sign(&send_json())).await.ok();
        let received =
            ask(&server, &signer("AKID").sign(&PlainRequest::json("ReceiveMessage", receive))).await;
        assert_eq!(received.text("SenderId"), sender);
    }
}

#[tokio::test]
async fn queues_are_separate_by_region_and_account() {
    let server = server([key("ONE", 1, None), key("TWO", 2, None)]).await;
    let create = PlainRequest::json("CreateQueue", r#"{"QueueName":"orders"}"#);
    let find = PlainRequest::json("GetQueueUrl", r#"{"QueueName":"orders"}"#);
    let url = ask(&server, &signer("ONE").sign(&create)).await.text("QueueUrl");
    assert_eq!(url, "http://kew.test/000000000001/orders");
    let elsewhere = TestSigner { region: "eu-west-1".to_owned(), ..signer("ONE") };
    assert_eq!(ask(&server, &elsewhere.sign(&find)).await.status, 400);
    assert_eq!(ask(&server, &signer("TWO").sign(&find)).await.status, 400);
    ask(&server, &elsewhere.sign(&create)).await.ok();
    let url = ask(&server, &signer("TWO").sign(&create)).await.text("QueueUrl");
    assert_eq!(url, "http://kew.test/000000000002/orders");
}

#[tokio::test]
async fn open_mode_takes_any_credentials_and_none() {
    let server = SqsServer::open().await;
    let create = PlainRequest::json("CreateQueue", r#"{"QueueName":"orders"}"#);
    for authorization in [
        "",
        "Basic dGVzdDp0ZXN0",
        "Bearer x",
        "AWS4-HMAC-SHA256",
        "AWS4-HMAC-SHA256 Credential=,,, Signature",
        "AWS4-HMAC-SHA256 Credential=a/b/c, SignedHeaders=;;, Signature=0",
        "AWS AKID:c2ln",
        "\u{e9}\u{e9}",
    ] {
        let mut request = create.clone();
        request.set("authorization", authorization);
        ask(&server, &request).await.ok();
    }
    let mut twice = create.clone();
    twice.set("authorization", "a");
    twice.set("authorization", "b");
    assert_eq!(ask(&server, &twice).await.status, 400, "a repeated header is refused by every listener");
    ask(&server, &TestSigner { at: at(-86_400), ..signer("NOBODY") }.sign(&create)).await.ok();
    let url =
        "/?Action=GetQueueUrl&QueueName=orders&X-Amz-Signature=0&X-Amz-Credential=%2F%2F&X-Amz-Expires=x";
    ask(&server, &PlainRequest::get(url)).await.ok();
    let far = TestSigner { region: "mars-1".to_owned(), ..signer("NOBODY") };
    let here = PlainRequest::get("/?Action=GetQueueUrl&QueueName=orders");
    assert_eq!(ask(&server, &far.presign(&here, 60)).await.status, 400, "the region still counts");
}

fn plain() -> impl Strategy<Value = PlainRequest> {
    let segment = "[A-Za-z0-9._~%/-]{0,12}".prop_map(|text| text.replace('%', "%20"));
    let pair =
        "[A-Za-z0-9.%+_~*-]{1,8}=[A-Za-z0-9.%+=:/_~*-]{0,12}".prop_map(|text| text.replace('%', "%C3%A9"));
    let header = ("x-[a-z]{1,8}", "[!-~]( {0,3}[!-~]){0,8}");
    let query = proptest::collection::vec(pair, 0..4);
    let headers = proptest::collection::vec(header, 0..4);
    (segment, query, headers, "[ -~é]{0,64}").prop_map(|(segment, query, headers, body)| {
        let body = serde_json::json!({ "QueueName": "orders", "Padding": body }).to_string();
        let mut plain = PlainRequest::json("GetQueueUrl", &body);
        plain.target = format!("/{segment}");
        if !query.is_empty() {
            plain.target.push_str(&format!("?{}", query.join("&")));
        }
        // The signer never signs this header.
        headers
            .iter()
            .filter(|header| header.0 != "x-amzn-trace-id")
            .for_each(|(name, value)| plain.set(name, value));
        plain
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, ..ProptestConfig::default() })]

    #[test]
    fn whatever_the_vendors_signer_signs_is_accepted_and_nothing_else(
        plain in plain(),
        region in "[a-z]{2}-[a-z]{1,9}-[1-9]",
        token in proptest::option::of("[A-Za-z0-9+/=]{1,40}"),
        presigned: bool,
        place: proptest::sample::Index,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime of one thread starts");
        runtime.block_on(async {
            let server = server([key("AKID", 1, None)]).await;
            let signer = TestSigner { region, token, ..signer("AKID") };
            let create = PlainRequest::json("CreateQueue", r#"{"QueueName":"orders"}"#);
            ask(&server, &signer.sign(&create)).await.ok();
            let request = if presigned { signer.presign(&plain, 300) } else { signer.sign(&plain) };
            ask(&server, &request).await.ok();
            let mut changed = request.clone();
            let mut body: Vec<char> = changed.body.chars().collect();
            let place = place.index(body.len());
            body[place] = if body[place] == 'x' { 'y' } else { 'x' };
            changed.body = body.into_iter().collect();
            assert_eq!(ask(&server, &changed).await.status, 403, "a changed body");
            let mut longer = request.clone();
            longer.target.push_str(if longer.target.contains('?') { "&more=1" } else { "?more=1" });
            assert_eq!(ask(&server, &longer).await.status, 403, "one more parameter");
        });
    }
}

// Tools sign the question for the security token service with the same keys.
#[tokio::test]
async fn a_signed_caller_gets_its_user_and_a_signature_for_another_service_is_refused() {
    let server = server_with_orders().await;
    let question = PlainRequest::form("/", "Action=GetCallerIdentity&Version=2011-06-15");
    let for_sts = |id: &str| TestSigner { service: "sts", ..signer(id) };
    for (id, arn, user) in [("AKID", "user/anna", "anna"), ("ROOT", "root", "000000000001")] {
        let answer = ask(&server, &for_sts(id).sign(&question)).await;
        let identity = format!("<Arn>arn:aws:iam::000000000001:{arn}</Arn><UserId>{user}</UserId>");
        assert!(answer.ok().contains(&identity), "{}", answer.body);
    }
    let wrong = ask(&server, &signer("AKID").sign(&question)).await;
    assert_eq!(
        (wrong.status, wrong.header("x-amzn-query-error")),
        (403, Some("SignatureDoesNotMatch;Sender"))
    );
    assert_eq!(ask(&server, &question).await.status, 403, "an unsigned question is refused");
    // Nothing of the queues is done with a signature for the other service.
    assert_eq!(ask(&server, &for_sts("AKID").sign(&send_json())).await.status, 403);
    assert_eq!(drain(&server).await, 0);
}
