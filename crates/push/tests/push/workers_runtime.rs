//! What the runtime itself does with invocations, and what Kew makes of it: each row that its documentation or a look
//! at it tells. Without the runtime these say so aloud and pass.

use bytes::Bytes;
use kew_push::workers::{Module, ModuleKind, Said, Script};
use kew_push::{Consumer, Notice, verdict::Ending};
use serde_json::json;

use crate::dispatcher::{pushing, secs};
use crate::workers::{OBEDIENT, Shop, calls, script, worker};

/// What becomes of one message in this handler: seconds that it rests, or nothing when it is done.
async fn fate(shop: &Shop, script: Script, name: &str) -> Option<u64> {
    shop.upload_script(script).await.expect("the Worker starts");
    let queue = shop.dispatcher.queue(name, Some(&worker())).await;
    let begun = shop.dispatcher.attempts.latest().len();
    shop.send(queue, [json!({})]).await;
    crate::dispatcher::until("an attempt", || shop.dispatcher.attempts.latest().len() > begun).await;
    let counts = shop.dispatcher.counts(queue).await;
    if counts.delayed == 0 {
        shop.dispatcher.until_holds(queue, (0, 0, 0)).await;
        return None;
    }
    Some(shop.rests(queue).await.as_secs())
}

const WAITS: &str = "export default { async queue(batch, env, ctx) {
  ctx.waitUntil(new Promise((wake) => setTimeout(wake, 200)).then(() => batch.messages[0].retry({ delaySeconds: 50 })));
} };";
const REJECTS: &str = "export default { async queue(batch, env, ctx) {
  ctx.waitUntil(new Promise((wake) => setTimeout(wake, 200)).then(() => { throw new Error('late'); }));
} };";
const TIMER: &str = "export default { async queue(batch) {
  setTimeout(() => batch.messages[0].retry({ delaySeconds: 50 }), 200);
} };";
const NOT_A_NUMBER: &str = "export default { async queue(batch) {
  const [message] = batch.messages;
  if (message.attempts < 2) message.retry({ delaySeconds: NaN });
} };";
const FETCHES: &str = "export default { async fetch() { return new Response('here'); } };";

#[tokio::test]
async fn an_invocation_lasts_as_long_as_what_it_waits_for_and_no_longer() {
    let Some(shop) = Shop::open().await else { return };
    let flagged = |code| Script {
        compatibility_flags: vec!["queue_consumer_no_wait_for_wait_until".to_owned()],
        ..script(code)
    };
    assert_eq!(fate(&shop, script(WAITS), "waits").await, Some(50), "what it waits for counts");
    assert_eq!(fate(&shop, flagged(WAITS), "returns").await, None, "its late verdict is lost");
    assert_eq!(fate(&shop, script(REJECTS), "rejects").await, Some(300), "a late failure is one");
    assert_eq!(fate(&shop, flagged(REJECTS), "ignores").await, None, "and is not with the flag");
    assert_eq!(fate(&shop, script(TIMER), "timer").await, None, "nobody waits for a bare timer");
    shop.dispatcher.close().await;
}

#[tokio::test]
async fn a_version_without_a_queue_handler_costs_no_message_an_attempt() {
    let Some(shop) = Shop::open().await else { return };
    let queue = shop.dispatcher.queue("a", Some(&worker())).await;
    shop.upload(FETCHES).await.expect("the Worker starts");
    shop.send(queue, [calls(json!([["ack"]]))]).await;
    shop.dispatcher.calm().await;
    shop.dispatcher.until_holds(queue, (1, 0, 0)).await;
    shop.upload(OBEDIENT).await.expect("the Worker starts");
    shop.dispatcher.until_holds(queue, (0, 0, 0)).await;
    assert_eq!(shop.dispatcher.attempts.count(Ending::Failed), 0);
    shop.dispatcher.close().await;
}

#[tokio::test]
async fn a_queue_that_waits_for_a_version_with_a_queue_handler_says_so_once() {
    let Some(shop) = Shop::open().await else { return };
    let notices = || {
        let notices = shop.dispatcher.notices.lock();
        let words = notices.iter().filter_map(|notice| match notice {
            Notice::Unreached(open) => Some(format!("waits: {}", open.error)),
            Notice::ReachedAgain(_) => Some("goes on".to_owned()),
            Notice::GoneUnreached(_) => Some("is gone".to_owned()),
            _ => None,
        });
        words.collect::<Vec<String>>()
    };
    let waits = "waits: the version of the Worker \"w\" that runs has no queue handler";
    let queue = shop.dispatcher.queue("a", Some(&worker())).await;
    shop.upload(FETCHES).await.expect("the Worker starts");
    crate::dispatcher::until("a notice", || !notices().is_empty()).await;
    let open = shop.dispatcher.circuits.open();
    assert_eq!((open.len(), &*open[0].queue.name, open[0].tries), (1, "a", 0));
    // Neither its messages nor another version without one are a change.
    shop.send(queue, (0..3).map(|_| calls(json!([["ack"]])))).await;
    shop.upload(FETCHES).await.expect("the Worker starts");
    shop.dispatcher.calm().await;
    assert_eq!((notices(), shop.dispatcher.circuits.count()), (vec![waits.to_owned()], 1));
    shop.upload(OBEDIENT).await.expect("the Worker starts");
    shop.dispatcher.until_holds(queue, (0, 0, 0)).await;
    assert_eq!(
        (notices(), shop.dispatcher.circuits.count()),
        (vec![waits.to_owned(), "goes on".to_owned()], 0)
    );
    // Without a consumer nothing waits.
    shop.upload(FETCHES).await.expect("the Worker starts");
    crate::dispatcher::until("a notice", || notices().len() == 3).await;
    shop.dispatcher.consume(queue, None).await;
    crate::dispatcher::until("a notice", || notices().len() == 4).await;
    assert_eq!(notices()[2..], [waits, "is gone"]);
    assert_eq!(shop.dispatcher.circuits.count(), 0);
    shop.dispatcher.close().await;
}

#[tokio::test]
async fn delays_are_read_as_the_runtime_hands_them_on_and_clamped() {
    let Some(shop) = Shop::open().await else { return };
    shop.upload(OBEDIENT).await.expect("the Worker starts");
    // A delay that is a text is its number; one beyond the runtime's own integers is an exception in the handler.
    for (number, (call, expected)) in
        [(json!(["retry", "12"]), 12), (json!(["retry", 1e12]), 300), (json!(["retryAll", 1e9]), 86_400)]
            .into_iter()
            .enumerate()
    {
        let queue = shop.dispatcher.queue(&format!("row-{number}"), Some(&worker())).await;
        shop.send(queue, [calls(json!([call]))]).await;
        shop.dispatcher.until_holds(queue, (0, 0, 1)).await;
        assert_eq!(shop.rests(queue).await, secs(expected), "{call}");
    }
    shop.upload(NOT_A_NUMBER).await.expect("the Worker starts");
    let queue = shop.dispatcher.queue("none", Some(&worker())).await;
    shop.send(queue, [json!({})]).await;
    // What is no number is no delay: it comes again at once.
    shop.dispatcher.until_holds(queue, (0, 0, 0)).await;
    assert_eq!(shop.dispatcher.seconds(), 0);
    shop.dispatcher.close().await;
}

#[tokio::test]
async fn batches_of_several_queues_run_at_the_same_time_in_one_isolate() {
    let Some(shop) = Shop::open().await else { return };
    shop.upload(OBEDIENT).await.expect("the Worker starts");
    let mut queues = Vec::new();
    for number in 0..4 {
        let queue = shop.dispatcher.queue(&format!("q-{number}"), Some(&worker())).await;
        shop.send(queue, [calls(json!([["sleep", 1_500], ["ack"]]))]).await;
        queues.push(queue);
    }
    // The last of four has begun, and counted in the isolate's global, while the first still sleeps.
    shop.until_heard("run 4").await;
    for queue in &queues {
        let counts = shop.dispatcher.counts(*queue).await;
        assert_eq!((counts.visible, counts.in_flight), (0, 1));
    }
    for queue in queues {
        shop.dispatcher.until_holds(queue, (0, 0, 0)).await;
    }
    shop.dispatcher.close().await;
}

#[tokio::test]
async fn one_at_a_time_is_kept_however_many_wait() {
    let Some(shop) = Shop::open().await else { return };
    let code = "let now = 0; export default { async queue(batch) {
      now += 1;
      if (now > 1) console.log('two at a time');
      await new Promise((wake) => setTimeout(wake, 20));
      now -= 1;
    } };";
    shop.upload(code).await.expect("the Worker starts");
    let consumer = pushing(&worker(), |push| push.max_concurrency = Some(1));
    let queue = shop.dispatcher.queue("a", Some(&Consumer { batch_size: 1, ..consumer })).await;
    shop.send(queue, (0..20).map(|_| json!({}))).await;
    shop.dispatcher.until_holds(queue, (0, 0, 0)).await;
    assert_eq!(shop.dispatcher.attempts.count(Ending::Returned), 20);
    assert_eq!(shop.count_heard("two at a time"), 0);
    shop.dispatcher.close().await;
}

const THROWS: &str = "export default { async queue(batch) {
  throw new TypeError('thrown ' + batch.messages[0].attempts);
} };";

#[tokio::test]
async fn a_stack_says_where_its_code_was_written() {
    let Some(shop) = Shop::open().await else { return };
    // The second line, column 8 or behind, is line 41, column 5 of the source.
    let map = r#"{"version":3,"sources":["../src/orders.ts"],"names":[],"mappings":";QAwCI"}"#;
    let mut mapped = script(THROWS);
    let content = Bytes::from_static(map.as_bytes());
    mapped.modules.push(Module { name: "index.js.map".to_owned(), kind: ModuleKind::SourceMap, content });
    assert_eq!(fate(&shop, mapped, "throws").await, Some(300));
    shop.until_heard("thrown 1").await;
    let said = shop.lines("thrown 1");
    let expected = "Uncaught (in promise) TypeError: thrown 1\n    at Object.queue (src/orders.ts:41:5)";
    assert_eq!(said.first().map(|said| said.text.as_str()), Some(expected), "{said:?}");
    shop.dispatcher.close().await;
}

#[tokio::test]
async fn an_exception_is_one_line_of_what_the_worker_said_with_its_place() {
    let Some(shop) = Shop::open().await else { return };
    assert_eq!(fate(&shop, script(THROWS), "throws").await, Some(300));
    shop.until_heard("thrown 1").await;
    // What the runtime says comes in order: with this line all that went before was heard.
    shop.upload("export default { async queue() { console.log('after it'); } };")
        .await
        .expect("the new version starts");
    let queue = shop.dispatcher.queue("after", Some(&worker())).await;
    shop.send(queue, [json!({})]).await;
    shop.until_heard("after it").await;
    let said = shop.lines("exception").into_iter().chain(shop.lines("thrown 1")).collect::<Vec<Said>>();
    let [said] = said.as_slice() else { panic!("it is told once: {said:?}") };
    assert_eq!(said.level, "error");
    let expected = "Uncaught (in promise) TypeError: thrown 1\n    at Object.queue (index.js:2:9)";
    assert_eq!(said.text, expected);
    shop.dispatcher.close().await;
}
