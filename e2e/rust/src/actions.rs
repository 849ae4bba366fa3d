//! The 23 actions: members of the input handed to the SDK's builders, members of its outputs handed back.

use crate::json::{Given, attributes, map, message_attributes, object, system_attributes, text, texts};
use aws_sdk_sqs::Client;
use aws_sdk_sqs::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_sqs::operation::RequestId;
use aws_sdk_sqs::types::{
    BatchResultErrorEntry, ChangeMessageVisibilityBatchRequestEntry, DeleteMessageBatchRequestEntry,
    ListMessageMoveTasksResultEntry, Message, SendMessageBatchRequestEntry, SendMessageBatchResultEntry,
};
use serde_json::{Value, json};
use std::fmt::Debug;

/// Sends a call whose inputs the builder takes by the names of the wire.
macro_rules! send {
    ($builder:expr, $input:expr, { $($set:ident: $member:literal),* $(,)? }) => {
        answered($builder $(.$set(Given::given(&$input[$member])))*.send().await)?
    };
}

/// An SDK's output, or what the error looks like to a program.
fn answered<O: RequestId, E>(result: Result<O, SdkError<E>>) -> Result<O, Value>
where
    E: ProvideErrorMetadata + Debug + std::error::Error + 'static,
{
    match result {
        Ok(output) if output.request_id().is_some() => Ok(output),
        Ok(_) => Err(json!({ "broken": "an answer without a request id" })),
        Err(SdkError::ServiceError(refused)) => {
            let error = refused.err();
            // The variant's name, as a `match` would see it.
            let class = format!("{error:?}");
            let class = class.split(['(', ' ']).next().unwrap_or_default();
            Err(json!({ "error": { "class": class, "code": error.code(), "message": error.message() } }))
        }
        Err(other) => Err(json!({ "broken": format!("{other:?}") })),
    }
}

pub async fn perform(client: &Client, action: &str, input: &Value) -> Result<Value, Value> {
    match action {
        "SendMessage"
        | "ReceiveMessage"
        | "DeleteMessage"
        | "ChangeMessageVisibility"
        | "SendMessageBatch"
        | "DeleteMessageBatch"
        | "ChangeMessageVisibilityBatch" => message_action(client, action, input).await,
        "AddPermission" | "RemovePermission" | "ListQueueTags" | "TagQueue" | "UntagQueue" => {
            permission_or_tag_action(client, action, input).await
        }
        "ListDeadLetterSourceQueues"
        | "StartMessageMoveTask"
        | "ListMessageMoveTasks"
        | "CancelMessageMoveTask" => dead_letter_action(client, action, input).await,
        _ => queue_action(client, action, input).await,
    }
}

/// Actions on queues.
async fn queue_action(client: &Client, action: &str, input: &Value) -> Result<Value, Value> {
    match action {
        "CreateQueue" => {
            let call = client.create_queue().set_queue_name(Given::given(&input["QueueName"]));
            let call = call.set_attributes(texts(&input["Attributes"])).set_tags(texts(&input["tags"]));
            let output = answered(call.send().await)?;
            Ok(object([("QueueUrl", text(output.queue_url()))]))
        }
        "GetQueueUrl" => {
            let output = send!(client.get_queue_url(), input, {
                set_queue_name: "QueueName", set_queue_owner_aws_account_id: "QueueOwnerAWSAccountId",
            });
            Ok(object([("QueueUrl", text(output.queue_url()))]))
        }
        "ListQueues" => {
            let output = send!(client.list_queues(), input, {
                set_queue_name_prefix: "QueueNamePrefix", set_max_results: "MaxResults", set_next_token: "NextToken",
            });
            Ok(object([("QueueUrls", json!(output.queue_urls)), ("NextToken", text(output.next_token()))]))
        }
        "GetQueueAttributes" => {
            let output = send!(client.get_queue_attributes(), input, {
                set_queue_url: "QueueUrl", set_attribute_names: "AttributeNames",
            });
            Ok(object([("Attributes", map(output.attributes()))]))
        }
        "SetQueueAttributes" => {
            let call = client.set_queue_attributes().set_queue_url(Given::given(&input["QueueUrl"]));
            answered(call.set_attributes(texts(&input["Attributes"])).send().await)?;
            Ok(json!({}))
        }
        "DeleteQueue" => {
            send!(client.delete_queue(), input, { set_queue_url: "QueueUrl" });
            Ok(json!({}))
        }
        "PurgeQueue" => {
            send!(client.purge_queue(), input, { set_queue_url: "QueueUrl" });
            Ok(json!({}))
        }
        other => Err(json!({ "broken": format!("no action {other}") })),
    }
}

/// Actions on messages.
async fn message_action(client: &Client, action: &str, input: &Value) -> Result<Value, Value> {
    match action {
        "SendMessage" => {
            let call = client
                .send_message()
                .set_message_attributes(attributes(&input["MessageAttributes"]))
                .set_message_system_attributes(system_attributes(&input["MessageSystemAttributes"]));
            let output = send!(call, input, {
                set_queue_url: "QueueUrl", set_message_body: "MessageBody", set_delay_seconds: "DelaySeconds",
                set_message_group_id: "MessageGroupId", set_message_deduplication_id: "MessageDeduplicationId",
            });
            Ok(object([
                ("MessageId", text(output.message_id())),
                ("MD5OfMessageBody", text(output.md5_of_message_body())),
                ("MD5OfMessageAttributes", text(output.md5_of_message_attributes())),
                ("MD5OfMessageSystemAttributes", text(output.md5_of_message_system_attributes())),
                ("SequenceNumber", text(output.sequence_number())),
            ]))
        }
        "ReceiveMessage" => {
            let output = send!(client.receive_message(), input, {
                set_queue_url: "QueueUrl", set_max_number_of_messages: "MaxNumberOfMessages",
                set_visibility_timeout: "VisibilityTimeout", set_wait_time_seconds: "WaitTimeSeconds",
                set_message_system_attribute_names: "AttributeNames",
                set_message_attribute_names: "MessageAttributeNames",
                set_receive_request_attempt_id: "ReceiveRequestAttemptId",
            });
            let messages = output.messages.map(|list| list.iter().map(message).collect::<Vec<_>>());
            Ok(object([("Messages", json!(messages))]))
        }
        "DeleteMessage" => {
            send!(client.delete_message(), input, { set_queue_url: "QueueUrl", set_receipt_handle: "ReceiptHandle" });
            Ok(json!({}))
        }
        "ChangeMessageVisibility" => {
            send!(client.change_message_visibility(), input, {
                set_queue_url: "QueueUrl", set_receipt_handle: "ReceiptHandle",
                set_visibility_timeout: "VisibilityTimeout",
            });
            Ok(json!({}))
        }
        "SendMessageBatch" | "DeleteMessageBatch" | "ChangeMessageVisibilityBatch" => {
            batch(client, action, input).await
        }
        other => Err(json!({ "broken": format!("no action {other}") })),
    }
}

/// Actions on what a queue has beside its attributes.
async fn permission_or_tag_action(client: &Client, action: &str, input: &Value) -> Result<Value, Value> {
    match action {
        "AddPermission" => {
            send!(client.add_permission(), input, {
                set_queue_url: "QueueUrl", set_label: "Label", set_aws_account_ids: "AWSAccountIds",
                set_actions: "Actions",
            });
            Ok(json!({}))
        }
        "RemovePermission" => {
            send!(client.remove_permission(), input, { set_queue_url: "QueueUrl", set_label: "Label" });
            Ok(json!({}))
        }
        "ListQueueTags" => {
            let output = send!(client.list_queue_tags(), input, { set_queue_url: "QueueUrl" });
            Ok(object([("Tags", map(output.tags()))]))
        }
        "TagQueue" => {
            let call = client.tag_queue().set_queue_url(Given::given(&input["QueueUrl"]));
            answered(call.set_tags(texts(&input["Tags"])).send().await)?;
            Ok(json!({}))
        }
        "UntagQueue" => {
            send!(client.untag_queue(), input, { set_queue_url: "QueueUrl", set_tag_keys: "TagKeys" });
            Ok(json!({}))
        }
        other => Err(json!({ "broken": format!("no action {other}") })),
    }
}

/// Actions on dead letters and their moves.
async fn dead_letter_action(client: &Client, action: &str, input: &Value) -> Result<Value, Value> {
    match action {
        "ListDeadLetterSourceQueues" => {
            let output = send!(client.list_dead_letter_source_queues(), input, {
                set_queue_url: "QueueUrl", set_max_results: "MaxResults", set_next_token: "NextToken",
            });
            let next = text(output.next_token());
            Ok(object([("QueueUrls", json!(output.queue_urls)), ("NextToken", next)]))
        }
        "StartMessageMoveTask" => {
            let output = send!(client.start_message_move_task(), input, {
                set_source_arn: "SourceArn", set_destination_arn: "DestinationArn",
                set_max_number_of_messages_per_second: "MaxNumberOfMessagesPerSecond",
            });
            Ok(object([("TaskHandle", text(output.task_handle()))]))
        }
        "ListMessageMoveTasks" => {
            let output = send!(client.list_message_move_tasks(), input, {
                set_source_arn: "SourceArn", set_max_results: "MaxResults",
            });
            let results = output.results.map(|list| list.iter().map(move_task).collect::<Vec<_>>());
            Ok(object([("Results", json!(results))]))
        }
        "CancelMessageMoveTask" => {
            let output = send!(client.cancel_message_move_task(), input, { set_task_handle: "TaskHandle" });
            let moved = output.approximate_number_of_messages_moved();
            Ok(object([("ApproximateNumberOfMessagesMoved", json!(moved))]))
        }
        other => Err(json!({ "broken": format!("no action {other}") })),
    }
}

async fn batch(client: &Client, action: &str, input: &Value) -> Result<Value, Value> {
    let url: Option<String> = Given::given(&input["QueueUrl"]);
    let entries = input["Entries"].as_array().cloned().unwrap_or_default();
    let ids = |ids: Vec<&str>| {
        if ids.is_empty() { Value::Null } else { ids.iter().map(|id| json!({ "Id": id })).collect() }
    };
    let (successful, failed) = match action {
        "SendMessageBatch" => {
            let entries = entries.iter().map(send_entry).collect();
            let output = answered(
                client.send_message_batch().set_queue_url(url).set_entries(Some(entries)).send().await,
            )?;
            let sent: Vec<Value> = output.successful().iter().map(sent_entry).collect();
            (if sent.is_empty() { Value::Null } else { json!(sent) }, failures(output.failed()))
        }
        "DeleteMessageBatch" => {
            let entry = |entry: &Value| {
                let built = DeleteMessageBatchRequestEntry::builder()
                    .set_id(Given::given(&entry["Id"]))
                    .set_receipt_handle(Given::given(&entry["ReceiptHandle"]));
                built.build().expect("id and handle are given")
            };
            let entries = entries.iter().map(entry).collect();
            let output = answered(
                client.delete_message_batch().set_queue_url(url).set_entries(Some(entries)).send().await,
            )?;
            (ids(output.successful().iter().map(|entry| entry.id()).collect()), failures(output.failed()))
        }
        _ => {
            let entry = |entry: &Value| {
                let built = ChangeMessageVisibilityBatchRequestEntry::builder()
                    .set_id(Given::given(&entry["Id"]))
                    .set_receipt_handle(Given::given(&entry["ReceiptHandle"]))
                    .set_visibility_timeout(Given::given(&entry["VisibilityTimeout"]));
                built.build().expect("id and handle are given")
            };
            let entries = entries.iter().map(entry).collect();
            let call = client.change_message_visibility_batch().set_queue_url(url).set_entries(Some(entries));
            let output = answered(call.send().await)?;
            (ids(output.successful().iter().map(|entry| entry.id()).collect()), failures(output.failed()))
        }
    };
    Ok(object([("Successful", successful), ("Failed", failed)]))
}

fn send_entry(entry: &Value) -> SendMessageBatchRequestEntry {
    SendMessageBatchRequestEntry::builder()
        .set_id(Given::given(&entry["Id"]))
        .set_message_body(Given::given(&entry["MessageBody"]))
        .set_delay_seconds(Given::given(&entry["DelaySeconds"]))
        .set_message_group_id(Given::given(&entry["MessageGroupId"]))
        .set_message_deduplication_id(Given::given(&entry["MessageDeduplicationId"]))
        .set_message_attributes(attributes(&entry["MessageAttributes"]))
        .set_message_system_attributes(system_attributes(&entry["MessageSystemAttributes"]))
        .build()
        .expect("id and body are given")
}

fn sent_entry(entry: &SendMessageBatchResultEntry) -> Value {
    object([
        ("Id", json!(entry.id())),
        ("MessageId", json!(entry.message_id())),
        ("MD5OfMessageBody", json!(entry.md5_of_message_body())),
        ("MD5OfMessageAttributes", text(entry.md5_of_message_attributes())),
        ("MD5OfMessageSystemAttributes", text(entry.md5_of_message_system_attributes())),
        ("SequenceNumber", text(entry.sequence_number())),
    ])
}

fn failures(failed: &[BatchResultErrorEntry]) -> Value {
    let shown = |entry: &BatchResultErrorEntry| {
        object([
            ("Id", json!(entry.id())),
            ("Code", json!(entry.code())),
            ("Message", text(entry.message())),
            ("SenderFault", json!(entry.sender_fault())),
        ])
    };
    if failed.is_empty() { Value::Null } else { failed.iter().map(shown).collect() }
}

fn message(message: &Message) -> Value {
    object([
        ("MessageId", text(message.message_id())),
        ("ReceiptHandle", text(message.receipt_handle())),
        ("Body", text(message.body())),
        ("MD5OfBody", text(message.md5_of_body())),
        ("MD5OfMessageAttributes", text(message.md5_of_message_attributes())),
        ("Attributes", map(message.attributes())),
        ("MessageAttributes", message_attributes(message.message_attributes())),
    ])
}

fn move_task(task: &ListMessageMoveTasksResultEntry) -> Value {
    object([
        ("Status", text(task.status())),
        ("SourceArn", text(task.source_arn())),
        ("DestinationArn", text(task.destination_arn())),
        ("TaskHandle", text(task.task_handle())),
        ("FailureReason", text(task.failure_reason())),
        ("MaxNumberOfMessagesPerSecond", json!(task.max_number_of_messages_per_second())),
        ("ApproximateNumberOfMessagesMoved", json!(task.approximate_number_of_messages_moved())),
        ("ApproximateNumberOfMessagesToMove", json!(task.approximate_number_of_messages_to_move())),
        ("StartedTimestamp", json!(task.started_timestamp())),
    ])
}
