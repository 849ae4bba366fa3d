//! Every scenario runs to its end, very small; nothing is judged at this size.

use std::process::Command;

#[test]
fn every_scenario_runs_small_and_prints_its_rows() {
    let dir = std::env::temp_dir().join(format!("kew-bench-smoke-{}", std::process::id()));
    let table = dir.join("table.md");
    std::fs::create_dir_all(&dir).expect("a directory can be made");
    let status = Command::new(env!("CARGO_BIN_EXE_kew-bench"))
        .args(["--scale", "0.001", "--rounds", "1", "--dir"])
        .arg(dir.join("data"))
        .arg("--out")
        .arg(&table)
        .status()
        .expect("the program starts");
    let rows = std::fs::read_to_string(&table).expect("the table was written");
    std::fs::remove_dir_all(&dir).expect("the directory can be removed");
    assert!(status.success(), "{status}");
    for name in [
        "cycle",
        "backlog",
        "cycle-1k",
        "cold",
        "cold-1000",
        "fifo",
        "reopen",
        "reopen-fifo",
        "shared",
        "waiters",
        "wake",
        "start",
    ] {
        assert!(rows.contains(&format!("| {name} |")), "{name} is missing in\n{rows}");
    }
    assert!(!rows.contains("BROKEN"), "{rows}");
}
