//! The table of queues: pages, searches, figures that live, and how large a page is.

use std::time::{Duration, Instant};

use super::browser::Browser;

/// The most that the first page of a table may have.
const BYTES_MAX: usize = 150_000;
/// The longest that the server may take for it. The least time of some tries counts: other programs may be busy.
const TIME_MAX: Duration = Duration::from_millis(300);
const TRIES: usize = 5;

#[tokio::test]
async fn pages_of_thousands_of_queues_are_small_and_lead_to_each_other() {
    let browser = Browser::open().await;
    for number in 0..5_000 {
        let name = format!("a-queue-of-which-there-are-thousands-and-a-long-name-{number:05}");
        browser.queue(&serde_json::json!({ "name": name }).to_string()).await;
    }
    for _ in 0..2 {
        *browser.rig.clock.0.lock() += Duration::from_secs(5);
        browser.rig.console.look().await;
    }
    for path in ["/", "/?prefix=a-queue-of-which-there-are-thousands-and-a-long-name-0499", "/?prefix=none"] {
        let mut least = Duration::MAX;
        for _ in 0..TRIES {
            let begun = Instant::now();
            browser.get(path).await;
            least = least.min(begun.elapsed());
        }
        assert!(least <= TIME_MAX, "{path} takes {least:?}");
    }
    let mut seen = Vec::new();
    let mut path = "/".to_owned();
    for number in 0..3 {
        let page = browser.get(&path).await;
        assert!(page.text.len() <= BYTES_MAX, "{path} has {} bytes", page.text.len());
        let names: Vec<String> = page
            .text
            .split("th scope=\"row\"><a href=\"/queues/")
            .skip(1)
            .filter_map(|rest| Some(rest.split('"').next()?.to_owned()))
            .collect();
        assert_eq!(names.len(), 50, "{path}");
        assert_eq!(page.has("First page"), number > 0);
        seen.extend(names);
        path = page.between("rel=\"next\" href=\"", "\"").replace("&amp;", "&");
    }
    assert!(seen.is_sorted_by(|one, next| one < next) && seen.len() == 150, "each once, in order");
    let page = browser.get("/?prefix=a-queue-of-which-there-are-thousands-and-a-long-name-0499").await;
    assert!(page.has("-04990") && page.has("-04999") && !page.has("-04989") && !page.has("rel=\"next\""));
    assert!(browser.get("/?prefix=none").await.has("No queue's name begins with"));
}

#[tokio::test]
async fn a_later_page_without_queues_says_that_there_are_no_more() {
    let browser = Browser::open().await;
    browser.queue(r#"{"name":"orders"}"#).await;
    for (query, first) in [("?prefix=or&cursor=orders", "/?prefix=or"), ("?cursor=orders", "/")] {
        let page = browser.get(&format!("/{query}")).await;
        assert!(page.has("No more queues.") && !page.has("name begins with <"), "{query}: {}", page.text);
        let link = format!("href=\"{first}\" aria-keyshortcuts=\"b\">First page<");
        assert!(page.has(&link), "{query}: {}", page.text);
    }
}

#[tokio::test]
async fn a_row_shows_the_figures_of_its_queue() {
    let browser = Browser::open().await;
    browser.queue(r#"{"name":"dead.fifo"}"#).await;
    browser
        .queue(r#"{"name":"orders.fifo","settings":{"dead_letters_to":"dead.fifo","max_attempts":3}}"#)
        .await;
    browser.queue(r#"{"name":"000000000007:eu-west-3:far"}"#).await;
    for body in ["a", "b"] {
        let body = serde_json::json!({ "body": body, "group": "g", "deduplication_id": body });
        browser.message("orders.fifo", &body.to_string()).await;
    }
    browser.done("/queues/orders.fifo/pause", &[]).await;
    let page = browser.get("/").await;
    assert!(page.has("data-live=\"orders.fifo/visible\">2<"), "{}", page.text);
    assert!(page.has("href=\"/queues/000000000007%3Aeu-west-3%3Afar\""), "{}", page.text);
    let row = page.between("href=\"/queues/orders.fifo\"", "</tr>");
    assert!(row.contains("FIFO") && row.contains("paused") && row.contains("/queues/dead.fifo"), "{row}");
}

#[tokio::test]
async fn live_figures_come_with_the_next_look() {
    let browser = Browser::open().await;
    browser.queue(r#"{"name":"orders"}"#).await;
    browser.rig.console.look().await;
    let page = browser.get("/").await;
    let stream = page.between("data-stream=\"", "\"");
    assert_eq!(stream, "/live/queues");
    browser.message("orders", r#"{"body":"x"}"#).await;
    let look = async {
        tokio::task::yield_now().await;
        *browser.rig.clock.0.lock() += Duration::from_secs(5);
        browser.rig.console.look().await;
    };
    let (event, ()) = tokio::join!(browser.get(&stream), look);
    assert_eq!(event.header("content-type"), "text/event-stream; charset=utf-8");
    for expected in
        ["id: 2\n", "\"orders/visible\":\"1\"", "\"orders/sent\":\"0.2\"", "\"queues\":[\"orders\"]"]
    {
        assert!(event.has(expected), "{expected}: {}", event.text);
    }
    let missed = browser.ask("GET", &stream, &[("last-event-id", "1")], "").await;
    assert!(missed.has("id: 2\n"), "what was missed comes at once: {}", missed.text);
    let one = browser.ask("GET", "/live/queue?q=orders", &[("last-event-id", "1")], "").await;
    assert!(one.has("\"orders/bytes\":\"1 B\"") && !one.has("\"queues\""), "{}", one.text);
    assert_eq!(browser.ask("GET", "/live/queue?q=none", &[("last-event-id", "1")], "").await.status, 404);
}

#[tokio::test]
async fn the_page_of_a_queue_and_its_live_figures_say_the_same_until_it_has_changed() {
    let browser = Browser::open().await;
    browser.queue(r#"{"name":"orders"}"#).await;
    let compared = async || {
        let page = browser.get("/queues/orders").await;
        // Each look is a new event.
        browser.rig.console.look().await;
        let event = browser.ask("GET", "/live/queue?q=orders", &[("last-event-id", "0")], "").await;
        (page.between("data-stale=\"", "\""), event.between("\"mark\":\"", "\""))
    };
    let (mut before, live) = compared().await;
    assert!(!before.is_empty() && before == live, "{before}, {live}");
    for (path, body) in [
        ("/queues/orders/messages", r#"{"body":"x"}"#),
        ("/queues/orders/messages", r#"{"body":"late","delay_seconds":60}"#),
        ("/queues/orders/receive", "{}"),
        ("/queues/orders/pause", "{}"),
    ] {
        browser.api(path, body).await;
        let (after, live) = compared().await;
        assert!(after != before && after == live, "{path}: {before}, {after}, {live}");
        before = after;
    }
    for number in 0..60 {
        browser.message("orders", &serde_json::json!({ "body": number.to_string() }).to_string()).await;
    }
    let (before, _) = compared().await;
    browser.message("orders", r#"{"body":"one more"}"#).await;
    assert_eq!(compared().await.0, before, "a page shows no more than the first 50 messages anyway");
}

/// Hot paths take tens of thousands of steps each second; pages that watch the same add ten.
#[tokio::test]
async fn pages_that_watch_the_same_ask_the_store_once_a_look_for_each_queue_they_show() {
    let browser = Browser::open().await;
    for number in 0..120 {
        browser.queue(&serde_json::json!({ "name": format!("queue-{number:03}") }).to_string()).await;
    }
    browser.rig.console.look().await;
    let steps = || browser.rig.engine.stats().store_steps.value();
    let watch = || browser.ask("GET", "/live/queues", &[("last-event-id", "0")], "");
    let before = steps();
    for _ in 0..10 {
        let event = watch().await;
        assert!(event.has("\"queue-049/visible\"") && !event.has("queue-050"), "{}", event.text);
    }
    assert_eq!(steps() - before, 50);
    let event = browser.ask("GET", "/live/queues?prefix=queue-11", &[("last-event-id", "0")], "").await;
    assert!(event.has("\"queue-119/visible\"") && !event.has("queue-049"), "{}", event.text);
    assert_eq!(steps() - before, 50 + 10);
    // What a later look shows is read again.
    browser.message("queue-000", r#"{"body":"x"}"#).await;
    browser.rig.console.look().await;
    let (before, event) = (steps(), watch().await);
    assert!(event.has("\"queue-000/visible\":\"1\""), "{}", event.text);
    assert_eq!(steps() - before, 50);
}

#[tokio::test]
async fn pages_that_watch_are_bounded() {
    let browser = Browser::open().await;
    browser.rig.console.look().await;
    let watch = || Box::pin(browser.get("/live/queues"));
    let mut watching: Vec<_> = (0..64).map(|_| watch()).collect();
    for one in &mut watching {
        assert!(after_one_turn(one).await.is_none(), "it waits for the next look");
    }
    let refused = watch().await;
    assert_eq!((refused.status, refused.header("retry-after")), (503, "30".to_owned()));
    drop(watching);
    let place = after_one_turn(&mut watch()).await;
    assert!(place.is_none(), "a page that leaves makes room");
}

/// What a future has after one turn.
async fn after_one_turn<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
    std::future::poll_fn(|cx| {
        let polled = std::pin::Pin::new(&mut *future).poll(cx);
        std::task::Poll::Ready(match polled {
            std::task::Poll::Ready(done) => Some(done),
            std::task::Poll::Pending => None,
        })
    })
    .await
}
