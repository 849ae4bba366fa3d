//! What an operator looks for: pages by a filter on contents, and one message by its id.

use kew_core::command::{Browse, StateKind};
use kew_core::outcome::Seen;
use kew_core::{MessageId, Sequence};
use kew_engine::Search;

use crate::bench::Bench;

fn text(seen: &Seen) -> String {
    String::from_utf8_lossy(&seen.message.content.body).into_owned()
}

#[tokio::test]
async fn pages_of_a_filter_follow_each_other_and_miss_nothing() {
    let bench = Bench::new().await;
    let queue = bench.queue("q").await;
    for number in 0..250 {
        bench.send(queue, &number.to_string()).await;
    }
    let (mut found, mut next) = (Vec::new(), Some(Sequence(0)));
    while let Some(from) = next {
        let browse = Browse { from, ..Browse::of(queue, 4) };
        let page = bench.engine.browse(browse, |seen| text(seen).ends_with('7')).await.expect("a page");
        assert!(page.messages.len() <= 4);
        found.extend(page.messages.iter().map(text));
        next = page.next;
    }
    let expected: Vec<String> = (0..250).filter(|n| n % 10 == 7).map(|n| n.to_string()).collect();
    assert_eq!(found, expected);
}

#[tokio::test]
async fn browse_by_state_consumes_nothing() {
    let bench = Bench::new().await;
    let queue = bench.queue("q").await;
    for number in 0..5 {
        bench.send(queue, &number.to_string()).await;
    }
    let before = bench.engine.counts(queue).await;
    let leased = Browse { state: Some(StateKind::InFlight), ..Browse::of(queue, 10) };
    assert!(bench.engine.browse(leased, |_| true).await.expect("a page").messages.is_empty());
    let page = bench.engine.browse(Browse::of(queue, 3), |_| true).await.expect("a page");
    assert_eq!((page.messages.len(), page.next), (3, Some(Sequence(4))));
    assert!(page.messages.iter().all(|seen| seen.message.attempts == 0));
    assert_eq!(bench.engine.counts(queue).await, before);
}

#[tokio::test]
async fn message_is_found_by_its_id_or_is_missing() {
    let bench = Bench::new().await;
    let queue = bench.queue("q").await;
    for number in 0..50 {
        bench.send(queue, &number.to_string()).await;
    }
    let page = bench.engine.browse(Browse::of(queue, 100), |_| true).await.expect("a page");
    let wanted = &page.messages[41];
    let found = bench.engine.find_message(queue, wanted.message.id, Sequence(0)).await;
    assert_eq!(found, Ok(Search::Found(Box::new(wanted.clone()))));
    let nobody = MessageId::from_chance(7);
    assert_eq!(bench.engine.find_message(queue, nobody, Sequence(0)).await, Ok(Search::Missing));
}
