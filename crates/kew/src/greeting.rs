//! What a person reads at the start: where everything is, and a first command to try for each dialect.

use std::net::SocketAddr;

use crate::assemble::Server;
use crate::config::{ApiPermission, Auth, Settings};
use crate::credentials;
use crate::listen::Dialect;

/// The lines printed when everything is served; the last one is `Ready.`.
pub fn lines(server: &Server, settings: &Settings) -> String {
    let who = match settings.server.auth {
        Auth::Open => "any credentials",
        Auth::Strict => "requests are verified",
    };
    let mut rows: Vec<(&str, String)> = Vec::new();
    for (dialect, address) in &server.bound.dialects {
        rows.push((dialect.title(), format!("{}   ({who})", url(settings, Some(*dialect), *address))));
    }
    for address in &server.bound.also {
        rows.push(("All dialects", format!("{}   ({who})", url(settings, None, *address))));
    }
    if let Some(address) = server.bound.admin {
        let scheme = scheme(settings.tls.admin.is_some());
        rows.push(("Console", format!("{scheme}://{address}/   (also /api/v1, /livez, /readyz, /metrics)")));
    }
    rows.push(("Store", server.store_line()));
    rows.push(("Connections", format!("at most {}, by the limit of open files", server.connections_max)));
    let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or_default();
    let mut text: String = rows.iter().map(|(name, what)| format!("{name:width$}  {what}\n")).collect();
    let commands: Vec<String> =
        Dialect::ALL.into_iter().flat_map(|dialect| commands(server, settings, dialect)).collect();
    if !commands.is_empty() {
        text.push_str(&format!("\nTry it{}:\n", whose_secrets(settings)));
    }
    for command in commands {
        text.push_str(&format!("  {command}\n"));
    }
    text.push_str("\nReady.\n");
    text
}

/// First commands of a dialect that work when they are pasted.
fn commands(server: &Server, settings: &Settings, dialect: Dialect) -> Vec<String> {
    let own = server.bound.dialects.iter().find(|(bound, _)| *bound == dialect);
    let own = own.map(|(_, address)| url(settings, Some(dialect), *address));
    let Some(url) = own.or_else(|| server.bound.also.first().map(|address| url(settings, None, *address)))
    else {
        return Vec::new();
    };
    match dialect {
        Dialect::Sqs => sqs_commands(&url, settings),
        Dialect::Azure => azure_commands(&url, settings),
        Dialect::Cloudflare => cloudflare_commands(&url, settings),
    }
}

/// Secrets that somebody configured are not printed: commands read them where the vendors' tools do.
fn whose_secrets(settings: &Settings) -> &'static str {
    if settings.server.auth == Auth::Strict && !settings.accounts.is_empty() {
        ", with AWS_SECRET_ACCESS_KEY, AZURE_STORAGE_KEY and CLOUDFLARE_API_TOKEN set (docs/strict.md)"
    } else {
        ""
    }
}

fn curl(url: &str) -> &'static str {
    if url.starts_with("https") { "curl -k" } else { "curl" }
}

fn sqs_commands(url: &str, settings: &Settings) -> Vec<String> {
    let signed = match settings.server.auth {
        Auth::Open => String::new(),
        Auth::Strict => {
            let mut keys = settings.accounts.iter().flat_map(|account| &account.aws.access_keys);
            // An account's own key may do everything in it; a user's may not.
            let own = keys.clone().find(|key| key.user.is_none()).or_else(|| keys.next());
            let user = match own {
                None if settings.accounts.is_empty() => "test:test".to_owned(),
                None => return Vec::new(),
                Some(key) => format!("{}:$AWS_SECRET_ACCESS_KEY", key.id),
            };
            format!(" --aws-sigv4 aws:amz:{}:sqs --user \"{user}\"", settings.sqs.region)
        }
    };
    let ask = |action: &str, body: &str| {
        format!("{} {url}{signed} -H 'X-Amz-Target: AmazonSQS.{action}' -d '{body}'", curl(url))
    };
    vec![
        ask("CreateQueue", r#"{"QueueName":"orders"}"#),
        ask("SendMessage", r#"{"QueueUrl":"orders","MessageBody":"hello"}"#),
        ask("ReceiveMessage", r#"{"QueueUrl":"orders"}"#),
    ]
}

fn azure_commands(url: &str, settings: &Settings) -> Vec<String> {
    let is_open = settings.server.auth == Auth::Open;
    let mut configured = settings.accounts.iter().filter_map(|account| account.azure.as_ref());
    let account = configured.find(|azure| is_open || !azure.keys.is_empty());
    if account.is_none() && !is_open && !settings.accounts.is_empty() {
        return Vec::new();
    }
    let name = account.map_or(credentials::AZURE_ACCOUNT, |azure| azure.name.as_str());
    if !is_open {
        // Only clients that sign get in.
        let scheme = url.split("://").next().unwrap_or_default();
        let key = if account.is_some() { "$AZURE_STORAGE_KEY" } else { credentials::AZURE_KEY };
        return vec![format!(
            "az storage queue create --name invoices --connection-string \"DefaultEndpointsProtocol={scheme};AccountName={name};AccountKey={key};QueueEndpoint={url}/{name}\""
        )];
    }
    let (curl, queue) = (curl(url), format!("{url}/{name}/invoices"));
    vec![
        format!("{curl} -X PUT {queue}"),
        format!("{curl} {queue}/messages -d '<QueueMessage><MessageText>hello</MessageText></QueueMessage>'"),
        format!("{curl} {queue}/messages"),
    ]
}

fn cloudflare_commands(url: &str, settings: &Settings) -> Vec<String> {
    let curl = curl(url);
    let mut configured = settings.accounts.iter().filter_map(|account| account.cloudflare.as_ref());
    let (account, token, may) = match (settings.server.auth, settings.accounts.is_empty()) {
        (Auth::Open, _) => (configured.next(), "", ApiPermission::ALL.as_slice()),
        (Auth::Strict, true) => (None, " -H 'Authorization: Bearer test'", ApiPermission::ALL.as_slice()),
        (Auth::Strict, false) => {
            let tokens =
                configured.flat_map(|account| account.tokens.iter().map(move |token| (account, token)));
            let Some((account, token)) = tokens.max_by_key(|(_, token)| token.permissions.len()) else {
                return Vec::new();
            };
            (Some(account), " -H \"Authorization: Bearer $CLOUDFLARE_API_TOKEN\"", &*token.permissions)
        }
    };
    let id = account.map_or("0".repeat(32), |account| account.id.clone());
    let queues = format!("{url}/client/v4/accounts/{id}/queues");
    let create = format!("{curl} {queues}{token} -d '{{\"queue_name\":\"letters\"}}'");
    let list = format!("{curl} {queues}{token}");
    let commands = [(ApiPermission::QueuesWrite, create), (ApiPermission::QueuesRead, list)];
    commands.into_iter().filter(|(needed, _)| may.contains(needed)).map(|(_, command)| command).collect()
}

fn url(settings: &Settings, dialect: Option<Dialect>, address: SocketAddr) -> String {
    let tls = match dialect {
        Some(Dialect::Sqs) => settings.tls.sqs.is_some(),
        Some(Dialect::Azure) => settings.tls.azure.is_some(),
        Some(Dialect::Cloudflare) => settings.tls.cloudflare.is_some(),
        None => settings.tls.also.is_some(),
    };
    format!("{}://{address}", scheme(tls))
}

fn scheme(tls: bool) -> &'static str {
    if tls { "https" } else { "http" }
}
