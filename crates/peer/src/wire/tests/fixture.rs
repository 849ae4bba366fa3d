//! The bytes of this protocol, kept in a file: they may not change without its number.
//!
//! The file has three lines for each case: its name, its bytes in hexadecimal, and the value as `{:?}` writes it. To
//! make the file of a new number, run these tests with `KEW_WRITE_PROTOCOL=1`. A file that exists is not written.

use std::collections::BTreeMap;
use std::fmt::{Debug, Write};
use std::fs;
use std::path::PathBuf;

use bytes::Bytes;
use kew_core::command::{FirstReceipts, OverLimit, StateKind, Traced, View};
use kew_core::event::Failure;
use kew_core::outcome::Extended;
use kew_core::rules::retention::HoldEnd;
use kew_core::{
    Carries, ContentType, DeadLetterAction, DeduplicationScope, EventKind, Expiry, MoveReason, Outcome,
    QueueKind, ReceiptRule, Return, RuleError, ShardId, State, TaskFailure, TaskState, WhenFree,
};
use kew_store::StoreError;

use crate::wire::any::{Chance, Choice, Variant};
use crate::wire::{PROTOCOL, Refusal, Reply, Request, Response, Wire, WireError, decode, encode};

/// One value of one variant.
struct Case {
    name: String,
    form: Form,
    /// Reads bytes of the same type.
    read: fn(&Bytes) -> Result<Form, WireError>,
}

/// A value as bytes and as a text.
struct Form {
    bytes: Vec<u8>,
    text: String,
}

impl Form {
    fn of(value: &(impl Wire + Debug)) -> Self {
        Self { bytes: encode(value), text: format!("{value:?}") }
    }
}

fn read<F: Wire + Debug>(frame: &Bytes) -> Result<Form, WireError> {
    decode::<F>(frame).map(|value| Form::of(&value))
}

/// A case for each variant of `T`, in a frame that `within` makes of it.
fn cases<T: Choice, F: Wire + Debug>(kind: &str, within: fn(T) -> F) -> Vec<Case> {
    let case = |(seed, (name, make)): (u64, &Variant<T>)| {
        let form = Form::of(&within(make(&mut Chance::filled(seed))));
        Case { name: format!("{kind} {name}"), form, read: read::<F> }
    };
    (1..).zip(T::EACH).map(case).collect()
}

fn plain<T: Choice + Wire + Debug>(kind: &str) -> Vec<Case> {
    cases(kind, |value: T| value)
}

fn all() -> Vec<Case> {
    let ask = |command| Request::Step { shard: ShardId(300), command };
    let refused = |error: StoreError| Response::Err(error.into());
    [
        plain::<Request>("Request"),
        cases("Request of Command", ask),
        cases("Response of Outcome", |outcome: Outcome| Response::Ok(Reply::Done(outcome))),
        cases("Response of Reply", |reply: Reply| Response::Ok(reply)),
        cases("Response of Refusal", |refusal: Refusal| Response::Err(refusal)),
        cases("Response of StoreError", refused),
        cases("Response of RuleError", |error: RuleError| Response::Err(StoreError::Rule(error).into())),
        plain::<Carries>("Carries"),
        plain::<ContentType>("ContentType"),
        plain::<DeadLetterAction>("DeadLetterAction"),
        plain::<DeduplicationScope>("DeduplicationScope"),
        plain::<EventKind>("EventKind"),
        plain::<Expiry>("Expiry"),
        plain::<Extended>("Extended"),
        plain::<Failure>("Failure"),
        plain::<FirstReceipts>("FirstReceipts"),
        plain::<HoldEnd>("HoldEnd"),
        plain::<MoveReason>("MoveReason"),
        plain::<OverLimit>("OverLimit"),
        plain::<QueueKind>("QueueKind"),
        plain::<ReceiptRule>("ReceiptRule"),
        plain::<Return>("Return"),
        plain::<State>("State"),
        plain::<StateKind>("StateKind"),
        plain::<TaskFailure>("TaskFailure"),
        plain::<TaskState>("TaskState"),
        plain::<Traced>("Traced"),
        plain::<View>("View"),
        plain::<WhenFree>("WhenFree"),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn path() -> PathBuf {
    let name = format!("src/wire/tests/protocol-{PROTOCOL}.txt");
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a text takes more text");
        text
    })
}

fn unhex(text: &str) -> Vec<u8> {
    let byte = |at| u8::from_str_radix(&text[at..at + 2], 16).expect("the file's bytes are hexadecimal");
    (0..text.len()).step_by(2).map(byte).collect()
}

/// Writes the file if there is none and the environment asks for it.
fn write_if_asked(cases: &[Case]) {
    let path = path();
    if std::env::var_os("KEW_WRITE_PROTOCOL").is_none() || path.exists() {
        return;
    }
    let mut text = String::new();
    for Case { name, form, .. } in cases {
        writeln!(text, "{name}\n{}\n{}\n", hex(&form.bytes), form.text).expect("a text takes more text");
    }
    fs::write(&path, text).expect("the file of a new protocol can be written");
}

/// The cases of the file, by their names.
fn recorded() -> BTreeMap<String, Form> {
    let path = path();
    let text = fs::read_to_string(&path).unwrap_or_else(|error| {
        panic!("{}: {error}. A new protocol's file is made with KEW_WRITE_PROTOCOL=1", path.display())
    });
    let blocks = text.split("\n\n").filter(|block| !block.trim().is_empty());
    let read = |block: &str| {
        let mut lines = block.trim_start().lines();
        let mut line = || lines.next().expect("each case of the file has three lines").to_owned();
        (line(), Form { bytes: unhex(&line()), text: line() })
    };
    blocks.map(read).collect()
}

/// The recorded bytes are read, and the value of them is written: how values are made up does not matter here.
#[test]
fn bytes_of_this_protocol_have_not_changed() {
    let advice = format!(
        "nodes that speak protocol {PROTOCOL} cannot read each other any more: raise PROTOCOL in wire/mod.rs, keep \
         the old form for one version, and record the new one (KEW_WRITE_PROTOCOL=1)"
    );
    let cases = all();
    write_if_asked(&cases);
    let mut recorded = recorded();
    for Case { name, read, .. } in &cases {
        let Some(known) = recorded.remove(name) else {
            panic!("{name} is new in protocol {PROTOCOL}: {advice}");
        };
        let again = read(&known.bytes.clone().into());
        let again = again.unwrap_or_else(|error| panic!("{name}: {error}: {advice}"));
        assert_eq!(again.text, known.text, "{name} is read as something else: {advice}");
        assert_eq!(hex(&again.bytes), hex(&known.bytes), "{name} is written differently: {advice}");
    }
    let gone: Vec<&String> = recorded.keys().collect();
    assert!(gone.is_empty(), "{gone:?} are gone: {advice}");
}

/// A case whose options are empty would record nothing of what they hold.
#[test]
fn recorded_cases_leave_nothing_out() {
    for (name, Form { text, .. }) in recorded() {
        assert!(!text.contains("None") && !text.contains("[]"), "{name} leaves something out: {text}");
    }
}
