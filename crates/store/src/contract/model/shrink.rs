//! Makes a failing history small: leaves out steps, then entries of steps, as long as it still fails.

use super::trace::{Step, smaller};

/// Runs tried at most; each is one history, so this bounds the time until a failure is reported.
const RUNS_MAX: usize = 3_000;

/// The smallest history found for which `fails` holds, given one for which it does.
pub(super) fn shrink(mut steps: Vec<Step>, fails: impl Fn(&[Step]) -> bool) -> Vec<Step> {
    let runs = std::cell::Cell::new(0);
    let still_fails = |steps: &[Step]| {
        runs.set(runs.get() + 1);
        runs.get() <= RUNS_MAX && fails(steps)
    };
    let mut chunk = steps.len().div_ceil(2);
    while chunk > 0 {
        let before = steps.len();
        steps = leave_out_chunks(steps, chunk, &still_fails);
        // At single steps, go round again until nothing more can go.
        if chunk > 1 || steps.len() == before {
            chunk /= 2;
        }
    }
    let single: Vec<_> = steps.iter().map(|step| Step { commits: true, ..step.clone() }).collect();
    if still_fails(&single) {
        steps = single;
    }
    leave_out_entries(steps, &still_fails)
}

fn leave_out_chunks(mut steps: Vec<Step>, chunk: usize, fails: &impl Fn(&[Step]) -> bool) -> Vec<Step> {
    let mut end = steps.len();
    while end > 0 {
        let start = end.saturating_sub(chunk);
        let mut fewer = steps.clone();
        fewer.drain(start..end);
        if fails(&fewer) {
            steps = fewer;
        }
        end = start;
    }
    steps
}

fn leave_out_entries(mut steps: Vec<Step>, fails: &impl Fn(&[Step]) -> bool) -> Vec<Step> {
    for at in 0..steps.len() {
        let fits = |candidate: &Step| {
            let mut tried = steps.clone();
            tried[at] = candidate.clone();
            fails(&tried).then_some(tried)
        };
        // One entry fewer at a time, until none can go.
        let mut found = smaller(&steps[at]).iter().find_map(fits);
        while let Some(better) = found {
            steps = better;
            let fits = |candidate: &Step| {
                let mut tried = steps.clone();
                tried[at] = candidate.clone();
                fails(&tried).then_some(tried)
            };
            found = smaller(&steps[at]).iter().find_map(fits);
        }
    }
    steps
}
