//! Settings as they are read from all sources together.

use clap::Parser;

use super::*;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    serve: ServeArgs,
}

fn read_with(flags: &[&str], variables: &[(&str, &str)]) -> Result<(Settings, Values), String> {
    let line = Line::try_parse_from([&["kew"], flags].concat()).map_err(|error| error.to_string())?;
    let variable =
        |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
    Settings::read(&line.serve, &variable).map_err(|error| error.to_string())
}

fn refused(flags: &[&str], variables: &[(&str, &str)]) -> String {
    read_with(flags, variables).map(|_| ()).expect_err("it is refused")
}

#[test]
fn defaults_need_no_flag() {
    let (settings, _) = read_with(&[], &[]).expect("the defaults are fine");
    assert_eq!(settings.server.store, StoreChoice::Directory("./kew-data".into()));
    assert_eq!(settings.server.sqs, Address::At(([127, 0, 0, 1], 9324).into()));
    assert_eq!(settings.server.admin, Address::At(([127, 0, 0, 1], 9325).into()));
    assert_eq!(settings.server.durability, Durability::Sync);
    assert_eq!(settings.sqs.name_hold, Duration::from_secs(60));
    assert_eq!(settings.sqs.fifo_in_flight_limit, 20_000);
    assert_eq!(settings.scrub, Some(Duration::from_secs(7 * 86_400)));
}

#[test]
fn wrong_values_are_refused_with_the_flag_and_what_is_allowed() {
    for (flags, expected) in [
        (["--sqs", "nowhere"], "--sqs nowhere is not allowed"),
        (["--sqs", "127.0.0.1:99999"], "an address and a port"),
        (["--sqs", "0.0.0.0:0"], "--insecure"),
        (["--admin", "0.0.0.0:0"], "--admin 0.0.0.0:0 can be reached"),
        (["--also", "0.0.0.0:0"], "--also"),
        (["--store", "mysql://db"], "--store"),
        (["--durability", "never"], "one of sync, os"),
        (["--node", "one/two"], "1 to 64 letters, digits"),
        (["--log", "xml"], "one of text, json"),
        (["--clock", "sundial"], "one of system, virtual"),
        (["--auth", "strict"], "[admin] token"),
        (["--azure", "nowhere"], "--azure"),
        (["--cloudflare", "nowhere"], "--cloudflare"),
        (["--cloudflare", "0.0.0.0:0"], "--insecure"),
        (["--console", "off"], "--console"),
        (["--config", "/nowhere/kew.toml"], "/nowhere/kew.toml: cannot read"),
    ] {
        let told = refused(&flags, &[]);
        assert!(told.contains(expected), "{told}");
    }
    let told = refused(&["--sqs", "off", "--azure", "off", "--cloudflare", "off"], &[]);
    assert!(told.contains("--sqs off leaves nothing to serve"), "{told}");
    assert!(read_with(&["--sqs", "0.0.0.0:0", "--insecure"], &[]).is_ok());
}

#[test]
fn address_for_other_nodes_is_refused_where_there_is_no_fleet() {
    let (fleet, peer) = (["--store", "postgres://db/kew"], ["--peer", "127.0.0.1:9330"]);
    assert!(read_with(&[fleet, peer].concat(), &[]).is_ok());
    let told = refused(&[["--store", "memory"], peer].concat(), &[]);
    assert!(told.contains("--store memory"), "{told}");
}

#[test]
fn databases_are_named_in_their_order_and_the_first_of_them_is_the_store() {
    let given = |arguments: &[&str], variables: &[(&str, &str)]| {
        let (settings, values) = read_with(arguments, variables).expect("the databases are valid");
        let shown = lines(&values, &settings);
        assert!(!shown.contains("secret") && shown.contains("postgres://kew@a/kew"), "{shown}");
        match settings.server.store {
            StoreChoice::Postgres(url) => {
                let all = url.0.given().expect("all databases are named");
                all.into_iter().map(ToOwned::to_owned).collect::<Vec<_>>()
            }
            other => panic!("{other}"),
        }
    };
    let (first, second) = ("postgres://kew:secret@a/kew", "postgresql://b:5432,c:5432/kew");
    assert_eq!(given(&["--databases", first, second], &[]), [first, second]);
    assert_eq!(given(&["--databases", first, "--databases", second], &[]), [first, second]);
    let both = format!("{first}, {second}");
    assert_eq!(given(&["--store", "postgres://kew@a/kew"], &[("KEW_DATABASES", &both)]), [first, second]);
    let told = refused(&["--store", "./data"], &[("KEW_DATABASES", &both)]);
    assert!(told.contains("do not go together") && !told.contains("secret"), "{told}");
    for wrong in ["./data", "mysql://kew:secret@a/kew"] {
        let told = refused(&["--databases", first, wrong], &[]);
        assert!(told.contains("postgres://USER@HOST/DATABASE") && !told.contains("secret"), "{told}");
    }
}

#[test]
fn a_port_alone_is_an_address_on_loopback_in_the_file_too() {
    let directory = tempfile::tempdir().expect("the machine has a temporary directory");
    let file = directory.path().join("kew.toml");
    let read = |text: &str| {
        std::fs::write(&file, text).expect("the directory is ours");
        read_with(&["--config", &file.to_string_lossy()], &[])
    };
    let at = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
    let text = "[server]\nsqs = 4100\nadmin = 4101\nalso = [4566, \"[::1]:4567\"]\n";
    let server = read(text).expect("the configuration is valid").0.server;
    assert_eq!((server.sqs, server.admin), (Address::At(at(4100)), Address::At(at(4101))));
    assert_eq!(server.also.first(), Some(&at(4566)));
    let told = read("[server]\nsqs = 70000\n").map(|_| ()).expect_err("there is no such port");
    assert!(told.contains("[server] sqs = 70000 is not allowed") && told.contains("ports end at"), "{told}");
}

#[test]
fn variables_reach_settings_without_a_flag() {
    let variables = [
        ("KEW_SQS_NAME_HOLD_SECONDS", "0"),
        ("KEW_STORE_SCRUB_DAYS", "0"),
        ("KEW_SQS_URL_STYLE", "standard"),
        ("KEW_INSECURE", "1"),
        ("KEW_ALSO", "127.0.0.1:0,[::1]:0"),
        ("KEW_TLS_SQS_CERT", "c.pem"),
        ("KEW_TLS_SQS_KEY", "k.pem"),
    ];
    let (settings, _) = read_with(&[], &variables).expect("the variables are valid");
    assert_eq!(settings.sqs.name_hold, Duration::ZERO);
    assert_eq!(settings.scrub, None);
    assert_eq!(settings.sqs.url_style, UrlStyle::Standard);
    assert!(settings.server.insecure);
    assert_eq!(settings.server.also.len(), 2);
    assert_eq!(settings.tls.sqs, Some(TlsFiles { cert: "c.pem".into(), key: "k.pem".into() }));
    assert_eq!(settings.tls.admin, None);
    let told = refused(&[], &[("KEW_SQS_NAME_HOLD_SECONDS", "soon")]);
    assert!(
        told.starts_with("KEW_SQS_NAME_HOLD_SECONDS=soon is not allowed; it must be a whole number"),
        "{told}"
    );
}

#[test]
fn strict_mode_without_accounts_stays_on_loopback_whatever_is_said() {
    let token = [("KEW_ADMIN_TOKEN", "t")];
    assert!(read_with(&["--auth", "strict"], &token).is_ok());
    assert!(read_with(&["--auth", "strict", "--admin", "off"], &[]).is_ok());
    let told = refused(&["--auth", "strict", "--sqs", "0.0.0.0:0", "--insecure"], &token);
    assert!(told.contains("[[accounts]]"), "{told}");
}

#[test]
fn a_certificate_without_its_key_is_refused() {
    let told = refused(&[], &[("KEW_TLS_CERT", "c.pem")]);
    assert!(told.contains("KEW_TLS_CERT=c.pem needs [tls] key beside it"), "{told}");
    let (settings, _) = read_with(&[], &[("KEW_TLS_CERT", "c"), ("KEW_TLS_KEY", "k")])
        .expect("certificate and key are a valid pair of variables");
    assert!(settings.tls.sqs.is_some() && settings.tls.also.is_some());
    assert!(settings.tls.admin.is_none(), "it needs one of its own");
}

#[test]
fn printed_settings_show_origins_hide_secrets_and_can_be_read_back() {
    let variables = [("KEW_ADMIN_TOKEN", "hush"), ("KEW_SQS_REGION", "eu-west-1")];
    let (settings, values) =
        read_with(&["--log", "json", "--also", "127.0.0.1:0"], &variables).expect("fine");
    let printed = lines(&values, &settings);
    let line = |key: &str| {
        let found = printed.lines().find(|line| line.starts_with(key));
        found
            .unwrap_or_else(|| panic!("no {key} in {printed}"))
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ")
    };
    assert_eq!(line("log = "), "log = \"json\" # flag --log");
    assert_eq!(line("also = "), "also = [\"127.0.0.1:0\"] # flag --also");
    assert_eq!(line("region = "), "region = \"eu-west-1\" # variable KEW_SQS_REGION");
    assert_eq!(line("token = "), "token = \"********\" # variable KEW_ADMIN_TOKEN");
    assert_eq!(line("name_hold_seconds = "), "name_hold_seconds = 60 # default");
    assert_eq!(line("# ports_file "), "# ports_file is not set # default");
    let directory = tempfile::tempdir().expect("the machine has a temporary directory");
    let file = directory.path().join("kew.toml");
    std::fs::write(&file, &printed).expect("the directory is ours");
    let (again, _) = read_with(&["--config", &file.to_string_lossy()], &[])
        .expect("the printed configuration can be read back");
    assert_eq!(again.sqs.region, "eu-west-1");
    assert_eq!(again.server.log, Format::Json);
}

#[test]
fn a_printed_alarm_with_a_webhook_can_be_read_back_and_does_not_show_the_url() {
    let directory = tempfile::tempdir().expect("the machine has a temporary directory");
    let read_file = |name: &str, text: &str| {
        let file = directory.path().join(name);
        std::fs::write(&file, text).expect("the directory is ours");
        read_with(&["--config", &file.to_string_lossy()], &[])
    };
    let rule = "[[alarms]]\nname = \"old\"\nqueue = \"*\"\nmetric = \"visible\"\nabove = 9\n";
    let text = format!("{rule}webhook = \"https://example.com/hush\"\n");
    let (settings, values) = read_file("kew.toml", &text).expect("the rule is valid");
    assert!(settings.alarms[0].webhook.is_some());
    let printed = lines(&values, &settings);
    assert!(printed.contains("# webhook = \"********\"") && !printed.contains("hush"), "{printed}");
    let (again, _) = read_file("again.toml", &printed).expect("the printed configuration can be read back");
    assert_eq!((&*again.alarms[0].name, again.alarms[0].above), ("old", 9.0));
    assert_eq!(again.alarms[0].webhook, None, "the URL must be written again");
}
