//! `kew functions start` against a real `kew serve`: the acceptance scenarios of the queue trigger, on a clock that is
//! moved, with a handler whose every answer the test decides.
//!
//! The handler's process is this test program again (`handler.rs`). It hands each call on to the test.

mod bad_days;
mod beside;
mod desk;
mod emulator;
mod figures;
mod handler;
mod messages;
mod outputs;
#[path = "../serve/program.rs"]
#[allow(dead_code, reason = "the tests of the server use the rest")]
mod program;
mod real_time;
mod recorder;
mod rig;
mod shared_work;
mod stops;
mod trigger;
