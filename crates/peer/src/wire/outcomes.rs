//! The forms of answers.

use kew_core::outcome::{Extended, First, GroupLock, GroupPage, Leased, Page, Seen, SeenGroup, Sent, Trail};
use kew_core::{LeaseToken, Message, Outcome, Owing};

use super::forms::{choices, records, tuples};

choices! {
    Outcome {
        0 => Queue(queue),
        1 => QueueDeleted(messages),
        2 => Sent(sent),
        3 => Leased(leased),
        4 => Withdrawn(leases),
        5 => Acked(acked),
        6 => Extended(extended),
        7 => Released(released),
        8 => Peeked(peeked),
        9 => Browsed(page),
        10 => Groups(page),
        11 => FirstSend(first),
        12 => Traced(trail),
        13 => Promoted(promoted),
        14 => Identified(message),
        15 => Purged(messages),
        16 => Counts(counts),
        17 => Move(task),
        18 => Moves(tasks),
        19 => MovedChosen(moved),
        20 => Queues(queues),
        21 => Documents(documents),
        22 => History(events),
        23 => Done,
        24 => Owing(owing),
        25 => Owed(messages),
        26 => Brought(through),
        27 => TakenBack(messages),
    }
    Extended { 0 => Until { until, token }, 1 => Free, }
}

records! {
    Sent { id, sequence, sent_at, visible_at, expires_at, token, duplicate }
    Leased { message, token, until }
    Page { messages, next }
    Seen { message, token, leased_at, is_readable }
    GroupPage { groups, next }
    SeenGroup { group, waiting, lock }
    GroupLock { sequence, id, until }
    First { id, sequence, until }
    Trail { events, next }
    Owing { outbox, target, messages }
}

tuples! {
    (message: Message, token: LeaseToken)
}
