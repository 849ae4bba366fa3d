//! What an export tells, an import makes again.

use std::sync::Arc;
use std::time::Duration;

use kew_core::command::Lease;
use kew_core::{Command, LeaseTerms, NewMessage, Outcome};
use kew_store_log::{Disk, LogError, LogStore, SimDisk, check, export, import};

use crate::small_store::{Asked, START, a_bit_of_everything, entropy, open, options, text_of};

fn exported(store: &LogStore) -> Vec<u8> {
    let mut lines = Vec::new();
    export(store, &mut lines).unwrap();
    lines
}

fn try_import(lines: &[u8], disk: &SimDisk) -> Result<(), LogError> {
    import(&mut &*lines, Arc::new(disk.clone()), options(), entropy(5), START).map(|_| ())
}

fn imported(lines: &[u8]) -> Asked {
    let disk = SimDisk::new();
    try_import(lines, &disk).unwrap();
    let report = check(Arc::new(disk.clone())).unwrap();
    assert!(report.is_sound(), "{:?}", report.problems);
    Asked::of(open(&disk).unwrap().0)
}

/// The ids of everything a queue offers, in order.
fn drained(asked: &Asked, queue: &str) -> Vec<String> {
    let queue = asked.find(queue);
    let mut ids = Vec::new();
    loop {
        let leased = asked.lease(queue, 3);
        if leased.is_empty() {
            return ids;
        }
        ids.extend(leased.iter().map(|leased| format!("{:?}", leased.message)));
        asked.ack(queue, &leased);
    }
}

#[test]
fn an_import_gives_equal_queues_and_messages_in_the_same_order() {
    let one = a_bit_of_everything(Arc::new(SimDisk::new()));
    let lines = exported(&one.store);
    let mut other = imported(&lines);
    let (held, found) = (text_of(&one.store).unwrap(), text_of(&other.store).unwrap());
    // The first line names the store itself.
    let lines_of = |text: &str| text.lines().skip(1).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(lines_of(&held), lines_of(&found));
    other.now = one.now;
    for queue in ["plain", "row.fifo", "dead"] {
        let order = drained(&one, queue);
        assert_eq!(drained(&other, queue), order);
        assert!(!order.is_empty());
    }
    let queues = |asked: &Asked| asked.ask(Command::Queues);
    assert_eq!(queues(&one), queues(&other));
}

#[test]
fn an_id_sent_before_an_export_is_a_duplicate_after_the_import() {
    let mut one = a_bit_of_everything(Arc::new(SimDisk::new()));
    let row = one.find("row.fifo");
    let leased = one.lease(row, 10);
    one.ack(row, &leased);
    let mut other = imported(&exported(&one.store));
    let send = |asked: &Asked, id: &str| asked.try_send(row, asked.row("again", "g9", id)).unwrap().duplicate;
    for id in ["d0", "d5"] {
        assert!(send(&other, id), "{id} was put away or is in memory");
    }
    assert!(!send(&other, "fresh"));
    other.later(Duration::from_secs(301));
    one.later(Duration::from_secs(301));
    assert!(!send(&other, "d0"));
}

#[test]
fn a_leased_message_hides_until_its_lease_would_have_ended_and_its_receipt_still_counts() {
    let one = a_bit_of_everything(Arc::new(SimDisk::new()));
    let plain = one.find("plain");
    let terms = LeaseTerms { length: Some(Duration::from_secs(500)), ..LeaseTerms::default() };
    let Outcome::Leased(leased) = one.ask(Command::Lease(Lease { terms, ..Lease::of(plain, 2, one.now) }))
    else {
        panic!("no lease")
    };
    let mut other = imported(&exported(&one.store));
    let first = leased[0].message.id;
    let is_offered = |asked: &Asked, id| asked.lease(plain, 100).iter().any(|leased| leased.message.id == id);
    assert!(!is_offered(&other, first));
    other.ack(plain, &leased[1..]);
    other.later(Duration::from_secs(500));
    let again = other.lease(plain, 100);
    let back =
        again.iter().find(|again| again.message.id == first).expect("the first message is offered again");
    assert_eq!(back.message.attempts, leased[0].message.attempts + 1);
    assert!(!again.iter().any(|again| again.message.id == leased[1].message.id));
}

#[test]
fn bodies_that_are_no_text_survive() {
    let one = a_bit_of_everything(Arc::new(SimDisk::new()));
    let plain = one.find("plain");
    let body: Vec<u8> = (0..=255).collect();
    let odd = NewMessage {
        id: kew_core::MessageId([0xff; 16]),
        ..NewMessage::text(Default::default(), body.clone())
    };
    one.try_send(plain, odd).unwrap();
    let other = imported(&exported(&one.store));
    let found = other.lease(plain, 100);
    assert!(found.iter().any(|leased| leased.message.content.body == body));
}

#[test]
fn lines_that_are_cut_or_altered_are_refused_by_number() {
    let one = a_bit_of_everything(Arc::new(SimDisk::new()));
    let lines = exported(&one.store);
    let text = String::from_utf8(lines.clone()).unwrap();
    let count = text.lines().count();
    let without = |left_out: usize| {
        let kept: Vec<&str> = text
            .lines()
            .enumerate()
            .filter(|(number, _)| *number != left_out)
            .map(|(_, line)| line)
            .collect();
        kept.join("\n")
    };
    for left_out in 0..count {
        try_import(without(left_out).as_bytes(), &SimDisk::new()).unwrap_err();
    }
    let error = try_import(&lines[..lines.len() / 2], &SimDisk::new()).unwrap_err().to_string();
    assert!(error.contains("importing line"), "{error}");
    let doubled = text.replacen("{\"message\"", "{\"messag\"", 1);
    try_import(doubled.as_bytes(), &SimDisk::new()).unwrap_err();
}

#[test]
fn a_directory_that_holds_a_store_is_not_imported_into() {
    let disk = SimDisk::new();
    let one = a_bit_of_everything(Arc::new(disk.clone()));
    let lines = exported(&one.store);
    drop(one);
    let error = try_import(&lines, &disk).unwrap_err().to_string();
    assert!(error.contains("holds a store already"), "{error}");
    disk.remove(kew_store_log::IDENTITY_FILE).unwrap();
    let error = try_import(&lines, &disk).unwrap_err().to_string();
    assert!(error.contains("what is left of a store"), "{error}");
    assert!(
        disk.open(kew_store_log::IDENTITY_FILE).is_err(),
        "what is to be looked at was given another name"
    );
}

#[test]
fn lines_that_cannot_be_meant_are_refused_with_what_is_wrong() {
    let one = a_bit_of_everything(Arc::new(SimDisk::new()));
    let text = String::from_utf8(exported(&one.store)).unwrap();
    let refusal = |text: &str| try_import(text.as_bytes(), &SimDisk::new()).unwrap_err().to_string();
    assert!(
        refusal(&text.repeat(2)).contains("more behind the last line"),
        "two exports in one file are two stores"
    );
    assert!(refusal(&format!("{text}\nand so on")).contains("more behind the last line"));
    try_import(format!("{text}\n\r\n").as_bytes(), &SimDisk::new()).unwrap();
    let newest = text.find("\"newest_ms\":").unwrap() + "\"newest_ms\":".len();
    let digits = text[newest..].find(|letter: char| !letter.is_ascii_digit()).unwrap();
    let late = format!("{}{}{}", &text[..newest], u64::MAX, &text[newest + digits..]);
    assert!(refusal(&late).contains("newest_ms"), "time could not go on from there");
    let message = text.find("{\"message\"").unwrap();
    let id = message + text[message..].find("\"id\":\"").unwrap() + "\"id\":\"".len();
    let unreadable = format!("{}zz{}", &text[..id], &text[id + 2..]);
    assert!(refusal(&unreadable).contains("the id must be 32 hex digits"));
}

#[test]
fn an_import_cut_short_leaves_an_empty_store() {
    let one = a_bit_of_everything(Arc::new(SimDisk::new()));
    let lines = exported(&one.store);
    let disk = SimDisk::new();
    disk.record_snapshots();
    try_import(&lines, &disk).unwrap();
    let whole = text_of(&open(&disk.snapshot()).unwrap().0).unwrap();
    for (point, before) in disk.take_snapshots() {
        let (store, _) = open(&before.reopen(point, kew_store_log::Found::Torn)).unwrap();
        let text = text_of(&store).unwrap();
        assert!(text == whole || text.lines().count() == 2, "point {point}: {text}");
    }
}
