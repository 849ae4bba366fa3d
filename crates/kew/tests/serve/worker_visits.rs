//! Requests to a deployed Worker's own address, through the program and the real runtime.

use serde_json::{Value, json};

use crate::program::{self, Kew, data_directory};
use crate::workers::{TOKEN, address, done, metadata, queues, send, start, upload, upload_to, wait_for};

const HOST: &str = "w.kew.localhost:9326";

/// Returns the request, and sends a message when the request says so.
const SHOWS: &str = r#"
export default {
  async fetch(request, env) {
    const url = new URL(request.url);
    switch (url.pathname) {
      case "/send":
        await env.OUT.send(await request.json());
        return new Response("sent", { status: 202, headers: [["set-cookie", "a=1"], ["set-cookie", "b=2"]] });
      case "/throw":
        throw new Error("on purpose");
      case "/away":
        return Response.redirect("https://example.com/there", 302);
      case "/long":
        return new Response(new Uint8Array(11 << 20));
      case "/slow":
        await new Promise((wake) => setTimeout(wake, 20_000));
        return new Response("late");
      case "/forever":
        for (;;);
    }
    const names = [...request.headers.keys()].filter((name) => name.startsWith("x-"));
    return Response.json({ method: request.method, url: request.url, names, body: await request.text() });
  },
  async queue(batch, env) {
    for (const message of batch.messages) await env.OUT.send({ got: message.body });
  },
};
"#;

fn visit(kew: &Kew, host: &str, method: &str, path: &str, body: &str) -> (u16, String) {
    program::http(&address(kew), method, path, &[("Host", host), ("X-Mine", "1"), ("X-Kew-Token", "x")], body)
}

fn deployed(directory: &std::path::Path) -> Option<(Kew, String)> {
    let runtime = program::workerd()?;
    let kew = start(directory, &runtime);
    let (_orders, results) = queues(&kew);
    let mut metadata = metadata();
    metadata["limits"] = json!({ "cpu_ms": 1_000 });
    let (status, reply) = upload(&kew, &[TOKEN], &metadata, SHOWS);
    assert_eq!(status, 200, "{reply}");
    Some((kew, results))
}

#[test]
fn a_deployed_workers_address_leads_to_its_fetch_handler() {
    let directory = data_directory();
    let Some((kew, results)) = deployed(directory.path()) else { return };
    for (method, path, body) in [("GET", "/", ""), ("POST", "/client/v4/a?b=c", "hello")] {
        let (status, text) = visit(&kew, HOST, method, path, body);
        let shown: Value = serde_json::from_str(&text).unwrap_or_else(|_| panic!("{status} {text}"));
        let url = format!("http://{HOST}{path}");
        assert_eq!(shown, json!({ "method": method, "url": url, "names": ["x-mine"], "body": body }));
    }
    let (status, text) = visit(&kew, HOST, "GET", "/", "a body that no GET has");
    assert!(status == 200 && text.contains(r#""body":"""#), "{status} {text}");
    let (status, text) = visit(&kew, "w.kew.workers.dev", "GET", "/a", "");
    assert!(status == 200 && text.contains("http://w.kew.workers.dev/a"), "{status} {text}");

    // Browsers write hosts in small letters, whatever the Worker is called.
    assert_eq!(upload_to(&kew, ("PUT", "/workers/scripts/Shouts"), &[TOKEN], &metadata(), SHOWS).0, 200);
    for host in ["shouts.kew.localhost", "SHOUTS.kew.localhost", "W.kew.localhost"] {
        assert_eq!(visit(&kew, host, "GET", "/", "").0, 200, "{host}");
    }

    let whole = program::whole(&address(&kew), "POST", "/send", &[("Host", HOST)], r#"{"order":7}"#);
    let lower = whole.to_lowercase();
    assert!(lower.starts_with("http/1.1 202") && whole.ends_with("sent"), "{whole}");
    assert!(lower.contains("set-cookie: a=1\r\n") && lower.contains("set-cookie: b=2\r\n"), "{whole}");
    wait_for(&kew, &results, |body| body["order"] == 7);

    let whole = program::whole(&address(&kew), "GET", "/away", &[("Host", HOST)], "");
    assert!(whole.to_lowercase().contains("location: https://example.com/there"), "{whole}");
}

#[test]
fn a_visit_that_a_worker_cannot_answer_gets_the_reason() {
    let directory = data_directory();
    let Some((kew, results)) = deployed(directory.path()) else { return };
    let only_queues = "export default { async queue(batch) {} };";
    let path = ("PUT", "/workers/scripts/only-queues");
    assert_eq!(upload_to(&kew, path, &[TOKEN], &metadata(), only_queues).0, 200);
    for (host, path, status, why) in [
        ("nobody.kew.localhost", "/", 404, "there is no Worker \"nobody\" here"),
        ("only-queues.kew.localhost", "/", 500, "the Worker has no fetch handler"),
        (HOST, "/throw", 500, "the Worker threw an exception; its log says which"),
        (HOST, "/long", 502, "the Worker's reply has more than 2097152 bytes"),
    ] {
        let (found, text) = visit(&kew, host, "GET", path, "");
        assert_eq!((found, text.trim_end()), (status, why), "{host}{path}");
    }
    let log = done(&kew, "GET", "/workers/scripts/w/kew-log?after=0", &Value::Null);
    let of_exception = |line: &&Value| line["text"].as_str().is_some_and(|text| text.contains("on purpose"));
    let lines = log["lines"].as_array().expect("lines is a list");
    assert_eq!(lines.iter().filter(of_exception).count(), 1, "{log}");

    // A handler that never gives the processor back is ended, and the Worker is there again.
    let (status, text) = visit(&kew, HOST, "GET", "/forever", "");
    assert_eq!((status, text.trim_end()), (502, "the Worker's process ended while it answered"));
    send(&kew, &results, &json!({ "still": "here" }));
    let begun = std::time::Instant::now();
    while visit(&kew, HOST, "GET", "/", "").0 != 200 {
        assert!(begun.elapsed() < std::time::Duration::from_secs(20), "{}", kew.errors());
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}

#[test]
fn a_host_of_a_worker_means_nothing_where_none_are_run() {
    let directory = data_directory();
    let data = directory.path().join("data").to_string_lossy().into_owned();
    let kew = Kew::start_with(directory.path(), &["--store", &data]);
    let (status, text) = visit(&kew, HOST, "GET", "/nothing", "");
    assert_eq!(status, 404, "{text}");
    assert!(text.contains("errors"), "the reply is the API's: {text}");
    let (status, text) = visit(&kew, "w.kew.workers.dev", "GET", "/nothing", "");
    assert_eq!(status, 421, "{text}");
}

#[test]
fn slow_visits_keep_no_room_from_the_replies_of_others() {
    let directory = data_directory();
    let Some((kew, _results)) = deployed(directory.path()) else { return };
    let begin = || {
        let mut stream = std::net::TcpStream::connect(address(&kew)).expect("the server accepts connections");
        let request = format!("GET /slow HTTP/1.1\r\nHost: {HOST}\r\n\r\n");
        std::io::Write::write_all(&mut stream, request.as_bytes()).expect("the server reads the request");
        stream
    };
    let visits: Vec<_> = (0..20).map(|_| begin()).collect();
    // They are with the handler by then.
    std::thread::sleep(std::time::Duration::from_millis(500));
    let (status, text) = kew.ask("CreateQueue", r#"{"QueueName":"others"}"#);
    assert_eq!(status, 200, "{text}");
    let url: Value = serde_json::from_str(&text).expect("the reply is JSON");
    let begun = std::time::Instant::now();
    let (status, text) = kew.ask("ReceiveMessage", &json!({ "QueueUrl": url["QueueUrl"] }).to_string());
    assert!(status == 200 && begun.elapsed().as_secs() < 5, "{status} after {:?}: {text}", begun.elapsed());
    drop(visits);
}
