//! What Workers that run here mean for queues and their consumers. In the place of the runtime stands a script that
//! says it listens, and of the code in its directory whether it handles queues.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use kew_cloudflare::{Scripts, Settings};
use kew_core::AccountId;
use kew_core::command::DeleteQueue;
use kew_http::Guard;
use kew_push::workers::{Outbound, Runtime, Workers, WorkersSettings};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::server::{ACCOUNT, Answer, CloudflareAnswer, CloudflareServer, CountingEntropy, settings, text};

const RUNTIME: &str = r#"
PATH=/usr/bin:/bin
token=$(sed -n 's/.*say("\([0-9a-f]*\) .*/\1/p' notes.js)
if grep -q 'queue(' 0.module; then handler=true; else handler=false; fi
printf '{"level":"log","message":"%s {\\"handler\\":%s}"}\n' "$token" "$handler"
gate=$(sed -n 's/.*waits for \(.*\)$/\1/p' 0.module)
while [ -n "$gate" ] && [ ! -e "$gate" ]; do sleep 0.01; done
echo '{"event":"listen","port":1}'
exec sleep 600
"#;

const CONSUMES: &str = "export default { queue(batch) {} };";
const SERVES: &str = "export default { fetch() {} };";

struct Shop {
    server: CloudflareServer,
    directory: TempDir,
}

impl Shop {
    async fn open() -> Self {
        Self::with_children_in("children").await
    }

    /// Whose children are in this directory beside the runtime.
    async fn with_children_in(children: &str) -> Self {
        let directory = TempDir::new().expect("the machine has a temporary directory");
        let program = directory.path().join("runtime");
        std::fs::write(&program, RUNTIME).expect("the script of the test's runtime is written");
        let workers: Arc<OnceLock<Arc<Workers>>> = Arc::default();
        let scripts = Scripts { workers: Arc::clone(&workers), wanted: true, exposed: false };
        let server = CloudflareServer::with(Settings { scripts, ..settings() }, Guard::strict()).await;
        let settings = WorkersSettings {
            others: None,
            runtime: Runtime {
                program,
                launcher: vec!["/bin/sh".into()],
                directory: directory.path().join(children),
            },
            producers: ([127, 0, 0, 1], 1).into(),
            producer_token: "inner".into(),
            outbound: Outbound::Public,
            wall_limit: Duration::from_secs(10),
            accounts: vec![(AccountId(0), "0".repeat(32).into())],
            region: "us-east-1".into(),
            notices: Arc::new(|_, _, _| {}),
        };
        let loaded =
            Workers::load(Arc::clone(&server.engine), Arc::new(CountingEntropy::default()), settings).await;
        workers.set(Arc::new(loaded.expect("the store can be read"))).expect("the Workers are set only once");
        Self { server, directory }
    }

    /// Uploads a Worker that is bound to these queues; at `path` behind its name.
    async fn upload(&self, name: &str, path: &str, code: &str, queues: &[&str]) -> Answer {
        let bindings: Vec<Value> = queues
            .iter()
            .enumerate()
            .map(|(number, queue)| json!({ "type": "queue", "name": format!("Q{number}"), "queue_name": queue }))
            .collect();
        self.upload_bound(name, path, code, bindings).await
    }

    /// Uploads a Worker with these bindings.
    async fn upload_bound(&self, name: &str, path: &str, code: &str, bindings: Vec<Value>) -> Answer {
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
        self.server.raw(method, &path, &headers, body.concat().as_bytes()).await
    }

    async fn delete(&self, name: &str) {
        let path = format!("{ACCOUNT}/workers/scripts/{name}");
        self.server.raw("DELETE", &path, &[TOKEN], b"").await.result();
    }

    async fn producers(&self, queue: &str) -> Value {
        let shown = self.server.ask("GET", queue, "").await.result();
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
    let (orders, results) = (shop.server.queue("orders").await, shop.server.queue("results").await);
    assert_eq!(shop.producers(&orders).await, json!([]));
    shop.upload("b", "", CONSUMES, &["orders", "results", "orders"]).await.result();
    shop.upload("a", "", SERVES, &["orders"]).await.result();
    let producer = |script: &str| json!({ "type": "worker", "script": script });
    assert_eq!(shop.producers(&orders).await, json!([producer("a"), producer("b")]));
    assert_eq!(shop.producers(&results).await, json!([producer("b")]));
    let listed = shop.server.ask("GET", "/queues?name=results", "").await.result();
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
    let orders = shop.server.queue("orders").await;
    shop.upload("w", "", CONSUMES, &["orders"]).await.result();
    let told = shop.server.ask("DELETE", &orders, "").await.is_error(409, 11_005);
    assert!(told.contains("the Worker w is bound to it"), "{told}");
    // Nor does it lose the name that the Worker knows.
    for method in ["PUT", "PATCH"] {
        shop.server.call(method, &orders, json!({ "queue_name": "other" })).await.is_error(409, 11_005);
        shop.server.call(method, &orders, json!({ "queue_name": "orders" })).await.result();
    }
    shop.delete("w").await;
    assert_eq!(shop.server.ask("DELETE", &orders, "").await.result(), Value::Null);
}

#[tokio::test]
async fn a_consumer_needs_a_worker_that_is_deployed_and_handles_queues() {
    let shop = Shop::open().await;
    let orders = shop.server.queue("orders").await;
    let consumers = format!("{orders}/consumers");
    shop.upload("serves", "", SERVES, &[]).await.result();
    shop.upload("consumes", "", CONSUMES, &[]).await.result();
    let mut unknown = worker("unknown");
    unknown["dead_letter_queue"] = json!("dead");
    shop.server.call("POST", &consumers, unknown).await.is_error(404, 10_007);
    assert!(shop.server.path("dead").await.is_none(), "nothing is made for a consumer that is refused");
    let told = shop.server.call("POST", &consumers, worker("serves")).await.is_error(400, 11_001);
    assert_eq!(told, "Queue handler is missing");
    assert_eq!(shop.server.ask("GET", &consumers, "").await.result(), json!([]));
    let made = shop.server.consume(&orders, worker("consumes")).await;
    let consumer = format!("{consumers}/{}", text(&made, "consumer_id"));
    shop.server.call("PUT", &consumer, worker("unknown")).await.is_error(404, 10_007);
    shop.server.call("PUT", &consumer, worker("serves")).await.is_error(400, 11_001);
    assert_eq!(shop.server.ask("GET", &consumer, "").await.result(), made);
    // Those that are not Workers need none.
    let other = shop.server.queue("other").await;
    shop.server.consume(&other, json!({ "type": "http_push", "url": "http://127.0.0.1:1/" })).await;
}

#[tokio::test]
async fn a_queue_counts_as_bound_while_the_code_that_needs_it_is_still_starting() {
    let shop = Shop::open().await;
    let (orders, results) = (shop.server.queue("orders").await, shop.server.queue("results").await);
    let gate = |name: &str| shop.directory.path().join(name);
    let slow = |name: &str| format!("{CONSUMES} // waits for {}", gate(name).display());
    let open = |name: &str| std::fs::write(gate(name), "").expect("the gate's file is written");
    let until_bound = |queue: String| {
        let shop = &shop;
        async move {
            while shop.producers(&queue).await == json!([]) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
    };
    let code = slow("one");
    let (uploaded, ()) = tokio::join!(shop.upload("w", "", &code, &["orders"]), async {
        until_bound(orders.clone()).await;
        shop.server.ask("DELETE", &orders, "").await.is_error(409, 11_005);
        open("one");
    });
    uploaded.result();
    // Deleted behind its back, as another dialect does: the deployment fails and keeps nothing.
    let code = slow("two");
    let (uploaded, ()) = tokio::join!(shop.upload("other", "", &code, &["results"]), async {
        until_bound(results.clone()).await;
        let id =
            shop.server.engine.all_queues().iter().find(|queue| &*queue.key.name == "results").map(|q| q.id);
        let delete = DeleteQueue { queue: id.expect("the queue `results` exists"), if_version: None };
        shop.server.engine.delete_queue(delete).await.expect("the queue `results` can be deleted");
        open("two");
    });
    uploaded.is_error(404, 11_000);
    let path = format!("{ACCOUNT}/workers/services/other");
    assert_eq!(shop.server.raw("GET", &path, &[TOKEN], b"").await.status, 404);
}

#[tokio::test]
async fn secrets_of_a_version_that_is_only_kept_wait_for_its_deployment() {
    let shop = Shop::open().await;
    let secrets = format!("{ACCOUNT}/workers/scripts/w/secrets");
    let names = || async {
        let found = shop.server.raw("GET", &secrets, &[TOKEN], b"").await.result();
        let names =
            found.as_array().expect("secrets are shown as a list").iter().map(|one| text(one, "name"));
        names.collect::<Vec<String>>()
    };
    let plain = json!({ "type": "plain_text", "name": "MODE", "text": "plain" });
    shop.upload_bound("w", "", CONSUMES, vec![plain]).await.result();
    let secret = |name: &str| json!({ "type": "secret_text", "name": name, "text": "hush" });
    let kept =
        shop.upload_bound("w", "/versions", CONSUMES, vec![secret("MODE"), secret("TOKEN")]).await.result();
    assert_eq!(names().await, [""; 0], "nobody deployed it");
    // The name is the running code's own binding; its secrets can still be changed.
    let put = json!({ "name": "OTHER", "text": "x", "type": "secret_text" }).to_string();
    shop.server.raw("PUT", &secrets, &[TOKEN], put.as_bytes()).await.result();
    let deploy = json!({ "versions": [{ "version_id": text(&kept, "id"), "percentage": 100 }] }).to_string();
    let path = format!("{ACCOUNT}/workers/scripts/w/deployments");
    shop.server.raw("POST", &path, &[TOKEN], deploy.as_bytes()).await.result();
    assert_eq!(names().await, ["MODE", "OTHER", "TOKEN"]);
}

#[tokio::test]
async fn several_secrets_are_changed_all_or_none() {
    let shop = Shop::open().await;
    shop.upload("w", "", CONSUMES, &[]).await.result();
    let bulk = format!("{ACCOUNT}/workers/scripts/w/secrets-bulk");
    let change = |secrets: Value| {
        let body = json!({ "secrets": secrets }).to_string();
        let (shop, bulk) = (&shop, &bulk);
        async move { shop.server.raw("PATCH", bulk, &[TOKEN], body.as_bytes()).await }
    };
    let one = |name: &str| json!({ "name": name, "text": "x", "type": "secret_text" });
    assert_ne!(change(json!({ "A": one("A"), "B": null })).await.status, 200, "there is no B to take away");
    let secrets = format!("{ACCOUNT}/workers/scripts/w/secrets");
    assert_eq!(shop.server.raw("GET", &secrets, &[TOKEN], b"").await.result(), json!([]));
    let changed = change(json!({ "A": one("A"), "B": one("B") })).await.result();
    assert_eq!(changed.as_array().map(Vec::len), Some(2), "{changed}");
    let changed = change(json!({ "A": null, "C": one("C") })).await.result();
    assert_eq!([0, 1].map(|place| text(&changed[place], "name")), ["B", "C"]);
}

#[tokio::test]
async fn what_a_worker_handles_is_what_was_deployed_last() {
    let shop = Shop::open().await;
    let orders = shop.server.queue("orders").await;
    let shown = || async {
        let path = format!("{ACCOUNT}/workers/services/w");
        let found = shop.server.raw("GET", &path, &[TOKEN], b"").await.result();
        found["default_environment"]["script"]["handlers"].clone()
    };
    shop.upload("w", "", CONSUMES, &[]).await.result();
    assert_eq!(shown().await, json!(["queue"]));
    shop.upload("w", "", SERVES, &[]).await.result();
    assert_eq!(shown().await, json!([]));
    shop.server.call("POST", &format!("{orders}/consumers"), worker("w")).await.is_error(400, 11_001);
    shop.upload("w", "", CONSUMES, &[]).await.result();
    shop.server.consume(&orders, worker("w")).await;
}

#[tokio::test]
async fn a_runtime_that_cannot_be_started_is_an_internal_error_without_its_path() {
    // A file is in the way of their directory.
    let shop = Shop::with_children_in("runtime/children").await;
    let told = shop.upload("w", "", CONSUMES, &[]).await.is_error(500, 15_000);
    assert!(!told.contains("runtime"), "{told}");
}

#[tokio::test]
async fn while_workers_are_not_known_yet_what_depends_on_them_is_to_be_tried_again() {
    let scripts = Scripts { wanted: true, ..Scripts::default() };
    let server = CloudflareServer::with(Settings { scripts, ..settings() }, Guard::strict()).await;
    let orders = server.queue("orders").await;
    server.ask("DELETE", &orders, "").await.is_error(429, 10_250);
    let path = format!("{ACCOUNT}/workers/services/w");
    server.raw("GET", &path, &[TOKEN], b"").await.is_error(429, 10_250);
}

/// Vendor: of our own log; wrangler asks for it before the first deploy
#[tokio::test]
async fn a_worker_that_is_not_there_yet_has_an_empty_log() {
    let shop = Shop::open().await;
    let log = |query: &str| format!("{ACCOUNT}/workers/scripts/w/kew-log{query}");
    for (query, last) in [("", 0), ("?after=0", 0), ("?after=7&wait=30", 7)] {
        let page = shop.server.raw("GET", &log(query), &[TOKEN], b"").await.result();
        assert_eq!(page, json!({ "lines": [], "last": last, "missed": 0 }), "{query}");
    }
    shop.upload("w", "", CONSUMES, &[]).await.result();
    let page = shop.server.raw("GET", &log("?after=0"), &[TOKEN], b"").await.result();
    assert!(page["last"].as_u64().is_some_and(|number| number > 0), "{page}");
    let odd = format!("{ACCOUNT}/workers/scripts/a%20b/kew-log");
    assert_eq!(shop.server.raw("GET", &odd, &[TOKEN], b"").await.status, 400);
}

// `wrangler tail` begins with this call, and shows the error's text.
/// Vendor: seen from wrangler 4.164.0: `tail` shows the error of the API as it is
#[tokio::test]
async fn a_tail_of_a_worker_is_refused_with_the_place_of_its_log() {
    let shop = Shop::open().await;
    for (verb, path) in [("POST", "w/tails"), ("GET", "w/tails"), ("DELETE", "w/tails/7")] {
        let answer =
            shop.server.raw(verb, &format!("{ACCOUNT}/workers/scripts/{path}"), &[TOKEN], b"{}").await;
        let text = answer.is_error(404, 7_003);
        assert!(text.contains("not streamed") && text.contains("/w/kew-log?after=0&wait=20"), "{text}");
    }
}

// What wrangler 4.164.0 sends for producers whose queues are not there, or which name none, in its order.
/// Vendor: seen from wrangler 4.164.0: deploy makes the queues of its producers
#[tokio::test]
async fn a_deployment_that_makes_the_queues_of_its_producers_finds_them_inherited_the_next_time() {
    let shop = Shop::open().await;
    let settings = format!("{ACCOUNT}/workers/scripts/shop/settings");
    let get = |path: String| {
        let shop = &shop;
        async move { shop.server.raw("GET", &path, &[TOKEN], b"").await }
    };
    // No settings: nothing can be inherited. No queue of that name: it is made.
    get(settings.clone()).await.is_error(404, 10_007);
    let queues = format!("{ACCOUNT}/queues");
    assert_eq!(get(format!("{queues}?name=orders&page=1")).await.result(), json!([]));
    assert_eq!(get(format!("{queues}?page=1")).await.result(), json!([]));
    for name in ["orders", "shop-out"] {
        let body = json!({ "queue_name": name }).to_string();
        let made = shop.server.raw("POST", &queues, &[TOKEN], body.as_bytes()).await.result();
        assert_eq!(made["queue_name"], name);
    }
    shop.upload("shop", "", CONSUMES, &["orders", "shop-out"]).await.result();
    let bound = json!([
        { "type": "queue", "name": "Q0", "queue_name": "orders" },
        { "type": "queue", "name": "Q1", "queue_name": "shop-out" },
    ]);
    assert_eq!(get(settings.clone()).await.result()["bindings"], bound);
    let inherit = |name: &str| json!({ "type": "inherit", "name": name });
    let kept =
        shop.upload_bound("shop", "/versions", CONSUMES, vec![inherit("Q0"), inherit("Q1")]).await.result();
    let deploy = json!({ "versions": [{ "version_id": text(&kept, "id"), "percentage": 100 }] }).to_string();
    let path = format!("{ACCOUNT}/workers/scripts/shop/deployments");
    shop.server.raw("POST", &path, &[TOKEN], deploy.as_bytes()).await.result();
    assert_eq!(get(settings).await.result()["bindings"], bound);
    let listed = get(format!("{queues}?name=shop-out")).await.result();
    assert_eq!(listed[0]["producers"], json!([{ "type": "worker", "script": "shop" }]));
}
