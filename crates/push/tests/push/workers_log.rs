//! A Worker's log on several nodes over one store.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use kew_core::QueueId;
use kew_engine::EngineError;
use kew_push::workers::{Answered, LogPage, LogPlace, NodeName, Nodes, OtherNodes, WorkerError, Workers};
use parking_lot::Mutex;
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::dispatcher::{engine, secs, until};
use crate::workers::{ACCOUNT, Node, Shop, program, script, upload, worker};

/// Says what it hears.
const REPEATING: &str = r#"
export default {
  async queue(batch) { for (const message of batch.messages) console.log(`heard ${message.body}`); },
};
"#;

/// Nodes that know each other.
#[derive(Default)]
struct Street {
    nodes: Mutex<Vec<Weak<Workers>>>,
    /// Nodes do not answer each other.
    is_cut: AtomicBool,
    /// Nodes do not see each other.
    is_unseen: AtomicBool,
    /// What they asked each other.
    questions: Mutex<Vec<String>>,
}

/// What one of them knows of the others.
struct Neighbour {
    street: Arc<Street>,
    own: usize,
}

fn name(at: usize) -> NodeName {
    NodeName { id: at.to_string(), called: format!("node {at}").into() }
}

impl OtherNodes for Neighbour {
    fn now(&self) -> Nodes {
        let count = self.street.nodes.lock().len();
        let is_seen = |at: &usize| *at != self.own && !self.street.is_unseen.load(Ordering::Relaxed);
        Nodes { own: name(self.own), others: (0..count).filter(is_seen).map(name).collect() }
    }

    fn ask(&self, node: &str, question: String) -> Answered {
        self.street.questions.lock().push(question.clone());
        let at: usize = node.parse().expect("nodes are named by their places");
        let asked = self.street.nodes.lock().get(at).and_then(Weak::upgrade);
        let asked = asked.filter(|_| !self.street.is_cut.load(Ordering::Relaxed));
        asked.and_then(|workers| workers.answer(&question)).unwrap_or_else(|| Box::pin(async { None }))
    }
}

/// Two nodes that are asked, and a third that brings batches to the Worker that all of them have.
struct Three {
    street: Arc<Street>,
    asked: Vec<Node>,
    third: Shop,
    queue: QueueId,
}

impl Three {
    async fn open() -> Option<Self> {
        let (program, engine) = (program()?, engine().await);
        let street = Arc::new(Street::default());
        let mut nodes = Vec::new();
        for own in 0..3 {
            let neighbour = Arc::new(Neighbour { street: Arc::clone(&street), own });
            let node = Node::open(program.clone(), Arc::clone(&engine), secs(900), Some(neighbour)).await;
            street.nodes.lock().push(Arc::downgrade(&node.workers));
            nodes.push(node);
        }
        let third = Shop::of(nodes.pop().expect("three were opened"), engine);
        upload(&third.workers, "w", script(REPEATING)).await.expect("the Worker starts");
        for node in &nodes {
            node.workers.follow(ACCOUNT).await.expect("the store answers");
        }
        let queue = third.dispatcher.queue("a", Some(&worker())).await;
        Some(Self { street, asked: nodes, third, queue })
    }

    async fn log(&self, at: usize, after: &LogPlace, wait: Duration) -> LogPage {
        let page = self.asked[at].workers.log(ACCOUNT, "w", Some(after.clone()), wait);
        let page = tokio::time::timeout(secs(60), page).await.expect("the wait has an end");
        page.expect("the Worker has a log")
    }

    /// Where the log ends now.
    async fn end(&self, at: usize) -> LogPlace {
        self.asked[at].workers.log(ACCOUNT, "w", None, secs(0)).await.expect("the Worker has a log").last
    }

    /// Has the Worker on the third node say it.
    async fn say(&self, text: &str) {
        self.third.send(self.queue, [json!(text)]).await;
        self.third.until_heard(&format!("heard {text}")).await;
    }
}

/// Each line behind what its node is called.
fn lines(page: &LogPage) -> Vec<String> {
    let shown =
        page.lines.iter().map(|line| format!("{}: {}", line.node.as_deref().unwrap_or_default(), line.text));
    shown.collect()
}

#[tokio::test]
async fn a_log_is_that_of_all_nodes_whichever_is_asked() {
    let Some(three) = Three::open().await else { return };
    let start = three.end(0).await;
    for text in ["one", "two"] {
        three.say(text).await;
    }
    let both = ["node 2: heard one", "node 2: heard two"];
    for at in [0, 1] {
        let page = three.log(at, &start, secs(0)).await;
        assert_eq!((lines(&page), page.missed), (both.map(str::to_owned).into(), 0), "node {at}");
        // As a client goes on that writes the place into its next query, at any node.
        let place: LogPlace = page.last.to_string().parse().expect("a place is read as it was written");
        for at in [0, 1] {
            assert_eq!(lines(&three.log(at, &place, secs(0)).await), [""; 0], "node {at}");
        }
    }
    // Where all nodes answer, what is there comes at once.
    let mut quickest = Duration::MAX;
    for _ in 0..10 {
        let begun = Instant::now();
        three.log(0, &start, secs(0)).await;
        quickest = quickest.min(begun.elapsed());
    }
    assert!(quickest < Duration::from_millis(400), "it took {quickest:?}");
    // From the first line of all.
    assert_eq!(lines(&three.log(1, &LogPlace::Number(0), secs(0)).await), both);
    three.third.dispatcher.close().await;
}

#[tokio::test]
async fn who_waits_gets_a_line_of_another_node_which_waits_for_it_too() {
    let Some(three) = Three::open().await else { return };
    let (place, begun) = (three.end(0).await, Instant::now());
    let (page, ()) = tokio::join!(three.log(0, &place, secs(3_600)), async {
        tokio::time::sleep(Duration::from_millis(700)).await;
        three.say("late").await;
    });
    assert_eq!(lines(&page), ["node 2: heard late"]);
    // Each of the two others is asked once for each half second of the wait.
    let (questions, rounds) = (three.street.questions.lock().clone(), begun.elapsed().as_millis() / 500);
    assert!(questions.len() as u128 <= 2 * (rounds + 4), "{} questions in {rounds} rounds", questions.len());
    let waiting = questions.iter().filter(|question| question.contains("\"wait_ms\":500"));
    assert!(waiting.count() >= 2, "{questions:?}");
    three.third.dispatcher.close().await;
}

#[tokio::test]
async fn a_node_that_does_not_answer_is_left_where_it_was() {
    let Some(three) = Three::open().await else { return };
    let start = three.end(0).await;
    three.say("before").await;
    three.street.is_cut.store(true, Ordering::Relaxed);
    let begun = Instant::now();
    let page = three.log(0, &start, Duration::from_millis(700)).await;
    assert!(begun.elapsed() >= Duration::from_millis(700), "it waited only {:?}", begun.elapsed());
    assert_eq!((lines(&page), &page.last), (Vec::new(), &start));
    // Who begins to read meanwhile reads it from where it ends by then.
    let late = three.end(1).await;
    three.street.is_cut.store(false, Ordering::Relaxed);
    let page = three.log(0, &page.last, secs(0)).await;
    assert_eq!(lines(&page), ["node 2: heard before"]);
    let page = three.log(1, &late, secs(0)).await;
    assert_eq!(lines(&page), [""; 0]);
    three.say("after").await;
    assert_eq!(lines(&three.log(1, &page.last, secs(0)).await), ["node 2: heard after"]);
    three.third.dispatcher.close().await;
}

#[tokio::test]
async fn lines_of_a_node_that_is_not_seen_for_a_moment_do_not_come_again() {
    let Some(three) = Three::open().await else { return };
    let start = three.end(0).await;
    three.say("before").await;
    let page = three.log(0, &start, secs(0)).await;
    assert_eq!(lines(&page), ["node 2: heard before"]);
    three.street.is_unseen.store(true, Ordering::Relaxed);
    let page = three.log(1, &page.last, secs(0)).await;
    three.street.is_unseen.store(false, Ordering::Relaxed);
    assert_eq!(lines(&three.log(0, &page.last, secs(0)).await), [""; 0]);
    three.third.dispatcher.close().await;
}

#[tokio::test]
async fn further_readers_than_may_ask_other_nodes_are_refused_for_now() {
    let Some(three) = Three::open().await else { return };
    let place = three.end(0).await;
    let mut waiting = JoinSet::new();
    for _ in 0..64 {
        let (workers, place) = (Arc::clone(&three.asked[0].workers), place.clone());
        waiting.spawn(async move { workers.log(ACCOUNT, "w", Some(place), secs(3_600)).await });
    }
    until("readers that wait", || three.street.questions.lock().len() >= 2 + 2 * 64).await;
    let refused = three.asked[0].workers.log(ACCOUNT, "w", None, secs(0)).await;
    let overloaded = EngineError::Overloaded { what: "readers of Workers' logs" };
    assert!(matches!(&refused, Err(WorkerError::Engine(error)) if *error == overloaded), "{refused:?}");
    waiting.shutdown().await;
    assert_eq!(three.end(0).await, place);
    three.third.dispatcher.close().await;
}

#[tokio::test]
async fn questions_about_other_things_are_not_answered_by_workers() {
    let Some(three) = Three::open().await else { return };
    for question in ["", "null", "{}", r#"{"node":true}"#, r#"{"queues":[1]}"#, r#"{"worker_log":{}}"#] {
        assert!(three.third.workers.answer(question).is_none(), "{question}");
    }
    three.third.dispatcher.close().await;
}

#[tokio::test]
async fn a_wait_ends_where_the_workers_have_ended_before_it() {
    let Some(program) = program() else { return };
    let engine = engine().await;
    let ending = tokio::task::spawn_blocking(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.expect("a runtime of one thread is built");
        let street = Arc::new(Street::default());
        street.nodes.lock().extend([Weak::new(), Weak::new()]);
        let neighbour = Arc::new(Neighbour { street, own: 0 });
        let node = runtime.block_on(async {
            let node = Node::open(program, engine, secs(900), Some(neighbour)).await;
            upload(&node.workers, "w", script(REPEATING)).await.expect("the Worker starts");
            node
        });
        drop(runtime);
        node
    });
    let node = ending.await.expect("opening does not panic");
    let begun = Instant::now();
    let page = node.workers.log(ACCOUNT, "w", Some(LogPlace::Number(0)), Duration::from_millis(700)).await;
    assert_eq!(lines(&page.expect("the Worker has a log")), [""; 0]);
    assert!(begun.elapsed() < secs(30), "it took {:?}", begun.elapsed());
}

#[tokio::test]
async fn a_wait_for_the_log_ends_with_the_worker_on_all_nodes() {
    let Some(three) = Three::open().await else { return };
    let place = three.end(0).await;
    let waits = async {
        let (one, other) = tokio::join!(three.log(0, &place, secs(3_600)), three.log(1, &place, secs(3_600)));
        assert_eq!((lines(&one), lines(&other)), (Vec::new(), Vec::new()));
    };
    let (_, deleted) = tokio::join!(waits, three.third.workers.delete(ACCOUNT, "w"));
    deleted.expect("the Worker is there");
    three.third.dispatcher.close().await;
}
