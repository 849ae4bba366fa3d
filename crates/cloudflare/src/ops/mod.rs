//! The operations: a body to a checked request, one step down, our words to theirs.

mod account;
mod ack;
mod change_queue;
mod create_queue;
mod delete_consumer;
mod delete_queue;
mod failures;
mod get_consumer;
mod get_queue;
mod list_consumers;
mod list_queues;
mod peek;
pub(crate) mod publish;
mod pull;
mod purge_messages;
mod purge_queue;
mod push;
mod push_batch;
mod queue_metrics;
mod scripts;
mod write_consumer;

use std::pin::Pin;

use kew_http::{Method, Reply};

use crate::Context;
use crate::error::WireError;
use crate::route::Operation;

/// Performs an operation once more. In a box that hides its type, or each program would hold all of them twice.
pub(crate) fn perform_again<'a>(
    cx: &'a Context<'a>,
) -> Pin<Box<dyn Future<Output = Result<Reply, WireError>> + Send + 'a>> {
    Box::pin(perform(cx))
}

/// The table of operations.
pub(crate) async fn perform(cx: &Context<'_>) -> Result<Reply, WireError> {
    // A peek and a pull ask for room themselves.
    if cx.route.operation.shows_little() {
        cx.request.room.free_for_small().await?;
    } else if cx.request.method == Method::GET {
        cx.request.room.free().await?;
    }
    match cx.route.operation {
        Operation::User => Ok(account::user()),
        Operation::VerifyToken => Ok(account::verify_token()),
        Operation::Memberships => Ok(account::memberships(cx)),
        Operation::Accounts => Ok(account::accounts(cx)),
        Operation::Account => Ok(account::account(cx)),
        Operation::ListQueues => list_queues::list_queues(cx),
        Operation::CreateQueue => create_queue::create_queue(cx).await,
        Operation::GetQueue => get_queue::get_queue(cx),
        Operation::ReplaceQueue => change_queue::replace_queue(cx).await,
        Operation::PatchQueue => change_queue::patch_queue(cx).await,
        Operation::DeleteQueue => delete_queue::delete_queue(cx).await,
        Operation::QueueMetrics => queue_metrics::queue_metrics(cx).await,
        Operation::PurgeQueue => purge_queue::purge_queue(cx).await,
        Operation::PurgeStatus => purge_queue::purge_status(cx),
        Operation::ListConsumers => list_consumers::list_consumers(cx),
        Operation::CreateConsumer => write_consumer::create_consumer(cx).await,
        Operation::GetConsumer => get_consumer::get_consumer(cx),
        Operation::ReplaceConsumer => write_consumer::replace_consumer(cx).await,
        Operation::DeleteConsumer => delete_consumer::delete_consumer(cx).await,
        Operation::Push => push::push(cx).await,
        Operation::PushBatch => push_batch::push_batch(cx).await,
        Operation::Pull => pull::pull(cx).await,
        Operation::Ack => ack::ack(cx).await,
        Operation::Peek => peek::peek(cx).await,
        Operation::PurgeMessages => purge_messages::purge_messages(cx).await,
    }
}
