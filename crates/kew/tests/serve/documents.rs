//! What pages and the banner tell people to paste, pasted.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use kew_azure::client::{Call, Endpoint, Stamp};
use kew_http::client::{Client, ClientSettings};

use super::program::{Kew, command, data_directory};

const PAGE: &str = include_str!("../../../../docs/strict.md");
const SQS_PAGE: &str = include_str!("../../../../docs/dialects/sqs.md");

/// The page's blocks of commands, in order.
fn blocks(page: &str) -> Vec<&str> {
    page.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next()).collect()
}

/// A text with the addresses of this server where it has the usual ones.
fn here(kew: &Kew, text: &str) -> String {
    [
        ("sqs", "127.0.0.1:9324"),
        ("azure", "127.0.0.1:10001"),
        ("cloudflare", "127.0.0.1:9326"),
        ("admin", "127.0.0.1:9325"),
    ]
    .into_iter()
    .fold(text.to_owned(), |text, (name, usual)| {
        text.replace(usual, kew.ports[name].as_str().unwrap_or(usual))
    })
}

fn has(tool: &str) -> bool {
    let found = Command::new("sh").args(["-c", &format!("command -v {tool}")]).output();
    let found = found.is_ok_and(|output| output.status.success());
    if !found {
        let needed = format!("KEW_{}_NEEDED", tool.to_uppercase());
        assert!(std::env::var_os(needed).is_none(), "there is no {tool}");
        eprintln!("SKIPPED: commands of {tool}, which is not here");
    }
    found
}

/// What bash prints of these commands, which must all succeed. `kew` is this program, and nothing else is known of
/// the user that runs the test.
fn pasted(directory: &Path, commands: &str) -> String {
    let programs = Path::new(env!("CARGO_BIN_EXE_kew"))
        .parent()
        .expect("the program lies in a folder")
        .display()
        .to_string();
    let path = std::env::var("PATH").unwrap_or_default();
    let mut bash = Command::new("bash");
    for (name, _) in std::env::vars().filter(|(name, _)| {
        ["KEW_", "AWS_", "AZURE_", "CLOUDFLARE_"].iter().any(|start| name.starts_with(start))
    }) {
        bash.env_remove(name);
    }
    bash.args(["-eu", "-o", "pipefail", "-c", commands]).current_dir(directory);
    let output = bash
        .env("PATH", format!("{programs}:{path}"))
        .env("HOME", directory)
        .output()
        .expect("the system has bash");
    let text = [output.stdout, b"\n".to_vec(), output.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    assert!(output.status.success(), "{commands}: {text}");
    text
}

/// The page's configuration, made as it says, and a server that has it.
fn strict(directory: &Path) -> Kew {
    pasted(directory, blocks(PAGE)[0]);
    let file = directory.join("kew.toml");
    let config = file.to_str().expect("the path of a temporary directory is UTF-8");
    assert_eq!(blocks(PAGE)[1].trim(), "kew serve --config kew.toml");
    let kew = Kew::start_with(directory, &["--store", "memory", "--config", config]);
    let text = std::fs::read_to_string(&file).expect("the file kew.toml was made");
    std::fs::write(&file, here(&kew, &text)).expect("the test can change its own files");
    kew
}

#[test]
fn the_page_about_strict_mode_works_as_it_is_pasted() {
    use std::os::unix::fs::PermissionsExt;
    if !has("curl") || !has("openssl") {
        return;
    }
    let directory = data_directory();
    let kew = strict(directory.path());
    let file = std::fs::metadata(directory.path().join("kew.toml")).expect("the file kew.toml was made");
    assert_eq!(file.permissions().mode() & 0o777, 0o600);
    let mut commands = String::new();
    for block in &blocks(PAGE)[2..] {
        let tool = block.split(' ').next().expect("a block begins with a tool");
        if ["aws", "az"].contains(&tool) && !has(tool) {
            continue;
        }
        commands.push_str(&here(&kew, block));
    }
    let shown = pasted(directory.path(), &commands);
    for expected in [
        "\"Body\":\"hello\"",
        "<MessageText>hello</MessageText></QueueMessage></QueueMessagesList>",
        "\"queue_name\":\"letters\"",
        "\"queues\":[{",
        "MissingAuthenticationToken",
        "AuthenticationFailed",
        "Authentication error",
        "this needs the admin token",
    ] {
        assert!(shown.contains(expected), "{expected} is not in {shown}");
    }
    assert_eq!(
        shown.matches("The requested URL returned error: 40").count(),
        4,
        "who proves nothing: {shown}"
    );
}

#[test]
fn the_first_commands_of_the_page_about_sqs_work_with_the_vendor_s_command_line() {
    if !has("aws") {
        return;
    }
    let directory = data_directory();
    let kew = Kew::start_with(directory.path(), &["--store", "memory"]);
    let commands = here(&kew, blocks(SQS_PAGE)[0]);
    for _ in 0..2 {
        let shown = pasted(directory.path(), &commands);
        assert!(shown.contains("/000000000000/orders\""), "{shown}");
    }
}

/// The commands of a banner, in one script, with curl's failures as failures.
fn commands(kew: &mut Kew) -> Vec<String> {
    let greeting = kew.greeting();
    let lines = greeting.lines().filter_map(|line| line.strip_prefix("  "));
    let curl = "curl -sS --fail-with-body ";
    let commands = lines.filter(|line| line.starts_with("curl ") || line.starts_with("az "));
    commands.map(|line| line.replacen("curl ", curl, 1)).collect()
}

/// Create Queue by the connection string of a banner's `az`, as an SDK does it.
fn by_connection_string(az: &str, key: &str) {
    let text =
        az.split('"').nth(1).expect("the connection string is in quotes").replace("$AZURE_STORAGE_KEY", key);
    let endpoint = Endpoint::from_connection_string(&text).expect("the connection string is valid");
    let stamp = Stamp { now: kew::machine::system_now(), id: "test", token: None };
    let request = endpoint
        .request(&Call::create_queue("invoices"), stamp)
        .expect("the call has a valid URI and headers");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime of one thread is built");
    let client = Client::new(ClientSettings::default());
    let answer =
        runtime.block_on(client.exchange(request, Duration::from_secs(20))).expect("the server answers");
    assert_eq!(answer.status, 201, "{answer:?}");
}

#[test]
fn the_banner_s_commands_work_with_the_accounts_that_are_configured() {
    if !has("curl") {
        return;
    }
    let well_known =
        "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
    for (is_strict, is_configured) in [(false, false), (true, false), (true, true)] {
        let directory = data_directory();
        let mut program = command();
        program.env("KEW_ADMIN_TOKEN", "hush").env("KEW_AUTH", if is_strict { "strict" } else { "open" });
        let mut kew = if is_configured {
            strict(directory.path())
        } else {
            Kew::start_by(program, directory.path(), &["--store", "memory"])
        };
        let all = commands(&mut kew);
        let (az, curl): (Vec<String>, Vec<String>) =
            all.into_iter().partition(|line| line.starts_with("az "));
        assert!(curl.len() >= 5 && az.len() == usize::from(is_strict), "{}", kew.greeting());
        let secrets = if is_configured { blocks(PAGE)[2] } else { "" };
        let shown = pasted(directory.path(), &format!("{secrets}{}", curl.join("\n")));
        assert!(shown.contains("\"Body\":\"hello\"") && shown.contains("letters"), "{shown}");
        if let Some(az) = az.first() {
            let key = pasted(
                directory.path(),
                &format!("{secrets}printf %s \"${{AZURE_STORAGE_KEY-{well_known}}}\""),
            );
            by_connection_string(az, key.trim());
        }
        assert_eq!(kew.greeting().contains("AWS_SECRET_ACCESS_KEY"), is_configured);
    }
}

#[test]
fn a_banner_shows_no_command_that_no_account_can_perform() {
    let directory = data_directory();
    let file = directory.path().join("kew.toml");
    let text = "[server]\nauth = \"strict\"\n[admin]\ntoken = \"hush\"\n[[accounts]]\naws = { id = \"000000000001\", access_keys = [] }\n\
                cloudflare = { id = \"00000000000000000000000000000001\", tokens = [{ token = \"t\", permissions = [\"queues_read\"] }] }\n";
    std::fs::write(&file, text).expect("the test can write to its own directory");
    let config = file.to_str().expect("the path of a temporary directory is UTF-8");
    let mut kew = Kew::start_with(directory.path(), &["--store", "memory", "--config", config]);
    let commands = commands(&mut kew);
    assert_eq!(commands.len(), 1, "{commands:?}");
    assert!(
        commands[0].ends_with("/queues -H \"Authorization: Bearer $CLOUDFLARE_API_TOKEN\""),
        "{commands:?}"
    );
    if has("curl") {
        let listed = pasted(directory.path(), &format!("CLOUDFLARE_API_TOKEN=t\n{}", commands[0]));
        assert!(listed.contains("\"success\":true"), "{listed}");
    }
}

const ADMIN_PAGE: &str = include_str!("../../../../docs/admin-api.md");
const README: &str = include_str!("../../../../README.md");

#[test]
fn the_commands_of_the_readme_and_of_the_page_about_the_admin_api_work_as_they_are_pasted() {
    let directory = data_directory();
    let kew = Kew::start_with(directory.path(), &["--store", "memory"]);
    let url = format!("export KEW_ADMIN_URL=http://{}\n", kew.admin);
    let first = blocks(README).into_iter().find(|block| block.contains("\nkew queue create"));
    let first = first.expect("the README has a block of kew's commands");
    let shown = pasted(directory.path(), &format!("{url}{first}"));
    assert!(shown.starts_with("orders\n") && shown.trim_end().ends_with("\nhello"), "{shown}");
    let _deleted = pasted(directory.path(), &format!("{url}kew queue delete orders --yes"));
    let [commands, init, requests] = blocks(ADMIN_PAGE)[..] else {
        panic!("the page has three blocks of commands")
    };
    let shown = pasted(directory.path(), &format!("{url}{commands}"));
    assert!(shown.contains("\nhello\n") && shown.contains("deleted 1 messages of orders"), "{shown}");
    let file = ADMIN_PAGE.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next());
    let file = file.expect("the page has a file of queues");
    std::fs::write(directory.path().join("queues.toml"), file).expect("the test can write its own files");
    let shown = pasted(directory.path(), &format!("{url}{init}"));
    for expected in [
        "jobs: would be created\n",
        "\n3 created, 0 changed, 0 unchanged\n",
        "\njobs: changed visibility_seconds 30→60\n",
        "\n0 created, 1 changed, 2 unchanged\n",
        "\n0 created, 0 changed, 1 unchanged\n",
    ] {
        assert!(shown.contains(expected), "{expected} is not in {shown}");
    }
    if has("curl") {
        let shown = pasted(directory.path(), &here(&kew, requests));
        assert!(shown.contains("\"colour\":{\"type\":\"String\",\"value\":\"red\"}"), "{shown}");
        assert!(shown.contains("\"action\":\"purgeQueue\""), "{shown}");
    }
}
