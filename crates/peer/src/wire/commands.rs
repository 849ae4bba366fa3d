//! The forms of commands.

use std::time::Duration;

use kew_core::command::{
    Ack, Bring, Browse, Carry, ContinueMove, CreateQueue, DeleteQueue, Documents, Extend, Extension,
    FirstMessage, FirstReceipts, FirstSend, Groups, History, Identify, Lease, ListMoves, MoveChosen, Note,
    OverLimit, Peek, Promote, Purge, PutDocuments, Release, ReleaseOwners, Send, Settle, StartMove,
    StateKind, TakeBack, Trace, Traced, UpdateQueue, View, Withdraw,
};
use kew_core::event::{Failure, Words};
use kew_core::{Command, LeaseToken, QueueId, Sequence};

use super::forms::{choices, records, tuples};

choices! {
    Command {
        0 => CreateQueue(create),
        1 => UpdateQueue(update),
        2 => DeleteQueue(delete),
        3 => Send(send),
        4 => Lease(lease),
        5 => Withdraw(withdraw),
        6 => Ack(ack),
        7 => Extend(extend),
        8 => Release(release),
        9 => ReleaseOwners(release),
        10 => Peek(peek),
        11 => Browse(browse),
        12 => Groups(groups),
        13 => FirstSend(first),
        14 => Trace(trace),
        15 => Note(note),
        16 => Promote(promote),
        17 => Identify(identify),
        18 => Purge(purge),
        19 => Counts(queue),
        20 => StartMove(start),
        21 => ContinueMove(next),
        22 => CancelMove(task),
        23 => ListMoves(list),
        24 => MoveChosen(chosen),
        25 => HoldExpiry(hold),
        26 => Due,
        27 => Queues,
        28 => PutDocuments(documents),
        29 => Documents(documents),
        30 => History(history),
        31 => Owing,
        32 => Carry(carry),
        33 => Bring(bring),
        34 => Settle(settle),
        35 => TakeBack(back),
    }
    FirstReceipts { 0 => Told, 1 => Untold, }
    OverLimit { 0 => Refuse, 1 => FindNothing, }
    View { 0 => Ready, 1 => Delayed, 2 => Leased, }
    StateKind { 0 => Visible, 1 => InFlight, 2 => Delayed, }
    Traced { 0 => Id(id), 1 => Places(places), 2 => Queue(queue), }
}

records! {
    CreateQueue { key, policy, documents }
    UpdateQueue { queue, if_version, policy, documents, rename }
    DeleteQueue { queue, if_version }
    Send { queue, messages, receipts }
    Lease {
        queue, max, body_bytes_max, terms, received_at, attempt, owner, in_flight_max, over_limit, by;
        first = FirstMessage::AlwaysFits
    }
    Withdraw { queue, tokens }
    Ack { queue, receipt, tokens }
    Extend { queue, receipt, when_free, renew, entries }
    Extension { token, length, content }
    Release { queue, receipt, entries }
    Promote { queue, tokens }
    ReleaseOwners { except }
    Peek { queue, view, skip, max, body_bytes_max }
    Browse { queue, from, state, group, attempts_min, sent_through, max, body_bytes_max, look_max }
    Groups { queue, from, prefix, max, look_max }
    FirstSend { queue, id, group }
    Trace { what, before, look_max }
    Note { queue, failures }
    Identify { queue, token }
    Purge { queue }
    StartMove { source, destination, rate_max, running_max }
    ContinueMove { task, max }
    ListMoves { source }
    MoveChosen { source, destination, tokens }
    PutDocuments { account, if_is, documents }
    Documents { account, owner }
    History { queue, sequence }
    Carry { outbox, max, bytes_max }
    Bring { target, outbox, messages }
    Settle { outbox, through }
    TakeBack { outbox, max }
}

tuples! {
    (token: LeaseToken, delay: Duration)
    (queue: QueueId, sequence: Sequence)
    (sequence: Sequence, failure: Failure, detail: Words)
}
