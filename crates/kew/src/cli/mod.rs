//! The command line: what may be asked, and exit codes. 0 is done, 1 failed, 2 asked wrongly, 3 partly
//! done.

mod about;
mod admin;
mod causes;
mod cert;
mod functions;
mod health;
mod launch;
mod remote;
mod serve;
mod store;
mod workers;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

use crate::bench::{self, BenchArgs};
use crate::config::ServeArgs;
use crate::consumers::workers::LAUNCH;
use remote::Remote;

/// A durable message-queue server.
#[derive(Parser, Debug)]
#[command(name = "kew", version, disable_help_subcommand = true)]
struct Line {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Serve queues until SIGTERM or Ctrl-C
    Serve(ServeArgs),
    /// Make, list, change and delete queues of a running server
    #[command(subcommand)]
    Queue(remote::QueueCommand),
    /// Make and change the queues of a running server as a file says
    Init(remote::InitArgs),
    /// Send a message
    Send(remote::SendArgs),
    /// Receive messages: print and delete them
    Receive(remote::ReceiveArgs),
    /// Look at messages without consuming them
    Peek(remote::PeekArgs),
    /// Show the messages of a queue, then those that come, without consuming them
    Tail(remote::TailArgs),
    /// Look at one message
    #[command(subcommand)]
    Message(remote::MessageCommand),
    /// Look at the nodes that a server knows
    #[command(subcommand)]
    Node(remote::NodeCommand),
    /// Look at shards, hand them to other nodes, move them to other databases
    #[command(subcommand)]
    Shard(remote::ShardCommand),
    /// Bring messages back to the queues they came from, or to another queue
    Redrive(remote::RedriveArgs),
    /// Put a running server under load and verify every message
    Bench(BenchArgs),
    /// Run functions for the messages of queues
    #[command(subcommand)]
    Functions(functions::FunctionsCommand),
    /// Make a certificate authority for this machine and a server certificate
    Cert(cert::CertArgs),
    /// Prepare users of the admin API
    #[command(subcommand)]
    Admin(admin::AdminCommand),
    /// Say whether a server is ready, by exit code
    Health(health::HealthArgs),
    /// Become a program that ends with its parent
    #[command(name = LAUNCH, hide = true)]
    Launch(launch::LaunchArgs),
    /// Look after the directory of a stopped server
    Store(store::StoreArgs),
    /// Bring Workers to a running server
    Workers(workers::WorkersArgs),
    /// Print the version and the commit
    Version(about::VersionArgs),
    /// Print completions for a shell
    Completions(about::CompletionsArgs),
    /// Print the man page of a command
    Man(about::ManArgs),
}

/// Runs the command that was given.
pub fn run() -> ExitCode {
    // Wrong usage ends here, with exit code 2 and what is allowed.
    match Line::parse().command {
        Command::Serve(serve) => serve::run(&serve),
        Command::Bench(bench) => bench::run(&bench),
        Command::Functions(functions) => functions::run(functions),
        Command::Cert(cert) => cert::run(&cert),
        Command::Admin(admin) => admin::run(&admin),
        Command::Health(health) => health::run(&health),
        Command::Launch(launch) => launch::run(&launch),
        Command::Store(store) => store::run(&store),
        Command::Workers(workers) => workers::run(&workers),
        Command::Queue(queue) => remote::run(&Remote::Queue(&queue)),
        Command::Init(init) => remote::run(&Remote::Init(&init)),
        Command::Send(send) => remote::run(&Remote::Send(&send)),
        Command::Receive(receive) => remote::run(&Remote::Receive(&receive)),
        Command::Peek(peek) => remote::run(&Remote::Peek(&peek)),
        Command::Tail(tail) => remote::run(&Remote::Tail(&tail)),
        Command::Message(message) => remote::run(&Remote::Message(&message)),
        Command::Node(node) => remote::run(&Remote::Node(&node)),
        Command::Shard(shard) => remote::run(&Remote::Shard(&shard)),
        Command::Redrive(redrive) => remote::run(&Remote::Redrive(&redrive)),
        Command::Version(version) => about::version(&version),
        Command::Completions(completions) => about::completions(&completions, Line::command()),
        Command::Man(man) => about::man(&man, Line::command()),
    }
}
