//! `kew shard`: the shards of a store, handed from one node to another and moved from one database to another.

use std::time::Duration;

use clap::{Args, Subcommand};
use kew_http::Method;
use serde_json::{Value, json};

use super::client::{Api, Target};
use super::output::Out;
use super::{Done, Failure};

/// The pause between two looks whether a shard has come to its database.
const LOOKS_EVERY: Duration = Duration::from_millis(500);

/// What may be asked of shards.
#[derive(Subcommand, Debug)]
pub(in crate::cli) enum ShardCommand {
    /// List shards
    Ls(ShardsArgs),
    /// Hand a shard from one node to another
    HandOver(HandOverArgs),
    /// Move a shard to another database of its store, and wait for that
    Move(MoveArgs),
}

/// The arguments of `kew shard ls`.
#[derive(Args, Debug)]
pub(in crate::cli) struct ShardsArgs {
    #[command(flatten)]
    target: Target,
}

/// The arguments of `kew shard hand-over`.
#[derive(Args, Debug)]
pub(in crate::cli) struct HandOverArgs {
    /// The number of the shard
    shard: u16,
    /// The node, by its name or id; the one with the fewest shards when missing
    #[arg(long, value_name = "NODE")]
    to: Option<String>,
    #[command(flatten)]
    target: Target,
}

/// The arguments of `kew shard move`.
#[derive(Args, Debug)]
pub(in crate::cli) struct MoveArgs {
    /// The number of the shard
    shard: u16,
    /// The number of the database, from 1; the one that it lies in ends a move
    #[arg(long, value_name = "NUMBER")]
    database: u16,
    #[command(flatten)]
    target: Target,
}

impl ShardCommand {
    pub(super) fn target(&self) -> &Target {
        match self {
            Self::Ls(args) => &args.target,
            Self::HandOver(args) => &args.target,
            Self::Move(args) => &args.target,
        }
    }
}

pub(super) async fn run(api: &Api, out: &mut Out, command: &ShardCommand) -> Done {
    match command {
        ShardCommand::Ls(_) => list(api, out).await,
        ShardCommand::HandOver(args) => hand_over(api, out, args).await,
        ShardCommand::Move(args) => move_to_database(api, out, args).await,
    }
}

async fn list(api: &Api, out: &mut Out) -> Done {
    let shards = shards(api).await?;
    if out.json {
        return shards.iter().try_for_each(|shard| out.object(shard));
    }
    let rows: Vec<Vec<String>> = shards.iter().map(row).collect();
    out.table(&["SHARD", "STATE", "NODE", "DATABASE", "EPOCH"], &rows)
}

async fn shards(api: &Api) -> Result<Vec<Value>, Failure> {
    Ok(api.get("/shards").await?["shards"].as_array().cloned().unwrap_or_default())
}

fn row(shard: &Value) -> Vec<String> {
    let text = |name: &str| shard[name].as_str().unwrap_or("-").to_owned();
    let database = match shard["moving_to"].as_u64() {
        Some(to) => format!("{} (moving to {to})", shard["database"]),
        None => shard["database"].to_string(),
    };
    vec![shard["shard"].to_string(), text("state"), text("owner"), database, shard["epoch"].to_string()]
}

async fn hand_over(api: &Api, out: &mut Out, args: &HandOverArgs) -> Done {
    let body = args.to.as_ref().map_or_else(|| json!({}), |to| json!({ "to": to }));
    let handed = api.change(Method::POST, &format!("/shards/{}/hand-over", args.shard), &body).await?;
    if out.json {
        return out.object(&handed);
    }
    let (from, to) = (&handed["from"], &handed["to"]);
    let text = |node: &Value| node.as_str().unwrap_or_default().to_owned();
    let verb = if handed["done"] == true { "went" } else { "is on its way" };
    out.line(&format!("shard {} {verb} from {} to {}", args.shard, text(from), text(to)))
}

async fn move_to_database(api: &Api, out: &mut Out, args: &MoveArgs) -> Done {
    let MoveArgs { shard, database, .. } = args;
    let moved =
        api.change(Method::POST, &format!("/shards/{shard}/move"), &json!({ "database": database })).await?;
    if moved["done"] != true && !out.json {
        out.line(&format!("shard {shard} is being copied to database {database}"))?;
    }
    let mut done = moved["done"] == true;
    while !done {
        tokio::time::sleep(LOOKS_EVERY).await;
        let shards = shards(api).await?;
        let Some(row) = shards.iter().find(|row| row["shard"] == *shard) else {
            continue;
        };
        done = row["database"] == *database && row["moving_to"].is_null();
        if !done && row["moving_to"].as_u64() != Some((*database).into()) && !row["owner"].is_null() {
            return Err(Failure::Failed(format!(
                "shard {shard} is not to go to database {database} any more"
            )));
        }
    }
    if out.json {
        return out.object(&json!({ "shard": shard, "from": moved["from"], "to": database, "done": true }));
    }
    out.line(&format!("shard {shard} lies in database {database}"))
}
