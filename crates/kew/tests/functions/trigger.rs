//! The acceptance scenarios of redelivery: when a message is tried again, and where it ends.

use std::time::{Duration, Instant};

use crate::recorder::Recorder;
use crate::rig::Rig;

/// The first start is recorded after the receipt it counts from, on a busy machine by seconds.
const TEN_MINUTES_MS: u64 = 595_000;
/// A host starts within this, also on a busy machine.
const START_MS: u64 = 15_000;

#[test]
fn a_message_whose_host_was_killed_is_tried_again_after_ten_minutes() {
    after_a_kill(&Rig::new("", "orders"));
}

#[test]
fn a_message_whose_run_failed_is_tried_again_at_once() {
    after_an_exception(&Rig::new("", "orders"));
}

#[test]
fn a_message_that_always_fails_runs_five_times_and_is_moved() {
    after_five_failures(&Rig::new("", "orders"));
}

// [seed] Scenario 1: the process is killed, so no branch runs and the ten minutes of the receipt hold.
pub fn after_a_kill(rig: &Rig) {
    let host = rig.host();
    let first = rig.first_run("orders");
    let dead = host.kill();
    let second_host = rig.host();
    assert!(!dead.log().contains("Executed '"), "{}", dead.log());
    rig.advance(585);
    rig.desk.is_silent();
    rig.advance(15);
    let second = rig.desk.next();
    assert_eq!((second.known("Id"), second.tries().as_str()), (first.known("Id"), "2"));
    let after = second_host.began()[0] - dead.began()[0];
    assert!((TEN_MINUTES_MS..600_000 + START_MS).contains(&after), "{after} ms");
    let because = "Its lease (of functions host) ran out after 10 min.";
    assert_eq!(rig.reasons(&first.known("Id")), [because]);
    second.succeed();
    rig.holds("orders", 0);
}

// [seed] Scenario 2: an exception runs the failure branch, where visibilityTimeout counts, which is 00:00:00.
pub fn after_an_exception(rig: &Rig) {
    let mut host = rig.host();
    rig.put("orders", "hello");
    let first = rig.desk.next();
    let id = first.known("Id");
    std::thread::sleep(Duration::from_millis(50));
    first.fail();
    let second = rig.desk.next();
    assert_eq!((second.known("Id"), second.tries().as_str()), (id.clone(), "2"));
    assert_eq!(rig.reasons(&id), ["The handler failed: fn."]);
    second.succeed();
    host.logs("Executed 'Functions.fn' (Succeeded", 1);
    host.logs("Executed 'Functions.fn' (Failed, Id=", 1);
    let (began, failed) = (host.began(), host.times("Executed 'Functions.fn' (Failed"));
    assert!(began[1] - failed[0] < 10_000, "{}", host.log());
}

// [seed] Scenario 3: visibilityTimeout is applied in the failure branch alone.
#[test]
fn visibility_timeout_counts_after_a_failure_and_not_after_a_kill() {
    let rig = Rig::new(r#""visibilityTimeout":"00:00:30""#, "orders");
    let mut host = rig.host();
    rig.put("orders", "hello");
    rig.desk.next().fail();
    host.logs("Executed 'Functions.fn' (Failed", 1);
    rig.advance(20);
    rig.desk.is_silent();
    rig.advance(11);
    let second = rig.desk.next();
    let failed = host.times("Executed 'Functions.fn' (Failed");
    let after = host.began()[1] - failed[0];
    assert!((30_000..40_000).contains(&after), "{after} ms");
    let dead = host.kill();
    let host = rig.host();
    rig.advance(580);
    rig.desk.is_silent();
    rig.advance(20);
    let third = rig.desk.next();
    assert_eq!(third.tries(), "3");
    let after = host.began()[0] - dead.began()[1];
    assert!((TEN_MINUTES_MS..600_000 + START_MS).contains(&after), "{after} ms");
    drop(second);
    third.succeed();
}

// [seed] Scenario 4: after its last try a message goes to the poison queue.
pub fn after_five_failures(rig: &Rig) {
    let mut host = rig.host();
    rig.put("orders", "hello");
    for tries in ["1", "2", "3", "4", "5"] {
        let call = rig.desk.next();
        assert_eq!(call.tries(), tries);
        call.fail();
    }
    rig.holds("orders", 0);
    assert_eq!(rig.peek("orders-poison"), [("aGVsbG8=".to_owned(), "0".to_owned())]);
    rig.desk.is_silent();
    host.logs("Message has reached MaxDequeueCount of 5. Moving message to queue 'orders-poison'.", 1);
}

// Scenario 5.
#[test]
fn a_single_try_is_followed_by_the_poison_queue_which_is_made_if_need_be() {
    let rig = Rig::new(r#""maxDequeueCount":1"#, "orders");
    let _host = rig.host();
    assert_eq!(rig.count("orders-poison"), None);
    rig.put("orders", "hello");
    let call = rig.desk.next();
    let id = call.known("Id");
    call.fail();
    rig.holds("orders-poison", 1);
    rig.holds("orders", 0);
    rig.desk.is_silent();
    let message = rig.message(&id);
    let told = message["timeline"].as_array().expect("timeline is a list");
    let told: Vec<&str> = told.iter().filter_map(|event| event["event"].as_str()).collect();
    assert_eq!(told, ["sent", "leased", "dead_lettered", "acked"]);
    let dead = &message["timeline"][2];
    assert_eq!((&dead["reason"], &dead["detail"]), (&"put_aside".into(), &"to orders-poison".into()));
    let counted = "queue=\"orders\",reason=\"attempts_exhausted\"} 1";
    let metrics = rig.metrics();
    let lines = metrics.lines().filter(|line| line.starts_with("kew_messages_dead_lettered_total"));
    assert!(lines.clone().any(|line| line.ends_with(counted)), "{:?}", lines.collect::<Vec<_>>());
}

// [seed] The same however far time jumps: the host meets each instant as it comes.
#[test]
fn a_long_jump_goes_through_every_retry() {
    let rig = Rig::new(r#""visibilityTimeout":"00:00:30""#, "orders");
    let mut host = rig.host();
    rig.put("orders", "hello");
    rig.desk.next().fail();
    host.logs("Executed 'Functions.fn' (Failed", 1);
    rig.advance(3_600);
    rig.desk.next().succeed();
    rig.holds("orders", 0);
    let after = host.began()[1] - host.times("Executed 'Functions.fn' (Failed")[0];
    assert!((30_000..40_000).contains(&after), "{after} ms");
}

// Design, section 1: real time stays outside of a jump. The fault was a jump of 590 s that ended at 603 s.
#[test]
fn a_jump_lands_on_its_very_instant_however_long_it_takes() {
    let rig = Rig::new(r#""maxPollingInterval":"00:00:02""#, "orders");
    let _host = rig.host();
    rig.put("orders", "hello");
    rig.desk.next().succeed();
    rig.holds("orders", 0);
    rig.freeze(true);
    let before = rig.now_ms();
    rig.advance(590);
    assert_eq!(rig.now_ms(), before + 590_000);
    rig.freeze(false);
    let (begun, before) = (Instant::now(), rig.now_ms());
    let after = rig.advance(590);
    let most = before + 590_000 + begun.elapsed().as_millis() as u64;
    assert!((before + 590_000..=most).contains(&after), "{} ms", after - before);
    // What the jump itself took is left out: only the two requests' own time passes besides.
    assert!(after < before + 595_000, "{} ms", after - before);
}

// Twelve hours of polls, each met at its instant, at 2 ms each at most.
#[test]
fn half_a_day_with_a_following_host_passes_in_seconds() {
    let rig = Rig::new("", "orders");
    let mut host = rig.host();
    rig.put("orders", "hello");
    rig.desk.next().fail();
    host.logs("Executed 'Functions.fn' (Failed", 1);
    let (begun, before) = (Instant::now(), rig.now_ms());
    let after = rig.advance(12 * 3_600);
    let took = begun.elapsed();
    println!("twelve hours took {:.2} s", took.as_secs_f64());
    assert!(took < Duration::from_secs(10), "{took:?}");
    assert!(after < before + 12 * 3_600_000 + 5_000, "{} ms", after - before);
    rig.desk.next().succeed();
    rig.holds("orders", 0);
}

fn runs_without_limit(queue: &str) {
    let rig = Rig::new(r#""maxDequeueCount":2"#, queue);
    let host = rig.host();
    let mut call = rig.first_run(queue);
    for tries in 1..=4 {
        assert_eq!(call.tries(), tries.to_string());
        call.fail();
        // [seed] Without a poison queue it is left hidden, to prevent a fast endless loop.
        rig.desk.is_silent();
        // A little past the ten minutes: a run that comes again is begun a little later, within the jump.
        rig.advance(601);
        call = rig.desk.next();
    }
    let began = host.began();
    for pair in began.windows(2) {
        let after = pair[1] - pair[0];
        assert!((TEN_MINUTES_MS..610_000).contains(&after), "{after} ms: {began:?}\n{}", host.log());
    }
    assert_eq!(rig.count(&format!("{queue}-poison")), None);
    call.succeed();
    rig.holds(queue, 0);
}

// Scenario 6.
#[test]
fn a_poison_queue_has_no_poison_queue() {
    runs_without_limit("orders-poison");
}

// Scenario 7.
#[test]
fn a_queue_with_a_long_name_has_no_poison_queue() {
    runs_without_limit(&"q".repeat(57));
}

// [seed] Scenario 8: while a run lasts, the host goes on hiding its message.
#[test]
fn a_message_is_kept_hidden_for_as_long_as_its_run_lasts() {
    let mut rig = Rig::new("", "orders");
    let recorder = Recorder::between(&mut rig);
    let host = rig.host();
    let before = rig.now_ms();
    rig.put("orders", "hello");
    let call = rig.desk.next();
    let received_by = rig.now_ms();
    let given = call.known("PopReceipt");
    // In one jump: the clock stops where the host has something to do.
    rig.advance(720);
    assert!(rig.peek("orders").is_empty(), "nobody else sees it");
    call.succeed();
    rig.holds("orders", 0);
    recorder.has_seen("Delete", 1);
    let (updates, deletes) = (recorder.seen("Update"), recorder.seen("Delete"));
    assert_eq!(updates.len(), 2, "after five minutes and after ten: {updates:?}");
    for (update, after) in updates.iter().zip([300_000, 600_000]) {
        // The receipt was between these two instants. The request itself arrives a little later on a busy machine.
        let (least, most) = (before + after, received_by + after + 5_000);
        assert!((least..=most).contains(&update.at), "{} is not in {least}..={most}", update.at);
    }
    let shown: Vec<String> = updates.iter().filter_map(|update| update.query("popreceipt")).collect();
    assert_eq!(shown, [given, updates[0].receipt.clone()]);
    assert_ne!(updates[0].receipt, updates[1].receipt);
    assert!(
        updates
            .iter()
            .all(|update| update.query("visibilitytimeout").as_deref() == Some("600")
                && update.body.is_empty())
    );
    assert_eq!(deletes.len(), 1);
    assert_eq!(deletes[0].query("popreceipt").as_deref(), Some(updates[1].receipt.as_str()));
    assert_eq!(host.began().len(), 1);
    assert!(host.log().contains("Duration=72"), "{}", host.log());
}

// Scenario 13.
#[test]
fn pauses_between_polls_grow_up_to_a_minute_and_a_message_shortens_them() {
    let mut rig = Rig::new("", "orders");
    let recorder = Recorder::between(&mut rig);
    let _host = rig.host_with(&["--wait", "off"]);
    rig.advance(400);
    let polls: Vec<u64> = recorder.seen("Get").iter().map(|poll| poll.at).collect();
    let gaps: Vec<u64> = polls.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let expected = [100, 200, 300, 500, 900, 1_700, 3_300, 6_500, 12_900, 25_700, 51_300, 60_000, 60_000];
    assert!(gaps.len() >= expected.len(), "{gaps:?}");
    for (gap, expected) in gaps.iter().zip(expected) {
        // A fifth either way of all but the first tenth of a second, and the machine's own time.
        let (least, most) = (expected * 8 / 10, expected * 12 / 10 + 2_000);
        assert!((least..most).contains(gap), "{gap} ms is not about {expected} ms: {gaps:?}");
    }
    assert!(gaps[expected.len() - 1..].iter().all(|gap| (59_900..63_000).contains(gap)), "{gaps:?}");
    for poll in recorder.seen("Get") {
        assert_eq!(poll.query("numofmessages").as_deref(), Some("16"));
        // [seed] The receive is for ten minutes, and has a request id of its own.
        assert_eq!(poll.query("visibilitytimeout").as_deref(), Some("600"));
        assert!(poll.head.contains("x-ms-client-request-id: "), "{}", poll.head);
        assert!(!poll.head.contains("x-kew-wait"), "{}", poll.head);
    }
    let before = recorder.seen("Get").len();
    rig.put("orders", "hello");
    rig.advance(61);
    rig.desk.next().succeed();
    rig.holds("orders", 0);
    recorder.has_seen("Get", before + 5);
    let polls: Vec<u64> = recorder.seen("Get")[before..before + 5].iter().map(|poll| poll.at).collect();
    let gaps: Vec<u64> = polls.windows(2).map(|pair| pair[1] - pair[0]).collect();
    // At once after the message, then as if nothing had ever been quiet.
    for (gap, most) in gaps.iter().zip([1_000, 1_100, 1_300, 1_400]) {
        assert!(*gap < most, "{gaps:?}");
    }
}

// Scenario 16.
#[test]
fn a_message_whose_host_was_killed_five_times_is_moved_without_a_sixth_run() {
    let rig = Rig::new("", "orders");
    rig.put("orders", "hello");
    for tries in ["1", "2", "3", "4", "5"] {
        let host = rig.host();
        let call = rig.desk.next();
        assert_eq!(call.tries(), tries);
        host.kill();
        rig.advance(600);
    }
    let host = rig.host();
    rig.holds("orders-poison", 1);
    rig.holds("orders", 0);
    assert!(host.began().is_empty(), "{}", host.log());
    assert_eq!(rig.peek("orders-poison"), [("aGVsbG8=".to_owned(), "0".to_owned())]);
}
