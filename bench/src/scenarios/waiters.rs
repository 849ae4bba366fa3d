//! Waiting receives: what ten thousand cost while nothing comes, and how soon one is answered when something does.

use std::cell::Cell;
use std::future::Future;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context as PollContext, Poll, Waker};
use std::time::{Duration, Instant};

use kew_core::command::{Ack, FirstReceipts, Lease, Send};
use kew_core::{Policy, QueueId, ReceiptRule};
use kew_engine::Engine;
use kew_store_log::Drive;
use tokio::task::LocalSet;

use super::Context;
use crate::answers::Answers;
use crate::machine;
use crate::raw::Raw;
use crate::report::{Report, count, median};
use crate::rig::{Rig, body, finish};

const WAITERS: u64 = 10_000;
const QUEUES: u64 = 100;
const WINDOW: Duration = Duration::from_secs(10);
const WAKES: u64 = 1_000;

/// Ten thousand receives that wait, and nothing comes.
pub fn idle(context: &Context) {
    let report = Report::new("waiters", context.scale);
    let waiters = context.scaled(WAITERS, 100);
    let window = WINDOW.mul_f64(context.scale.clamp(0.05, 1.0));
    let rig = Rig::open_at(&context.dir, Duration::ZERO, Drive::Loop);
    let queues: Vec<QueueId> =
        (0..QUEUES).map(|number| rig.queue(&format!("quiet-{number}"), Policy::standard())).collect();
    finish(async {
        let timers = spawn_timers(&rig.engine);
        let none = cpu_over(window).await;
        let before = machine::memory();
        let cpu = machine::process_cpu();
        for number in 0..waiters {
            let (engine, queue) = (rig.engine.clone(), queues[(number % QUEUES) as usize]);
            // Longer than the window, so that none of them ends in it.
            let wait = window * 10;
            let receive = async move { engine.lease_waiting(Lease::of(queue, 1, engine.now()), wait).await };
            drop(tokio::spawn(receive));
        }
        while rig.engine.stats().waiting_receives.value() < waiters {
            tokio::task::yield_now().await;
        }
        let sitting = (machine::process_cpu() - cpu).as_secs_f64() * 1e6 / waiters as f64;
        let all = cpu_over(window).await;
        report.judge(
            &format!("CPU of {} idle long polls over {:.1} s", count(waiters), window.as_secs_f64()),
            format!("{:.1} ms (without any: {:.1} ms)", all * 1e3, none * 1e3),
            "≤ 10 ms, a thousandth of one core",
            all <= 0.01,
        );
        let grown = machine::memory().resident.saturating_sub(before.resident);
        report.note("memory per waiting receive, its task included", format!("{} B", grown / waiters));
        report.note("CPU to begin one, its task included", format!("{sitting:.1} µs"));
        rig.engine.shutdown();
        timers.await.expect("the timers end");
    });
}

fn spawn_timers(engine: &Arc<Engine>) -> tokio::task::JoinHandle<()> {
    let engine = engine.clone();
    tokio::spawn(async move { engine.run_timers().await })
}

async fn cpu_over(window: Duration) -> f64 {
    let before = machine::process_cpu();
    tokio::time::sleep(window).await;
    (machine::process_cpu() - before).as_secs_f64()
}

/// One receive waits, one message is sent: from the send to both answers, against a bare sync of as many bytes.
pub fn wake(context: &Context) {
    let report = Report::new("wake", context.scale);
    let rig = Rig::open(&context.dir.join("kew"));
    let queue = rig.queue("wake", Policy::standard());
    let mut raw = Raw::new(&context.dir.join("raw"), 16 << 20);
    let (mut woken, mut bare, mut apart) = (Vec::new(), Vec::new(), Vec::new());
    finish(LocalSet::new().run_until(async {
        let mut bytes = 512;
        for _ in 0..context.scaled(WAKES, 20) {
            let (took, wrote) = wake_one(&rig, queue).await;
            let ceiling = raw.append(bytes).as_secs_f64() * 1e6;
            bytes = wrote;
            woken.push(took);
            bare.push(ceiling);
            apart.push(took - ceiling);
        }
    }));
    let (woken, bare) = (median(woken), median(bare));
    report.wall(
        "from send to the waiting receive's answer, beyond the raw sync, median",
        format!("{:.0} µs ({woken:.0} − {bare:.0}; in pairs {:.0})", woken - bare, median(apart)),
        "< 100 µs",
        woken - bare < 100.0,
    );
}

/// Answers how long it took, and how many bytes the commit wrote.
async fn wake_one(rig: &Rig, queue: QueueId) -> (f64, usize) {
    let (engine, answered) = (rig.engine.clone(), Rc::new(Cell::new(None)));
    let answer = answered.clone();
    let receive = tokio::task::spawn_local(async move {
        let leased = engine.lease_waiting(Lease::of(queue, 1, engine.now()), Duration::from_secs(20)).await;
        answer.set(Some(Instant::now()));
        leased
    });
    while rig.engine.stats().waiting_receives.value() == 0 {
        tokio::task::yield_now().await;
    }
    let written = rig.counts.written().0;
    let message = rig.message(&body(256));
    let begun = Instant::now();
    let mut send =
        pin!(rig.engine.send(Send { queue, messages: vec![message], receipts: FirstReceipts::Untold }));
    let polled = send.as_mut().poll(&mut PollContext::from_waker(Waker::noop()));
    assert!(matches!(polled, Poll::Pending), "a send waits for its sync");
    // The end of the loop's pass: the waiting receive was woken, takes its answer, and both are committed.
    tokio::task::yield_now().await;
    // Committed again when it was put off for lack of room.
    let sent = std::future::poll_fn(|context| {
        rig.engine.commit();
        context.waker().wake_by_ref();
        send.as_mut().poll(context)
    });
    sent.await.expect("the send is fine");
    while answered.get().is_none() {
        tokio::task::yield_now().await;
    }
    let took =
        answered.get().expect("the receive was just answered").duration_since(begun).as_secs_f64() * 1e6;
    let wrote = (rig.counts.written().0 - written) as usize;
    let leased = receive.await.expect("the task runs").expect("the receive is answered");
    let mut acks = Answers::new();
    acks.ask(rig.engine.ack(Ack { queue, receipt: ReceiptRule::Any, tokens: vec![leased[0].token] }));
    rig.engine.commit();
    acks.take(&rig.engine).for_each(|acked| drop(acked.expect("the ack is fine")));
    (took, wrote)
}
