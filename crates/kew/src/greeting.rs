//! What a person reads at the start: where everything is, and a first command to try for each dialect.

use std::net::SocketAddr;

use crate::assemble::Server;
use crate::config::{Auth, Settings};
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
        rows.push(("Admin", format!("{scheme}://{address}   (/livez /readyz /metrics)")));
    }
    rows.push(("Store", server.store_line()));
    rows.push(("Connections", format!("at most {}, by the limit of open files", server.connections_max)));
    let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or_default();
    let mut text: String = rows.iter().map(|(name, what)| format!("{name:width$}  {what}\n")).collect();
    text.push_str("\nTry it:\n");
    for dialect in Dialect::ALL {
        for command in commands(server, settings, dialect) {
            text.push_str(&format!("  {command}\n"));
        }
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

fn sqs_commands(url: &str, settings: &Settings) -> Vec<String> {
    let own_certificate = if url.starts_with("https") { " -k" } else { "" };
    let signed = match settings.server.auth {
        Auth::Open => String::new(),
        Auth::Strict => {
            let first = settings.accounts.iter().flat_map(|account| &account.aws.access_keys).next();
            // Whoever configured keys knows their secrets; they are not printed.
            let user = first.map_or("test:test".to_owned(), |key| format!("{}:$SECRET", key.id));
            format!(" --aws-sigv4 aws:amz:{}:sqs --user \"{user}\"", settings.sqs.region)
        }
    };
    let ask = |action: &str, body: &str| {
        format!("curl{own_certificate} {url}{signed} -H 'X-Amz-Target: AmazonSQS.{action}' -d '{body}'")
    };
    vec![
        ask("CreateQueue", r#"{"QueueName":"orders"}"#),
        ask("SendMessage", r#"{"QueueUrl":"orders","MessageBody":"hello"}"#),
        ask("ReceiveMessage", r#"{"QueueUrl":"orders"}"#),
    ]
}

fn azure_commands(url: &str, settings: &Settings) -> Vec<String> {
    let configured = settings.accounts.iter().find_map(|account| account.azure.as_ref());
    let account = configured.map_or("devstoreaccount1", |azure| azure.name.as_str());
    if settings.server.auth == Auth::Strict {
        // Only clients that sign get in; whoever configured the key knows it.
        let scheme = url.split("://").next().unwrap_or_default();
        return vec![format!(
            "az storage queue create --name orders --connection-string \"DefaultEndpointsProtocol={scheme};AccountName={account};AccountKey=$KEY;QueueEndpoint={url}/{account}\""
        )];
    }
    let own_certificate = if url.starts_with("https") { " -k" } else { "" };
    let ask = |what: &str| format!("curl{own_certificate} {what}");
    vec![
        ask(&format!("-X PUT {url}/{account}/invoices")),
        ask(&format!(
            "{url}/{account}/invoices/messages -d '<QueueMessage><MessageText>hello</MessageText></QueueMessage>'"
        )),
        ask(&format!("{url}/{account}/invoices/messages")),
    ]
}

fn cloudflare_commands(url: &str, settings: &Settings) -> Vec<String> {
    let own_certificate = if url.starts_with("https") { " -k" } else { "" };
    let configured = settings.accounts.iter().find_map(|account| account.cloudflare.as_ref());
    let account = configured.map_or("0".repeat(32), |account| account.id.clone());
    let token = match (settings.server.auth, configured) {
        (Auth::Open, _) => "",
        (Auth::Strict, None) => " -H 'Authorization: Bearer test'",
        // Whoever configured tokens knows them; they are not printed.
        (Auth::Strict, Some(_)) => " -H \"Authorization: Bearer $TOKEN\"",
    };
    let queues = format!("{url}/client/v4/accounts/{account}/queues");
    vec![
        format!("curl{own_certificate} {queues}{token} -d '{{\"queue_name\":\"letters\"}}'"),
        format!("curl{own_certificate} {queues}{token}"),
    ]
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
