//! Where settings come from, and what is said about those that are wrong.

use super::program::{Kew, data_directory, http, printed};

#[test]
fn printed_settings_name_their_origins_and_hide_secrets() {
    let directory = data_directory();
    let file = directory.path().join("kew.toml");
    std::fs::write(
        &file,
        "[admin]\ntoken = \"hush\"\n[sqs]\nregion = \"eu-west-3\"\nname_hold_seconds = 7\n",
    )
    .expect("the directory is ours");
    let file = file.to_string_lossy().into_owned();
    let variables = [("KEW_SQS_NAME_HOLD_SECONDS", "5"), ("KEW_SQS_REGION", "")];
    let (code, text, errors) = printed(&["--config", &file, "--print-config", "--log", "json"], &variables);
    assert_eq!(code, Some(0), "{errors}");
    for expected in [
        "name_hold_seconds = 5 # variable KEW_SQS_NAME_HOLD_SECONDS".to_owned(),
        format!("region = \"eu-west-3\" # file {file}"),
        "log = \"json\" # flag --log".to_owned(),
        "purge_interval_seconds = 60 # default".to_owned(),
        format!("token = \"********\" # file {file}"),
    ] {
        let found = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
        assert!(found.into_iter().any(|line| line == expected), "{expected} in {text}");
    }
    assert!(!text.contains("hush"));
}

#[test]
fn a_wrong_file_ends_with_two_and_names_file_key_value_and_what_is_allowed() {
    let directory = data_directory();
    let file = directory.path().join("kew.toml");
    let path = file.to_string_lossy().into_owned();
    for (text, expected) in [
        (
            "[sqs]\nname_hold_seconds = \"soon\"\n",
            "[sqs] name_hold_seconds = \"soon\" is not allowed; it must be a whole",
        ),
        (
            "[sqs]\nurl_style = \"round\"\n",
            "[sqs] url_style = round is not allowed; it must be one of path, standard",
        ),
        ("[sqs]\ncolour = 1\n", "[sqs] colour = (hidden) is not a known key; allowed are region"),
        ("[limits]\nbody_bytes_max = \"8 GiB\"\n", "it must be bytes from 2097152 to 1073741824"),
        ("[colours]\n", "[colours] is not a known section"),
        ("[server]\nconsole = \"off\"\n", "[server] console = (hidden) is not a known key"),
        ("[sqs", "line 1"),
        (
            "[[accounts]]\naws = { id = \"1\" }\n",
            "accounts[0].aws.id = \"1\" is not allowed; it must be 12 digits",
        ),
    ] {
        std::fs::write(&file, text).expect("the directory is ours");
        let (code, _, errors) = printed(&["--config", &path], &[]);
        assert_eq!(code, Some(2), "{errors}");
        assert!(errors.contains(&path) && errors.contains(expected), "{errors}");
    }
    let (code, _, errors) = printed(&["--config", "/nowhere/kew.toml"], &[]);
    assert_eq!(code, Some(2));
    assert!(errors.contains("/nowhere/kew.toml"), "{errors}");
}

#[test]
fn a_file_sets_what_flags_set_and_a_variable_wins_over_it() {
    let directory = data_directory();
    let file = directory.path().join("kew.toml");
    let text = "[server]\nstore = \"memory\"\nhosts = [\"queue.example.com\"]\n[sqs]\nexternal_url = \"https://q.example.com/base\"\n";
    std::fs::write(&file, text).expect("the directory is ours");
    let kew = Kew::start_with(directory.path(), &["--config", &file.to_string_lossy()]);
    assert!(kew.errors().contains("in memory only"), "{}", kew.errors());
    let ask = |host: &str| {
        let headers = [("Host", host), ("X-Amz-Target", "AmazonSQS.CreateQueue")];
        http(&kew.sqs, "POST", "/", &headers, r#"{"QueueName":"orders"}"#)
    };
    for known in ["queue.example.com", "q.example.com", "kew", "127.0.0.1"] {
        let (status, body) = ask(known);
        assert_eq!(status, 200, "{known}: {body}");
        assert!(body.contains("https://q.example.com/base/000000000000/orders"), "{body}");
    }
    assert_eq!(ask("evil.example.com").0, 421);
}

#[test]
fn strict_mode_without_a_token_or_beyond_loopback_is_refused() {
    let (code, _, errors) = printed(&["--auth", "strict"], &[]);
    assert_eq!(code, Some(2), "{errors}");
    assert!(errors.contains("[admin] token"), "{errors}");
    let flags = ["--auth", "strict", "--sqs", "0.0.0.0:0", "--insecure"];
    let (code, _, errors) = printed(&flags, &[("KEW_ADMIN_TOKEN", "t")]);
    assert_eq!(code, Some(2), "{errors}");
    assert!(errors.contains("[[accounts]]"), "{errors}");
}

#[test]
fn strict_mode_refuses_requests_without_credentials() {
    let directory = data_directory();
    let file = directory.path().join("kew.toml");
    std::fs::write(&file, "[admin]\ntoken = \"hush\"\n").expect("the directory is ours");
    let flags = ["--store", "memory", "--auth", "strict", "--config", &file.to_string_lossy()];
    let mut kew = Kew::start_with(directory.path(), &flags);
    let (status, body) = kew.ask("CreateQueue", r#"{"QueueName":"orders"}"#);
    assert_eq!(status, 403, "{body}");
    assert_eq!(kew.admin("GET", "/api/v1/clock", &[], "").0, 401);
    assert_eq!(kew.admin("GET", "/readyz", &[], "").0, 200);
    assert!(kew.greeting().contains("--aws-sigv4 aws:amz:us-east-1:sqs --user \"test:test\""));
}

#[test]
fn a_variable_that_is_not_known_ends_with_two_and_names_the_nearest() {
    let (code, _, errors) = printed(&["--print-config"], &[("KEW_ADMIN_TOKN", "hush")]);
    assert_eq!(code, Some(2), "{errors}");
    let told = "KEW_ADMIN_TOKN is not a known variable; the nearest is KEW_ADMIN_TOKEN";
    assert!(errors.contains(told) && !errors.contains("hush"), "{errors}");
    let of_kubernetes = [("KEW_PORT", "tcp://10.0.0.1:9324"), ("KEW_SQS_SERVICE_HOST", "10.0.0.1")];
    assert_eq!(printed(&["--print-config"], &of_kubernetes).0, Some(0));
}

#[test]
fn the_example_with_containers_uses_settings_that_there_are() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/compose/compose.yaml");
    let text = std::fs::read_to_string(file).expect("the repository has the example");
    let settings: Vec<(&str, String)> = text
        .lines()
        .filter_map(|line| line.trim().split_once(": ").filter(|(key, _)| key.starts_with("KEW_")))
        .map(|(key, value)| {
            (key, value.trim_matches('"').replace("${KEW_PASSWORD:?", "hush-").replace('}', ""))
        })
        .chain([("KEW_NODE", "one".to_owned())])
        .collect();
    let variables: Vec<(&str, &str)> = settings.iter().map(|(key, value)| (*key, value.as_str())).collect();
    assert_eq!(variables.len(), 9, "{variables:?}");
    let (code, shown, errors) = printed(&["--print-config"], &variables);
    assert_eq!(code, Some(0), "{errors}");
    for (key, _) in variables {
        assert!(shown.contains(key), "{key} in {shown}");
    }
}

#[test]
fn settings_that_cannot_be_printed_end_with_one() {
    let full =
        std::fs::File::options().write(true).open("/dev/full").expect("Linux has a device that is full");
    let mut command = super::program::command();
    let output = command.arg("--print-config").stdout(full).output().expect("kew is built with its tests");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(errors.contains("writing to standard output"), "{errors}");
}
