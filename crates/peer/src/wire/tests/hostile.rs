//! Frames that no node writes are refused or read as something else. They never panic.

use bytes::Bytes;

use crate::wire::any::{Any, Chance};
use crate::wire::{Request, Response, decode, encode};

/// Frames that are changed, and changes of each.
const FRAMES: u64 = 2_000;
const CHANGES: u64 = 50;

/// Reads a frame as both kinds. What could be read can be written, and is read again as the same.
fn read(frame: Vec<u8>, seed: u64) {
    let frame = Bytes::from(frame);
    if let Ok(request) = decode::<Request>(&frame) {
        let again = decode::<Request>(&encode(&request).into());
        let again = again.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        assert_eq!(format!("{again:?}"), format!("{request:?}"), "seed {seed}");
    }
    if let Ok(response) = decode::<Response>(&frame) {
        assert_eq!(decode(&encode(&response).into()), Ok(response), "seed {seed}");
    }
}

/// Changes a few bytes, takes some out, or puts some in.
fn change(frame: &mut Vec<u8>, chance: &mut Chance) {
    for _ in 0..=chance.below(3) {
        let place = chance.below(frame.len() as u64 + 1) as usize;
        let end = frame.len().min(place + chance.below(12) as usize);
        match chance.below(5) {
            0 => frame.truncate(place),
            1 => drop(frame.drain(place..end)),
            // Numbers and lengths that are as large as they can be.
            2 => drop(frame.splice(place..end, [[0xff; 9].as_slice(), &[1]].concat())),
            3 => frame.insert(place, chance.below(256) as u8),
            _ => frame[place..end].iter_mut().for_each(|byte| *byte = chance.below(256) as u8),
        }
    }
}

#[test]
fn changed_frames_never_panic() {
    for seed in 0..FRAMES {
        let mut chance = Chance::new(seed);
        let frame = match seed % 2 {
            0 => encode(&Request::any(&mut chance)),
            _ => encode(&Response::any(&mut chance)),
        };
        for _ in 0..CHANGES {
            let mut changed = frame.clone();
            change(&mut changed, &mut chance);
            read(changed, seed);
        }
    }
}

#[test]
fn frame_cut_short_is_refused_at_every_place() {
    for seed in 0..500 {
        let frame = Bytes::from(encode(&Request::any(&mut Chance::new(seed))));
        for end in 0..frame.len() {
            assert!(decode::<Request>(&frame.slice(..end)).is_err(), "seed {seed} cut at {end}");
        }
    }
}

#[test]
fn random_bytes_never_panic() {
    for seed in 0..20_000 {
        let mut chance = Chance::new(seed);
        let length = chance.below(60);
        read((0..length).map(|_| chance.below(256) as u8).collect(), seed);
    }
}
