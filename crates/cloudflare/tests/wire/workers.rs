//! What Workers that run here mean for queues and their consumers. In the place of the runtime stands a script that says
//! it listens, and of the code in its directory whether it handles queues.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use kew_cloudflare::{Scripts, Settings};
use kew_core::AccountId;
use kew_http::Guard;
use kew_push::workers::{Outbound, Runtime, Workers, WorkersSettings};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::house::{ACCOUNT, Answer, Counting, House, settings, text};

const RUNTIME: &str = r#"
PATH=/usr/bin:/bin
token=$(sed -n 's/.*say("\([0-9a-f]*\) .*/\1/p' notes.js)
if grep -q 'queue(' 0.module; then handler=true; else handler=false; fi
printf '{"level":"log","message":"%s {\\"handler\\":%s}"}\n' "$token" "$handler"
echo '{"event":"listen","port":1}'
exec sleep 600
"#;

const CONSUMES: &str = "export default { queue(batch) {} };";
const SERVES: &str = "export default { fetch() {} };";

struct Shop {
    house: House,
    _directory: TempDir,
}

impl Shop {
    async fn open() -> Self {
        let directory = TempDir::new().expect("there is room");
        let program = directory.path().join("runtime");
        std::fs::write(&program, RUNTIME).expect("there is room");
        let workers: Arc<OnceLock<Arc<Workers>>> = Arc::default();
        let scripts = Scripts { workers: Arc::clone(&workers), exposed: false };
        let house = House::with(Settings { scripts, ..settings() }, Guard::strict()).await;
        let settings = WorkersSettings {
            runtime: Runtime {
                program,
                launcher: vec!["/bin/sh".into()],
                directory: directory.path().join("children"),
            },
            producers: ([127, 0, 0, 1], 1).into(),
            producer_token: "inner".into(),
            outbound: Outbound::Public,
            wall_limit: Duration::from_secs(10),
            accounts: vec![(AccountId(0), "0".repeat(32).into())],
            region: "us-east-1".into(),
            notices: Arc::new(|_, _, _| {}),
        };
        let loaded = Workers::load(Arc::clone(&house.engine), Arc::new(Counting::default()), settings).await;
        workers.set(Arc::new(loaded.expect("the store can be read"))).expect("it is set once");
        Self { house, _directory: directory }
    }

    /// Uploads a Worker that is bound to these queues; at `path` behind its name.
    async fn upload(&self, name: &str, path: &str, code: &str, queues: &[&str]) -> Answer {
        let bindings: Vec<Value> = queues
            .iter()
            .enumerate()
            .map(|(number, queue)| json!({ "type": "queue", "name": format!("Q{number}"), "queue_name": queue }))
            .collect();
        let metadata =
            json!({ "main_module": "index.js", "compatibility_date": "2026-04-01", "bindings": bindings });
        let part = |name: &str, kind: &str, text: &str| {
            format!(
                "--XX\r\nContent-Disposition: form-data; name=\"{name}\"; filename=\"{name}\"\r\nContent-Type: {kind}\r\n\r\n{text}\r\n"
            )
        };
        let body = [
            part("metadata", "application/json", &metadata.to_string()),
            part("index.js", "application/javascript+module", code),
            "--XX--\r\n".to_owned(),
        ];
        let method = if path.is_empty() { "PUT" } else { "POST" };
        let headers = [("Content-Type", "multipart/form-data; boundary=XX"), TOKEN];
        let path = format!("{ACCOUNT}/workers/scripts/{name}{path}");
        self.house.raw(method, &path, &headers, body.concat().as_bytes()).await
    }

    async fn delete(&self, name: &str) {
        let path = format!("{ACCOUNT}/workers/scripts/{name}");
        self.house.raw("DELETE", &path, &[TOKEN], b"").await.result();
    }

    async fn producers(&self, queue: &str) -> Value {
        let shown = self.house.ask("GET", queue, "").await.result();
        let count = shown["producers"].as_array().map(Vec::len);
        assert_eq!(shown["producers_total_count"].as_u64(), count.map(|count| count as u64), "{shown}");
        shown["producers"].clone()
    }
}

const TOKEN: (&str, &str) = ("Authorization", "Bearer any");

fn worker(name: &str) -> Value {
    json!({ "type": "worker", "script_name": name })
}

#[tokio::test]
async fn deployed_workers_are_shown_as_producers_of_the_queues_they_are_bound_to() {
    let shop = Shop::open().await;
    let (orders, results) = (shop.house.queue("orders").await, shop.house.queue("results").await);
    assert_eq!(shop.producers(&orders).await, json!([]));
    shop.upload("b", "", CONSUMES, &["orders", "results", "orders"]).await.result();
    shop.upload("a", "", SERVES, &["orders"]).await.result();
    let producer = |script: &str| json!({ "type": "worker", "script": script });
    assert_eq!(shop.producers(&orders).await, json!([producer("a"), producer("b")]));
    assert_eq!(shop.producers(&results).await, json!([producer("b")]));
    let listed = shop.house.ask("GET", "/queues?name=results", "").await.result();
    assert_eq!(listed[0]["producers"], json!([producer("b")]));
    // A version that is kept and not deployed binds nothing.
    shop.upload("a", "/versions", SERVES, &["results"]).await.result();
    assert_eq!(shop.producers(&results).await, json!([producer("b")]));
    shop.upload("b", "", CONSUMES, &["results"]).await.result();
    assert_eq!(shop.producers(&orders).await, json!([producer("a")]));
    shop.delete("a").await;
    assert_eq!(shop.producers(&orders).await, json!([]));
}

#[tokio::test]
async fn a_queue_that_a_deployed_worker_is_bound_to_is_neither_deleted_nor_renamed() {
    let shop = Shop::open().await;
    let orders = shop.house.queue("orders").await;
    shop.upload("w", "", CONSUMES, &["orders"]).await.result();
    let told = shop.house.ask("DELETE", &orders, "").await.is_error(409, 11_005);
    assert!(told.contains("the Worker w is bound to it"), "{told}");
    // Nor does it lose the name that the Worker knows.
    for method in ["PUT", "PATCH"] {
        shop.house.call(method, &orders, json!({ "queue_name": "other" })).await.is_error(409, 11_005);
        shop.house.call(method, &orders, json!({ "queue_name": "orders" })).await.result();
    }
    shop.delete("w").await;
    assert_eq!(shop.house.ask("DELETE", &orders, "").await.result(), Value::Null);
}

#[tokio::test]
async fn a_consumer_needs_a_worker_that_is_deployed_and_handles_queues() {
    let shop = Shop::open().await;
    let orders = shop.house.queue("orders").await;
    let consumers = format!("{orders}/consumers");
    shop.upload("serves", "", SERVES, &[]).await.result();
    shop.upload("consumes", "", CONSUMES, &[]).await.result();
    let mut unknown = worker("unknown");
    unknown["dead_letter_queue"] = json!("dead");
    shop.house.call("POST", &consumers, unknown).await.is_error(404, 10_007);
    assert!(shop.house.path("dead").await.is_none(), "nothing is made for a consumer that is refused");
    let told = shop.house.call("POST", &consumers, worker("serves")).await.is_error(400, 11_001);
    assert_eq!(told, "Queue handler is missing");
    assert_eq!(shop.house.ask("GET", &consumers, "").await.result(), json!([]));
    let made = shop.house.consume(&orders, worker("consumes")).await;
    let consumer = format!("{consumers}/{}", text(&made, "consumer_id"));
    shop.house.call("PUT", &consumer, worker("unknown")).await.is_error(404, 10_007);
    shop.house.call("PUT", &consumer, worker("serves")).await.is_error(400, 11_001);
    assert_eq!(shop.house.ask("GET", &consumer, "").await.result(), made);
    // Those that are not Workers need none.
    let other = shop.house.queue("other").await;
    shop.house.consume(&other, json!({ "type": "http_push", "url": "http://127.0.0.1:1/" })).await;
}
