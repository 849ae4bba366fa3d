//! Projects that are broken, handlers that do not do what they should, servers that are away.

use std::time::Duration;

use crate::handler;
use crate::recorder::Recorder;
use crate::rig::Rig;

const LONG: Duration = Duration::from_secs(20);

/// The end of a host that cannot start.
fn refused(rig: &Rig) -> String {
    let mut host = rig.begin(&[]);
    assert_eq!(host.exit_code(LONG), Some(2), "{}", host.log());
    host.log()
}

#[test]
fn a_project_that_is_broken_is_refused_with_what_to_change() {
    let rig = Rig::new(r#""maxDequeueCount":0"#, "orders");
    let log = refused(&rig);
    assert!(
        log.contains(
            "host.json: extensions.queues.maxDequeueCount = 0: MaxDequeueCount must not be less than 1."
        ),
        "{log}"
    );
    rig.file("host.json", "{ \"version\": \"2.0\", }");
    assert!(refused(&rig).contains("host.json is not valid JSON"));
    rig.file("host.json", "{\"version\":\"2.0\"}");
    assert!(refused(&rig).contains("Missing worker Description."));
    std::fs::remove_file(rig.root().join("host.json")).expect("the file exists");
    assert!(refused(&rig).contains("holds no host.json"));
}

#[test]
fn a_function_that_cannot_be_loaded_stops_no_other() {
    let rig = Rig::new("", "orders");
    rig.file("blob/function.json", r#"{"bindings":[{"type":"blobTrigger","direction":"in","name":"b"}]}"#);
    rig.file("lost/function.json", r#"{"bindings":[{"type":"queueTrigger","direction":"in","name":"i","queueName":"lost","connection":"Nowhere"}]}"#);
    let mut host = rig.host();
    host.logs("The 'blob' function is in error: The binding type(s) 'blobTrigger' are not registered.", 1);
    host.logs("Storage account connection string 'AzureWebJobsNowhere' does not exist. Make sure that it is a defined App Setting.", 1);
    rig.put("orders", "hello");
    rig.desk.next().succeed();
    rig.holds("orders", 0);
}

#[test]
fn a_handler_that_cannot_stay_is_tried_three_times() {
    let mut rig = Rig::new("", "orders");
    rig.told = "exit-3".to_owned();
    let mut host = rig.begin(&[]);
    assert_eq!(host.exit_code(LONG), Some(1));
    host.log().contains("the handler cannot go on");
    let log = host.log();
    assert_eq!(log.matches("the handler exited with code 3").count(), 3, "{log}");
    assert!(log.contains("Exceeded http worker restart retry count. Shutting down Functions Host"), "{log}");
}

#[test]
fn a_handler_that_is_no_program_is_reported_as_such() {
    let rig = Rig::new("", "orders");
    rig.file(
        "host.json",
        r#"{"version":"2.0","customHandler":{"description":{"defaultExecutablePath":"no-such-program"}}}"#,
    );
    let mut host = rig.begin(&[]);
    assert_eq!(host.exit_code(LONG), Some(1));
    assert!(host.log().contains("cannot start 'no-such-program'"), "{}", host.log());
    assert!(host.log().contains("defaultExecutablePath"), "{}", host.log());
}

#[test]
fn runs_fail_when_the_handler_dies_and_go_on_with_the_next() {
    let rig = Rig::new("", "orders");
    let mut host = rig.host();
    rig.put("orders", "hello");
    let first = rig.desk.next();
    crate::stops::kill_handler(&rig);
    let second = rig.desk.next();
    // The failure branch, not ten minutes: the host is alive.
    assert_eq!((second.known("Id"), second.tries().as_str()), (first.known("Id"), "2"));
    second.succeed();
    rig.holds("orders", 0);
    host.logs("Executed 'Functions.fn' (Failed", 1);
}

#[test]
fn a_run_that_takes_too_long_has_failed_and_goes_on_nowhere() {
    let rig = Rig::new("", "orders");
    let host_json = std::fs::read_to_string(rig.root().join("host.json")).expect("the file exists");
    rig.file("host.json", &host_json.replacen('{', r#"{"functionTimeout":"00:00:10","#, 1));
    let mut host = rig.host();
    let before = crate::stops::handlers(&rig);
    rig.put("orders", "slow");
    let slow = rig.desk.next();
    // The limit is the machine's own time: the other run is well within it when the slow one is over.
    std::thread::sleep(Duration::from_secs(5));
    rig.put("orders", "other");
    let other = rig.desk.next();
    // Both are tried again by another process: the one that was slow is over, and the other's run with it.
    let again = rig.desk.take(2);
    assert!(again.iter().all(|call| call.tries() == "2"));
    let after = crate::stops::handlers(&rig);
    assert!(after.iter().all(|id| !before.contains(id)), "{before:?} {after:?}");
    again.into_iter().for_each(crate::desk::Call::succeed);
    drop((slow, other));
    rig.holds("orders", 0);
    host.logs("exceeded by function: Functions.fn", 1);
    host.logs("A function timeout has occurred.", 1);
    host.logs("Executed 'Functions.fn' (Failed", 2);
    assert!(!host.log().contains("restart retry count"), "{}", host.log());
}

#[test]
fn a_handler_that_ends_again_and_again_without_a_fault_is_not_started_in_a_hot_loop() {
    let mut rig = Rig::new("", "orders");
    rig.told = handler::BRIEF.to_owned();
    let mut host = rig.begin(&[]);
    host.logs_at_least("it is started again after a rest of 800ms", 1);
    let log = host.log();
    assert!(log.contains("after a rest of 200ms") && log.contains("after a rest of 400ms"), "{log}");
    assert!(log.matches("the handler exited with code 0; it is started again").count() <= 5, "{log}");
    host.signal("TERM");
    assert_eq!(host.exit_code(LONG), Some(0), "{}", host.log());
}

#[test]
fn a_text_that_is_too_long_for_its_poison_queue_stays_where_it_is() {
    let rig = Rig::new(r#""maxDequeueCount":1"#, "orders");
    let mut host = rig.host();
    // Another front-end takes longer texts than this one.
    let text = "bG9u".repeat(20_000);
    rig.put_by_cloudflare("orders", &text);
    let call = rig.desk.next();
    assert_eq!(call.text(), "lon".repeat(20_000));
    call.fail();
    host.logs("its text is longer than the poison queue takes", 1);
    assert_eq!((rig.count("orders"), rig.count("orders-poison")), (Some(1), None));
    // Not again before the ten minutes are over, and then only to try to move it.
    rig.advance(590);
    host.logs("its text is longer than the poison queue takes", 1);
    rig.advance(20);
    host.logs("its text is longer than the poison queue takes", 2);
    rig.desk.is_silent();
    assert_eq!(rig.count("orders"), Some(1), "it is not lost");
    rig.put("orders", "others go on");
    rig.desk.next().succeed();
    rig.holds("orders", 1);
}

#[test]
fn a_queue_that_comes_later_is_waited_for() {
    let rig = Rig::new("", "orders");
    assert_eq!(rig.ask("DELETE", "/orders", "").status, 204);
    let mut host = rig.host();
    host.logs("waits for its queue 'orders', which does not exist", 1);
    assert_eq!(rig.count("orders"), None, "the trigger does not create it");
    rig.create("orders");
    rig.put("orders", "hello");
    rig.advance(61);
    rig.desk.next().succeed();
    rig.holds("orders", 0);
}

#[test]
fn a_server_that_is_away_is_waited_for_and_what_was_done_is_not_done_again() {
    let mut rig = Rig::new("", "orders");
    let recorder = Recorder::between(&mut rig);
    let mut host = rig.host();
    rig.put("orders", "hello");
    let call = rig.desk.next();
    recorder.cut(true);
    call.succeed();
    host.logs("Deleting the message is tried again", 1);
    recorder.cut(false);
    rig.holds("orders", 0);
    host.logs("Executed 'Functions.fn' (Succeeded", 1);
    rig.put("orders", "next");
    rig.desk.next().succeed();
    rig.holds("orders", 0);
}

#[test]
fn a_wrong_key_is_logged_with_what_to_check_and_ends_nothing() {
    let rig = Rig::new("", "orders");
    rig.file("local.settings.json", r#"{"Values":{"OtherStorage":"unused"}}"#);
    let trigger = r#"{"bindings":[{"type":"queueTrigger","direction":"in","name":"item","queueName":"orders","connection":"Wrong"}]}"#;
    rig.file("fn/function.json", trigger);
    let wrong = format!(
        "AccountName=devstoreaccount1;AccountKey=d3Jvbmc=;QueueEndpoint=http://{}/devstoreaccount1",
        rig.azure
    );
    rig.file("local.settings.json", &serde_json::json!({"Values":{"Wrong":wrong}}).to_string());
    rig.function("good", "others", "");
    rig.create("others");
    let mut host = rig.begin(&[]);
    host.logs("Function 'fn' is not let in to poll its queue just now and goes on trying: ", 1);
    let log = host.log();
    assert!(log.contains("the app setting 'Wrong'"), "{log}");
    assert!(!log.contains("d3Jvbmc="), "no key is logged");
    // Other functions of the host run.
    rig.put("others", "hello");
    rig.desk.next().succeed();
    rig.holds("others", 0);
}

#[test]
fn a_url_that_is_no_clock_is_reported_as_such() {
    let mut rig = Rig::with_clock("", "orders", "system");
    rig.told = handler::AT_ONCE.to_owned();
    let clock = format!("http://{}", rig.kew.admin);
    let mut host = rig.begin(&["--clock", &clock, "--admin-token", "token"]);
    assert_eq!(host.exit_code(LONG), Some(1));
    assert!(host.log().contains("--clock virtual"), "{}", host.log());
}

/// Half a minute: the time a handler has to listen.
#[test]
#[ignore = "takes half a minute for each try; part of `make test-slow`"]
fn a_handler_that_never_listens_has_an_error_that_says_what_it_must_do() {
    let mut rig = Rig::new("", "orders");
    rig.told = handler::DEAF.to_owned();
    let mut host = rig.begin(&[]);
    assert_eq!(host.exit_code(Duration::from_secs(150)), Some(1));
    assert!(host.log().contains("did not answer on 127.0.0.1:"), "{}", host.log());
    assert!(host.log().contains("FUNCTIONS_CUSTOMHANDLER_PORT"), "{}", host.log());
}
