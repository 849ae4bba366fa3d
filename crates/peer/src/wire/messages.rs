//! The forms of messages, of the terms they are leased on, and of what happened to them.

use kew_core::event::Failure;
use kew_core::{
    Content, ContentType, Event, EventKind, Expiry, LeaseTerms, Message, MoveReason, NewMessage, Origin,
    OwedMessage, ReceiptRule, Return, State, WhenFree,
};

use super::forms::{choices, records};

records! {
    Content { content_type, body, annotations }
    NewMessage { id, content, group, deduplication, content_hash, delay, returns, expiry }
    Origin { queue, reason, at }
    OwedMessage {
        sequence, id, content, group, deduplication, expiry, sent_at, attempts, first_leased_at, origin,
    }
    Message {
        queue, sequence, id, content, group, deduplication, sent_at, expires_at, attempts, first_leased_at, origin,
        state,
    }
    LeaseTerms { length, cap, lapse_delay, returns }
    Event { at, queue, sequence, kind }
}

choices! {
    ContentType { 0 => Text, 1 => Json, 2 => Bytes, 3 => V8, }
    Expiry { 0 => ByQueue, 1 => After { seconds }, 2 => Never, }
    MoveReason { 0 => AttemptsExhausted, 1 => Redriven, }
    State { 0 => Ready, 1 => Delayed { until }, 2 => Leased { until }, }
    ReceiptRule { 0 => Any, 1 => Current, 2 => Unexpired, 3 => OutOfTurn, }
    WhenFree { 0 => Ignore, 1 => Hide, }
    Return { 0 => InPlace, 1 => Behind, }
    Failure { 0 => Retried, 1 => Threw, 2 => Status, 3 => Unreachable, 4 => OwnerGone, 5 => TimedOut, 6 => BadReply, 7 => PutAside, }
    EventKind {
        0 => Sent { id, visible_at },
        1 => Leased { by, until, attempts },
        2 => Lapsed { visible_at },
        3 => Extended { until },
        4 => Released { visible_at },
        5 => Failed { why, detail },
        6 => Promoted,
        7 => Rewritten,
        8 => Acked,
        9 => Expired,
        10 => Purged,
        11 => DeadLettered { to, sequence },
        12 => Imported,
        13 => Dropped,
        14 => Redriven { to, sequence },
        15 => Arrived { from, sequence },
    }
}
