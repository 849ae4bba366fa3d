//! Commands that talk to the admin API of a running server: `kew queue`, `message`, `send`, `receive`, `peek`, `tail`,
//! `redrive`, `node`, `shard` and `init`.
//!
//! Each prints tables for people or, with `--json`, one object a line. Exit codes: 0 is done, 1 failed, 2 wrong usage,
//! 3 partly done. Notes and progress go to standard error, and only to a terminal. That a body is no text and was
//! printed in Base64 is said there in any case.

mod body;
mod client;
mod init;
mod look;
mod node;
mod output;
mod queue;
mod receive;
mod redrive;
mod send;
mod shard;

use std::process::ExitCode;

use client::Api;
use output::Out;

pub(super) use init::InitArgs;
pub(super) use look::{MessageCommand, PeekArgs, TailArgs};
pub(super) use node::NodeCommand;
pub(super) use output::harmless;
pub(super) use queue::QueueCommand;
pub(super) use receive::ReceiveArgs;
pub(super) use redrive::RedriveArgs;
pub(super) use send::SendArgs;
pub(super) use shard::ShardCommand;

/// Why a command did not do everything.
#[derive(Debug)]
pub(super) enum Failure {
    /// Nothing was done.
    Failed(String),
    /// What was asked makes no sense.
    Usage(String),
    /// A part was done.
    Partly(String),
    /// The output was closed: its reader wants no more.
    Closed,
}

impl Failure {
    fn code(&self) -> u8 {
        match self {
            Self::Failed(_) | Self::Closed => 1,
            Self::Usage(_) => 2,
            Self::Partly(_) => 3,
        }
    }

    /// Why, for people.
    fn why(&self) -> &str {
        match self {
            Self::Failed(why) | Self::Usage(why) | Self::Partly(why) => why,
            Self::Closed => "the output was closed",
        }
    }
}

type Done = Result<(), Failure>;

/// A command of this room.
pub(super) enum Remote<'a> {
    Queue(&'a QueueCommand),
    Send(&'a SendArgs),
    Receive(&'a ReceiveArgs),
    Redrive(&'a RedriveArgs),
    Peek(&'a PeekArgs),
    Tail(&'a TailArgs),
    Message(&'a MessageCommand),
    Node(&'a NodeCommand),
    Shard(&'a ShardCommand),
    Init(&'a InitArgs),
}

/// Runs a command, and says why if it does not end well.
pub(super) fn run(command: &Remote<'_>) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let done = match runtime {
        Ok(runtime) => runtime.block_on(perform(command)),
        Err(error) => Err(Failure::Failed(format!("cannot start: {error}"))),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if let Failure::Failed(why) | Failure::Usage(why) | Failure::Partly(why) = &failure {
                output::error(why);
            }
            ExitCode::from(failure.code())
        }
    }
}

async fn perform(command: &Remote<'_>) -> Done {
    let target = match command {
        Remote::Queue(queue) => queue.target(),
        Remote::Send(send) => &send.target,
        Remote::Receive(receive) => &receive.target,
        Remote::Redrive(redrive) => &redrive.target,
        Remote::Peek(peek) => &peek.target,
        Remote::Tail(tail) => &tail.target,
        Remote::Message(message) => message.target(),
        Remote::Node(node) => node.target(),
        Remote::Shard(shard) => shard.target(),
        Remote::Init(init) => &init.target,
    };
    let (api, mut out) = (Api::new(target)?, Out::new(target.json));
    match command {
        Remote::Queue(queue) => queue::run(&api, &mut out, queue).await,
        Remote::Send(send) => send::run(&api, &mut out, send).await,
        Remote::Receive(receive) => receive::run(&api, &mut out, receive).await,
        Remote::Redrive(redrive) => redrive::run(&api, &mut out, redrive).await,
        Remote::Peek(peek) => look::peek(&api, &mut out, peek).await,
        Remote::Tail(tail) => look::tail(&api, &mut out, tail).await,
        Remote::Message(message) => look::message(&api, &mut out, message).await,
        Remote::Node(node) => node::run(&api, &mut out, node).await,
        Remote::Shard(shard) => shard::run(&api, &mut out, shard).await,
        Remote::Init(init) => init::run(&api, &mut out, init).await,
    }
}
