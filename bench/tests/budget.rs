//! The budget table at its smallest: every part is measured and stands in the page, and every curve is drawn.

use std::path::PathBuf;
use std::process::Command;

#[test]
fn every_part_stands_in_the_page_and_every_curve_is_drawn() {
    let program = PathBuf::from(env!("CARGO_BIN_EXE_kew-bench"));
    let kew = program.with_file_name("kew");
    if !kew.exists() {
        eprintln!("SKIPPED: {} is not built: cargo build --package kew", kew.display());
        return;
    }
    let dir = std::env::temp_dir().join(format!("kew-bench-budget-{}", std::process::id()));
    let page = dir.join("pages/report.md");
    let run = Command::new(&program)
        .args(["budget", "--quick", "--kew"])
        .arg(&kew)
        .arg("--dir")
        .arg(dir.join("data"))
        .arg("--out")
        .arg(&page)
        .output()
        .expect("the program starts");
    let text = std::fs::read_to_string(&page).expect("the page was written");
    let drawn = ["backlog", "queues", "groups", "connections", "body"].map(|name| {
        let svg = std::fs::read_to_string(dir.join(format!("pages/{name}.svg"))).unwrap_or_default();
        (name, svg.ends_with("</svg>\n") && svg.contains("<polyline") && !svg.contains("NaN"))
    });
    std::fs::remove_dir_all(&dir).expect("the directory can be removed");
    assert!(run.status.success(), "{}\n{text}", String::from_utf8_lossy(&run.stderr));
    for row in [
        "raw append",
        "null, 16 connections",
        "SQS cycle, 16 connections, open",
        "SQS cycle, 64 connections, open",
        "strict (SigV4 checked)",
        "SQS batches of 10, 16",
        "SQS batches of 10, 64",
        "slow disk",
        "SQS FIFO, 100 groups",
        "Azure put-get-delete",
        "Cloudflare push-pull-ack",
        "backlog of 2 000",
        "long poll",
        "send latency",
        "memory of an empty server",
        "memory of an idle queue",
        "memory of a cold message",
        "memory of an idle connection",
        "start on an empty store",
        "after a kill",
    ] {
        assert!(text.contains(row), "{row} is missing in\n{text}");
    }
    assert!(!text.contains("not measured") && !text.contains("NaN"), "{text}");
    assert!(drawn.iter().all(|(_, whole)| *whole), "{drawn:?}");
}
