//! The same scenarios with the vendor's emulator as the endpoint: the host is a client like any other.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::rig::Rig;

/// The emulator's program for queues.
const VARIABLE: &str = "KEW_AZURITE";

/// An emulator that serves.
struct Emulator {
    child: Child,
    address: String,
}

impl Emulator {
    fn start(folder: &Path) -> Self {
        let program = std::env::var_os(VARIABLE);
        let program =
            program.unwrap_or_else(|| panic!("{VARIABLE} must name the emulator's program azurite-queue"));
        let mut child = Command::new(program)
            .args([
                "--queueHost",
                "127.0.0.1",
                "--queuePort",
                "0",
                "--silent",
                "--disableTelemetry",
                "--location",
            ])
            .arg(folder)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the emulator can be started");
        let mut lines =
            BufReader::new(child.stdout.take().expect("the output of the child is a pipe")).lines();
        let address = lines.find_map(|line| {
            let line = line.expect("a line of the output is UTF-8");
            Some(line.split_once("successfully listens on http://")?.1.trim().to_owned())
        });
        let address = address.expect("the emulator says where it listens");
        // What else it says is read, so that it never waits for a reader.
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, address }
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        let _ended = (self.child.kill(), self.child.wait());
    }
}

fn at_the_emulator(scenario: impl Fn(&Rig)) {
    let mut rig = Rig::with_clock(r#""newBatchThreshold":8"#, "unused", "system");
    let folder = tempfile::tempdir().expect("the machine has a temporary directory");
    let emulator = Emulator::start(folder.path());
    rig.azure.clone_from(&emulator.address);
    rig.endpoint.clone_from(&emulator.address);
    rig.function("fn", "orders", "");
    rig.create("orders");
    scenario(&rig);
}

#[test]
#[ignore = "needs the emulator (KEW_AZURITE); part of `make test-slow`"]
fn at_once_after_an_exception_at_the_emulator() {
    at_the_emulator(crate::trigger::after_an_exception);
}

#[test]
#[ignore = "needs the emulator (KEW_AZURITE); part of `make test-slow`"]
fn five_failures_at_the_emulator() {
    at_the_emulator(crate::trigger::after_five_failures);
}

#[test]
#[ignore = "needs the emulator (KEW_AZURITE); part of `make test-slow`"]
fn sixteen_and_eight_at_the_emulator() {
    at_the_emulator(crate::shared_work::sixteen_and_eight);
}
