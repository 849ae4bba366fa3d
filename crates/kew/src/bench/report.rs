//! The figures, as a table for people or as JSON for programs.

use serde_json::{Value, json};

use super::figures::{Figures, median};
use super::plan::{BenchArgs, ScenarioName};

/// Requests of one message's way, for the ratio to the floor.
fn requests_each(scenario: ScenarioName) -> f64 {
    match scenario {
        ScenarioName::Cycle
        | ScenarioName::Fifo
        | ScenarioName::Backlog
        | ScenarioName::IdleQueues
        | ScenarioName::Longpoll => 3.0,
        ScenarioName::Batch => 0.3,
        ScenarioName::Push => 0.01,
        ScenarioName::Send | ScenarioName::Null => 1.0,
    }
}

/// Rounds, in the order they were run.
#[derive(Default)]
pub(super) struct Measured {
    /// Against the target.
    pub(super) targets: Vec<Figures>,
    /// Against the floor, each before the target's.
    pub(super) floors: Vec<Figures>,
    /// Against the target on an empty queue, where the other is full; each before the target's.
    pub(super) shallow: Vec<Figures>,
}

/// Prints rounds against the target, and against what it is compared with.
pub(super) fn print(args: &BenchArgs, measured: &Measured) {
    if args.json {
        println!("{}", document(args, measured));
    } else {
        table(args, measured);
    }
}

/// CPU a message behind a backlog, as a multiple of what it is without one, round by round.
fn depth_ratios(measured: &Measured) -> Vec<f64> {
    let pairs = measured.targets.iter().zip(&measured.shallow);
    pairs.filter_map(|(deep, shallow)| Some(deep.cpu_each()? / shallow.cpu_each()?)).collect()
}

/// The target's CPU for one message as a multiple of the floor's for as many requests, round by round.
fn ratios(args: &BenchArgs, targets: &[Figures], floors: &[Figures]) -> Vec<f64> {
    let pairs = targets.iter().zip(floors);
    pairs
        .filter_map(|(target, floor)| {
            Some(target.cpu_each()? / (floor.cpu_each()? * requests_each(args.scenario)))
        })
        .collect()
}

fn table(args: &BenchArgs, measured: &Measured) {
    let Measured { targets, floors, shallow } = measured;
    for (name, rounds) in [("null", floors), ("shallow", shallow), (scenario(args.scenario), targets)] {
        for figures in rounds {
            line(name, figures);
        }
    }
    let of = if targets.is_empty() { floors } else { targets };
    if of.len() > 1 {
        println!("median       {:.0} msg/s", median(of.iter().map(Figures::rate).collect()));
        let cpu: Vec<f64> = of.iter().filter_map(Figures::cpu_each).collect();
        if !cpu.is_empty() {
            println!("median       {:.2} us CPU a message", median(cpu));
        }
    }
    let ratios = ratios(args, targets, floors);
    if !ratios.is_empty() {
        println!(
            "ratio        {:.2} times the floor for as many requests (median of {})",
            median(ratios.clone()),
            ratios.len()
        );
    }
    let depth = depth_ratios(measured);
    if !depth.is_empty() {
        println!(
            "depth        {:.2} times the CPU on an empty queue (median of {})",
            median(depth.clone()),
            depth.len()
        );
    }
    if !targets.is_empty() {
        println!("verified     {}", verdict(args.survive, targets.iter().chain(shallow)));
    }
}

/// What all rounds say together of their messages.
fn verdict<'a>(survived: bool, rounds: impl Iterator<Item = &'a Figures>) -> String {
    let (mut is_right, mut twice) = (true, 0);
    for figures in rounds {
        is_right &= figures.is_right(survived);
        twice += figures.faults.duplicated;
    }
    match (is_right, twice) {
        (false, _) => "MESSAGES WENT ASTRAY".to_owned(),
        (true, 0) => "nothing lost, doubled or disordered".to_owned(),
        (true, twice) => format!("nothing lost or disordered; {twice} came twice, as crashes allow"),
    }
}

fn line(name: &str, figures: &Figures) {
    print!("{name:<12} {:>9.0} msg/s  {} messages", figures.rate(), figures.messages);
    if let (Some(cpu), Some(usage)) = (figures.cpu_each(), figures.usage) {
        let written = usage.written_bytes as f64 / figures.messages.max(1) as f64;
        let resident = usage.resident_bytes / (1 << 20);
        print!("  {cpu:.2} us CPU, {written:.0} B written a message, {resident} MiB resident");
    }
    println!();
    for (operation, latencies) in &figures.latencies {
        println!(
            "  {operation:<10} p50 {:>7} us  p99 {:>7} us  p99.9 {:>7} us  ({})",
            latencies.at(0.5),
            latencies.at(0.99),
            latencies.at(0.999),
            latencies.count()
        );
    }
    if figures.interruptions > 0 {
        println!("  {} requests were never answered", figures.interruptions);
    }
    if figures.early > 0 {
        println!("  {} waiting receives were answered early with nothing", figures.early);
    }
    let faults = figures.faults;
    if faults != super::tally::Faults::default() {
        println!(
            "  lost {}, duplicated {}, resurrected {}, disordered {}, strange {}",
            faults.lost, faults.duplicated, faults.resurrected, faults.disordered, faults.strange
        );
    }
}

fn document(args: &BenchArgs, measured: &Measured) -> Value {
    let Measured { targets, floors, shallow } = measured;
    let depth = depth_ratios(measured);
    let ratios = ratios(args, targets, floors);
    json!({
        "dialect": format!("{:?}", args.dialect).to_lowercase(),
        "scenario": scenario(args.scenario),
        "connections": args.connections,
        "body_bytes": args.body,
        "rounds": targets.iter().map(round).collect::<Vec<_>>(),
        "floor": floors.iter().map(round).collect::<Vec<_>>(),
        "shallow": shallow.iter().map(round).collect::<Vec<_>>(),
        "ratio": (!ratios.is_empty()).then(|| median(ratios)),
        "ratio_to_shallow": (!depth.is_empty()).then(|| median(depth)),
    })
}

fn round(figures: &Figures) -> Value {
    let latencies: serde_json::Map<String, Value> = figures
        .latencies
        .iter()
        .map(|(operation, latencies)| {
            let value = json!({
                "count": latencies.count(),
                "p50_us": latencies.at(0.5),
                "p99_us": latencies.at(0.99),
                "p999_us": latencies.at(0.999),
            });
            ((*operation).to_owned(), value)
        })
        .collect();
    let faults = figures.faults;
    json!({
        "messages": figures.messages,
        "seconds": figures.elapsed.as_secs_f64(),
        "messages_per_second": figures.rate(),
        "cpu_us_per_message": figures.cpu_each(),
        "resident_bytes": figures.usage.map(|usage| usage.resident_bytes),
        "written_bytes": figures.usage.map(|usage| usage.written_bytes),
        "empty_receives": figures.empty,
        "early_empty_receives": figures.early,
        "interruptions": figures.interruptions,
        "latency": latencies,
        "lost": faults.lost,
        "duplicated": faults.duplicated,
        "resurrected": faults.resurrected,
        "disordered": faults.disordered,
        "strange": faults.strange,
    })
}

fn scenario(name: ScenarioName) -> &'static str {
    match name {
        ScenarioName::Cycle => "cycle",
        ScenarioName::Send => "send",
        ScenarioName::Batch => "batch",
        ScenarioName::Fifo => "fifo",
        ScenarioName::Backlog => "backlog",
        ScenarioName::Longpoll => "longpoll",
        ScenarioName::IdleQueues => "idle-queues",
        ScenarioName::Push => "push",
        ScenarioName::Null => "null",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::tally::Faults;

    #[test]
    fn verdict_does_not_contradict_the_figures() {
        let of = |faults: Faults| Figures { faults, ..Figures::default() };
        let twice = || [of(Faults { duplicated: 8, ..Faults::default() }), Figures::default()];
        let lost = [of(Faults { lost: 1, ..Faults::default() })];
        assert_eq!(verdict(false, [Figures::default()].iter()), "nothing lost, doubled or disordered");
        assert_eq!(
            verdict(true, twice().iter()),
            "nothing lost or disordered; 8 came twice, as crashes allow"
        );
        assert_eq!(verdict(false, twice().iter()), "MESSAGES WENT ASTRAY");
        assert_eq!(verdict(true, lost.iter()), "MESSAGES WENT ASTRAY");
    }
}
