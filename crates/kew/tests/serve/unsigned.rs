//! Clients that prove nothing, in strict mode: however many bodies they begin and do not end, who signs is served.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use kew_testing::{PlainRequest, TestSigner};

use super::program::{self, Kew, command, data_directory};

/// Of all bodies together, in this test.
const BODIES: usize = 32 << 20;
/// Of one body that never ends. All of them together are more than the server holds.
const UNFINISHED: usize = 1 << 20;
const CROWD: usize = 48;
/// Of a body that is signed: it comes in pieces.
const SIGNED: usize = 700_000;
const KEY: &str = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

type Headers = Vec<(String, String)>;

fn strict() -> (tempfile::TempDir, Kew) {
    let directory = data_directory();
    let mut command = command();
    command.env("KEW_LIMITS_BODIES_BYTES_MAX", BODIES.to_string()).env("KEW_ADMIN_TOKEN", "hush");
    let kew = Kew::start_by(command, directory.path(), &["--store", "memory", "--auth", "strict"]);
    (directory, kew)
}

fn address(kew: &Kew, dialect: &str) -> String {
    kew.ports[dialect].as_str().expect("the listener is on").to_owned()
}

fn headers(pairs: &[(&str, &str)]) -> Headers {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn head(method: &str, target: &str, host: &str, headers: &Headers, length: usize) -> String {
    let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    format!(
        "{method} {target} HTTP/1.1\r\nHost: {host}\r\n{headers}Connection: close\r\nContent-Length: {length}\r\n\r\n"
    )
}

/// A request whose body comes in pieces; status and body of the reply.
fn in_pieces(stream: TcpStream, head: &str, body: &str) -> (u16, String) {
    let mut stream = stream;
    stream.write_all(head.as_bytes()).expect("the server reads the request");
    let (first, rest) = body.split_at(body.len() / 2);
    // Who is refused by the head reads no body.
    let _sent = stream.write_all(first.as_bytes());
    std::thread::sleep(Duration::from_millis(20));
    let _sent = stream.write_all(rest.as_bytes());
    program::reply(stream)
}

fn connect(address: &str) -> TcpStream {
    TcpStream::connect(address).expect("the server accepts connections")
}

/// A connection from another address of this machine.
#[cfg(target_os = "linux")]
fn connect_from(own: [u8; 4], address: &str) -> TcpStream {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime of one thread is built");
    let stream = runtime.block_on(async {
        let socket = tokio::net::TcpSocket::new_v4().expect("the system gives a socket");
        socket.bind((own, 0).into()).expect("the whole network is this machine's");
        socket.connect(address.parse().expect("the address is a socket address")).await
    });
    let stream = stream.expect("the server accepts connections").into_std().expect("the connection is open");
    stream.set_nonblocking(false).expect("the connection is open");
    stream
}

/// Clients that begin bodies and do not end them.
fn crowd(connect: impl Fn() -> TcpStream, head: &str) -> Vec<TcpStream> {
    let half = "x".repeat(UNFINISHED);
    (0..CROWD)
        .map(|_| {
            let mut stream = connect();
            stream.set_write_timeout(Some(Duration::from_secs(5))).expect("the connection is open");
            // Who is turned away cannot send it all.
            let _sent = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(half.as_bytes()));
            stream
        })
        .collect()
}

/// The status that each connection got, if any.
fn told(crowd: Vec<TcpStream>) -> Vec<Option<u16>> {
    let status = |mut stream: TcpStream| {
        stream.set_read_timeout(Some(Duration::from_millis(200))).expect("the connection is open");
        let mut start = [0; 12];
        stream.read_exact(&mut start).ok()?;
        std::str::from_utf8(&start).ok()?.get(9..12)?.parse().ok()
    };
    crowd.into_iter().map(status).collect()
}

/// Headers of a request signed by the vendor's own signer, with the body's hash in a header or without it.
fn signed_sqs(host: &str, key: (&str, &str), action: &str, body: &str, names_hash: bool) -> Headers {
    let signer = TestSigner { at: kew::machine::system_now(), ..TestSigner::of(key.0, key.1) };
    let request = PlainRequest::json(action, body).to(host);
    let signed = if names_hash { signer.sign_with_hash(&request) } else { signer.sign(&request) };
    signed.headers
}

/// A send of a large message, signed, from this machine's usual address.
fn send_sqs(kew: &Kew, names_hash: bool) -> (u16, String) {
    let body = format!(r#"{{"QueueUrl":"orders","MessageBody":"{}"}}"#, "m".repeat(SIGNED));
    let signed = signed_sqs(&kew.sqs, ("test", "test"), "SendMessage", &body, names_hash);
    let head = head("POST", "/", &kew.sqs, &signed, body.len());
    in_pieces(connect(&kew.sqs), &head, &body)
}

fn with_orders() -> (tempfile::TempDir, Kew) {
    let (directory, kew) = strict();
    let body = r#"{"QueueName":"orders"}"#;
    let signed = signed_sqs(&kew.sqs, ("test", "test"), "CreateQueue", body, false);
    let head = head("POST", "/", &kew.sqs, &signed, body.len());
    assert_eq!(in_pieces(connect(&kew.sqs), &head, body).0, 200);
    (directory, kew)
}

#[test]
fn sqs_clients_that_cannot_sign_are_turned_away_by_their_heads() {
    let (_directory, kew) = with_orders();
    let unsigned = headers(&[("x-amz-target", "AmazonSQS.SendMessage")]);
    let unknown = signed_sqs(&kew.sqs, ("unknown", "secret"), "SendMessage", "x", true);
    for headers in [unsigned, unknown] {
        let head = head("POST", "/", &kew.sqs, &headers, UNFINISHED + 1);
        let crowd = crowd(|| connect(&kew.sqs), &head);
        for names_hash in [true, false] {
            let (status, body) = send_sqs(&kew, names_hash);
            assert_eq!(status, 200, "{body}");
        }
        assert_eq!(told(crowd), vec![Some(403); CROWD]);
    }
}

// Only Linux gives a machine a whole network of its own.
#[cfg(target_os = "linux")]
#[test]
fn sqs_clients_that_name_a_known_key_hold_no_more_than_their_address_may() {
    let (_directory, kew) = with_orders();
    let guessed = signed_sqs(&kew.sqs, ("test", "guessed"), "SendMessage", "x", false);
    let head = head("POST", "/", &kew.sqs, &guessed, UNFINISHED + 1);
    let far = crowd(|| connect_from([127, 0, 0, 2], &kew.sqs), &head);
    let (status, body) = send_sqs(&kew, false);
    assert_eq!(status, 200, "{body}");
    let held = told(far).iter().filter(|status| status.is_none()).count();
    assert!(held <= BODIES / 8 / UNFINISHED, "{held} of {CROWD} are still listened to");
    let _near = crowd(|| connect(&kew.sqs), &head);
    let (status, body) = send_sqs(&kew, true);
    assert_eq!(status, 200, "who names the body's hash has proved it: {body}");
}

fn signed_azure(key: &str, path: &str, length: usize) -> Headers {
    let date = kew_http::date::http_date(kew::machine::system_now());
    let text = format!(
        "POST\n\n\n{length}\n\n\n\n\n\n\n\n\nx-ms-date:{date}\nx-ms-version:2021-12-02\n/devstoreaccount1{path}"
    );
    let key = STANDARD.decode(key).expect("the text is Base64");
    let mut mac = Hmac::<sha2::Sha256>::new_from_slice(&key).expect("any length will do");
    mac.update(text.as_bytes());
    let signature = STANDARD.encode(mac.finalize().into_bytes());
    headers(&[
        ("x-ms-date", &date),
        ("x-ms-version", "2021-12-02"),
        ("authorization", &format!("SharedKey devstoreaccount1:{signature}")),
    ])
}

#[test]
fn azure_clients_that_cannot_sign_are_turned_away_by_their_heads() {
    let (_directory, kew) = strict();
    let host = address(&kew, "azure");
    let path = "/devstoreaccount1/orders/messages";
    let text = "m".repeat(48 << 10);
    // Larger than any read, and no larger than the service allows.
    let body =
        format!("<QueueMessage><MessageText>{text}</MessageText></QueueMessage>{}", " ".repeat(250_000));
    let send = || {
        let signed = signed_azure(KEY, path, body.len());
        in_pieces(connect(&host), &head("POST", path, &host, &signed, body.len()), &body)
    };
    let unsigned = headers(&[("x-ms-version", "2021-12-02")]);
    let forged = signed_azure("Z3Vlc3NlZA==", path, UNFINISHED + 1);
    for headers in [unsigned, forged] {
        let crowd = crowd(|| connect(&host), &head("POST", path, &host, &headers, UNFINISHED + 1));
        let (status, body) = send();
        assert!(status == 404 && body.contains("QueueNotFound"), "it is let in: {status} {body}");
        assert_eq!(told(crowd), vec![Some(403); CROWD]);
    }
}

#[test]
fn cloudflare_clients_without_a_token_are_turned_away_by_their_heads() {
    let (_directory, kew) = strict();
    let host = address(&kew, "cloudflare");
    let queues = format!("/client/v4/accounts/{}/queues", "0".repeat(32));
    let body = format!(r#"{{"queue_name":"orders"{}}}"#, " ".repeat(SIGNED));
    let named = |token: &str| headers(&[("authorization", &format!("Bearer {token}"))]);
    let unsigned = headers(&[]);
    let of_a_worker = headers(&[("x-kew-queue", "orders"), ("x-kew-token", "guessed")]);
    for (place, (path, headers)) in
        [(queues.as_str(), unsigned), (&queues, named("guessed")), ("/message", of_a_worker)]
            .into_iter()
            .enumerate()
    {
        let crowd = crowd(|| connect(&host), &head("POST", path, &host, &headers, UNFINISHED + 1));
        let body = body.replace("orders", &format!("orders-{place}"));
        let (status, reply) =
            in_pieces(connect(&host), &head("POST", &queues, &host, &named("test"), body.len()), &body);
        assert_eq!(status, 200, "{reply}");
        let statuses = told(crowd);
        let refused = |status: &Option<u16>| matches!(status, Some(400..=499));
        assert!(statuses.iter().all(refused), "{statuses:?}");
    }
}

#[test]
fn the_admin_api_is_used_by_who_has_the_token_whatever_others_send() {
    let (_directory, kew) = strict();
    let path = "/api/v1/clock/confirm";
    let json = ("content-type", "application/json");
    let crowd =
        crowd(|| connect(&kew.admin), &head("POST", path, &kew.admin, &headers(&[json]), UNFINISHED + 1));
    let body = format!("{{{}}}", " ".repeat(SIGNED));
    let known = headers(&[json, ("authorization", "Bearer hush")]);
    let (status, reply) =
        in_pieces(connect(&kew.admin), &head("POST", path, &kew.admin, &known, body.len()), &body);
    assert!(status != 503 && status != 401, "{status} {reply}");
    assert_eq!(told(crowd), vec![Some(401); CROWD]);
}
