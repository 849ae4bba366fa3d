//! Hot paths for a counter of instructions: each is walked a fixed number of times, on a clock that stands and chance
//! that begins at a fixed place, in one thread, and the part that counts runs inside one function,
//! [`counted_pass`] or [`counted_churn`], which is what `cargo xtask guard` has collected.

mod azure;
mod cloudflare;
mod road;
mod sqs;

use std::path::Path;

use kew_core::{Policy, Timestamp};

use crate::answers::Answers;
use crate::rig::{CYCLES_PER_COMMIT, Rig, Syncs, body};
use road::{Part, Road};

/// The instant at which all of it happens: 2026-01-01.
const NOW: Timestamp = Timestamp(1_767_225_600_000);
/// Requests of one pass, which share a commit.
const PASS: usize = 16;
/// Passes before counting begins: until then buffers grow.
const WARM: usize = 4;
/// Passes that count.
const PASSES: usize = 25;
/// Passes of the engine alone, of 171 cycles each.
const ENGINE_PASSES: u64 = 12;

/// One hot path and what walks it.
struct Hot {
    name: &'static str,
    walk: fn(&Rig) -> u64,
}

const ALL: [Hot; 17] = [
    hot("engine-cycle", engine_cycle),
    hot("sqs-json-send", |rig| walk(rig, &sqs::json(rig), Part::Send)),
    hot("sqs-json-receive", |rig| walk(rig, &sqs::json(rig), Part::Receive)),
    hot("sqs-json-delete", |rig| walk(rig, &sqs::json(rig), Part::Delete)),
    hot("sqs-json-batch-of-ten", |rig| walk(rig, &sqs::batches(rig), Part::All)),
    hot("sqs-json-fifo-send", |rig| walk(rig, &sqs::fifo(rig), Part::Send)),
    hot("sqs-json-fifo-receive", |rig| walk(rig, &sqs::fifo(rig), Part::Receive)),
    hot("sqs-json-fifo-delete", |rig| walk(rig, &sqs::fifo(rig), Part::Delete)),
    hot("sqs-signed-send", |rig| walk(rig, &sqs::signed(rig), Part::Send)),
    hot("sqs-query-send", |rig| walk(rig, &sqs::query(rig), Part::Send)),
    hot("sqs-query-receive", |rig| walk(rig, &sqs::query(rig), Part::Receive)),
    hot("azure-put", |rig| walk(rig, &azure::shared_key(rig), Part::Send)),
    hot("azure-get", |rig| walk(rig, &azure::shared_key(rig), Part::Receive)),
    hot("azure-delete", |rig| walk(rig, &azure::shared_key(rig), Part::Delete)),
    hot("cloudflare-push", |rig| walk(rig, &cloudflare::open(rig), Part::Send)),
    hot("cloudflare-pull", |rig| walk(rig, &cloudflare::open(rig), Part::Receive)),
    hot("cloudflare-ack", |rig| walk(rig, &cloudflare::open(rig), Part::Delete)),
];

const fn hot(name: &'static str, walk: fn(&Rig) -> u64) -> Hot {
    Hot { name, walk }
}

/// The names of all hot paths.
pub fn names() -> Vec<&'static str> {
    ALL.iter().map(|hot| hot.name).collect()
}

/// Walks one of them and prints how often: the count of instructions is divided by that.
pub fn run(name: &str, dir: &Path) {
    let hot = ALL.iter().find(|hot| hot.name == name);
    let hot = hot.unwrap_or_else(|| panic!("there is no hot path {name:?}: {}", names().join(", ")));
    let dir = dir.join(format!("guard-{name}-{}", std::process::id()));
    let rig = Rig::open_repeatable(&dir, NOW);
    let times = (hot.walk)(&rig);
    drop(rig);
    std::fs::remove_dir_all(&dir).expect("the directory can be removed");
    println!("walked {times}");
}

/// Sends, receives and deletes by a front-end, one part of it (or all) counted.
fn walk<R: Road>(rig: &Rig, road: &R, part: Part) -> u64 {
    let pass = |requests, counted| road::pass(&rig.engine, road.front_end(), requests, counted);
    for number in 0..WARM + PASSES {
        let counts = |this| number >= WARM && (part == this || part == Part::All);
        let requests = (0..PASS).map(|place| road.send((number * PASS + place) as u64)).collect();
        pass(requests, counts(Part::Send));
        let requests = (0..PASS).map(|_| road.receive()).collect();
        let replies = pass(requests, counts(Part::Receive));
        let requests = replies.iter().map(|reply| road.delete(reply)).collect();
        pass(requests, counts(Part::Delete));
    }
    (PASSES * PASS) as u64
}

/// Send, lease and ack without any protocol.
fn engine_cycle(rig: &Rig) -> u64 {
    let queue = rig.queue("guard", Policy::standard());
    let (body, mut leased) = (body(256), Vec::new());
    rig.churn(queue, &body, ENGINE_PASSES, &mut leased);
    counted_churn(rig, queue, &body, &mut leased);
    ENGINE_PASSES * CYCLES_PER_COMMIT
}

#[inline(never)]
fn counted_churn(
    rig: &Rig,
    queue: kew_core::QueueId,
    body: &bytes::Bytes,
    leased: &mut Vec<kew_core::LeaseToken>,
) -> Syncs {
    // Something is done behind the call, or it would be a jump, and this function left before what counts.
    std::hint::black_box(rig.churn(queue, body, ENGINE_PASSES, leased))
}

/// A pass whose instructions count.
#[inline(never)]
fn counted_pass<F: Future>(
    engine: &kew_engine::Engine,
    futures: Vec<F>,
    answers: &mut Answers<F>,
    outputs: &mut Vec<F::Output>,
) {
    plain_pass(engine, futures, answers, outputs);
    std::hint::black_box(outputs);
}

/// Begins all, commits once, takes all answers.
#[inline(never)]
fn plain_pass<F: Future>(
    engine: &kew_engine::Engine,
    futures: Vec<F>,
    answers: &mut Answers<F>,
    outputs: &mut Vec<F::Output>,
) {
    for future in futures {
        answers.ask(future);
    }
    engine.commit();
    outputs.extend(answers.take(engine));
}
