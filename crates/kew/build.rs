//! Tells the program which commit it is built from, for `kew version`.
//!
//! A release is built anew after every commit and names it exactly. Other builds are not, since each would be linked
//! again: they name the commit that was checked out when this ran, with a `+` for what may have come since.

use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=KEW_BUILD_COMMIT");
    let is_release = std::env::var("PROFILE").is_ok_and(|profile| profile == "release");
    let given = std::env::var("KEW_BUILD_COMMIT").ok();
    let commit = given.or_else(|| of_git(is_release));
    // Not `KEW_…`: cargo run hands it to the program too, which refuses variables of ours that it does not know.
    println!("cargo::rustc-env=BUILT_FROM_COMMIT={}", commit.as_deref().unwrap_or("unknown"));
}

/// The commit that is checked out, where the sources are in git.
fn of_git(is_exact: bool) -> Option<String> {
    let commit = git(&["rev-parse", "--short=12", "HEAD"])?;
    if !is_exact {
        return Some(format!("{commit}+"));
    }
    for file in ["HEAD", "logs/HEAD", "index"] {
        let path = git(&["rev-parse", "--git-path", file])?;
        println!("cargo::rerun-if-changed={path}");
    }
    let is_changed = !git(&["status", "--porcelain", "--untracked-files=no"])?.is_empty();
    Some(if is_changed { format!("{commit}+") } else { commit })
}

/// What git says. It may not refresh its index meanwhile: the next build would take that for a change, and link the
/// release again.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").arg("--no-optional-locks").args(arguments).output().ok()?;
    let output = Some(output).filter(|output| output.status.success())?;
    String::from_utf8(output.stdout).ok().map(|text| text.trim().to_owned())
}
