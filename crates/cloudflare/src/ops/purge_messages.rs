//! `POST /queues/{id}/messages/purge`: deletes messages by the references that a peek gave.
//!
//! A reference that never was one, or is of another queue, is an error in the result; one whose message is gone is a
//! warning. Neither has an effect.

use kew_core::command::Ack;
use kew_core::{LeaseToken, ReceiptRule, RuleError};
use kew_http::Reply;
use serde_json::{Map, Value, json};

use super::ack::warning;
use crate::decode::settle::references;
use crate::error::WireError;
use crate::{Context, encode, receipt};

pub(crate) async fn purge_messages(cx: &Context<'_>) -> Result<Reply, WireError> {
    let references = references(&cx.request.body)?;
    let queue = cx.queue()?;
    let mut told = Told::default();
    let mut known: Vec<(&str, LeaseToken)> = Vec::with_capacity(references.len());
    for reference in &references {
        match receipt::read_reference(reference) {
            Some(token) => known.push((reference, token)),
            None => told.refuse(reference, &RuleError::TokenForged),
        }
    }
    if !known.is_empty() {
        let tokens = known.iter().map(|(_, token)| *token).collect();
        let ack = Ack { queue: queue.id, receipt: ReceiptRule::Any, tokens };
        for ((reference, _), result) in known.iter().zip(cx.engine.ack(ack).await?) {
            if let Err(error) = result {
                told.refuse(reference, &error);
            }
        }
    }
    Ok(encode::result(&json!({ "errors": told.errors, "warnings": told.warnings })))
}

/// What had no effect, and why.
#[derive(Default)]
struct Told {
    errors: Vec<Value>,
    warnings: Map<String, Value>,
}

impl Told {
    fn refuse(&mut self, reference: &str, error: &RuleError) {
        let why = warning(error);
        if *error == RuleError::MessageNotFound {
            self.warnings.insert(reference.to_owned(), why.into());
        } else {
            self.errors.push(json!({ "message": format!("{reference}: {why}") }));
        }
    }
}
