//! `kew node`: the nodes that a server knows.

use clap::{Args, Subcommand};
use serde_json::Value;

use super::Done;
use super::client::{Api, Target};
use super::output::Out;

/// What may be asked of nodes.
#[derive(Subcommand, Debug)]
pub(in crate::cli) enum NodeCommand {
    /// List nodes
    Ls(NodesArgs),
}

/// The arguments of `kew node ls`.
#[derive(Args, Debug)]
pub(in crate::cli) struct NodesArgs {
    #[command(flatten)]
    target: Target,
}

impl NodeCommand {
    pub(super) fn target(&self) -> &Target {
        let Self::Ls(args) = self;
        &args.target
    }
}

pub(super) async fn run(api: &Api, out: &mut Out, command: &NodeCommand) -> Done {
    let NodeCommand::Ls(_) = command;
    let answer = api.get("/nodes").await?;
    let nodes = answer["nodes"].as_array().map_or(&[][..], Vec::as_slice);
    if out.json {
        return nodes.iter().try_for_each(|node| out.object(node));
    }
    let rows: Vec<Vec<String>> = nodes.iter().map(row).collect();
    out.table(&["NODE", "STATE", "SHARDS", "HEARD", "ADDRESS", "VERSION"], &rows)
}

fn row(node: &Value) -> Vec<String> {
    let text = |name: &str| node[name].as_str().unwrap_or("-").to_owned();
    let shards = node["shards"].as_array().map_or(0, Vec::len);
    let heard =
        node["heartbeat_age_seconds"].as_f64().map_or_else(|| "-".to_owned(), |age| format!("{age:.0}s"));
    vec![text("node"), text("state"), shards.to_string(), heard, text("address"), text("version")]
}
