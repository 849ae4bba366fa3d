//! The shard map, and what a node shows of queues that another one keeps.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::browser::Browser;
use super::fleet_rig::two;

#[tokio::test]
async fn shard_map_shows_each_node_s_shards_and_hands_one_over_without_a_script() {
    let (a, _b, _) = two().await;
    let browser = Browser::at(a);
    let page = browser.get("/store").await;
    assert!(page.has("Shard map") && page.has("action=\"/shards/0/hand-over\""), "{}", page.text);
    assert!(page.has(">Database<"), "its shards lie in two: {}", page.text);
    let page = browser.done("/shards/0/hand-over", &[("to", "a")]).await;
    assert!(page.has("The shard was handed over.") && page.has("no shard"), "{}", page.text);
    let page = browser.post("/shards/0/hand-over", &[("to", "gone")]).await;
    assert_eq!((page.status, page.has("o node gone lives")), (409, true), "{}", page.text);
    let page = browser.post("/shards/7/hand-over", &[("to", "")]).await;
    assert_eq!(page.status, 404, "{}", page.text);
}

#[tokio::test]
async fn shard_is_moved_to_another_database_and_left_where_it_is_without_a_script() {
    let (a, _b, shared) = two().await;
    let browser = Browser::at(a);
    let page = browser.done("/shards/0/move", &[("database", "2")]).await;
    assert!(page.has("The shard lies in its new database."), "{}", page.text);
    shared.copies_slowly.store(true, Ordering::Release);
    let page = browser.done("/shards/1/move", &[("database", "1")]).await;
    assert!(page.has("is being copied to its new database") && page.has("moving to 1"), "{}", page.text);
    let page = browser.done("/shards/1/move", &[("database", "2")]).await;
    assert!(page.has("The shard stays where it lies.") && !page.has("moving to"), "{}", page.text);
    let page = browser.post("/shards/0/move", &[("database", "9")]).await;
    assert_eq!((page.status, page.has("lies in 2 database")), (409, true), "{}", page.text);
}

#[tokio::test]
async fn store_with_one_owner_has_a_map_and_no_button() {
    let browser = Browser::open().await;
    let page = browser.get("/store").await;
    assert!(page.has("Shard map") && !page.has("hand-over") && !page.has(">Database<"), "{}", page.text);
    assert!(!page.has("/move\""), "{}", page.text);
}

#[tokio::test]
async fn who_may_only_look_gets_no_button_and_is_refused() {
    let browser = Browser::signed_in("bert").await;
    assert!(!browser.get("/store").await.has("hand-over"));
    assert_eq!(browser.post("/shards/0/hand-over", &[("to", "")]).await.status, 403);
}

#[tokio::test]
async fn table_and_line_of_a_queue_show_what_its_node_tells_and_say_who_is_silent() {
    let (a, b, shared) = two().await;
    b.console.look().await;
    for _ in 0..3 {
        b.done("POST", "/queues/two/messages", r#"{"body":"x"}"#).await;
    }
    *b.clock.0.lock() += Duration::from_secs(5);
    b.console.look().await;
    let browser = Browser::at(a);
    let page = browser.get("/").await;
    assert!(page.has("<td class=\"number\" data-live=\"two/visible\">3</td>"), "{}", page.text);
    assert!(page.has("<td class=\"number\" data-live=\"two/sent\">0.6</td>"), "{}", page.text);
    assert!(page.has("visible messages in the last 5 minutes: 3 to 3"), "{}", page.text);
    *browser.rig.clock.0.lock() += Duration::from_secs(1);
    shared.is_cut.store(true, Ordering::Release);
    let page = browser.get("/").await;
    assert!(page.has("<td class=\"number\" data-live=\"two/visible\">–</td>"), "{}", page.text);
    assert!(page.has("Figures are missing: ") && page.has("does not answer"), "{}", page.text);
}
