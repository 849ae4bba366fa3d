//! What a request asks for: its verb and its path.
//!
//! A new call is a variant of [`Operation`], a row in [`Operation::of`] and an arm of `ops::perform`.

use kew_core::QueueId;
use kew_http::{Method, hex};

use crate::error::{Code, WireError};

/// What every REST path begins with.
pub const BASE: &str = "/client/v4";

/// Whether a path is one of the REST API, known or not.
pub fn is_rest(path: &str) -> bool {
    path.strip_prefix(BASE).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Writes the enum of operations with each one's name, what it needs and whether it is about messages.
macro_rules! operations {
    ($($(#[$doc:meta])* $name:ident $need:ident $plane:ident,)+) => {
        /// The operations.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub enum Operation {
            $($(#[$doc])* $name,)+
        }

        impl Operation {
            /// Its name, for metrics.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name),)+
                }
            }

            /// Whether its reply is small: settings or counts of one queue, or what a token reaches.
            pub(crate) fn shows_little(self) -> bool {
                matches!(
                    self,
                    Self::User
                        | Self::VerifyToken
                        | Self::Memberships
                        | Self::Accounts
                        | Self::Account
                        | Self::GetQueue
                        | Self::QueueMetrics
                        | Self::PurgeStatus
                        | Self::ListConsumers
                        | Self::GetConsumer
                )
            }

            /// What a token must allow.
            pub(crate) fn need(self) -> Need {
                match self {
                    $(Self::$name => Need::$need,)+
                }
            }

            fn plane(self) -> Plane {
                match self {
                    $(Self::$name => Plane::$plane,)+
                }
            }
        }
    };
}

operations! {
    /// Shows the token's holder.
    User Token Queues,
    /// Says whether the token is good.
    VerifyToken Token Queues,
    /// Lists the accounts the holder belongs to.
    Memberships Token Queues,
    /// Lists the accounts the token reaches.
    Accounts Token Queues,
    /// Shows an account.
    Account Token Queues,
    /// Lists queues.
    ListQueues Read Queues,
    /// Makes a queue.
    CreateQueue Write Queues,
    /// Shows a queue.
    GetQueue Read Queues,
    /// Replaces a queue's name and settings.
    ReplaceQueue Write Queues,
    /// Changes some of them.
    PatchQueue Write Queues,
    /// Deletes a queue with everything in it.
    DeleteQueue Write Queues,
    /// Counts a queue's messages.
    QueueMetrics Read Queues,
    /// Deletes all messages.
    PurgeQueue Write Queues,
    /// Says when that was done last.
    PurgeStatus Read Queues,
    /// Lists a queue's consumers.
    ListConsumers Read Queues,
    /// Gives a queue its consumer.
    CreateConsumer Write Queues,
    /// Shows a consumer.
    GetConsumer Read Queues,
    /// Replaces a consumer's settings.
    ReplaceConsumer Write Queues,
    /// Takes a consumer away.
    DeleteConsumer Write Queues,
    /// Adds a message.
    Push Write Messages,
    /// Adds several, all or none.
    PushBatch Write Messages,
    /// Leases messages.
    Pull Both Messages,
    /// Settles leases.
    Ack Both Messages,
    /// Shows messages.
    Peek Read Messages,
    /// Deletes messages that were shown.
    PurgeMessages Write Messages,
}

/// What a token must allow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Need {
    /// Nothing beyond being one.
    Token,
    /// Reading.
    Read,
    /// Writing.
    Write,
    /// Both.
    Both,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Plane {
    Queues,
    Messages,
}

impl Operation {
    /// Whether it is about messages, which have errors of their own.
    pub(crate) fn is_about_messages(self) -> bool {
        self.plane() == Plane::Messages
    }

    /// The operation of a verb on a path within an account's queues.
    fn of_queues(verb: &str, path: &[&str]) -> Option<Self> {
        Some(match (verb, path) {
            ("GET", []) => Self::ListQueues,
            ("POST", []) => Self::CreateQueue,
            ("GET", [_]) => Self::GetQueue,
            ("PUT", [_]) => Self::ReplaceQueue,
            ("PATCH", [_]) => Self::PatchQueue,
            ("DELETE", [_]) => Self::DeleteQueue,
            ("GET", [_, "metrics"]) => Self::QueueMetrics,
            ("POST", [_, "purge"]) => Self::PurgeQueue,
            ("GET", [_, "purge"]) => Self::PurgeStatus,
            ("GET", [_, "consumers"]) => Self::ListConsumers,
            ("POST", [_, "consumers"]) => Self::CreateConsumer,
            ("GET", [_, "consumers", _]) => Self::GetConsumer,
            ("PUT", [_, "consumers", _]) => Self::ReplaceConsumer,
            ("DELETE", [_, "consumers", _]) => Self::DeleteConsumer,
            ("POST", [_, "messages"]) => Self::Push,
            ("POST", [_, "messages", "batch"]) => Self::PushBatch,
            ("POST", [_, "messages", "pull"]) => Self::Pull,
            ("POST", [_, "messages", "ack"]) => Self::Ack,
            ("POST", [_, "messages", "peek"]) => Self::Peek,
            ("POST", [_, "messages", "purge"]) => Self::PurgeMessages,
            _ => return None,
        })
    }
}

/// A request's operation, and the names in its path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Route<'a> {
    pub(crate) operation: Operation,
    /// The account, where the path names one.
    pub(crate) account: Option<&'a str>,
    queue: &'a str,
    consumer: &'a str,
}

impl<'a> Route<'a> {
    /// Where a verb and a path lead.
    pub(crate) fn of(verb: &Method, path: &'a str) -> Result<Self, WireError> {
        if !is_rest(path) {
            return Err(nowhere(path));
        }
        let rest = path.strip_prefix(BASE).unwrap_or_default();
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let parts: Vec<&str> = rest.split('/').skip(1).take(PARTS_MAX).collect();
        let bare = |operation, account| Ok(Self { operation, account, queue: "", consumer: "" });
        match (verb.as_str(), &*parts) {
            // A request without an account comes from a client whose account is not set.
            (_, ["accounts", "", ..]) => Err(nowhere(rest)),
            ("GET", ["user"]) => bare(Operation::User, None),
            ("GET", ["user", "tokens", "verify"]) => bare(Operation::VerifyToken, None),
            ("GET", ["accounts", account, "tokens", "verify"]) => {
                bare(Operation::VerifyToken, Some(*account))
            }
            ("GET", ["memberships"]) => bare(Operation::Memberships, None),
            ("GET", ["accounts"]) => bare(Operation::Accounts, None),
            ("GET", ["accounts", account]) => bare(Operation::Account, Some(*account)),
            (_, ["accounts", _, "event_subscriptions", ..]) => {
                Err(WireError::new(Code::NoRoute)
                    .saying("Event subscriptions are not offered by this server"))
            }
            (verb, ["accounts", account, "queues", path @ ..]) => {
                let operation = Operation::of_queues(verb, path).ok_or_else(|| nowhere(rest))?;
                Ok(Self {
                    operation,
                    account: Some(*account),
                    queue: path.first().copied().unwrap_or_default(),
                    consumer: path.get(2).copied().unwrap_or_default(),
                })
            }
            _ => Err(nowhere(rest)),
        }
    }

    /// The number of the queue in the path; `None` when no queue can have what stands there. Calls about messages alone
    /// tell an id that is malformed from one that no queue has.
    pub(crate) fn queue_id(&self) -> Result<Option<QueueId>, WireError> {
        let is_alphanumeric =
            !self.queue.is_empty() && self.queue.bytes().all(|byte| byte.is_ascii_alphanumeric());
        if self.operation.is_about_messages() && !is_alphanumeric {
            return Err(Code::MalformedQueueId.into());
        }
        Ok(read_queue_id(self.queue))
    }

    /// The consumer in the path.
    pub(crate) fn consumer(&self) -> &'a str {
        self.consumer
    }
}

/// More parts than any path has.
const PARTS_MAX: usize = 12;

/// The error of a path that leads nowhere, shown without the prefix of all paths.
pub(crate) fn nowhere(path: &str) -> WireError {
    let path = path.strip_prefix(BASE).unwrap_or(path);
    let path: String = if path.is_empty() { "/".to_owned() } else { path.chars().take(500).collect() };
    let text = format!("Could not route to {path}, perhaps your object identifier is invalid?");
    WireError::new(Code::NoRoute).saying(text)
}

/// A queue's number as 32 hex digits.
pub(crate) fn queue_id(id: QueueId) -> String {
    format!("{:032x}", id.0)
}

fn read_queue_id(text: &str) -> Option<QueueId> {
    u64::try_from(u128::from_be_bytes(hex::sixteen(text)?)).ok().map(QueueId)
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUEUES: &str = "/client/v4/accounts/a/queues";

    fn operation(verb: &str, path: &str) -> Result<Operation, Code> {
        let verb = verb.parse().expect("the method of a route is valid");
        Route::of(&verb, path).map(|route| route.operation).map_err(|error| error.code())
    }

    #[test]
    fn verb_and_path_tell_the_operation() {
        for (verb, path, expected) in [
            ("GET", "", Operation::ListQueues),
            ("GET", "/", Operation::ListQueues),
            ("POST", "", Operation::CreateQueue),
            ("PATCH", "/1", Operation::PatchQueue),
            ("GET", "/1/metrics", Operation::QueueMetrics),
            ("PUT", "/1/consumers/2", Operation::ReplaceConsumer),
            ("POST", "/1/messages", Operation::Push),
            ("POST", "/1/messages/batch", Operation::PushBatch),
            ("POST", "/1/messages/purge", Operation::PurgeMessages),
            ("POST", "/1/purge", Operation::PurgeQueue),
        ] {
            assert_eq!(operation(verb, &format!("{QUEUES}{path}")), Ok(expected), "{verb} {path}");
        }
        assert_eq!(operation("GET", "/client/v4/user"), Ok(Operation::User));
        for (verb, path) in [
            ("GET", "/"),
            ("GET", "/client/v4"),
            ("GET", "/client/v4/zones"),
            ("GET", "/client/v4/accounts//queues"),
            ("GET", "/client/v4/accounts//tokens/verify"),
            ("GET", "/client/v45/user"),
            ("DELETE", QUEUES),
            ("GET", "/client/v4/accounts/a/queues/1/messages"),
            ("POST", "/client/v4/accounts/a/queues/1/messages/pull/x"),
            ("POST", "/client/v4/accounts/a/event_subscriptions/subscriptions"),
        ] {
            assert_eq!(operation(verb, path), Err(Code::NoRoute), "{verb} {path}");
        }
    }

    #[test]
    fn ids_are_thirty_two_hex_digits_or_no_queue_has_them() {
        let id_in = |verb: Method, path: String| {
            let route = Route::of(&verb, &path).expect("the path of a route is known");
            route.queue_id().map_err(|error| error.code())
        };
        let id = |text: &str| id_in(Method::GET, format!("{QUEUES}/{text}"));
        let id_for_messages = |text: &str| id_in(Method::POST, format!("{QUEUES}/{text}/messages"));
        assert_eq!(id(&queue_id(QueueId(77))), Ok(Some(QueueId(77))));
        assert_eq!(id(&"f".repeat(32)), Ok(None));
        assert_eq!(id("4d"), Ok(None));
        assert_eq!(id("orders"), Ok(None));
        for malformed in ["my-queue", "%2e", "00000000-0000-0000-0000-000000000000", ""] {
            assert_eq!(id_for_messages(malformed), Err(Code::MalformedQueueId), "{malformed}");
        }
        for malformed in ["my-queue", "%2e", "00000000-0000-0000-0000-000000000000"] {
            assert_eq!(id(malformed), Ok(None), "{malformed}");
        }
        assert_eq!(id_for_messages("orders"), Ok(None));
    }
}
