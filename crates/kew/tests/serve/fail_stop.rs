//! A disk that fails under a running server: nothing is acknowledged any more, and every client gets an error.

use super::body;
use super::program::{self, Kew, data_directory};

use rustix::process::{Pid, Resource, Rlimit, prlimit};

#[test]
fn after_a_failed_write_it_refuses_until_a_restart_which_finds_all_that_was_acknowledged() {
    let directory = data_directory();
    let data = directory.path().join("data").to_string_lossy().into_owned();
    let mut kew =
        Kew::start_by(program::command_without_file_size_signal(), directory.path(), &["--store", &data]);
    body(&kew, "CreateQueue", r#"{"QueueName":"orders"}"#);
    body(&kew, "SendMessage", r#"{"QueueUrl":"orders","MessageBody":"kept"}"#);
    assert_eq!(kew.admin("GET", "/readyz", &[], "").0, 200);
    // From now on every write of the process fails, as on a disk that is going.
    let id = Pid::from_raw(i32::try_from(kew.id()).expect("ids are small"))
        .expect("the server has a process id above zero");
    let nothing = Rlimit { current: Some(0), maximum: Some(u64::MAX >> 1) };
    let _before =
        prlimit(Some(id), Resource::Fsize, nothing).expect("the limit of a child process can be lowered");
    let (status, told) = kew.ask("SendMessage", r#"{"QueueUrl":"orders","MessageBody":"lost"}"#);
    assert_eq!(status, 503, "{told}");
    assert!(told.contains("ServiceUnavailable"), "{told}");
    for action in ["SendMessage", "PurgeQueue"] {
        let (status, told) = kew.ask(action, r#"{"QueueUrl":"orders","MessageBody":"lost"}"#);
        assert_eq!(status, 503, "{action}: {told}");
    }
    let azure = kew.ports["azure"].as_str().expect("the listener is on").to_owned();
    let (status, told) = program::http(&azure, "PUT", "/devstoreaccount1/others", &[], "");
    assert!(status == 503 && told.contains("<Code>ServerBusy</Code>"), "{status} {told}");
    let cloudflare = kew.ports["cloudflare"].as_str().expect("the listener is on").to_owned();
    let queues = "/client/v4/accounts/0/queues";
    let (status, told) = program::http(&cloudflare, "POST", queues, &[], r#"{"queue_name":"others"}"#);
    assert!(status == 429 && told.contains("\"code\":10250"), "{status} {told}");
    let (status, told) = kew.admin("GET", "/readyz", &[], "");
    assert_eq!(status, 503, "{told}");
    assert_eq!(kew.admin("GET", "/livez", &[], "").0, 200, "it lives, and can say why it does not serve");
    kew.kill();
    let again = Kew::start(directory.path());
    let found = body(&again, "ReceiveMessage", r#"{"QueueUrl":"orders","MaxNumberOfMessages":10}"#);
    assert!(found.contains("\"Body\":\"kept\"") && !found.contains("lost"), "{found}");
}
