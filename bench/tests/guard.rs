//! Every hot path is walked to its end, also when its instructions are not counted.

use std::process::Command;

#[test]
fn every_hot_path_is_walked() {
    let dir = std::env::temp_dir().join(format!("kew-bench-guard-{}", std::process::id()));
    let program = env!("CARGO_BIN_EXE_kew-bench");
    let listed = Command::new(program).arg("--guard-list").output().expect("the program starts");
    assert!(listed.status.success(), "{listed:?}");
    let names = String::from_utf8_lossy(&listed.stdout).into_owned();
    assert!(names.lines().count() >= 15, "{names}");
    for name in names.lines() {
        let walked = Command::new(program).args(["--guard", name, "--dir"]).arg(&dir).output();
        let walked = walked.expect("the program starts");
        let said = String::from_utf8_lossy(&walked.stdout);
        assert!(walked.status.success() && said.starts_with("walked "), "{name}: {walked:?}");
    }
    // Every walk takes its own folder away again.
    std::fs::remove_dir(&dir).expect("nothing is left in it");
}
