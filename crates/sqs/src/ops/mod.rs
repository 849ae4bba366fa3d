//! One file per action: bytes to a checked request, their words to ours, one step down, our words to theirs.

mod create_queue;
mod delete_message;
mod get_queue_url;
mod receive_message;
mod send_message;

pub(crate) use create_queue::create_queue;
pub(crate) use delete_message::delete_message;
pub(crate) use get_queue_url::get_queue_url;
pub(crate) use receive_message::receive_message;
pub(crate) use send_message::send_message;

use kew_core::Queue;
use kew_http::{Reply, json};

use crate::{Context, encode};

/// The reply that says where a queue is: on the host the client asked, so that it finds the way back.
fn queue_url(cx: &Context<'_>, queue: &Queue) -> Reply {
    let host = cx.request.header("host").or(cx.request.uri.host()).unwrap_or("localhost");
    let url = format!("http://{host}/{}/{}", queue.key.account, queue.key.name);
    let mut body = br#"{"QueueUrl":"#.to_vec();
    json::push_string(&mut body, &url);
    body.push(b'}');
    encode::result(body)
}
