//! `--print-config`: every setting with its value and where that came from, as a file that could be used as it is.

use kew_console::{AlarmRule, ShownSetting};

use super::accounts::{Account, SECTION};
use super::parse::without_password;
use super::table::{Kind, SETTINGS, Setting};
use super::values::{Origin, Values, Written};

/// What stands for a secret.
const HIDDEN: &str = "********";
/// Where the notes about origins begin, as far as values are short.
const NOTE_COLUMN: usize = 48;

/// All settings, one a line.
pub fn lines(values: &Values, read: &super::Settings) -> String {
    let mut text = String::new();
    let mut section = "";
    for setting in SETTINGS {
        if setting.section != section {
            section = setting.section;
            text.push_str(&format!("{}[{section}]\n", if text.is_empty() { "" } else { "\n" }));
        }
        text.push_str(&line(setting, values));
    }
    for user in &read.admin_users {
        let (name, role) = (quoted(user.name()), quoted(user.role().name()));
        let hash = quoted(HIDDEN);
        text.push_str(&format!("\n[[admin.users]]\nname = {name}\npassword_hash = {hash}\nrole = {role}\n"));
    }
    for alarm in &read.alarms {
        text.push_str(&alarm_lines(alarm));
    }
    for account in &read.accounts {
        text.push_str(&account_lines(account));
    }
    text
}

fn alarm_lines(alarm: &AlarmRule) -> String {
    let mut text = format!("\n[[alarms]]\nname = {}\n", quoted(&alarm.name));
    if alarm.metric.is_of_queues() {
        text.push_str(&format!("queue = {}\n", quoted(&alarm.queue)));
    }
    let (metric, above) = (quoted(alarm.metric.name()), alarm.above);
    text.push_str(&format!(
        "metric = {metric}\nabove = {above:?}\nfor_seconds = {}\n",
        alarm.lasting.as_secs()
    ));
    if alarm.webhook.is_some() {
        // Its path may be a secret, and what stands for a secret is no URL: as a value it would be refused.
        text.push_str(&format!("# webhook = {} (hidden: write the URL here)\n", quoted(HIDDEN)));
    }
    text
}

/// Every setting for the admin API, which other machines may ask: a password in an address is hidden too.
pub(super) fn settings(values: &Values) -> Vec<ShownSetting> {
    let one = |setting: &Setting| {
        let value = values.at(setting.section, setting.key);
        let text = value.written.as_ref().map(|written| match written {
            _ if setting.secret => HIDDEN.to_owned(),
            Written::One(text) => without_password(text),
            Written::Many(texts) => {
                texts.iter().map(|text| without_password(text)).collect::<Vec<_>>().join(", ")
            }
        });
        ShownSetting {
            section: setting.section.to_owned(),
            key: setting.key.to_owned(),
            value: text,
            origin: origin(setting, &value.origin),
        }
    };
    SETTINGS.iter().map(one).collect()
}

fn origin(setting: &Setting, origin: &Origin) -> String {
    match origin {
        Origin::Flag => format!("flag --{}", setting.flag_name()),
        other => other.to_string(),
    }
}

fn line(setting: &Setting, values: &Values) -> String {
    let value = values.at(setting.section, setting.key);
    let origin = origin(setting, &value.origin);
    let said = match &value.written {
        None => format!("# {} is not set", setting.key),
        Some(_) if setting.secret => format!("{} = \"********\"", setting.key),
        Some(written) => format!("{} = {}", setting.key, shown(setting.kind, written)),
    };
    format!("{said:<NOTE_COLUMN$} # {origin}\n")
}

fn shown(kind: Kind, written: &Written) -> String {
    match (kind, written) {
        (Kind::Whole | Kind::Switch, Written::One(text)) => text.clone(),
        (Kind::Bytes, Written::One(text)) if text.parse::<u64>().is_ok() => text.clone(),
        (_, Written::One(text)) => quoted(&without_password(text)),
        (_, Written::Many(texts)) => {
            format!(
                "[{}]",
                texts.iter().map(|text| quoted(&without_password(text))).collect::<Vec<_>>().join(", ")
            )
        }
    }
}

fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

/// Accounts come from the file only; of keys and tokens it shows that they are there.
fn account_lines(account: &Account) -> String {
    let keys: Vec<String> = account
        .aws
        .access_keys
        .iter()
        .map(|key| {
            let user = key.user.as_ref().map(|user| format!(", user = {}", quoted(user))).unwrap_or_default();
            format!("{{ id = {}, secret = \"********\"{user} }}", quoted(&key.id))
        })
        .collect();
    let mut text = format!(
        "\n[[{SECTION}]]\naws = {{ id = \"{}\", access_keys = [{}] }}\n",
        account.aws.id,
        keys.join(", ")
    );
    if let Some(azure) = &account.azure {
        let keys = vec!["\"********\""; azure.keys.len()].join(", ");
        text.push_str(&format!("azure = {{ name = {}, keys = [{keys}] }}\n", quoted(&azure.name)));
    }
    if let Some(cloudflare) = &account.cloudflare {
        let tokens: Vec<String> = cloudflare
            .tokens
            .iter()
            .map(|token| {
                let permissions: Vec<String> = token.permissions.iter().map(|of| quoted(of.name())).collect();
                format!("{{ token = \"********\", permissions = [{}] }}", permissions.join(", "))
            })
            .collect();
        text.push_str(&format!(
            "cloudflare = {{ id = {}, tokens = [{}] }}\n",
            quoted(&cloudflare.id),
            tokens.join(", ")
        ));
    }
    text
}
