//! The twenty-three actions, by their names.

/// Writes the enum and its table of names, which are the same words.
macro_rules! actions {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {
        /// What may be asked.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub enum Action {
            $($(#[$doc])* $name,)+
        }

        impl Action {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$name,)+];

            /// The action of this name, matched whole and by case.
            pub fn named(name: &str) -> Option<Self> {
                match name {
                    $(stringify!($name) => Some(Self::$name),)+
                    _ => None,
                }
            }

            /// Whether its reply shows what is stored of queues, messages aside: it is small.
            pub(crate) fn shows_settings(self) -> bool {
                matches!(
                    self,
                    Self::ListQueues
                        | Self::GetQueueAttributes
                        | Self::ListQueueTags
                        | Self::ListDeadLetterSourceQueues
                        | Self::ListMessageMoveTasks
                )
            }

            /// Its name.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name),)+
                }
            }
        }
    };
}

actions! {
    /// Adds a message.
    SendMessage,
    /// Leases messages.
    ReceiveMessage,
    /// Deletes a message by its receipt.
    DeleteMessage,
    /// Adds up to ten messages, each for itself.
    SendMessageBatch,
    /// Deletes up to ten messages, each for itself.
    DeleteMessageBatch,
    /// Gives a lease another end.
    ChangeMessageVisibility,
    /// Gives up to ten leases another end, each for itself.
    ChangeMessageVisibilityBatch,
    /// Says a queue's URL.
    GetQueueUrl,
    /// Shows a queue's settings and figures.
    GetQueueAttributes,
    /// Changes a queue's settings.
    SetQueueAttributes,
    /// Makes a queue, or finds the same one.
    CreateQueue,
    /// Deletes a queue with everything in it.
    DeleteQueue,
    /// Lists queues by name.
    ListQueues,
    /// Deletes every message of a queue.
    PurgeQueue,
    /// Lists the queues whose dead letters come here.
    ListDeadLetterSourceQueues,
    /// Starts bringing dead letters back.
    StartMessageMoveTask,
    /// Stops that.
    CancelMessageMoveTask,
    /// Shows how far that is.
    ListMessageMoveTasks,
    /// Lets other accounts use a queue.
    AddPermission,
    /// Takes that back.
    RemovePermission,
    /// Shows a queue's tags.
    ListQueueTags,
    /// Puts tags on a queue.
    TagQueue,
    /// Takes tags off.
    UntagQueue,
}

impl Action {
    /// The action on one message that a permission names for this one.
    pub fn single(self) -> Self {
        match self {
            Self::SendMessageBatch => Self::SendMessage,
            Self::DeleteMessageBatch => Self::DeleteMessage,
            Self::ChangeMessageVisibilityBatch => Self::ChangeMessageVisibility,
            other => other,
        }
    }

    /// Whether no policy can open it to another account.
    pub fn is_for_owners(self) -> bool {
        matches!(
            self,
            Self::AddPermission
                | Self::RemovePermission
                | Self::CreateQueue
                | Self::DeleteQueue
                | Self::ListQueues
                | Self::SetQueueAttributes
                | Self::ListQueueTags
                | Self::TagQueue
                | Self::UntagQueue
                | Self::StartMessageMoveTask
                | Self::CancelMessageMoveTask
                | Self::ListMessageMoveTasks
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_matched_whole_and_by_case() {
        assert_eq!(Action::ALL.len(), 23);
        for action in Action::ALL {
            assert_eq!(Action::named(action.name()), Some(*action));
        }
        assert_eq!(Action::named("sendmessage"), None);
        assert_eq!(Action::named("SendMessages"), None);
    }
}
