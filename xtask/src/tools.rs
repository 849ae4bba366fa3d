//! What the machine must bring for a test run, said aloud before it starts.
//!
//! A missing tool is named together with what it is for and where it comes from, not discovered halfway through.

use crate::Done;
use std::process::{Command, Stdio};

struct Tool {
    name: &'static str,
    /// The command that prints the tool's version.
    version: &'static [&'static str],
    purpose: &'static str,
    origin: &'static str,
}

const NEEDED: &[Tool] = &[
    Tool {
        name: "rustc",
        version: &["rustc", "--version"],
        purpose: "compiles Kew",
        origin: "https://rustup.rs",
    },
    Tool {
        name: "cargo",
        version: &["cargo", "--version"],
        purpose: "builds and tests",
        origin: "https://rustup.rs",
    },
    Tool {
        name: "cargo fmt",
        version: &["cargo", "fmt", "--version"],
        purpose: "checks the format",
        origin: "rustup component add rustfmt",
    },
    Tool {
        name: "cargo clippy",
        version: &["cargo", "clippy", "--version"],
        purpose: "checks the lints",
        origin: "rustup component add clippy",
    },
];

/// Prints what is installed and what is missing; fails when something needed is missing.
pub fn report() -> Done {
    println!("== What this run finds on the machine");
    let missing = NEEDED.iter().filter(|tool| !tool.report()).count();
    if missing == 0 {
        Ok(())
    } else {
        Err(format!("{missing} of {} tools are missing, see above", NEEDED.len()))
    }
}

const CURL: Tool = Tool {
    name: "curl",
    version: &["sh", "-c", "command -v curl >/dev/null && curl --version | head -n 1"],
    purpose: "plays the commands of documents, and is a client",
    origin: "apt-get install curl",
};

/// Whether there is curl; where packages may be installed it is installed.
pub fn curl() -> bool {
    CURL.found_or_installed("curl")
}

const BROWSER: Tool = Tool {
    name: "chromium",
    version: &["chromium", "--version"],
    purpose: "tries to reach an open server from web pages, and shows the console",
    origin: "apt-get install chromium",
};

/// Whether there is a browser for the tests that need one. Where packages may be installed it is installed; elsewhere
/// its tests are left out, and this says so.
pub fn browser() -> bool {
    BROWSER.found_or_installed("chromium")
}

/// The browser's program: the one that the environment names, or that of the path.
pub fn browser_program() -> Option<String> {
    if let Ok(named) = std::env::var("KEW_CHROMIUM") {
        return Some(named);
    }
    let found = Command::new("sh").args(["-c", "command -v chromium"]).stdin(Stdio::null()).output().ok()?;
    let path = String::from_utf8_lossy(&found.stdout).trim().to_owned();
    (!path.is_empty()).then_some(path)
}

const POSTGRES: Tool = Tool {
    name: "postgres",
    version: &["sh", "-c", FIND_POSTGRES],
    purpose: "PostgreSQL, whose tests start a server of their own",
    origin: "apt-get install postgresql",
};

/// Debian keeps the server's programs, of which the tests start their own, outside the path.
const FIND_POSTGRES: &str =
    "PATH=$PATH:$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | tail -n 1); postgres --version";

/// Whether there is a PostgreSQL of which tests can start a server; where packages may be installed it is installed.
pub fn postgres() -> bool {
    POSTGRES.found_or_installed("postgresql")
}

/// Whether there is a PostgreSQL; nothing is installed.
pub fn has_postgres() -> bool {
    POSTGRES.installed_version().is_some()
}

const PROMTOOL: Tool = Tool {
    name: "promtool",
    version: &["sh", "-c", "command -v promtool >/dev/null && promtool --version 2>&1 | head -n 1"],
    purpose: "Prometheus' tool, which tests the alert rules",
    origin: "apt-get install prometheus",
};

/// Whether there is Prometheus' tool; where packages may be installed it is installed.
pub fn promtool() -> bool {
    PROMTOOL.found_or_installed("prometheus")
}

const NGINX: Tool = Tool {
    name: "nginx",
    version: &["sh", "-c", "PATH=$PATH:/usr/sbin; nginx -v 2>&1"],
    purpose: "the load balancer before three nodes",
    origin: "apt-get install nginx-light",
};

/// Whether there is a load balancer; where packages may be installed it is installed.
pub fn nginx() -> bool {
    NGINX.found_or_installed("nginx-light")
}

const PATRONI: Tool = Tool {
    name: "patroni",
    version: &["sh", "-c", "command -v patroni >/dev/null && patroni --version"],
    purpose: "keeps PostgreSQL available: its fail-overs are tried",
    origin: "apt-get install patroni",
};

const ETCD: Tool = Tool {
    name: "etcd",
    version: &["sh", "-c", "command -v etcd >/dev/null && etcd --version | head -n 1"],
    purpose: "what Patroni's servers agree in",
    origin: "apt-get install etcd-server",
};

/// Whether there are Patroni and etcd; where packages may be installed they are installed.
pub fn patroni() -> bool {
    ETCD.found_or_installed("etcd-server") && PATRONI.found_or_installed("patroni")
}

/// Whether packages of the system may be installed.
pub fn is_root() -> bool {
    let asked = Command::new("id").arg("-u").stdin(Stdio::null()).output();
    asked.is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}

impl Tool {
    /// Whether the tool is there, or is after its package was installed where that may be done. Says which.
    fn found_or_installed(&self, package: &str) -> bool {
        if self.installed_version().is_none() && is_root() {
            println!("  installing {package} ({})", self.purpose);
            for words in [&["update"][..], &["install", "-y", "--no-install-recommends", package]] {
                let mut install = Command::new("apt-get");
                install.args(words).args(["-qq"]).env("DEBIAN_FRONTEND", "noninteractive");
                // What does not work is seen below: a machine without packages or a network lacks the tool.
                let _tried = install.stdin(Stdio::null()).stdout(Stdio::null()).status();
            }
        }
        self.report()
    }

    fn report(&self) -> bool {
        let found = self.installed_version();
        match &found {
            Some(version) => println!("  found    {version} ({})", self.purpose),
            None => println!("  MISSING  {} ({}): {}", self.name, self.purpose, self.origin),
        }
        found.is_some()
    }

    fn installed_version(&self) -> Option<String> {
        let (program, arguments) = self.version.split_first()?;
        let output = Command::new(program).args(arguments).stdin(Stdio::null()).output().ok()?;
        let said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        (output.status.success() && !said.is_empty()).then_some(said)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_that_does_not_exist_is_reported_missing() {
        let tool = Tool {
            name: "kew-no-such-tool",
            version: &["kew-no-such-tool", "--version"],
            purpose: "nothing",
            origin: "nowhere",
        };
        assert_eq!(tool.installed_version(), None);
        assert!(!tool.report());
    }

    #[test]
    fn the_compiler_that_built_this_test_is_found() {
        assert!(NEEDED[1].installed_version().unwrap().starts_with("cargo"));
    }
}
