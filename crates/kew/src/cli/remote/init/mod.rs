//! `kew init`: the queues of a server made and changed as a file says, none deleted.
//!
//! The file is checked, the server is asked what there is, and the steps are planned (`plan`) before anything is
//! changed. A second run finds nothing to do.

mod entry;
mod file;
mod plan;
mod report;

use std::path::PathBuf;

use clap::Args;
use kew_console::{QueueDeclaration, QueueHome};
use kew_core::AccountId;
use kew_http::Method;
use serde_json::{Map, Value, json};

use super::client::{Api, Target, of_queue};
use super::output::Out;
use super::{Done, Failure};
use entry::{QueueEntry, declarations};
use plan::{Act, Seen, ServerQueues, Step, plan};
use report::{InitReport, Outcome};

/// The account of queues that are named without one, in every server.
const ACCOUNT: AccountId = AccountId(0);

/// The arguments of `kew init`.
#[derive(Args, Debug)]
pub(in crate::cli) struct InitArgs {
    /// The file that declares queues, in TOML or JSON; `-` is standard input
    #[arg(long, value_name = "FILE")]
    from: PathBuf,

    /// Only say what would be done
    #[arg(long)]
    dry_run: bool,

    #[command(flatten)]
    pub(super) target: Target,
}

pub(super) async fn run(api: &Api, out: &mut Out, args: &InitArgs) -> Done {
    let from = match args.from.to_str() {
        Some("-") => "standard input".to_owned(),
        _ => args.from.display().to_string(),
    };
    let wrong = |why: String| Failure::Usage(format!("{from}: {why}"));
    let raw = file::read(&args.from).map_err(wrong)?;
    let entries: Vec<QueueEntry> =
        raw.into_iter().map(QueueEntry::new).collect::<Result<_, _>>().map_err(wrong)?;
    // Most that is wrong is found without a server. No full name is in this region.
    declarations(&entries, &QueueHome { account: ACCOUNT, region: "".into() }).map_err(wrong)?;
    let home = home(api).await?;
    let declared = declarations(&entries, &home).map_err(wrong)?;
    let state = state(api, &declared, &home).await?;
    let steps = plan(&declared, &state, &home);
    let report = InitReport::new(out, args.dry_run);
    if args.dry_run {
        foretell(report, steps, &home, &from)
    } else {
        perform(api, report, steps, &home, &from).await
    }
}

/// Where the server has the queues that are named without an account and a region.
async fn home(api: &Api) -> Result<QueueHome, Failure> {
    let config = api.get("/config").await?;
    let mut settings = config["settings"].as_array().into_iter().flatten();
    let region = settings.find(|one| one["section"] == "sqs" && one["key"] == "region");
    let region = region.and_then(|one| one["value"].as_str());
    let region = region
        .ok_or_else(|| Failure::Failed("the server does not say its region; is it older?".to_owned()))?;
    Ok(QueueHome { account: ACCOUNT, region: region.into() })
}

/// What the server has of the queues that are declared, and of those that their dead letters go to.
async fn state(api: &Api, declared: &[QueueDeclaration], home: &QueueHome) -> Result<ServerQueues, Failure> {
    let mut state = ServerQueues::new();
    let mut missing = std::collections::HashSet::new();
    for key in declared.iter().flat_map(|queue| [Some(queue.key()), queue.target()]).flatten() {
        if state.contains_key(key) || missing.contains(key) {
            continue;
        }
        match api.find_queue(&home.text(key)).await? {
            Some(found) => {
                let settings = found["settings"].as_object().cloned().unwrap_or_default();
                state.insert(key.clone(), Seen { is_fifo: found["kind"] == "fifo", settings });
            }
            None => {
                missing.insert(key);
            }
        }
    }
    Ok(state)
}

/// Says what would be done.
fn foretell(mut report: InitReport<'_>, steps: Vec<Step<'_>>, home: &QueueHome, from: &str) -> Done {
    for Step { queue, act } in steps {
        let outcome = match act {
            Act::Create | Act::CreateThenRule => Outcome::Created,
            Act::Change(changes) => Outcome::Changed(changes),
            Act::Keep => Outcome::Unchanged,
            Act::Refuse(why) => Outcome::Failed(why),
        };
        report.say(&home.text(queue.key()), &outcome)?;
    }
    report.end(from, false)
}

/// Does it, step by step. What the server refuses is said of its queue; when it does not answer, nothing more is asked.
async fn perform(
    api: &Api,
    mut report: InitReport<'_>,
    steps: Vec<Step<'_>>,
    home: &QueueHome,
    from: &str,
) -> Done {
    let mut server = AskedServer { api, is_silent: false };
    let mut later = Vec::new();
    for Step { queue, act } in steps {
        let name = home.text(queue.key());
        let (rule, others) = queue.rule_and_others();
        let done = match act {
            Act::Keep => Ok(Outcome::Unchanged),
            Act::Refuse(why) => Err(why),
            Act::Create => server.create(queue, &name, queue.settings()).await.map(|()| Outcome::Created),
            Act::Change(changes) => {
                server.set(&name, queue.settings()).await.map(|()| Outcome::Changed(changes))
            }
            Act::CreateThenRule => match server.create(queue, &name, &others).await {
                Ok(()) => {
                    later.push((name, rule));
                    continue;
                }
                Err(why) => Err(why),
            },
        };
        report.say(&name, &done.unwrap_or_else(Outcome::Failed))?;
    }
    let has_part = !later.is_empty();
    for (name, rule) in later {
        let done = server.set(&name, &rule).await.map(|()| Outcome::Created);
        let without = |why| Outcome::Failed(format!("created without its rule for dead letters: {why}"));
        report.say(&name, &done.unwrap_or_else(without))?;
    }
    report.end(from, has_part)
}

/// A server that is asked for changes until it does not answer.
struct AskedServer<'a> {
    api: &'a Api,
    is_silent: bool,
}

impl AskedServer<'_> {
    async fn create(
        &mut self,
        queue: &QueueDeclaration,
        name: &str,
        settings: &Map<String, Value>,
    ) -> Result<(), String> {
        let kind = if queue.is_fifo() { "fifo" } else { "standard" };
        let body = json!({ "name": name, "kind": kind, "settings": settings });
        self.ask(Method::POST, "/queues", &body).await
    }

    async fn set(&mut self, name: &str, settings: &Map<String, Value>) -> Result<(), String> {
        self.ask(Method::PATCH, &of_queue(name, ""), &json!({ "settings": settings })).await
    }

    async fn ask(&mut self, method: Method, path: &str, body: &Value) -> Result<(), String> {
        if self.is_silent {
            return Err("not tried, since the server did not answer".to_owned());
        }
        match self.api.try_change(method, path, body).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(refusal)) => Err(refusal.message),
            Err(failure) => {
                self.is_silent = true;
                Err(format!("whether it was done is not known: {}", failure.why()))
            }
        }
    }
}
