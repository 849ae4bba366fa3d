//! A run of several steps: each is timed, one that fails does not end the run, and the end sums up. A step
//! may be a command of its own.

use crate::Done;
use std::env;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// What a step is called, and what it does.
pub type Work<'a> = (&'static str, Box<dyn FnOnce() -> Done + Send + 'a>);

/// The steps that were run so far.
pub struct Run {
    begun: Instant,
    steps: Vec<Step>,
}

struct Step {
    name: &'static str,
    took: Duration,
    result: Done,
}

impl Run {
    /// A run without steps, its time counted from now.
    pub fn begin() -> Self {
        Self { begun: Instant::now(), steps: Vec::new() }
    }

    /// Runs one step and notes how long it took and whether it failed.
    pub fn step(&mut self, name: &'static str, step: impl FnOnce() -> Done) {
        self.steps.push(Step::run(name, step));
    }

    /// Runs lanes of steps beside each other, the steps of a lane one after the other. They are noted as they end.
    pub fn lanes(&mut self, lanes: Vec<Vec<Work<'_>>>) {
        let (ended, steps) = mpsc::channel();
        std::thread::scope(|scope| {
            for lane in lanes {
                let ended = ended.clone();
                scope.spawn(move || {
                    for (name, work) in lane {
                        ended.send(Step::run(name, work)).expect("the run outlives its lanes");
                    }
                });
            }
        });
        drop(ended);
        self.steps.extend(steps);
    }

    /// Prints every step with its time. Fails with the names of the steps that failed.
    pub fn conclude(self) -> Done {
        println!("\n== All steps, {}", shown(self.begun.elapsed()));
        self.steps.iter().for_each(|step| println!("{}", step.line()));
        let failed: Vec<&str> =
            self.steps.iter().filter(|step| step.result.is_err()).map(|step| step.name).collect();
        println!("steps: {} passed, {} failed", self.steps.len() - failed.len(), failed.len());
        if failed.is_empty() { Ok(()) } else { Err(format!("failed: {}", failed.join(", "))) }
    }
}

impl Step {
    fn run(name: &'static str, work: impl FnOnce() -> Done) -> Self {
        let begun = Instant::now();
        let result = work();
        let step = Self { name, took: begun.elapsed(), result };
        println!("{}", step.line());
        step
    }

    fn line(&self) -> String {
        match &self.result {
            Ok(()) => format!("  passed  {:>9}  {}", shown(self.took), self.name),
            Err(reason) => format!("  FAILED  {:>9}  {}: {reason}", shown(self.took), self.name),
        }
    }
}

/// Minutes and seconds.
pub fn shown(took: Duration) -> String {
    let seconds = took.as_secs();
    if seconds < 60 { format!("{seconds} s") } else { format!("{} min {:02} s", seconds / 60, seconds % 60) }
}

/// The cargo that runs this script, else the one on the path.
pub fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments).stdin(Stdio::null());
    command
}

/// Runs one command with its output shown. Fails when it cannot be started or exits with a failure.
pub fn step(name: &str, command: &mut Command) -> Done {
    println!("\n== {name}");
    let status = command.status().map_err(|error| format!("{name}: cannot start: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{name} failed ({status})")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_that_fails_ends_the_run_with_its_name_after_all_others_were_run() {
        let mut run = Run::begin();
        let mut ran = 0;
        run.step("one", || Err("a reason".to_owned()));
        run.step("two", || {
            ran += 1;
            Ok(())
        });
        assert_eq!(ran, 1);
        assert_eq!(run.steps[0].line(), "  FAILED        0 s  one: a reason");
        assert_eq!(run.conclude(), Err("failed: one".to_owned()));
    }

    #[test]
    fn lanes_run_beside_each_other_and_each_in_its_order() {
        let (mut run, meet) = (Run::begin(), std::sync::Barrier::new(2));
        let work = |name, result: Done| -> Work<'_> {
            let meet = &meet;
            (
                name,
                Box::new(move || {
                    meet.wait();
                    result
                }),
            )
        };
        run.lanes(vec![
            vec![work("one", Ok(())), work("two", Err("a reason".to_owned()))],
            vec![work("three", Ok(())), work("four", Ok(()))],
        ]);
        let place = |name| run.steps.iter().position(|step| step.name == name).expect("every step is noted");
        assert!(place("one") < place("two") && place("three") < place("four"));
        assert_eq!(run.conclude(), Err("failed: two".to_owned()));
    }

    #[test]
    fn times_are_shown_in_minutes_from_one_minute_on() {
        let at = |seconds| shown(Duration::from_secs(seconds));
        assert_eq!([at(0), at(59), at(60), at(3_725)], ["0 s", "59 s", "1 min 00 s", "62 min 05 s"]);
    }
}
