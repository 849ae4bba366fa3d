//! One file per action: bytes to a checked request, their words to ours, one step down, our words to theirs.

mod add_permission;
mod change_message_visibility;
mod change_message_visibility_batch;
mod create_queue;
mod delete_message;
mod delete_message_batch;
mod delete_queue;
mod get_queue_url;
mod list_dead_letter_source_queues;
mod list_queues;
mod move_tasks;
mod permissions;
mod purge_queue;
mod queue_attributes;
mod queue_tags;
mod receive_message;
mod remove_permission;
mod send_message;
mod send_message_batch;

pub(crate) use add_permission::add_permission;
pub(crate) use change_message_visibility::change_message_visibility;
pub(crate) use change_message_visibility_batch::change_message_visibility_batch;
pub(crate) use create_queue::create_queue;
pub(crate) use delete_message::delete_message;
pub(crate) use delete_message_batch::delete_message_batch;
pub(crate) use delete_queue::delete_queue;
pub(crate) use get_queue_url::get_queue_url;
pub(crate) use list_dead_letter_source_queues::list_dead_letter_source_queues;
pub(crate) use list_queues::list_queues;
pub(crate) use move_tasks::{cancel_message_move_task, list_message_move_tasks, start_message_move_task};
pub(crate) use purge_queue::purge_queue;
pub(crate) use queue_attributes::{queue_attributes, set_queue_attributes};
pub(crate) use queue_tags::{list_queue_tags, tag_queue, untag_queue};
pub(crate) use receive_message::{ATTRIBUTES, MESSAGES, receive_message, write_attributes};
pub(crate) use remove_permission::remove_permission;
pub(crate) use send_message::send_message;
pub(crate) use send_message_batch::send_message_batch;

use kew_core::Queue;
use kew_http::Reply;

use crate::encode::{Shape, Writer};
use crate::{Context, names};

/// The reply that says where a queue is.
fn queue_url(cx: &Context<'_>, queue: &Queue) -> Reply {
    struct QueueUrl(String);

    impl Shape for QueueUrl {
        fn write<W: Writer>(&self, out: &mut W) {
            out.text("QueueUrl", &self.0);
        }
    }

    cx.result(&QueueUrl(names::url(cx.settings, cx.request, queue)))
}
