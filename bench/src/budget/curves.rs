//! What a message costs against the size of things: how many lie before it, queues beside it, groups, connections,
//! bytes.

use super::load::Loads;
use super::page::Curve;
use super::plot::{Plot, Series};
use super::{Bench, Fault};

/// Rounds behind each point; one where the preparation is long.
const ROUNDS: usize = 3;
const LONG_PREPARATION: u64 = 10_000;

/// One curve: its points, and the words of the load that measures one.
struct Kind {
    file: &'static str,
    title: &'static str,
    across: &'static str,
    measure: fn(&Bench, &[u64]) -> Result<Vec<Series>, Fault>,
    /// Where it is measured, from left to right.
    sizes: &'static [u64],
    /// Where else in a full run.
    further: &'static [u64],
}

const KINDS: [Kind; 5] = [
    Kind {
        file: "backlog.svg",
        title: "CPU per message against the backlog",
        across: "messages in the queue",
        measure: backlog,
        sizes: &[1_000, 10_000, 100_000, 1_000_000, 2_000_000],
        further: &[5_000_000, 10_000_000, 20_000_000],
    },
    Kind {
        file: "queues.svg",
        title: "CPU per message against the number of queues",
        across: "queues",
        measure: queues,
        sizes: &[1, 10, 100, 1_000, 10_000, 100_000],
        further: &[],
    },
    Kind {
        file: "groups.svg",
        title: "CPU per message against the number of FIFO groups with messages in them",
        across: "groups, each with a message and more waiting",
        measure: groups,
        sizes: &[1, 10, 100, 1_000, 10_000, 100_000, 1_000_000],
        further: &[],
    },
    Kind {
        file: "connections.svg",
        title: "CPU per message against the number of connections",
        across: "connections at work",
        measure: connections,
        sizes: &[1, 4, 16, 64, 256, 1_000, 5_000],
        further: &[],
    },
    Kind {
        file: "body.svg",
        title: "CPU per message against the size of its body",
        across: "bytes of a body",
        measure: bodies,
        sizes: &[64, 256, 1_024, 4_096, 16_384, 65_536, 262_144, 1_048_576],
        further: &[],
    },
];

/// Measures and draws all of them beside the page; calls back after each.
pub fn draw(
    bench: &Bench,
    full: bool,
    folder: &std::path::Path,
    mut drawn: impl FnMut(Curve) -> Result<(), Fault>,
) -> Result<(), Fault> {
    for kind in &KINDS {
        eprintln!("{} …", kind.title);
        let further = if full { kind.further } else { &[] };
        let sizes: Vec<u64> =
            kind.sizes.iter().chain(further).copied().filter(|size| bench.reaches(*size)).collect();
        let curve = match (kind.measure)(bench, &sizes) {
            Ok(series) => {
                let table = table(kind.across, &series);
                let plot = Plot {
                    title: kind.title.to_owned(),
                    across: kind.across,
                    up: "server's CPU, microseconds a message",
                    series,
                };
                std::fs::create_dir_all(folder)?;
                std::fs::write(folder.join(kind.file), plot.svg())?;
                Curve { file: kind.file.to_owned(), title: kind.title.to_owned(), table, failed: false }
            }
            Err(fault) => Curve {
                file: String::new(),
                title: kind.title.to_owned(),
                table: format!("not measured: {fault}\n"),
                failed: true,
            },
        };
        drawn(curve)?;
    }
    Ok(())
}

/// The figures of a plot, for those who read and for programs.
fn table(across: &str, series: &[Series]) -> String {
    let names: Vec<&str> = series.iter().map(|series| series.name.as_str()).collect();
    let mut text = format!("| {across} | {} |\n|---|{}\n", names.join(" | "), "---|".repeat(series.len()));
    let mut sizes: Vec<f64> =
        series.iter().flat_map(|series| series.points.iter().map(|point| point.0)).collect();
    sizes.sort_by(f64::total_cmp);
    sizes.dedup();
    for size in sizes {
        let cells: Vec<String> = series
            .iter()
            .map(|series| {
                let point = series.points.iter().find(|point| (point.0 - size).abs() < 0.5);
                point.map_or_else(String::new, |point| format!("{:.1}", point.1))
            })
            .collect();
        text += &format!("| {} | {} |\n", super::count(size), cells.join(" | "));
    }
    text
}

fn rounds(bench: &Bench, prepared: u64) -> Loads {
    let rounds = if prepared >= LONG_PREPARATION { 1 } else { ROUNDS.min(bench.loads.rounds) };
    Loads { kew: bench.loads.kew.clone(), rounds, seconds: bench.loads.seconds }
}

/// One load for each size, as a line.
fn one_line(
    bench: &Bench,
    name: &str,
    sizes: &[u64],
    prepares: bool,
    words: impl Fn(&str) -> Vec<String>,
) -> Result<Series, Fault> {
    let (_folder, server) = bench.server(&[], &[])?;
    let mut points = Vec::new();
    for size in sizes {
        let words = words(&size.to_string());
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let loads = rounds(bench, if prepares { *size } else { 0 });
        let load = loads.run(&server, "sqs", &words)?;
        eprintln!("  {name} {size}: {:.1} us, {:.0} msg/s", load.cpu(), load.rate());
        points.push((*size as f64, load.cpu()));
    }
    Ok(Series { name: name.to_owned(), points })
}

fn words(text: &str) -> Vec<String> {
    text.split(' ').map(str::to_owned).collect()
}

fn backlog(bench: &Bench, sizes: &[u64]) -> Result<Vec<Series>, Fault> {
    let (_folder, server) = bench.server(&[], &[])?;
    let (mut deep, mut shallow) = (Vec::new(), Vec::new());
    for size in sizes {
        let size_word = size.to_string();
        let words = ["--scenario", "backlog", "--connections", "16", "--backlog", &size_word];
        // Filled once for all rounds, so they cost nothing more.
        let load = rounds(bench, 0).run(&server, "sqs", &words)?;
        eprintln!("  backlog {size}: {:.1} us, shallow {:.1} us", load.cpu(), load.shallow());
        deep.push((*size as f64, load.cpu()));
        shallow.push((*size as f64, load.shallow()));
    }
    let series = |name: &str, points| Series { name: name.to_owned(), points };
    Ok(vec![series("behind the backlog", deep), series("an empty queue, in turn", shallow)])
}

fn queues(bench: &Bench, sizes: &[u64]) -> Result<Vec<Series>, Fault> {
    let load = |size: &str| words(&format!("--scenario idle-queues --connections 16 --queues {size}"));
    Ok(vec![one_line(bench, "16 connections", sizes, true, load)?])
}

/// One connection takes from any number of groups; sixteen need as many, or they wait for each other.
fn groups(bench: &Bench, sizes: &[u64]) -> Result<Vec<Series>, Fault> {
    let load = |connections: u32, size: &str| {
        let backlog = size.parse::<u64>().unwrap_or_default().max(1_000);
        words(&format!(
            "--scenario backlog --fifo --connections {connections} --groups {size} --backlog {backlog}"
        ))
    };
    let many: Vec<u64> = sizes.iter().copied().filter(|size| *size >= 100).collect();
    let few: Vec<u64> = sizes.iter().copied().filter(|size| *size <= 1_000).collect();
    let mut series = vec![one_line(bench, "1 connection", &few, false, |size| load(1, size))?];
    if !many.is_empty() {
        series.push(one_line(bench, "16 connections", &many, false, |size| load(16, size))?);
    }
    Ok(series)
}

fn connections(bench: &Bench, sizes: &[u64]) -> Result<Vec<Series>, Fault> {
    Ok(vec![one_line(bench, "cycle", sizes, false, |size| words(&format!("--connections {size}")))?])
}

fn bodies(bench: &Bench, sizes: &[u64]) -> Result<Vec<Series>, Fault> {
    let load = |size: &str| words(&format!("--connections 16 --body {size}"));
    Ok(vec![one_line(bench, "16 connections", sizes, false, load)?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_a_row_for_each_size_and_gaps_where_a_line_has_none() {
        let series = [
            Series { name: "one".into(), points: vec![(1.0, 10.0), (1_000.0, 11.0)] },
            Series { name: "many".into(), points: vec![(1_000.0, 5.0)] },
        ];
        let text = table("groups", &series);
        assert_eq!(text, "| groups | one | many |\n|---|---|---|\n| 1 | 10.0 |  |\n| 1 000 | 11.0 | 5.0 |\n");
    }
}
