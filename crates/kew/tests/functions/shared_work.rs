//! How much is in work at once, and who works on what.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use crate::desk::Call;
use crate::handler;
use crate::rig::Rig;

#[test]
fn sixteen_begin_and_sixteen_more_when_eight_are_left() {
    sixteen_and_eight(&Rig::new(r#""newBatchThreshold":8"#, "orders"));
}

// Scenario 11.
pub fn sixteen_and_eight(rig: &Rig) {
    for number in 0..100 {
        rig.put("orders", &number.to_string());
    }
    let _host = rig.host();
    let mut calls = rig.desk.take(16);
    rig.desk.is_silent();
    for call in calls.drain(..7) {
        call.succeed();
    }
    rig.desk.is_silent();
    calls.remove(0).succeed();
    calls.extend(rig.desk.take(16));
    rig.desk.is_silent();
    assert_eq!(calls.len(), 24, "never twenty-five");
    let mut done = 8;
    while done < 100 {
        calls.remove(0).succeed();
        done += 1;
        while let Some(call) = if calls.len() <= 8 { rig.desk.soon() } else { None } {
            calls.push(call);
            assert!(calls.len() <= 24);
        }
    }
    rig.holds("orders", 0);
}

// Scenario 12.
#[test]
fn one_at_a_time_keeps_the_order() {
    let rig = Rig::new(r#""batchSize":1,"newBatchThreshold":0"#, "orders");
    for number in 0..20 {
        rig.put("orders", &number.to_string());
    }
    let _host = rig.host();
    for number in 0..20 {
        let call = rig.desk.next();
        assert_eq!(call.text(), number.to_string());
        if number % 5 == 0 {
            rig.desk.is_silent();
        }
        call.succeed();
    }
    rig.holds("orders", 0);
}

#[test]
fn two_hosts_run_each_message_once_and_take_none_from_the_other() {
    let rig = Rig::new("", "orders");
    let hosts = [rig.host(), rig.host()];
    for number in 0..400 {
        rig.put("orders", &number.to_string());
    }
    let mut held = rig.desk.take(10);
    let mut seen: BTreeSet<String> = held.iter().map(Call::text).collect();
    let mut runs = held.len();
    // Some run for more than ten minutes meanwhile; no host gets them a second time.
    let mut moved = 0;
    while runs < 400 {
        let call = rig.desk.next();
        runs += 1;
        assert!(seen.insert(call.text()), "{} runs twice", call.text());
        assert_eq!(call.tries(), "1");
        call.succeed();
        if runs.is_multiple_of(100) {
            rig.advance(240);
            moved += 240;
        }
    }
    assert!(moved > 600, "ten minutes went by");
    rig.desk.is_silent();
    for call in held.drain(..) {
        call.succeed();
    }
    rig.holds("orders", 0);
    let share: Vec<usize> = hosts.iter().map(|host| host.began().len()).collect();
    assert_eq!(share.iter().sum::<usize>(), 400);
    assert!(share.iter().all(|share| *share > 0), "both have worked: {share:?}");
}

#[test]
fn ten_thousand_messages_run_once_each() {
    let mut rig = Rig::with_clock(r#""batchSize":32,"newBatchThreshold":64"#, "orders", "system");
    rig.told = handler::AT_ONCE.to_owned();
    let count = 10_000;
    fill(&rig, count);
    let begun = Instant::now();
    let mut host = rig.begin(&[]);
    host.is_ready();
    let ready = begun.elapsed();
    while rig.count("orders") != Some(0) {
        assert!(begun.elapsed() < Duration::from_secs(120), "{:?} are left", rig.count("orders"));
        std::thread::sleep(Duration::from_millis(20));
    }
    let took = begun.elapsed().saturating_sub(ready);
    host.signal("TERM");
    assert_eq!(host.exit_code(Duration::from_secs(20)), Some(0));
    assert_eq!(host.began().len(), count, "each runs once");
    let rate = count as f64 / took.as_secs_f64();
    println!("{count} runs in {took:?}: {rate:.0} a second");
}

/// Puts this number of messages, over several connections.
fn fill(rig: &Rig, count: usize) {
    std::thread::scope(|scope| {
        for part in 0..8 {
            scope.spawn(move || {
                for number in (part..count).step_by(8) {
                    rig.put("orders", &number.to_string());
                }
            });
        }
    });
}
