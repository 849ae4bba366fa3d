//! Queue policies: who else may use a queue, and who of its own account may not.
//!
//! `document` reads a policy and refuses what it cannot understand, `evaluate` asks it, `condition` and `facts` are
//! what it may ask of a request. Policies are asked in strict mode only: in open mode everybody is the owner, and
//! callers have no identity. A queue without a policy costs its owner nothing.

mod condition;
mod document;
mod evaluate;
mod facts;
mod wildcard;

use std::collections::HashMap;
use std::sync::Arc;

use kew_core::{Queue, QueueId, Timestamp};
use kew_http::Request;
use parking_lot::Mutex;

use crate::action::Action;
use crate::auth::Principal;
use crate::documents;
use crate::error::{Code, WireError};
use crate::names::Arn;

pub(crate) use document::{ACTIONS_MAX, Document, PRINCIPALS_MAX, STATEMENTS_MAX, TEXT_BYTES_MAX};
use evaluate::Verdict;
pub(crate) use facts::Facts;

/// Refuses a text that is no policy. An empty one takes the policy away, and is not asked about here.
pub(crate) fn check(text: &str) -> Result<(), WireError> {
    if let Some(text) = document::over_limit(text) {
        return Err(WireError::new(Code::OverLimit).saying(text));
    }
    Document::read(text.as_bytes()).map(drop).map_err(|_| {
        let text = "Invalid value for the parameter Policy.";
        WireError::new(Code::InvalidAttributeValue).saying(text)
    })
}

/// Maximum policies that are kept in their decoded form.
const READ_MAX: usize = 256;

/// The policies that were asked lately, read.
#[derive(Default)]
pub(crate) struct Policies {
    /// Guards the policies.
    read: Mutex<HashMap<QueueId, Read>>,
}

/// The policy of one version of a queue.
struct Read {
    version: u64,
    /// `None` is one that cannot be read.
    document: Option<Arc<Document>>,
}

impl Policies {
    /// Refuses an action on a queue unless the queue's owner or its policy allows it.
    pub(crate) fn allow(
        &self,
        principal: &Principal,
        request: &Request,
        (action, queue): (Action, &Queue),
        now: Timestamp,
    ) -> Result<(), WireError> {
        let is_owner = principal.account == queue.key.account;
        if !is_owner && action.is_for_owners() {
            return Err(denied(principal, action, queue, Because::NobodyAllows));
        }
        let verdict = match self.of(queue) {
            Some(policy) => policy.says(action, &Facts { principal, request, queue, now }),
            None => Verdict::Silent,
        };
        match verdict {
            Verdict::Denied => Err(denied(principal, action, queue, Because::Denied)),
            Verdict::Silent if !is_owner => Err(denied(principal, action, queue, Because::NobodyAllows)),
            Verdict::Silent | Verdict::Allowed => Ok(()),
        }
    }

    /// A queue's policy, read at most once a version. One that cannot be read allows nothing and denies nothing, so
    /// that its owner can replace it.
    fn of(&self, queue: &Queue) -> Option<Arc<Document>> {
        let text = documents::policy(queue)?;
        if let Some(read) = self.read.lock().get(&queue.id)
            && read.version == queue.version
        {
            return read.document.clone();
        }
        let document = Document::read(text.as_bytes()).ok().map(Arc::new);
        let mut read = self.read.lock();
        if read.len() >= READ_MAX && !read.contains_key(&queue.id) {
            let any = read.keys().next().copied();
            any.map(|any| read.remove(&any));
        }
        read.insert(queue.id, Read { version: queue.version, document: document.clone() });
        document
    }
}

#[derive(Clone, Copy)]
enum Because {
    Denied,
    NobodyAllows,
}

fn denied(principal: &Principal, action: Action, queue: &Queue, because: Because) -> WireError {
    let arn = Arn::of(&queue.key);
    let action = action.single().name().to_ascii_lowercase();
    let because = match because {
        Because::Denied => "with an explicit deny in a resource-based policy".to_owned(),
        Because::NobodyAllows => format!("because no resource-based policy allows the sqs:{action} action"),
    };
    let text = format!(
        "User: {} is not authorized to perform: sqs:{action} on resource: {arn} {because}",
        principal.arn
    );
    WireError::new(Code::AccessDenied).saying(text)
}
