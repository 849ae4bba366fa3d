//! How soon an empty store is open and its engine ready.

use std::time::Instant;

use super::Context;
use crate::report::{Report, median};
use crate::rig::Rig;

const OPENINGS: u64 = 11;

pub fn run(context: &Context) {
    let report = Report::new("start", context.scale);
    let (mut fresh, mut again, mut process) = (Vec::new(), Vec::new(), Vec::new());
    for number in 0..context.scaled(OPENINGS, 3) {
        let dir = context.dir.join(number.to_string());
        let open = || {
            let begun = Instant::now();
            let rig = Rig::open(&dir);
            (begun.elapsed().as_secs_f64() * 1e3, rig)
        };
        let (took, rig) = open();
        fresh.push(took);
        rig.store.close().expect("the store closes");
        drop(rig);
        let (took, rig) = open();
        again.push(took);
        rig.store.close().expect("the store closes");
        drop(rig);
        let within = Context { dir, scale: context.scale, rounds: context.rounds };
        let begun = Instant::now();
        drop(within.part("start-once"));
        process.push(begun.elapsed().as_secs_f64() * 1e3);
    }
    let fresh = median(fresh);
    report.wall(
        "opening a store that is made on the way",
        format!("{fresh:.1} ms"),
        "≤ 50 ms",
        fresh <= 50.0,
    );
    let again = median(again);
    report.wall("opening an empty store that is there", format!("{again:.1} ms"), "≤ 50 ms", again <= 50.0);
    report.tell("the same as a process, from start to end", format!("{:.1} ms", median(process)));
}

/// Opens the store and ends.
pub fn once(context: &Context) {
    drop(Rig::open(&context.dir));
}
