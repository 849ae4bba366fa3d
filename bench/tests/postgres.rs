//! The comparison on PostgreSQL at its smallest: every part is measured and stands in the table.

use std::path::{Path, PathBuf};
use std::process::Command;

/// What the program prints, or nothing where it cannot run here.
fn table(dir: &Path, words: &[&str]) -> Option<String> {
    let program = PathBuf::from(env!("CARGO_BIN_EXE_kew-bench"));
    let kew = program.with_file_name("kew");
    if !kew.exists() {
        eprintln!("SKIPPED: {} is not built: cargo build --package kew", kew.display());
        return None;
    }
    let run = Command::new(&program).args(words).arg("--kew").arg(kew).arg("--dir").arg(dir).output();
    let run = run.expect("the program starts");
    let (text, errors) = (String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
    // A bound that is broken in a run this small says nothing.
    assert!(text.contains("| scenario |"), "{errors}{text}");
    Some(text.into_owned())
}

#[test]
fn every_part_on_postgres_stands_in_its_table() {
    let dir = std::env::temp_dir().join(format!("kew-bench-postgres-{}", std::process::id()));
    let small = ["postgres", "--rounds", "1", "--seconds", "1", "--connections", "4"];
    let Some(text) = table(&dir, &small) else { return };
    let opened = table(&dir, &["postgres-open", "--size", "1000", "--connections", "4"]).unwrap_or_default();
    std::fs::remove_dir_all(&dir).expect("the directory can be removed");
    for part in [
        "| singles |",
        "| tens |",
        "| all |",
        "| held |",
        "dead rows",
        "over the queue made by hand",
        "| nodes, tens |",
        "three nodes on two databases over one database",
    ] {
        assert!(text.contains(part), "{part} is missing in\n{text}");
    }
    for part in ["| standard |", "| FIFO |", "a new owner opens 1 000 messages"] {
        assert!(opened.contains(part), "{part} is missing in\n{opened}");
    }
    assert!(!text.contains("NaN") && !opened.contains("NaN"), "{text}{opened}");
}
