//! Reads a subject's outcome in the model's words: each side makes its own nonces and ids, and the pairs must agree.

use std::collections::{BTreeMap, BTreeSet};

use kew_core::outcome::{Extended, Leased, Page, Seen, Sent};
use kew_core::{DeduplicationId, Event, EventKind, LeaseToken, Message, MessageId, Outcome, Text};

/// Which token and which id of the subject stands for which of the model.
#[derive(Debug, Default)]
pub(super) struct Pairs {
    tokens: BTreeMap<LeaseToken, LeaseToken>,
    tokens_of_model: BTreeSet<LeaseToken>,
    ids: BTreeMap<MessageId, MessageId>,
    ids_of_model: BTreeSet<MessageId>,
    /// Ids the history gave itself: these are the same on both sides.
    sent: BTreeSet<MessageId>,
}

impl Pairs {
    pub fn note_sent(&mut self, id: MessageId) {
        self.sent.insert(id);
    }

    /// The subject's outcome as the model would say it, if it means the same as what the model said.
    pub fn translate(&mut self, expected: &Outcome, got: Outcome) -> Outcome {
        match (expected, got) {
            (Outcome::Sent(expected), Outcome::Sent(got)) => {
                Outcome::Sent(each(expected, got, |expected, got| self.sent(expected, got)))
            }
            (Outcome::Leased(expected), Outcome::Leased(got)) => {
                Outcome::Leased(each(expected, got, |expected, got| self.leased(expected, got)))
            }
            (Outcome::Extended(expected), Outcome::Extended(got)) => {
                Outcome::Extended(each(expected, got, |expected, got| match (expected, got) {
                    (Ok(Extended::Until { token: expected, .. }), Ok(Extended::Until { until, token })) => {
                        Ok(Extended::Until { until, token: self.token(expected, token) })
                    }
                    (_, got) => got,
                }))
            }
            (Outcome::Peeked(expected), Outcome::Peeked(got)) => {
                Outcome::Peeked(each(expected, got, |expected, got| {
                    (self.message(&expected.0, got.0), self.token(&expected.1, got.1))
                }))
            }
            (Outcome::Browsed(expected), Outcome::Browsed(got)) => {
                let messages = each(&expected.messages, got.messages, |expected, got| Seen {
                    message: self.message(&expected.message, got.message),
                    token: self.token(&expected.token, got.token),
                    ..got
                });
                Outcome::Browsed(Page { messages, ..got })
            }
            (Outcome::Identified(expected), Outcome::Identified(got)) => {
                Outcome::Identified(self.id(*expected, got))
            }
            (Outcome::History(expected), Outcome::History(got)) => {
                Outcome::History(each(expected, without_instants(&got), |expected, got| {
                    self.event(expected, got)
                }))
            }
            (_, Outcome::Counts(got)) => Outcome::Counts(kew_core::Counts { oldest_sent_at: None, ..got }),
            (_, got) => got,
        }
    }

    fn sent(&mut self, expected: &Sent, got: Sent) -> Sent {
        Sent {
            id: self.id(expected.id, got.id),
            token: expected.token.as_ref().zip(got.token).map(|(expected, got)| self.token(expected, got)),
            ..got
        }
    }

    fn leased(&mut self, expected: &Leased, got: Leased) -> Leased {
        let message = self.message(&expected.message, got.message);
        Leased { message, token: self.token(&expected.token, got.token), ..got }
    }

    fn message(&mut self, expected: &Message, got: Message) -> Message {
        let own = |id: MessageId| Some(DeduplicationId(Text::from(id.to_string())));
        let id = self.id(expected.id, got.id);
        let deduplication = if got.deduplication == own(got.id) { own(id) } else { got.deduplication };
        Message { id, deduplication, ..got }
    }

    fn event(&mut self, expected: &Event, got: Event) -> Event {
        match (&expected.kind, &got.kind) {
            (&EventKind::Sent { id: expected, .. }, &EventKind::Sent { id, visible_at }) => {
                Event { kind: EventKind::Sent { id: self.id(expected, id), visible_at }, ..got }
            }
            _ => got,
        }
    }

    /// One nonce stands for one nonce, for ever: a receipt given again must be the same one on both sides.
    fn token(&mut self, expected: &LeaseToken, got: LeaseToken) -> LeaseToken {
        let same_message = (expected.queue, expected.sequence) == (got.queue, got.sequence);
        match self.tokens.get(&got) {
            Some(known) => *known,
            None if !same_message || self.tokens_of_model.contains(expected) => got,
            None => {
                self.tokens.insert(got, *expected);
                self.tokens_of_model.insert(*expected);
                *expected
            }
        }
    }

    fn id(&mut self, expected: MessageId, got: MessageId) -> MessageId {
        let given = self.sent.contains(&got) || self.sent.contains(&expected);
        match self.ids.get(&got) {
            Some(known) => *known,
            None if given || self.ids_of_model.contains(&expected) => got,
            None => {
                self.ids.insert(got, expected);
                self.ids_of_model.insert(expected);
                expected
            }
        }
    }
}

/// The model's outcome without what is not compared.
pub(super) fn compared(outcome: Outcome) -> Outcome {
    match outcome {
        Outcome::Counts(counts) => Outcome::Counts(kew_core::Counts { oldest_sent_at: None, ..counts }),
        Outcome::History(events) => Outcome::History(without_instants(&events)),
        other => other,
    }
}

/// The receipts an outcome gave out, each with its place in the outcome.
pub(super) fn tokens_of(outcome: &Outcome) -> Vec<(usize, LeaseToken)> {
    match outcome {
        Outcome::Sent(sent) => {
            sent.iter().enumerate().filter_map(|(place, sent)| Some((place, sent.token?))).collect()
        }
        Outcome::Leased(leased) => leased.iter().map(|leased| leased.token).enumerate().collect(),
        Outcome::Browsed(page) => page.messages.iter().map(|seen| seen.token).enumerate().collect(),
        Outcome::Peeked(peeked) => peeked.iter().map(|(_, token)| *token).enumerate().collect(),
        Outcome::Extended(extended) => {
            let token = |(place, extended): (usize, &Result<Extended, _>)| match extended {
                Ok(Extended::Until { token, .. }) => Some((place, *token)),
                Ok(Extended::Free) | Err(_) => None,
            };
            extended.iter().enumerate().filter_map(token).collect()
        }
        _ => Vec::new(),
    }
}

/// A store need not note a purge message by message.
fn without_instants(events: &[Event]) -> Vec<Event> {
    events.iter().filter(|event| event.kind != EventKind::Purged).cloned().collect()
}

/// Pairs entries by their place; what has no partner stays as it is, and so will not be equal.
fn each<T, U>(expected: &[T], got: Vec<U>, mut pair: impl FnMut(&T, U) -> U) -> Vec<U> {
    let mut expected = expected.iter();
    got.into_iter()
        .map(|got| match expected.next() {
            Some(expected) => pair(expected, got),
            None => got,
        })
        .collect()
}
