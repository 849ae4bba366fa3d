//! `kew serve --functions`: both in one.

use std::time::{Duration, Instant};

use crate::handler;
use crate::program::{self, Kew};
use crate::rig::Rig;

const LONG: Duration = Duration::from_secs(20);

#[test]
fn a_server_runs_a_projects_functions_beside_itself() {
    // Its project and its desk are used, its server is not.
    let rig = Rig::new("", "unused");
    rig.function("fn", "orders", "");
    rig.file("local.settings.json", r#"{"Values":{"AzureWebJobsStorage":"UseDevelopmentStorage=true"}}"#);
    let directory = program::data_directory();
    let data = directory.path().join("data").to_string_lossy().into_owned();
    let root = rig.root().to_string_lossy().into_owned();
    let flags = ["--store", &data, "--clock", "virtual", "--functions", &root];
    let mut command = program::command();
    command.env(handler::VARIABLE, &rig.desk.address);
    let mut kew = Kew::start_by(command, directory.path(), &flags);
    let azure = kew.ports["azure"].as_str().expect("the listener is on").to_owned();
    assert_eq!(crate::rig::ask(&azure, "PUT", "/orders", "").status, 201);
    let message = "<QueueMessage><MessageText>aGVsbG8=</MessageText></QueueMessage>";
    assert_eq!(crate::rig::ask(&azure, "POST", "/orders/messages", message).status, 201);
    let jumped = kew.admin(
        "POST",
        "/api/v1/clock",
        &[("Content-Type", "application/json")],
        r#"{"advance_ms":61000}"#,
    );
    assert_eq!(jumped.0, 200);
    let call = rig.desk.next();
    assert_eq!(call.text(), "hello");
    kew.signal("TERM");
    std::thread::sleep(Duration::from_millis(200));
    // The server is there until the run has been completed.
    call.succeed();
    assert_eq!(kew.exit_code(), Some(0));
    assert!(kew.errors().contains("Executed 'Functions.fn' (Succeeded"), "{}", kew.errors());
    assert!(!kew.errors().contains("ERROR"), "{}", kew.errors());
}

#[test]
fn a_server_is_not_started_beside_a_project_that_is_broken() {
    let directory = program::data_directory();
    let data = directory.path().join("data").to_string_lossy().into_owned();
    let root = directory.path().to_string_lossy().into_owned();
    let begun = Instant::now();
    let (code, errors) = program::fail(&["--store", &data, "--functions", &root]);
    assert_eq!(code, Some(2), "{errors}");
    assert!(errors.contains("--functions: ") && errors.contains("holds no host.json"), "{errors}");
    assert!(begun.elapsed() < LONG && !directory.path().join("data").exists());
}
