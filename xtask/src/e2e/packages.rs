//! The toolchains of the clients: what is missing, whether the system's packages can bring it, and what is said where
//! they cannot.

use super::clients::{Absent, run};
use crate::tools;
use std::collections::BTreeMap;
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

/// What Debian calls a tool.
struct Package {
    program: &'static str,
    /// The first one decides about the version.
    names: &'static [&'static str],
    /// The oldest version of the first package that the clients can do with.
    oldest: &'static [u32],
}

const PACKAGES: &[Package] = &[
    Package { program: "python3", names: &["python3", "python3-venv", "python3-pip"], oldest: &[3, 9] },
    Package { program: "node", names: &["nodejs"], oldest: &[20] },
    Package { program: "npm", names: &["npm"], oldest: &[9] },
    // From 1.21 on Go fetches the version that a go.mod names.
    Package { program: "go", names: &["golang-go"], oldest: &[1, 21] },
    // Debian counts its default JDK as 1.17 where it is Java 17.
    Package { program: "javac", names: &["default-jdk-headless"], oldest: &[1, 17] },
    Package { program: "mvn", names: &["maven"], oldest: &[3] },
    Package { program: "curl", names: &["curl"], oldest: &[7] },
];

#[derive(Debug, PartialEq, Eq)]
enum Step {
    Install(&'static [&'static str]),
    /// Nothing is installed, and this says why.
    Leave(String),
}

/// Sees to a tool: it is there, or is installed, or the reason why not is returned.
pub fn need(program: &str, version: &[&str], what: &str) -> Result<(), Absent> {
    let is_there = || {
        let found = Command::new(program).args(version).stdin(Stdio::null()).output();
        found.is_ok_and(|output| output.status.success())
    };
    if is_there() {
        return Ok(());
    }
    let why = install(program, is_there);
    if is_there() { Ok(()) } else { Err(Absent::Missing(format!("{program} ({what}): {why}"))) }
}

/// Installs a tool once a run; where that does not work, every client that needs it hears the same reason.
fn install(program: &str, is_there: impl Fn() -> bool) -> String {
    static TRIED: Mutex<BTreeMap<String, String>> = Mutex::new(BTreeMap::new());
    // Clients are prepared side by side: the others wait until it is there.
    let mut tried = TRIED.lock().unwrap_or_else(PoisonError::into_inner);
    if is_there() {
        return String::new();
    }
    tried.entry(program.to_owned()).or_insert_with(|| try_packages(program)).clone()
}

/// Installs a tool from the system's packages, where this may be done and they are new enough; else says why not.
fn try_packages(program: &str) -> String {
    let may_install = tools::is_root();
    let package = PACKAGES.iter().find(|package| package.program == program);
    if may_install && package.is_some() && apt(&["update"]).is_err() {
        return "apt-get update does not work here".to_owned();
    }
    let offered = package.and_then(|package| offered(package.names.first()?));
    match step(package, may_install, offered.as_deref()) {
        Step::Leave(why) => why,
        Step::Install(names) => {
            println!("  installing {}", names.join(", "));
            match apt(&[&["-y", "--no-install-recommends", "install"], names].concat()) {
                Ok(()) => "its package is installed, and it does not start".to_owned(),
                Err(Absent::Missing(why) | Absent::Failed(why)) => why,
            }
        }
    }
}

fn apt(words: &[&str]) -> Result<(), Absent> {
    run(Command::new("apt-get").arg("-qq").args(words).env("DEBIAN_FRONTEND", "noninteractive"))
}

/// The version of a package that would be installed.
fn offered(name: &str) -> Option<String> {
    let mut ask = Command::new("apt-cache");
    let output = ask.args(["policy", name]).env("LC_ALL", "C").stdin(Stdio::null()).output().ok()?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let version = said.lines().find_map(|line| line.trim().strip_prefix("Candidate: "))?;
    (version != "(none)").then(|| version.to_owned())
}

fn step(package: Option<&'static Package>, may_install: bool, offered: Option<&str>) -> Step {
    let Some(package) = package else {
        return Step::Leave("to be installed by hand".to_owned());
    };
    let names = package.names.join(" ");
    if !may_install {
        return Step::Leave(format!("as root: apt-get install {names}"));
    }
    match offered {
        None => Step::Leave(format!("this system offers no package {names}")),
        Some(version) if numbers(version).as_slice() < package.oldest => {
            let oldest = package.oldest.iter().map(u32::to_string).collect::<Vec<_>>().join(".");
            Step::Leave(format!("this system offers {version}, which is older than {oldest}"))
        }
        Some(_) => Step::Install(package.names),
    }
}

/// The leading numbers of a package's version, without its epoch.
fn numbers(version: &str) -> Vec<u32> {
    let version = version.split_once(':').map_or(version, |(_epoch, rest)| rest);
    version.split(|c: char| !c.is_ascii_digit()).map_while(|part| part.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(program: &str) -> Option<&'static Package> {
        PACKAGES.iter().find(|package| package.program == program)
    }

    #[test]
    fn a_package_that_is_new_enough_is_installed() {
        for (program, version, name) in [
            ("node", "20.19.2+dfsg-1", "nodejs"),
            ("npm", "9.2.0~ds1-3", "npm"),
            ("go", "2:1.24~2", "golang-go"),
            ("javac", "2:1.17-74", "default-jdk-headless"),
            ("mvn", "3.8.7-1", "maven"),
        ] {
            let names = package(program).expect("the table has the program").names;
            assert_eq!(names[0], name);
            assert_eq!(step(package(program), true, Some(version)), Step::Install(names), "{program}");
        }
    }

    #[test]
    fn a_package_that_is_too_old_is_left_and_both_versions_are_named() {
        let old = |program, version| step(package(program), true, Some(version));
        let said = |version: &str, oldest: &str| {
            Step::Leave(format!("this system offers {version}, which is older than {oldest}"))
        };
        assert_eq!(old("go", "2:1.19~1"), said("2:1.19~1", "1.21"));
        assert_eq!(old("node", "18.20.4+dfsg-1~deb12u1"), said("18.20.4+dfsg-1~deb12u1", "20"));
    }

    #[test]
    fn without_rights_or_a_package_it_says_what_to_do() {
        let by_hand = Step::Leave("as root: apt-get install nodejs".to_owned());
        assert_eq!(step(package("node"), false, None), by_hand);
        let none = Step::Leave("this system offers no package maven".to_owned());
        assert_eq!(step(package("mvn"), true, None), none);
        assert_eq!(step(package("az"), true, None), Step::Leave("to be installed by hand".to_owned()));
    }
}
