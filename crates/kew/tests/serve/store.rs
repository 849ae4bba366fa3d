//! `kew store` on what a server left behind.

use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Output;

use super::program::{Kew, command_with_open_umask, data_directory, tool_with_open_umask};
use super::store_tool::{self, errors};

fn tool(directory: &Path, arguments: &[&str]) -> Output {
    store_tool::tool(directory.join("data"), arguments)
}

fn done(directory: &Path, arguments: &[&str]) -> String {
    store_tool::done(directory.join("data"), arguments)
}

/// How each message's body begins. Long enough that no random bytes of an id or a nonce look like it.
const BODY: &str = "m: a body that no id contains, ";

/// A store with one queue and three messages, its server killed.
fn left_behind(directory: &Path) {
    let mut kew = Kew::start(directory);
    kew.ask("CreateQueue", r#"{"QueueName":"orders"}"#);
    for number in 0..3 {
        kew.ask("SendMessage", &format!(r#"{{"QueueUrl":"orders","MessageBody":"{BODY}{number}"}}"#));
    }
    kew.kill();
}

#[test]
fn a_store_is_checked_counted_exported_and_imported_again() {
    let (one, other) = (data_directory(), data_directory());
    left_behind(one.path());
    assert!(done(one.path(), &["check"]).contains("sound: "));
    let stats = done(one.path(), &["stats"]);
    assert!(stats.starts_with("queues               1\nmessages             3\n"), "{stats}");
    let json: serde_json::Value = serde_json::from_str(&done(one.path(), &["stats", "--json"]))
        .expect("the figures are one JSON object");
    assert_eq!((&json["queues"], &json["messages"]["stored"]), (&1.into(), &3.into()), "{json}");
    for (line, value) in [
        ("  in flight          ", &json["messages"]["in_flight"]),
        ("  bytes of bodies    ", &json["messages"]["body_bytes"]),
        ("  live               ", &json["segments"]["live_bytes"]),
        ("memory, about        ", &json["memory_bytes"]),
    ] {
        let shown = stats.lines().find_map(|shown| shown.strip_prefix(line));
        assert_eq!(shown.map(str::to_owned), Some(value.to_string()), "{line}");
    }
    let lines = one.path().join("lines").to_string_lossy().into_owned();
    done(one.path(), &["export", "--to", &lines]);
    assert_eq!(done(one.path(), &["export"]), std::fs::read_to_string(&lines).expect("the file was written"));
    done(other.path(), &["import", "--from", &lines]);
    let kew = Kew::start(other.path());
    let (_, found) = kew.ask("ReceiveMessage", r#"{"QueueUrl":"orders","MaxNumberOfMessages":10}"#);
    assert_eq!(found.matches("\"Body\":\"m").count(), 3, "{found}");
}

#[test]
fn a_backup_opens_like_any_store_and_is_verified_against_its_list() {
    let (one, other) = (data_directory(), data_directory());
    left_behind(one.path());
    let target = other.path().join("data").to_string_lossy().into_owned();
    done(one.path(), &["backup", &target]);
    done(one.path(), &["backup", "--verify", &target]);
    let kew = Kew::start(other.path());
    let (_, found) = kew.ask("ReceiveMessage", r#"{"QueueUrl":"orders","MaxNumberOfMessages":10}"#);
    assert_eq!(found.matches("\"Body\":\"m").count(), 3, "{found}");
}

#[test]
fn tools_keep_away_from_a_running_server_and_from_nothing() {
    let directory = data_directory();
    let nothing = tool(directory.path(), &["check"]);
    assert_eq!(nothing.status.code(), Some(1));
    assert!(errors(&nothing).contains("holds no store"), "{}", errors(&nothing));
    assert!(!directory.path().join("data").exists(), "looking made a directory");
    let _kew = Kew::start(directory.path());
    for arguments in [&["check"][..], &["stats"], &["export"]] {
        let output = tool(directory.path(), arguments);
        assert_eq!(output.status.code(), Some(1));
        assert!(errors(&output).contains("is in use by"), "{arguments:?}: {}", errors(&output));
    }
}

#[test]
fn a_directory_of_something_else_is_no_store_and_is_left_as_it_is() {
    let directory = data_directory();
    let data = directory.path().join("data");
    std::fs::create_dir(&data).expect("the test can write to its own directory");
    std::fs::write(data.join("letter"), "dear").expect("the test can write to its own directory");
    for arguments in [&["check"][..], &["stats"], &["export"], &["backup", "elsewhere"]] {
        let output = tool(directory.path(), arguments);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        assert!(errors(&output).contains("holds no store"), "{arguments:?}: {}", errors(&output));
    }
    assert_eq!(std::fs::read_dir(&data).expect("the directory exists").count(), 1, "a tool made something");
    let missing = directory.path().join("missing");
    let output = tool(directory.path(), &["backup", "--verify", &missing.to_string_lossy()]);
    assert!(errors(&output).contains("no such directory"), "{}", errors(&output));
    assert!(!missing.exists(), "verifying made a directory");
}

#[test]
fn an_import_that_fails_says_what_it_leaves() {
    let (one, other) = (data_directory(), data_directory());
    left_behind(one.path());
    let lines = done(one.path(), &["export"]);
    let cut = one.path().join("cut");
    std::fs::write(&cut, &lines[..lines.len() / 2]).expect("the test can write to its own directory");
    let import = ["import", "--from", &cut.to_string_lossy()];
    let output = tool(other.path(), &import);
    let told = errors(&output);
    assert!(told.contains("importing line") && told.contains("remove it before the next import"), "{told}");
    assert!(errors(&tool(other.path(), &import)).contains("holds a store already"));
}

#[test]
fn an_import_refuses_queues_that_no_client_can_address() {
    let (one, other) = (data_directory(), data_directory());
    left_behind(one.path());
    let lines = done(one.path(), &["export"]);
    let bad = one.path().join("bad");
    let at =
        lines.lines().position(|line| line.starts_with("{\"queue\":")).expect("the export has a queue") + 1;
    for (good, wrong) in [
        ("\"name\":\"orders\"", "\"name\":\"or ders/../x\""),
        ("\"region\":\"us-east-1\"", "\"region\":\"us:east\""),
        ("\"account\":0", "\"account\":1000000000000"),
    ] {
        assert!(lines.contains(good), "{lines}");
        std::fs::write(&bad, lines.replacen(good, wrong, 1))
            .expect("the test can write to its own directory");
        let store = other.path().join(format!("store-{}", wrong.len()));
        let output = store_tool::tool(&store, &["import", "--from", &bad.to_string_lossy()]);
        let told = errors(&output);
        assert_eq!(output.status.code(), Some(1), "{wrong}: {told}");
        assert!(told.contains(&format!("importing line {at}: ")), "{told}");
        assert!(told.contains("--unaddressable"), "{told}");
        let store = other.path().join(format!("taken-{}", wrong.len()));
        let arguments = ["import", "--unaddressable", "--from", &bad.to_string_lossy()];
        let output = store_tool::tool(&store, &arguments);
        assert_eq!(output.status.code(), Some(0), "{wrong}: {}", errors(&output));
    }
}

/// A store that is left behind, with one byte of the second message's body flipped below its last checkpoint.
fn left_damaged(directory: &Path) {
    left_behind(directory);
    let backup = directory.join("backup").to_string_lossy().into_owned();
    done(directory, &["backup", &backup]);
    let segments = directory.join("data/segments");
    let first = std::fs::read_dir(&segments)
        .expect("the store has a folder of segments")
        .flatten()
        .map(|entry| entry.path())
        .min();
    let first = first.expect("the store has a segment");
    let mut bytes = std::fs::read(&first).expect("the test can read its own files");
    let text = format!("{BODY}1");
    let body = bytes.windows(text.len()).position(|window| window == text.as_bytes());
    bytes[body.expect("the segment holds bodies as they were sent")] ^= 1;
    std::fs::write(&first, bytes).expect("the test can write to its own directory");
}

#[test]
fn damage_is_named_with_exit_code_one() {
    let directory = data_directory();
    left_damaged(directory.path());
    let output = tool(directory.path(), &["check"]);
    assert_eq!(output.status.code(), Some(1));
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(told.contains("DAMAGE  ") && told.contains("segments/"), "{told}");
}

#[test]
fn all_other_messages_are_rescued_from_a_store_with_a_damaged_one() {
    let (one, other) = (data_directory(), data_directory());
    left_damaged(one.path());
    let lines = one.path().join("lines").to_string_lossy().into_owned();
    let output = tool(one.path(), &["export", "--to", &lines]);
    let told = errors(&output);
    assert_eq!(output.status.code(), Some(1));
    assert!(told.contains("damage in segments/") && told.contains("; --leave-out-damaged exports"), "{told}");
    assert!(!Path::new(&lines).exists(), "a part of an export is in the way of the next");
    let output = tool(one.path(), &["export", "--leave-out-damaged", "--to", &lines]);
    let told = errors(&output);
    assert_eq!(output.status.code(), Some(3), "{told}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "1 queues and 2 messages, in 5 lines\n");
    let (left_out, sum) = told.trim_end().split_once('\n').expect("two lines");
    assert!(
        left_out
            .starts_with("left out message 2 of queue 000000000000/us-east-1/orders: damage in segments/")
    );
    assert!(left_out.contains(".seg at offset "), "{told}");
    assert_eq!(sum, "error: messages left out, since they cannot be read: 1");
    let output = tool(one.path(), &["export", "--leave-out-damaged"]);
    assert_eq!(output.status.code(), Some(3));
    assert_eq!(output.stdout, std::fs::read(&lines).expect("the file was written"));

    done(other.path(), &["import", "--from", &lines]);
    // Of a sound store nothing is left out.
    done(other.path(), &["export", "--leave-out-damaged"]);
    let kew = Kew::start(other.path());
    let (_, found) = kew.ask("ReceiveMessage", r#"{"QueueUrl":"orders","MaxNumberOfMessages":10}"#);
    let has = |number| found.contains(&format!("\"Body\":\"{BODY}{number}\""));
    assert!(has(0) && has(2), "{found}");
    assert_eq!(found.matches("\"Body\":").count(), 2, "{found}");
}

#[test]
fn a_receive_of_a_damaged_message_fails_and_the_log_says_where_it_lies() {
    let directory = data_directory();
    left_damaged(directory.path());
    let kew = Kew::start(directory.path());
    let receive = || kew.ask("ReceiveMessage", r#"{"QueueUrl":"orders","MaxNumberOfMessages":1}"#);
    let (_, first) = receive();
    assert_eq!(first.matches("\"Body\":").count(), 1, "{first}");
    // It finds nothing else. One that takes more leaves the damaged message out.
    let (status, refused) = receive();
    assert!(status == 500 && refused.contains("InternalFailure"), "{status} {refused}");
    let told = kew.errors();
    let store = directory.path().join("data").display().to_string();
    assert!(told.contains("stored data is damaged: damage in segments/"), "{told}");
    assert!(told.contains(&format!("store=\"{store}\"")), "{told}");
}

/// Mode bits of everything below a directory that lets others in, by name.
fn open_to_others(directory: &Path) -> Vec<String> {
    let mut open = Vec::new();
    for entry in std::fs::read_dir(directory).expect("the directory exists") {
        let entry = entry.expect("the test can read its own files");
        let found = entry.metadata().expect("the file exists");
        if found.permissions().mode() & 0o077 != 0 {
            open.push(format!("{} {:o}", entry.path().display(), found.permissions().mode()));
        }
        if found.is_dir() {
            open.append(&mut open_to_others(&entry.path()));
        }
    }
    open
}

#[test]
fn store_exports_backups_and_the_ports_file_are_readable_by_their_owner_alone_whatever_the_umask() {
    let folder = data_directory();
    let work = folder.path().join("work");
    std::fs::create_dir(&work).expect("the test can write to its own directory");
    let text = |name: &str| work.join(name).to_string_lossy().into_owned();
    let mut kew = Kew::start_by(command_with_open_umask(), folder.path(), &["--store", &text("data")]);
    let ports =
        folder.path().join("ports").metadata().expect("the file of ports is written before the line Ready.");
    assert_eq!(ports.permissions().mode() & 0o7777, 0o600);
    kew.ask("CreateQueue", r#"{"QueueName":"orders"}"#);
    assert_eq!(open_to_others(&work), Vec::<String>::new());
    kew.kill();
    for arguments in [&["export", "--to", &text("lines")][..], &["backup", &text("backup")]] {
        let mut tool = tool_with_open_umask();
        let output = tool.env("KEW_STORE", text("data")).arg("store").args(arguments).output();
        assert!(output.expect("the program kew is built with its tests").status.success(), "{arguments:?}");
    }
    let mut import = tool_with_open_umask();
    import.env("KEW_STORE", text("import")).args(["store", "import", "--from", &text("lines")]);
    assert!(import.output().expect("the program kew is built with its tests").status.success());
    assert_eq!(open_to_others(&work), Vec::<String>::new());
}

#[test]
fn a_store_that_an_older_version_left_open_is_closed_and_the_log_says_so() {
    let directory = data_directory();
    left_behind(directory.path());
    let data = directory.path().join("data");
    for open in [data.clone(), data.join("segments")] {
        std::fs::set_permissions(open, Permissions::from_mode(0o755))
            .expect("the test can change its own files");
    }
    std::fs::set_permissions(data.join("STORE"), Permissions::from_mode(0o644))
        .expect("the test can change its own files");
    let kew = Kew::start(directory.path());
    assert!(kew.errors().contains("other users of this machine could read the store"), "{}", kew.errors());
    assert_eq!(open_to_others(&data), Vec::<String>::new());
    assert_eq!(data.metadata().expect("the file exists").permissions().mode() & 0o7777, 0o700);
}

/// Everything that can be seen of a directory: names, lengths, instants of the last change, contents.
fn fingerprint(directory: &Path) -> Vec<String> {
    let mut seen = Vec::new();
    for entry in std::fs::read_dir(directory).expect("the directory exists") {
        let path = entry.expect("the test can read its own files").path();
        let found = path.metadata().expect("the file exists");
        let (changed, touched) = (found.mtime_nsec(), found.mtime());
        let contents = if found.is_dir() { fingerprint(&path) } else { Vec::new() };
        let bytes = if found.is_file() {
            std::fs::read(&path).expect("the test can read its own files")
        } else {
            Vec::new()
        };
        let text = path.display().to_string();
        seen.push(format!(
            "{text} {} {touched}.{changed} {:?} {bytes:?} {contents:?}",
            found.len(),
            found.mode()
        ));
    }
    seen.sort_unstable();
    seen
}

#[test]
fn check_stats_and_export_change_no_byte_of_a_store_whose_server_was_killed() {
    let directory = data_directory();
    left_behind(directory.path());
    let data = directory.path().join("data");
    let folders = [data.clone(), data.join("segments"), data.join("checkpoints")];
    let set = |mode| {
        for folder in folders.iter().filter(|folder| folder.is_dir()) {
            std::fs::set_permissions(folder, Permissions::from_mode(mode))
                .expect("the test can change its own files");
        }
    };
    // Where the test does not run as root, nothing could be written either.
    set(0o500);
    let before = fingerprint(&data);
    assert!(done(directory.path(), &["check"]).contains("sound: "));
    assert!(done(directory.path(), &["stats"]).contains("messages             3\n"));
    assert_eq!(done(directory.path(), &["export"]).matches("{\"message\":").count(), 3);
    assert!(fingerprint(&data) == before, "looking changed something");
    set(0o700);
}

#[test]
fn a_store_without_its_manifest_or_its_segments_is_refused_by_name_by_everything() {
    let directory = data_directory();
    left_behind(directory.path());
    let data = directory.path().join("data");
    let backup = directory.path().join("backup").to_string_lossy().into_owned();
    // It makes a checkpoint.
    done(directory.path(), &["backup", &backup]);
    let manifest = std::fs::read(data.join("MANIFEST")).expect("the store has a manifest after a checkpoint");
    let refused = |file: &str| {
        let before = fingerprint(&data);
        let (code, told) = super::program::fail(&["--store", &data.to_string_lossy()]);
        assert_eq!(code, Some(1), "{told}");
        assert!(told.contains(file) && told.contains("kew store check --store"), "{told}");
        for arguments in [&["check"][..], &["stats"], &["export"]] {
            let output = tool(directory.path(), arguments);
            let told = format!("{}{}", String::from_utf8_lossy(&output.stdout), errors(&output));
            assert_eq!(output.status.code(), Some(1), "{arguments:?}: {told}");
            assert!(told.contains(file), "{arguments:?}: {told}");
        }
        let names = |seen: &[String]| seen.iter().filter(|line| !line.contains("/LOCK ")).count();
        assert_eq!(names(&fingerprint(&data)), names(&before));
    };
    std::fs::remove_file(data.join("MANIFEST")).expect("the test can change its own files");
    refused("MANIFEST");
    std::fs::write(data.join("MANIFEST"), manifest).expect("the test can change its own files");
    std::fs::remove_dir_all(data.join("segments")).expect("the test can change its own files");
    refused(".seg");
}

#[test]
fn a_url_that_is_written_wrong_makes_no_directory_and_its_password_is_not_shown() {
    let directory = data_directory();
    for url in ["mysql://u:s3cret@h/d", "postgres:/u:s3cret@h/d", "PostgreSQL:u:s3cret@h/d", "memory"] {
        for arguments in [&["create"][..], &["check"], &["stats", "--store", url], &["create", url]] {
            let output = store_tool::command(url, arguments).current_dir(directory.path()).output();
            let output = output.expect("the program kew is built with its tests");
            let said = errors(&output);
            assert_eq!(output.status.code(), Some(2), "{url} {arguments:?}: {said}");
            assert!(!said.contains("s3cret"), "{said}");
        }
    }
    let known = store_tool::tool("Postgres://u:s3cret@127.0.0.1:1/d", &["stats"]);
    let said = errors(&known);
    assert!(said.contains("postgres://u@127.0.0.1:1/d") && !said.contains("s3cret"), "{said}");
    let mut backup = store_tool::command("data", &["backup", "postgres:/u:s3cret@h/d"]);
    let output =
        backup.current_dir(directory.path()).output().expect("the program kew is built with its tests");
    assert!(errors(&output).contains("no backup can be made there: postgres:/h/d"), "{}", errors(&output));
    let made = std::fs::read_dir(directory.path()).expect("the directory is ours").count();
    assert_eq!(made, 0);
}
