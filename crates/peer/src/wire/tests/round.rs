//! Whatever is written is read back as it was.

use std::fmt::Debug;

use bytes::Bytes;
use kew_core::{Command, Outcome, RuleError, Sequence, Timestamp};
use kew_store::StoreError;

use crate::wire::any::{Any, Chance, Choice};
use crate::wire::{Fault, Out, Refusal, Reply, Request, Response, Wire, decode, encode};

/// Values of each variant.
const EACH: u64 = 200;

/// Writes values of every variant and reads them; commands cannot be compared, so their texts are.
fn survives<T: Choice + Wire + Debug>() {
    for (place, (name, make)) in T::EACH.iter().enumerate() {
        for number in 0..EACH {
            let seed = (place as u64) << 32 | number;
            let value = make(&mut Chance::new(seed));
            let frame = Bytes::from(encode(&value));
            let read: T = decode(&frame).unwrap_or_else(|error| panic!("{name} of seed {seed:#x}: {error}"));
            assert_eq!(format!("{read:?}"), format!("{value:?}"), "{name} of seed {seed:#x}");
            assert_eq!(encode(&read), frame, "{name} of seed {seed:#x}");
        }
    }
}

#[test]
fn requests_and_answers_survive_their_bytes() {
    survives::<Request>();
    survives::<Command>();
    survives::<Outcome>();
    survives::<Reply>();
    survives::<Refusal>();
    survives::<StoreError>();
    survives::<RuleError>();
    for seed in 0..EACH {
        let response = Response::any(&mut Chance::new(seed));
        assert_eq!(decode::<Response>(&encode(&response).into()), Ok(response), "seed {seed}");
    }
}

#[test]
fn several_frames_are_written_behind_one_another() {
    let mut out = Out::onto(encode(&Sequence(1)));
    Sequence(2).put(&mut out);
    assert_eq!(out.into_bytes(), [1, 2]);
}

#[test]
fn lease_without_an_end_takes_one_byte_for_it() {
    assert_eq!(encode(&Timestamp::NEVER), [0]);
    assert_eq!(decode(&Bytes::from_static(&[0])), Ok(Timestamp::NEVER));
    assert_eq!(decode(&encode(&Timestamp::ZERO).into()), Ok(Timestamp::ZERO));
}

#[test]
fn duration_of_too_many_nanoseconds_is_refused() {
    let frame = |nanos: u64| {
        let mut out = Out::default();
        out.number(u64::MAX);
        out.number(nanos);
        Bytes::from(out.into_bytes())
    };
    let longest = std::time::Duration::new(u64::MAX, 999_999_999);
    assert_eq!(decode(&frame(999_999_999)), Ok(longest));
    for nanos in [1_000_000_000, u64::from(u32::MAX), u64::MAX] {
        let error = decode::<std::time::Duration>(&frame(nanos)).expect_err("a second has fewer nanoseconds");
        assert_eq!((error.place(), error.fault()), ("Duration", Fault::TooLarge { number: nanos }));
    }
}

#[test]
fn error_names_the_innermost_type_that_failed() {
    // A request for shard 0 to delete a queue, which ends after the queue's number.
    let error = decode::<Request>(&Bytes::from_static(&[0, 0, 2, 7])).expect_err("a field is missing");
    assert_eq!(error.to_string(), "cannot read DeleteQueue.if_version: the bytes end early");
    let error = decode::<Request>(&Bytes::from_static(&[0, 0, 99])).expect_err("there are fewer commands");
    assert_eq!(error.to_string(), "cannot read Command: 99 is no known choice");
}

#[test]
fn document_that_stands_twice_is_refused() {
    type Documents = std::collections::BTreeMap<kew_core::DocumentKey, Bytes>;
    let entry = [1, b'o', 1, b'k', 1, b'd'];
    let frame = |entries: usize| Bytes::from([vec![entries as u8], entry.repeat(entries)].concat());
    assert_eq!(decode::<Documents>(&frame(1)).map(|documents| documents.len()), Ok(1));
    let error = decode::<Documents>(&frame(2)).expect_err("both entries have the same key");
    assert_eq!(error.fault(), Fault::Twice);
}
