//! Settings that are fine by themselves and wrong together.

use std::net::SocketAddr;

use kew_core::ShardCount;
use kew_engine::ClockKind;

use super::error::ConfigError;
use super::table::SERVER;
use super::values::{Place, Values};
use super::{Auth, Settings, StoreChoice};

/// Refuses settings that do not go together.
pub(super) fn together(settings: &Settings, values: &Values) -> Result<(), ConfigError> {
    let server = &settings.server;
    let dialects = [server.sqs, server.azure, server.cloudflare];
    if dialects.iter().all(|address| address.socket().is_none()) && server.also.is_empty() {
        let told = values.told(SERVER, "sqs");
        return Err(ConfigError::new(format!("{told} leaves nothing to serve; give it an address")));
    }
    let singles = [
        ("sqs", server.sqs.socket()),
        ("azure", server.azure.socket()),
        ("cloudflare", server.cloudflare.socket()),
        ("admin", server.admin.socket()),
    ];
    let several = server.also.iter().map(|address| ("also", Some(*address)));
    let addresses: Vec<(&'static str, SocketAddr)> =
        singles.into_iter().chain(several).filter_map(|(key, address)| Some((key, address?))).collect();
    for (key, address) in &addresses {
        check_reach(settings, values, key, *address)?;
    }
    let is_guarded = settings.admin_token.is_some() || !settings.admin_users.is_empty();
    if server.auth == Auth::Strict && server.admin.socket().is_some() && !is_guarded {
        let told = values.told(SERVER, "auth");
        return Err(ConfigError::new(format!(
            "{told} needs a token for the admin listener: set [admin] token or KEW_ADMIN_TOKEN, write [[admin.users]], or say --admin off"
        )));
    }
    check_peer(settings, values)?;
    check_shards(settings, values)?;
    let of_disk = settings.alarms.iter().find(|rule| !rule.metric.is_of_queues());
    if let (Some(rule), None) = (of_disk, server.store.directory()) {
        let told = values.told(SERVER, "store");
        let name = &rule.name;
        return Err(ConfigError::new(format!(
            "{told} has no disk of its own, which the alarm {name:?} (disk_share) watches: remove the rule, or keep the store in a directory"
        )));
    }
    Ok(())
}

/// Other nodes are reached where they keep shards of the same store.
fn check_peer(settings: &Settings, values: &Values) -> Result<(), ConfigError> {
    let server = &settings.server;
    if server.peer.socket().is_none() {
        return Ok(());
    }
    let told = values.told(SERVER, "peer");
    if !matches!(server.store, StoreChoice::Postgres(_)) {
        let told_store = values.told(SERVER, "store");
        return Err(ConfigError::new(format!(
            "{told} is for the nodes of a store in PostgreSQL, and {told_store} is none: give --store postgres://…, or leave --peer out"
        )));
    }
    Ok(())
}

/// Shards of a process are event loops over a directory or over memory.
fn check_shards(settings: &Settings, values: &Values) -> Result<(), ConfigError> {
    let server = &settings.server;
    let Some(shards) = server.shards else { return Ok(()) };
    let told = values.told(SERVER, "shards");
    if matches!(server.store, StoreChoice::Postgres(_)) {
        return Err(ConfigError::new(format!(
            "{told} is for a store in a directory or in memory: one in PostgreSQL has as many shards as it was made with \
             (kew store create --shards N postgres://…)"
        )));
    }
    if shards != ShardCount::ONE && server.clock == ClockKind::Virtual {
        let told_clock = values.told(SERVER, "clock");
        return Err(ConfigError::new(format!(
            "{told} and {told_clock} do not go together: each shard has a clock of its own, and the virtual one is one"
        )));
    }
    Ok(())
}

/// Who may reach an address decides who must prove something.
fn check_reach(
    settings: &Settings,
    values: &Values,
    key: &'static str,
    address: SocketAddr,
) -> Result<(), ConfigError> {
    if address.ip().is_loopback() {
        return Ok(());
    }
    let port = address.port();
    match settings.server.auth {
        Auth::Open if !settings.server.insecure => Err(ConfigError::new(format!(
            "{} can be reached by other machines, and anyone may do anything there: \
             use a loopback address such as 127.0.0.1:{port}, or --auth strict with accounts, or say --insecure",
            values.told(SERVER, key)
        ))),
        Auth::Strict if settings.accounts.is_empty() => Err(ConfigError::new(format!(
            "{} can be reached by other machines, and without [[accounts]] strict mode knows only the account \
             whose keys everyone knows: use a loopback address such as 127.0.0.1:{port}, or configure accounts",
            values.told(SERVER, key)
        ))),
        Auth::Open | Auth::Strict => Ok(()),
    }
}

/// One of two settings that only make sense together.
pub(super) fn alone(values: &Values, (section, key): Place, other: &str) -> ConfigError {
    ConfigError::new(format!("{} needs [{section}] {other} beside it", values.told(section, key)))
}
