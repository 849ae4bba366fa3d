//! `cargo xtask console`: the web console in the machine's Chromium (`e2e/console`).
//!
//! Every screen in both themes without a flaw that axe finds, without an error in the browser's log and without a
//! request to another server; what operators do by keyboard alone. Screenshots stay in `e2e/.cache/console`.

use std::path::Path;
use std::process::Command;

use crate::e2e::{self, Absent};
use crate::run::step;
use crate::{Done, tools};

/// Where screenshots are kept.
const PICTURES: &str = "e2e/.cache/console";
/// The tests, each file a server and a browser of its own.
const TESTS: [&str; 2] = ["screens.test.mjs", "tasks.test.mjs"];

/// Runs all tests, or those with a word in their names. Without a browser or Node they are left out, which is said.
pub fn run(words: &[&str]) -> Done {
    let browser = if tools::browser() { tools::browser_program() } else { None };
    let Some(browser) = browser else {
        println!(
            "\n== console: MISSING  chromium (apt-get install chromium): its tests in a browser are left out"
        );
        return Ok(());
    };
    let room = match e2e::node_packages("console") {
        Ok(room) => room,
        Err(Absent::Missing(tool)) => {
            println!("\n== console: MISSING  {tool}: its tests in a browser are left out");
            return Ok(());
        }
        Err(Absent::Failed(reason)) => return Err(format!("packages of the console's tests: {reason}")),
    };
    let program = e2e::build(false)?;
    let whole =
        |path: &Path| std::path::absolute(path).map_err(|error| format!("{}: {error}", path.display()));
    let mut command = Command::new("node");
    command.args(["--test", "--test-concurrency=1"]);
    command.args(words.iter().map(|word| format!("--test-name-pattern={word}")));
    command.args(TESTS).current_dir(&room);
    command.env("KEW_PROGRAM", whole(&program)?).env("KEW_PICTURES", whole(Path::new(PICTURES))?);
    step("the console in a browser", command.env("KEW_CHROMIUM", browser))
}
