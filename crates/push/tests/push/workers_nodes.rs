//! Workers of several nodes over one store.

use std::path::PathBuf;
use std::sync::Arc;

use kew_core::DocumentKey;
use kew_core::command::PutDocuments;
use kew_engine::{Engine, EngineError, Options};
use kew_push::workers::{
    Answered, Binding, BindingValue, NodeName, Nodes, OtherNodes, Remarks, Script, WorkerError, WorkerNotice,
};
use kew_testing::{CountingEntropy, LentStore, TestStore, advance, start_engine};
use serde_json::json;

use crate::dispatcher::{engine, secs, until};
use crate::workers::{ACCOUNT, Node, OBEDIENT, Shop, calls, program, script, upload, worker};

/// Says once a minute that it was called.
const PUNCTUAL: &str = r#"
export default {
  async scheduled(controller) { console.log(`called for ${controller.cron}`); },
  async queue() {},
};
"#;

/// Other nodes, of which only what they write is seen.
struct Unheard;

impl OtherNodes for Unheard {
    fn now(&self) -> Nodes {
        Nodes { own: NodeName { id: "own".to_owned(), called: "own".into() }, others: Vec::new() }
    }

    fn ask(&self, _node: &str, _question: String) -> Answered {
        Box::pin(async { None })
    }
}

async fn node(program: PathBuf, engine: &Arc<Engine>) -> Node {
    Node::open(program, Arc::clone(engine), secs(900), Some(Arc::new(Unheard))).await
}

/// Two nodes, the second of which brings batches.
async fn two() -> Option<(Node, Shop)> {
    let (program, engine) = (program()?, engine().await);
    let (first, second) = (node(program.clone(), &engine).await, node(program, &engine).await);
    Some((first, Shop::of(second, engine)))
}

/// Code that says this with every batch.
fn greeting(text: &str) -> Script {
    let binding = Binding { name: "GREETING".to_owned(), value: BindingValue::Text(text.to_owned()) };
    Script { bindings: vec![binding], ..script(OBEDIENT) }
}

/// How often a cron trigger was called here.
fn calls_heard(node: &Node) -> usize {
    let is_call = |notice: &&WorkerNotice| matches!(notice, WorkerNotice::Said(said) if said.text.contains("called for * * * * *"));
    node.said.lock().iter().filter(is_call).count()
}

#[tokio::test]
async fn batches_go_to_what_another_node_deployed_just_before() {
    let Some((first, second)) = two().await else { return };
    let queue = second.dispatcher.queue("a", Some(&worker())).await;
    for number in 0..3 {
        let text = format!("deployment {number}");
        upload(&first.workers, "w", greeting(&text)).await.expect("the Worker starts");
        second.send(queue, [calls(json!([["ack"]]))]).await;
        second.until_heard(&text).await;
    }
    let secret = Some("hush".to_owned());
    first.workers.put_secret(ACCOUNT, "w", "TOKEN", secret).await.expect("the Worker starts with it");
    second.send(queue, [calls(json!([["ack"]]))]).await;
    second.until_heard("deployment 2, hush").await;
    assert_eq!(second.count_heard("batch of"), 4);
    let known = second.workers.describe(ACCOUNT, "w").expect("the other node knows the Worker");
    assert_eq!((known.versions.len(), known.secrets.len()), (3, 1));
    let first_version = known.versions[0].id.clone();
    first
        .workers
        .deploy(ACCOUNT, "w", &first_version, Remarks::default())
        .await
        .expect("the version starts again");
    second.send(queue, [calls(json!([["ack"]]))]).await;
    second.until_heard("deployment 0, hush").await;
    second.dispatcher.close().await;
}

#[tokio::test]
async fn what_another_node_changed_is_known_soon_without_a_question() {
    let Some((first, second)) = two().await else { return };
    upload(&first.workers, "w", script(OBEDIENT)).await.expect("the Worker starts");
    until("the Worker on the other node", || second.workers.describe(ACCOUNT, "w").is_some()).await;
    first.workers.delete(ACCOUNT, "w").await.expect("the Worker is there");
    until("its end on the other node", || second.workers.list(ACCOUNT).is_empty()).await;
    upload(&second.workers, "w", script(OBEDIENT)).await.expect("the name is free again");
    first.workers.follow(ACCOUNT).await.expect("the store answers");
    let known = first.workers.describe(ACCOUNT, "w").expect("a look comes before the answer");
    assert_eq!((known.versions.len(), known.handles_queues), (1, Some(true)));
    second.dispatcher.close().await;
}

#[tokio::test]
async fn changes_on_two_nodes_at_once_are_all_kept() {
    let Some((first, second)) = two().await else { return };
    let (one, two) = (&first.workers, &second.workers);
    for _ in 0..3 {
        let (left, right) =
            tokio::join!(upload(one, "w", greeting("left")), upload(two, "w", greeting("right")));
        assert!(left.is_ok() && right.is_ok(), "{left:?}, {right:?}");
    }
    let (left, right) = tokio::join!(
        one.put_secret(ACCOUNT, "w", "ONE", Some("1".to_owned())),
        two.put_secret(ACCOUNT, "w", "TWO", Some("2".to_owned())),
    );
    assert!(left.is_ok() && right.is_ok(), "{left:?}, {right:?}");
    let mut known = Vec::new();
    for workers in [one, two] {
        workers.follow(ACCOUNT).await.expect("the store answers");
        let found = workers.describe(ACCOUNT, "w").expect("both nodes know the Worker");
        let numbers: Vec<u64> = found.versions.iter().map(|version| version.number).collect();
        assert_eq!(numbers, [1, 2, 3, 4, 5, 6]);
        assert_eq!(found.secrets, ["ONE", "TWO"]);
        known.push(found.deployed.map(|version| version.id));
    }
    assert_eq!(known[0], known[1], "both run the same version");
    second.dispatcher.close().await;
}

#[tokio::test]
async fn a_worker_that_does_not_start_on_one_node_is_known_there_and_runs_on_the_other() {
    let (Some(program), engine) = (program(), engine().await) else { return };
    let (first, second) = (node(program, &engine).await, node("/bin/false".into(), &engine).await);
    upload(&first.workers, "w", script(OBEDIENT)).await.expect("the Worker starts");
    second.workers.follow(ACCOUNT).await.expect("the store answers");
    let is_it = |notice: &WorkerNotice| matches!(notice, WorkerNotice::NotStarted(_));
    assert!(second.said.lock().iter().any(is_it), "{:?}", second.said.lock());
    let known = second.workers.describe(ACCOUNT, "w").expect("the other node knows the Worker");
    assert_eq!((known.versions.len(), known.handles_queues), (1, None));
    assert!(known.deployed.is_some(), "it is started again and again");
    let tries = second.said.lock().len();
    until("another try", || second.said.lock().len() > tries).await;
    first.workers.delete(ACCOUNT, "w").await.expect("the Worker is there");
    second.workers.follow(ACCOUNT).await.expect("the store answers");
    assert!(second.workers.list(ACCOUNT).is_empty());
}

/// What an older Kew wrote has no stamp.
#[tokio::test]
async fn a_worker_from_before_there_were_stamps_ends_on_all_nodes() {
    let Some((first, second)) = two().await else { return };
    upload(&first.workers, "w", script(OBEDIENT)).await.expect("the Worker starts");
    second.workers.follow(ACCOUNT).await.expect("the store answers");
    let stamp = DocumentKey::new("worker-stamps", "w");
    let unstamped = PutDocuments { account: ACCOUNT, if_is: None, documents: vec![(stamp, None)] };
    second.dispatcher.engine.put_documents(unstamped).await.expect("the store takes documents");
    for workers in [&first.workers, &second.workers] {
        workers.follow(ACCOUNT).await.expect("the store answers");
        assert!(workers.describe(ACCOUNT, "w").is_some());
    }
    first.workers.delete(ACCOUNT, "w").await.expect("the Worker is there");
    second.workers.follow(ACCOUNT).await.expect("the store answers");
    assert!(second.workers.list(ACCOUNT).is_empty());
    let late = second.workers.put_secret(ACCOUNT, "w", "TOKEN", Some("hush".to_owned())).await;
    assert!(matches!(late, Err(WorkerError::NotFound(_))), "{late:?}");
    second.dispatcher.close().await;
}

#[tokio::test]
async fn only_the_node_that_keeps_what_belongs_to_accounts_calls_cron_triggers() {
    for is_elsewhere in [false, true] {
        let (Some(program), store) = (program(), LentStore::new()) else { return };
        let entropy = Arc::new(CountingEntropy::default());
        let engine = start_engine(&TestStore::of(Arc::clone(&store) as _), entropy, Options::default()).await;
        let node = node(program, &engine).await;
        upload(&node.workers, "w", script(PUNCTUAL)).await.expect("the Worker starts");
        let crons = vec!["* * * * *".to_owned()];
        node.workers.put_schedules(ACCOUNT, "w", crons).await.expect("the trigger is kept");
        if is_elsewhere {
            store.set_elsewhere();
        }
        // The clock waits at each minute for the calls of that minute.
        advance(&engine, secs(180)).await;
        if is_elsewhere {
            assert_eq!(calls_heard(&node), 0);
        } else {
            // What a handler says may come after its reply.
            until("three calls", || calls_heard(&node) == 3).await;
        }
    }
}

/// The first node of an engine is the one that its jumps wait for, as in a process of its own.
#[tokio::test]
async fn a_jump_of_the_clock_stops_at_cron_triggers_that_another_node_has_just_written() {
    let (Some(program), engine) = (program(), engine().await) else { return };
    let (jumping, other) = (node(program.clone(), &engine).await, node(program, &engine).await);
    upload(&other.workers, "w", script(PUNCTUAL)).await.expect("the Worker starts");
    let crons = vec!["* * * * *".to_owned()];
    other.workers.put_schedules(ACCOUNT, "w", crons).await.expect("the trigger is kept");
    advance(&engine, secs(180)).await;
    until("three calls", || calls_heard(&jumping) == 3).await;
}

#[tokio::test]
async fn a_deployment_whose_answer_was_lost_is_known_at_the_next_change() {
    let (Some(program), store) = (program(), LentStore::new()) else { return };
    let entropy = Arc::new(CountingEntropy::default());
    let engine = start_engine(&TestStore::of(Arc::clone(&store) as _), entropy, Options::default()).await;
    // One node alone, which reads no changes of others.
    let node = Node::open(program, engine, secs(900), None).await;
    upload(&node.workers, "w", script(OBEDIENT)).await.expect("the Worker starts");
    store.lose_next_documents();
    let lost = upload(&node.workers, "w", greeting("lost")).await;
    assert!(matches!(lost, Err(WorkerError::Engine(EngineError::Unavailable { .. }))), "{lost:?}");
    let secret = Some("hush".to_owned());
    node.workers.put_secret(ACCOUNT, "w", "TOKEN", secret).await.expect("the Worker starts with it");
    let known = node.workers.describe(ACCOUNT, "w").expect("the Worker is there");
    assert_eq!((known.versions.len(), known.secrets.len()), (2, 1));
    assert_eq!(known.deployed.map(|version| version.number), Some(2));
}
