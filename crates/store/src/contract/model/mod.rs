//! Random histories: a store and the reference model are driven side by side and must say the same.
//!
//! A history is made up from a seed: 200 to 400 steps over a few queues, with jumps of the clock to the very instants
//! at which something ends, receipts of every age, several steps per commit, and restarts. A difference is shrunk to
//! steps that matter and reported with the seed. `KEW_MODEL_HISTORIES` says how many run, `KEW_MODEL_SEED` runs one.

#[cfg(test)]
mod coverage;
mod generate;
mod pairs;
pub mod random;
mod run;
mod shrink;
pub mod subject;
mod trace;

use std::fmt::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};

use generate::Generator;
pub use random::{Random, SeededEntropy};
use run::{Mismatch, Run};
pub use subject::{Answer, ModelSubject, StoreSubject, Subject};
use trace::Step;

use super::Factory;

/// Histories run when nothing says how many.
const HISTORIES: u64 = 100;

/// Runs the histories the environment asks for against stores of this factory, and panics at the first difference.
pub fn histories(factory: &dyn Factory) {
    for seed in seeds() {
        if let Err(difference) = history(seed, &|_| Box::new(StoreSubject::new(factory))) {
            panic!("{difference}");
        }
    }
}

/// The same for stores that do what is due in slices smaller than the histories need.
pub fn histories_in_slices(factory: &dyn Factory) {
    for seed in seeds() {
        if let Err(difference) = history(seed, &|_| Box::new(StoreSubject::in_slices(factory))) {
            panic!("{difference}");
        }
    }
}

/// The same for stores that see to leases that end together in slices smaller than the histories need. Of these
/// histories no queue has a rule for messages that were tried too often: those depart in another order then.
pub fn histories_in_slices_of_leases(factory: &dyn Factory) {
    for seed in seeds() {
        if let Err(difference) = history(seed, &|_| Box::new(StoreSubject::in_slices_of_leases(factory))) {
            panic!("{difference}");
        }
    }
}

/// The same for stores that take messages of FIFO queues that are over out of their groups in slices smaller than the
/// histories need. Of these histories every FIFO queue has one group: several take their turns in another order then.
pub fn histories_in_slices_of_groups(factory: &dyn Factory) {
    for seed in seeds() {
        if let Err(difference) = history(seed, &|_| Box::new(StoreSubject::in_slices_of_groups(factory))) {
            panic!("{difference}");
        }
    }
}

/// The seeds the environment asks for.
pub fn seeds() -> std::ops::RangeInclusive<u64> {
    let number = |name: &str| {
        let text = std::env::var(name).ok()?;
        Some(text.parse::<u64>().unwrap_or_else(|_| panic!("{name}={text}: a number is expected")))
    };
    match number("KEW_MODEL_SEED") {
        Some(seed) => seed..=seed,
        None => {
            let after = number("KEW_SEEDS_AFTER").unwrap_or(0);
            after + 1..=after + number("KEW_MODEL_HISTORIES").unwrap_or(HISTORIES)
        }
    }
}

/// Makes a subject for one run of the history of this seed.
pub type MakeSubject<'a> = dyn Fn(u64) -> Box<dyn Subject + 'a> + 'a;

/// Runs one history. A difference is shrunk and returned as text.
pub fn history(seed: u64, make: &MakeSubject<'_>) -> Result<(), String> {
    let Err((steps, first)) = invent(seed, make) else { return Ok(()) };
    let small = shrink::shrink(steps, |steps| replay(seed, make, steps).is_err());
    let last = replay(seed, make, &small).err().unwrap_or_else(|| first.clone());
    let mut report = format!("a history differs from the model; KEW_MODEL_SEED={seed} runs it again\n");
    for step in &small {
        let _ = writeln!(report, "  {step:?}");
    }
    let _ = writeln!(report, "{last:?}");
    if first.number != last.number {
        let _ = writeln!(report, "(unshrunk: {first:?})");
    }
    Err(report)
}

/// Whether the history of this seed shows a difference; quicker than [`history`], which goes on to explain it.
pub fn differs(seed: u64, make: &MakeSubject<'_>) -> bool {
    invent(seed, make).is_err()
}

/// Makes up a history of this number of steps for a subject that watches it, side by side with the model.
pub fn drive(seed: u64, steps: u64, subject: &mut dyn Subject) -> Result<(), String> {
    let mut generator = Generator::of(seed, subject);
    let mut run = Run::new(seed, subject);
    for _ in 0..steps {
        let step = generator.next(&run);
        run.step(&step).map_err(|mismatch| format!("seed {seed}: {mismatch:?}"))?;
    }
    run.finish(u32::MAX).map_err(|mismatch| format!("seed {seed}: {mismatch:?}"))
}

/// Makes up a history while running it. A failure comes with the steps so far.
fn invent(seed: u64, make: &MakeSubject<'_>) -> Result<(), (Vec<Step>, Mismatch)> {
    let mut steps = Vec::new();
    let result = guarded(|| {
        let mut subject = make(seed);
        let mut generator = Generator::of(seed, subject.as_ref());
        let mut run = Run::new(seed, subject.as_mut());
        for _ in 0..generator.length() {
            let step = generator.next(&run);
            steps.push(step.clone());
            run.step(&step)?;
        }
        run.finish(u32::MAX)
    });
    result.map_err(|mismatch| (steps, mismatch))
}

/// Runs a history that is written down.
fn replay(seed: u64, make: &MakeSubject<'_>, steps: &[Step]) -> Result<(), Mismatch> {
    guarded(|| {
        let mut subject = make(seed);
        let mut run = Run::new(seed, subject.as_mut());
        steps.iter().try_for_each(|step| run.step(step))?;
        run.finish(u32::MAX)
    })
}

/// A panic is a difference too: the model has none.
fn guarded(run: impl FnOnce() -> Result<(), Mismatch>) -> Result<(), Mismatch> {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string));
        Err(Mismatch { number: u32::MAX, what: format!("panicked: {}", text.unwrap_or_default()) })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn model_agrees_with_itself() {
        for seed in seeds() {
            if let Err(difference) = history(seed, &|seed| Box::new(ModelSubject::new(seed))) {
                panic!("{difference}");
            }
        }
    }
}
