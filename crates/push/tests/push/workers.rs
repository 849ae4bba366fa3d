//! Batches in the real runtime. Without its program these tests say so aloud and pass; where `KEW_WORKERD` names it,
//! they run.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use kew_core::command::{FirstReceipts, Peek, Send, View};
use kew_core::{AccountId, Content, ContentType, NewMessage, QueueId, State};
use kew_engine::Engine;
use kew_push::workers::{
    Binding, BindingValue, Module, ModuleKind, OtherNodes, Outbound, Remarks, Runtime, Said, Script, Then,
    Upload, WorkerError, WorkerNotice, Workers, WorkersSettings,
};
use kew_push::{Consumer, Target};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::dispatcher::{CountingEntropy, TestDispatcher, engine, pushing, secs, to_target};

pub const ACCOUNT: AccountId = AccountId(0);

/// Does what the bodies of its messages say.
pub const OBEDIENT: &str = r#"
let runs = 0;
const sleep = (ms) => new Promise((wake) => setTimeout(wake, ms));
export default {
  async queue(batch, env, ctx) {
    runs += 1;
    console.log(`batch of ${batch.messages.length} from ${batch.queue}, run ${runs}, ${env.GREETING ?? "no greeting"}, ${env.TOKEN ?? "no token"}`);
    for (const message of batch.messages) {
      for (const [call, value] of message.body.calls ?? []) {
        const options = value === undefined || value === null ? undefined : { delaySeconds: value };
        if (call === "ack") message.ack();
        else if (call === "retry") message.retry(options);
        else if (call === "ackAll") batch.ackAll();
        else if (call === "retryAll") batch.retryAll(options);
        else if (call === "sleep") await sleep(value);
        else if (call === "throw") throw new Error("as told");
        else if (call === "reject") ctx.waitUntil(Promise.reject(new Error("as told")));
        else if (call === "hang") await new Promise(() => {});
        else if (call === "loop") for (;;) {}
        else if (call === "say") console.log("said: " + JSON.stringify(message.body.say));
      }
    }
  },
};
"#;

/// A dispatcher with Workers, if there is a runtime.
pub struct Shop {
    pub dispatcher: TestDispatcher,
    pub workers: Arc<Workers>,
    pub said: Arc<Mutex<Vec<WorkerNotice>>>,
    pub directory: TempDir,
}

pub fn program() -> Option<PathBuf> {
    let named = std::env::var_os("KEW_WORKERD").map(PathBuf::from);
    if let Some(named) = named {
        assert!(named.is_file(), "KEW_WORKERD names {}, which is not there", named.display());
        return Some(named);
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found =
        std::env::split_paths(&path).map(|folder| folder.join("workerd")).find(|program| program.is_file());
    if found.is_none() {
        assert!(std::env::var_os("KEW_WORKERD_NEEDED").is_none(), "there is no workerd here");
        eprintln!("SKIPPED: there is no workerd here; KEW_WORKERD may name it");
    }
    found
}

impl Shop {
    pub async fn open() -> Option<Self> {
        Self::with(engine().await, secs(900)).await
    }

    pub async fn with(engine: Arc<Engine>, wall_limit: Duration) -> Option<Self> {
        Some(Self::running(program()?, engine, wall_limit).await)
    }

    /// Whose runtime is this program.
    pub async fn running(program: PathBuf, engine: Arc<Engine>, wall_limit: Duration) -> Self {
        let node = Node::open(program, Arc::clone(&engine), wall_limit, None).await;
        Self::of(node, engine)
    }

    /// Whose batches go to this node's Workers.
    pub fn of(Node { workers, said, directory }: Node, engine: Arc<Engine>) -> Self {
        let dispatcher = TestDispatcher::with(engine, 256, Some(Arc::clone(&workers)));
        Self { dispatcher, workers, said, directory }
    }

    pub async fn upload(&self, code: &'static str) -> Result<(), WorkerError> {
        self.upload_script(script(code)).await
    }

    pub async fn upload_script(&self, script: Script) -> Result<(), WorkerError> {
        upload(&self.workers, "w", script).await
    }

    /// The lines with this that were said.
    pub fn lines(&self, what: &str) -> Vec<Said> {
        let said = self.said.lock();
        let lines = said.iter().filter_map(|notice| match notice {
            WorkerNotice::Said(said) => Some(said.clone()),
            WorkerNotice::Ended | WorkerNotice::NotStarted(_) => None,
        });
        lines.filter(|said| said.text.contains(what)).collect()
    }

    /// Whether a line with this was said.
    fn heard(&self, what: &str) -> bool {
        self.said
            .lock()
            .iter()
            .any(|notice| matches!(notice, WorkerNotice::Said(said) if said.text.contains(what)))
    }

    pub fn count_heard(&self, what: &str) -> usize {
        let said = self.said.lock();
        said.iter()
            .filter(|notice| matches!(notice, WorkerNotice::Said(said) if said.text.contains(what)))
            .count()
    }

    pub async fn until_heard(&self, what: &str) {
        let deadline = tokio::time::Instant::now() + secs(20);
        while !self.heard(what) {
            assert!(
                tokio::time::Instant::now() < deadline,
                "{what:?} was never said: {:?}",
                self.said.lock()
            );
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// How long the one delayed message of a queue still rests.
    pub async fn rests(&self, queue: QueueId) -> Duration {
        let peek = Peek { queue, view: View::Delayed, skip: 0, max: 1, body_bytes_max: 1 << 20 };
        let (message, _) =
            self.dispatcher.engine.peek(peek).await.expect("the queue that is looked into exists").remove(0);
        match message.state {
            State::Delayed { until } => until.since(self.dispatcher.engine.now()),
            other => panic!("it is {other:?}"),
        }
    }

    pub async fn send(&self, queue: QueueId, bodies: impl IntoIterator<Item = Value>) {
        let contents = bodies.into_iter().map(|body| (ContentType::Json, Bytes::from(body.to_string())));
        self.send_contents(queue, contents).await;
    }

    pub async fn send_contents(
        &self,
        queue: QueueId,
        contents: impl IntoIterator<Item = (ContentType, Bytes)>,
    ) {
        let messages = contents.into_iter().map(|(content_type, body)| NewMessage {
            content: Content { content_type, body, annotations: Bytes::new() },
            ..NewMessage::text(self.dispatcher.engine.message_id(), "")
        });
        let send = Send { queue, messages: messages.collect(), receipts: FirstReceipts::Untold };
        self.dispatcher.engine.send(send).await.expect("the engine accepts the messages");
    }
}

/// Deploys code as a Worker of this name.
pub async fn upload(workers: &Workers, name: &str, script: Script) -> Result<(), WorkerError> {
    let (main, secrets) = ("index.js".to_owned(), Vec::new());
    let upload = Upload { script, main, secrets, remarks: Remarks::default() };
    workers.upload((ACCOUNT, name), upload, Then::Deploy).await.map(drop)
}

/// How many were opened.
static NODES: AtomicU64 = AtomicU64::new(0);

/// Workers of one process.
pub struct Node {
    pub workers: Arc<Workers>,
    pub said: Arc<Mutex<Vec<WorkerNotice>>>,
    pub directory: TempDir,
}

impl Node {
    /// Over an engine that may be that of other nodes too.
    pub async fn open(
        program: PathBuf,
        engine: Arc<Engine>,
        wall_limit: Duration,
        others: Option<Arc<dyn OtherNodes>>,
    ) -> Self {
        let directory = TempDir::new().expect("the machine has a temporary directory");
        let said = Arc::new(Mutex::new(Vec::new()));
        let hear = Arc::clone(&said);
        let settings = WorkersSettings {
            others,
            runtime: Runtime { program, launcher: Vec::new(), directory: directory.path().to_owned() },
            producers: ([127, 0, 0, 1], 1).into(),
            producer_token: "inner".into(),
            outbound: Outbound::Public,
            wall_limit,
            accounts: vec![(ACCOUNT, "00000000000000000000000000000000".into())],
            region: "here".into(),
            notices: Arc::new(move |_, _, notice| hear.lock().push(notice)),
        };
        // No two processes draw the same chance.
        let entropy = CountingEntropy::from(NODES.fetch_add(1, Ordering::Relaxed) << 32);
        let workers = Workers::load(engine, Arc::new(entropy), settings).await;
        Self { workers: Arc::new(workers.expect("the store can be read")), said, directory }
    }
}

pub fn script(code: &'static str) -> Script {
    Script {
        compatibility_date: "2026-04-01".to_owned(),
        compatibility_flags: Vec::new(),
        cpu_limit: None,
        bindings: Vec::new(),
        modules: vec![Module {
            name: "index.js".to_owned(),
            kind: ModuleKind::Es,
            content: Bytes::from_static(code.as_bytes()),
        }],
    }
}

pub fn worker() -> Consumer {
    Consumer { retry_delay: secs(300), ..to_target(Target::Worker { script: "w".to_owned() }) }
}

pub fn calls(calls: Value) -> Value {
    json!({ "calls": calls })
}

// Every order of calls that the runtime judges: (calls, seconds until it comes again, or done).
// [seed] ack, retry, ackAll and retryAll: the first call of a message stands, and a single call before one of the
// batch.
#[tokio::test]
async fn verdicts_of_the_real_runtime_settle_each_message() {
    let Some(shop) = Shop::open().await else { return };
    shop.upload(OBEDIENT).await.expect("the Worker starts");
    let rows: &[(Value, Option<u64>)] = &[
        (json!([]), None),
        (json!([["ack"]]), None),
        (json!([["retry"]]), Some(300)),
        (json!([["retry", 60]]), Some(60)),
        (json!([["retry", 0]]), Some(0)),
        (json!([["retry", -5]]), Some(0)),
        (json!([["retry", 2.9]]), Some(2)),
        (json!([["retry", 810_000]]), Some(86_400)),
        (json!([["ackAll"]]), None),
        (json!([["retryAll"]]), Some(300)),
        (json!([["retryAll", 40]]), Some(40)),
        (json!([["throw"]]), Some(300)),
        (json!([["reject"]]), Some(300)),
        (json!([["hang"]]), Some(300)),
        (json!([["ack"], ["throw"]]), None),
        (json!([["retry", 7], ["throw"]]), Some(7)),
        (json!([["ackAll"], ["throw"]]), None),
        (json!([["retryAll", 9], ["throw"]]), Some(9)),
        (json!([["ack"], ["retry", 5]]), None),
        (json!([["retry", 5], ["ack"]]), Some(5)),
        (json!([["ack"], ["retryAll", 9]]), None),
        (json!([["retry", 5], ["ackAll"]]), Some(5)),
        (json!([["retry", 5], ["retryAll", 9]]), Some(5)),
        (json!([["ackAll"], ["retryAll", 9]]), None),
        (json!([["retryAll", 9], ["ackAll"]]), Some(9)),
        (json!([["retryAll", 9], ["ack"]]), Some(9)),
        (json!([["retryAll", 9], ["retry", 1]]), Some(1)),
        (json!([["ackAll"], ["retry", 1]]), None),
        (json!([["retry", 5], ["retry", 6]]), Some(6)),
        (json!([["retry", 5], ["retry"]]), Some(300)),
        (json!([["ack"], ["reject"]]), None),
        (json!([["sleep", 20], ["ack"], ["sleep", 20], ["throw"]]), None),
    ];
    for (number, (row, expected)) in rows.iter().enumerate() {
        // A queue that gives up nothing: what comes again is still there.
        let queue = shop.dispatcher.queue(&format!("row-{number}"), Some(&worker())).await;
        shop.send(queue, [calls(row.clone())]).await;
        match expected {
            None => shop.dispatcher.until_holds(queue, (0, 0, 0)).await,
            // It comes again at once, and again, until it was delivered often enough.
            Some(0) => {
                shop.dispatcher.until_holds(queue, (0, 0, 0)).await;
                let batches = format!("from row-{number},");
                assert_eq!(shop.count_heard(&batches), 4, "{row}");
            }
            Some(_) => shop.dispatcher.until_holds(queue, (0, 0, 1)).await,
        }
        if let Some(seconds) = expected.filter(|seconds| *seconds > 0) {
            assert_eq!(shop.rests(queue).await, secs(seconds), "{row}");
        }
    }
    shop.dispatcher.close().await;
}

#[tokio::test]
async fn it_is_known_whether_a_worker_handles_queues_whatever_it_says_before_it_listens() {
    let Some(shop) = Shop::open().await else { return };
    for (code, handles) in [
        ("console.log('early'); export default { async queue() {} };", Some(true)),
        (
            "import { WorkerEntrypoint } from 'cloudflare:workers'; export default class extends WorkerEntrypoint { async queue() {} };",
            Some(true),
        ),
        ("console.log('early'); export default { async fetch() { return new Response(); } };", Some(false)),
        // Each instance may have its own.
        (
            "import { WorkerEntrypoint } from 'cloudflare:workers'; export default class extends WorkerEntrypoint { queue = async () => { console.log('of an instance'); }; };",
            None,
        ),
    ] {
        shop.upload(code).await.expect("the Worker starts");
        let found = shop.workers.describe(ACCOUNT, "w").expect("the Worker was uploaded");
        assert_eq!(found.handles_queues, handles, "{code}");
    }
    let queue = shop.dispatcher.queue("a", Some(&worker())).await;
    shop.send(queue, [json!({})]).await;
    shop.until_heard("of an instance").await;
    shop.dispatcher.until_holds(queue, (0, 0, 0)).await;
    shop.dispatcher.close().await;
}

// [seed] What was acknowledged stays done although the handler does not return properly.
#[tokio::test]
async fn acks_of_a_handler_that_never_gives_the_processor_back_hold_and_the_rest_comes_again() {
    let Some(shop) = Shop::open().await else { return };
    let patient = Script { cpu_limit: Some(Duration::from_secs(1)), ..script(OBEDIENT) };
    shop.upload_script(patient).await.expect("the Worker starts");
    let consumer = pushing(&worker(), |push| push.max_wait = secs(60));
    let queue = shop.dispatcher.queue("a", Some(&Consumer { batch_size: 3, ..consumer })).await;
    shop.send(queue, [calls(json!([["ack"]])), calls(json!([["retry", 7]])), calls(json!([["loop"]]))]).await;
    shop.dispatcher.until_holds(queue, (0, 0, 2)).await;
    assert_eq!(shop.rests(queue).await, secs(7), "the explicit retry keeps its own delay");
    assert!(shop.said.lock().contains(&WorkerNotice::Ended));
    shop.dispatcher.close().await;
}

#[tokio::test]
async fn acks_made_before_the_wall_clock_limit_hold_and_the_worker_comes_back() {
    let Some(shop) = Shop::with(engine().await, Duration::from_millis(700)).await else { return };
    shop.upload(OBEDIENT).await.expect("the Worker starts");
    let consumer = pushing(&worker(), |push| push.max_wait = secs(60));
    let queue = shop.dispatcher.queue("a", Some(&Consumer { batch_size: 2, ..consumer })).await;
    shop.send(queue, [calls(json!([["ack"]])), calls(json!([["sleep", 60_000]]))]).await;
    shop.dispatcher.until_holds(queue, (0, 0, 1)).await;
    let quick = shop.dispatcher.queue("b", Some(&worker())).await;
    shop.send(quick, [calls(json!([["ack"]]))]).await;
    shop.dispatcher.until_holds(quick, (0, 0, 0)).await;
    shop.dispatcher.close().await;
}

#[tokio::test]
async fn bodies_of_every_type_arrive_as_what_they_are() {
    let Some(shop) = Shop::open().await else { return };
    shop.upload(
        r#"export default { async queue(batch) {
          for (const { body, attempts, timestamp } of batch.messages) {
            const shown = body instanceof Uint8Array ? `bytes ${[...body]}` : body instanceof Map ? `map ${[...body]}` : `${typeof body} ${JSON.stringify(body)}`;
            console.log(`got ${shown}, attempt ${attempts}, ${timestamp.getTime() > 1e12}`);
          }
          console.log(`metrics ${JSON.stringify(batch.metadata?.metrics)}`);
        } };"#,
    )
    .await
    .expect("the Worker starts");
    let queue = shop.dispatcher.queue("a", Some(&worker())).await;
    // Version 15 of V8's serialisation of a Map from "a" to 1.
    let map = Bytes::from_static(&[0xff, 0x0f, b';', b'"', 1, b'a', b'I', 2, b':', 2]);
    let contents = [
        (ContentType::Json, Bytes::from_static(b"{\"a\":[1,null]}")),
        (ContentType::Json, Bytes::from_static(b"null")),
        (ContentType::Text, Bytes::from_static("line\n\u{e9} \"quoted\"".as_bytes())),
        (ContentType::Bytes, Bytes::from_static(&[0, 255, 7])),
        (ContentType::V8, map),
    ];
    shop.send_contents(queue, contents).await;
    shop.dispatcher.until_holds(queue, (0, 0, 0)).await;
    for line in [
        r#"got object {"a":[1,null]}, attempt 1, true"#,
        "got object null, attempt 1, true",
        r#"got string "line\né \"quoted\"", attempt 1, true"#,
        "got bytes 0,255,7, attempt 1, true",
        "got map a,1, attempt 1, true",
    ] {
        shop.until_heard(line).await;
    }
    shop.dispatcher.close().await;
}

#[tokio::test]
async fn a_worker_that_does_not_start_is_refused_in_the_runtimes_own_words() {
    let Some(shop) = Shop::open().await else { return };
    for (code, words) in [
        ("export default { async queue(batch { } };", "SyntaxError"),
        ("throw new Error('at the top'); export default {};", "at the top"),
        ("import x from './missing.js'; export default {};", "missing.js"),
    ] {
        match shop.upload(code).await {
            Err(WorkerError::NotStarted(error)) => assert!(error.to_string().contains(words), "{error}"),
            other => panic!("{code}: {other:?}"),
        }
    }
    let future = Script { compatibility_date: "2999-01-01".to_owned(), ..script(OBEDIENT) };
    let refused = shop.upload_script(future).await.expect_err("there is no such day yet");
    assert!(refused.to_string().contains("compatibility date"), "{refused}");
    assert!(shop.workers.list(ACCOUNT).is_empty(), "nothing of it is kept");
    let queue = Binding { name: "OUT".to_owned(), value: BindingValue::Queue("missing".to_owned()) };
    let unbound = Script { bindings: vec![queue], ..script(OBEDIENT) };
    assert!(
        matches!(shop.upload_script(unbound).await, Err(WorkerError::QueueNotFound(name)) if name == "missing")
    );
    shop.dispatcher.close().await;
}

#[tokio::test]
async fn nothing_is_leased_while_there_is_no_worker_to_bring_it_to() {
    let Some(shop) = Shop::open().await else { return };
    let queue = shop.dispatcher.queue("a", Some(&worker())).await;
    shop.send(queue, [calls(json!([]))]).await;
    shop.dispatcher.calm().await;
    shop.dispatcher.until_holds(queue, (1, 0, 0)).await;
    shop.upload(OBEDIENT).await.expect("the Worker starts");
    shop.dispatcher.until_holds(queue, (0, 0, 0)).await;
    shop.until_heard("run 1").await;
    shop.dispatcher.close().await;
}

#[tokio::test]
async fn a_new_version_takes_over_and_what_runs_in_the_old_one_finishes() {
    let Some(shop) = Shop::open().await else { return };
    shop.upload(OBEDIENT).await.expect("the Worker starts");
    let queue = shop.dispatcher.queue("a", Some(&worker())).await;
    shop.send(queue, [calls(json!([["say"], ["sleep", 800], ["ack"], ["throw"]]))]).await;
    shop.until_heard("said").await;
    shop.upload("export default { async queue() { console.log('the new one'); } };")
        .await
        .expect("the new version starts");
    shop.send(queue, [calls(json!([]))]).await;
    shop.until_heard("the new one").await;
    shop.dispatcher.until_holds(queue, (0, 0, 0)).await;
    let versions = shop.workers.describe(ACCOUNT, "w").expect("the Worker was uploaded").versions;
    assert_eq!(versions.iter().map(|version| version.number).collect::<Vec<_>>(), [1, 2]);
    shop.workers
        .deploy(ACCOUNT, "w", &versions[0].id, Remarks::default())
        .await
        .expect("the first version is kept");
    shop.send(queue, [calls(json!([["say"]]))]).await;
    shop.dispatcher.until_holds(queue, (0, 0, 0)).await;
    assert!(matches!(
        shop.workers.deploy(ACCOUNT, "w", "none", Remarks::default()).await,
        Err(WorkerError::VersionNotFound(_))
    ));
    shop.dispatcher.close().await;
}

#[tokio::test]
async fn bindings_and_secrets_are_in_its_environment_and_nothing_else_is() {
    let Some(shop) = Shop::open().await else { return };
    let bindings =
        vec![Binding { name: "GREETING".to_owned(), value: BindingValue::Text("say \"hi\"\n".to_owned()) }];
    let code =
        r#"export default { async queue(batch, env) { console.log("env " + JSON.stringify(env)); } };"#;
    shop.upload_script(Script { bindings, ..script(code) })
        .await
        .expect("the Worker with its bindings starts");
    shop.workers
        .put_secret(ACCOUNT, "w", "TOKEN", Some("s3cret".to_owned()))
        .await
        .expect("the Worker takes the secret");
    let queue = shop.dispatcher.queue("a", Some(&worker())).await;
    shop.send(queue, [calls(json!([]))]).await;
    shop.until_heard(r#"env {"GREETING":"say \"hi\"\n","TOKEN":"s3cret"}"#).await;
    let taken = shop.workers.put_secret(ACCOUNT, "w", "GREETING", Some("x".to_owned())).await;
    assert!(taken.is_err(), "a binding has that name");
    shop.workers.put_secret(ACCOUNT, "w", "TOKEN", None).await.expect("the secret was set");
    assert!(matches!(
        shop.workers.put_secret(ACCOUNT, "w", "TOKEN", None).await,
        Err(WorkerError::SecretNotFound(_))
    ));
    shop.dispatcher.close().await;
}

#[tokio::test]
async fn workers_are_there_again_after_a_restart() {
    let engine = engine().await;
    let Some(shop) = Shop::with(Arc::clone(&engine), secs(900)).await else { return };
    shop.upload(OBEDIENT).await.expect("the Worker starts");
    shop.workers
        .put_secret(ACCOUNT, "w", "TOKEN", Some("kept".to_owned()))
        .await
        .expect("the Worker takes the secret");
    shop.workers.shut_down().await;
    shop.dispatcher.close().await;
    let again = Shop::with(engine, secs(900)).await.expect("the runtime is there");
    let queue = again.dispatcher.queue("a", Some(&worker())).await;
    again.send(queue, [calls(json!([]))]).await;
    again.until_heard("no greeting, kept").await;
    again.workers.delete(ACCOUNT, "w").await.expect("the Worker was read from the store");
    assert!(again.workers.describe(ACCOUNT, "w").is_none());
    again.dispatcher.close().await;
}
