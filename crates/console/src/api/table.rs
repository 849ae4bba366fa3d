//! What a row of the table of operations says: a method and a path, who may ask, what it takes and what it answers.
//!
//! Requests are routed and checked by the rows ([`super::routes`]), and the OpenAPI document is written from them, so
//! that neither can say something else than the other.

use super::fields::Field;

/// An operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Op {
    ListQueues,
    CreateQueue,
    ShowQueue,
    ChangeQueue,
    DeleteQueue,
    PurgeQueue,
    ListMessages,
    ShowQueueMessage,
    ShowMessage,
    DeleteMessage,
    ReleaseMessage,
    ExtendMessage,
    PromoteMessage,
    PauseQueue,
    ResumeQueue,
    ShowDelayed,
    ShowLeases,
    ShowProcessing,
    ListGroups,
    FindDeduplication,
    SendMessage,
    ReceiveMessages,
    SettleMessages,
    Redrive,
    ShowRedrive,
    CancelRedrive,
    ShowSamples,
    PushAttempts,
    ShowStore,
    BeginBackup,
    ShowBackup,
    ShowShards,
    HandOverShard,
    MoveShard,
    ListNodes,
    ListAlarms,
    ShowConfig,
    ShowAudit,
    BeginSession,
    ShowSession,
    EndSession,
    ShowClock,
    MoveClock,
    ConfirmClock,
    OpenApi,
}

impl Op {
    /// Whether its reply tells what the store holds. Other replies are of the node itself, which may tell of itself
    /// also when another one owns the store.
    pub(crate) fn tells_of_store(self) -> bool {
        match self {
            Self::ListQueues
            | Self::CreateQueue
            | Self::ShowQueue
            | Self::ChangeQueue
            | Self::DeleteQueue
            | Self::PurgeQueue
            | Self::ListMessages
            | Self::ShowQueueMessage
            | Self::ShowMessage
            | Self::DeleteMessage
            | Self::ReleaseMessage
            | Self::ExtendMessage
            | Self::PromoteMessage
            | Self::PauseQueue
            | Self::ResumeQueue
            | Self::ListGroups
            | Self::FindDeduplication
            | Self::SendMessage
            | Self::ReceiveMessages
            | Self::SettleMessages
            | Self::Redrive
            | Self::ShowRedrive
            | Self::CancelRedrive
            | Self::ShowDelayed
            | Self::ShowLeases
            | Self::ShowProcessing
            | Self::ShowSamples
            | Self::ShowStore => true,
            Self::PushAttempts
            | Self::BeginBackup
            | Self::ShowBackup
            | Self::ShowShards
            | Self::HandOverShard
            | Self::MoveShard
            | Self::ListNodes
            | Self::ListAlarms
            | Self::ShowConfig
            | Self::ShowAudit
            | Self::BeginSession
            | Self::ShowSession
            | Self::EndSession
            | Self::ShowClock
            | Self::MoveClock
            | Self::ConfirmClock
            | Self::OpenApi => false,
        }
    }
}

/// Who may ask for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Needs {
    /// Everybody who may reach the API.
    Nothing,
    /// Somebody who is known.
    Known,
    /// An operator, since it changes something.
    Operator,
}

/// One row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Route {
    pub(crate) method: &'static str,
    /// Below `/api/v1`; a part in braces stands for one part of a path.
    pub(crate) path: &'static str,
    pub(crate) op: Op,
    /// Its name in the document and in the audit log.
    pub(crate) name: &'static str,
    pub(crate) needs: Needs,
    pub(crate) help: &'static str,
    pub(crate) query: &'static [Field],
    /// Of a change; without any the body may be empty.
    pub(crate) body: &'static [Field],
    /// The status of success.
    pub(crate) status: u16,
    pub(crate) reply: &'static [Field],
    /// Refusals beside those that every operation has.
    pub(crate) refusals: &'static [(u16, &'static str)],
}

pub(super) const fn get(path: &'static str, op: Op, name: &'static str, help: &'static str) -> Route {
    Route {
        method: "GET",
        path,
        op,
        name,
        needs: Needs::Known,
        help,
        query: &[],
        body: &[],
        status: 200,
        reply: &[],
        refusals: &[],
    }
}

pub(super) const fn post(path: &'static str, op: Op, name: &'static str, help: &'static str) -> Route {
    Route { method: "POST", needs: Needs::Operator, ..get(path, op, name, help) }
}

impl Route {
    pub(super) const fn query(self, query: &'static [Field]) -> Self {
        Self { query, ..self }
    }

    pub(super) const fn body(self, body: &'static [Field]) -> Self {
        Self { body, ..self }
    }

    pub(super) const fn reply(self, reply: &'static [Field]) -> Self {
        Self { reply, ..self }
    }

    pub(super) const fn refusals(self, refusals: &'static [(u16, &'static str)]) -> Self {
        Self { refusals, ..self }
    }

    pub(super) const fn as_method(self, method: &'static str) -> Self {
        Self { method, ..self }
    }

    pub(super) const fn needs(self, needs: Needs) -> Self {
        Self { needs, ..self }
    }

    pub(super) const fn status(self, status: u16) -> Self {
        Self { status, ..self }
    }

    /// Whether it changes something.
    pub(crate) fn is_change(&self) -> bool {
        self.method != "GET"
    }
}
