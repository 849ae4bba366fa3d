//! The two experiments of the documents in real time.

use crate::rig::Rig;

#[test]
#[ignore = "takes ten minutes; part of `make test-slow`"]
fn ten_minutes_after_a_kill_in_real_time() {
    crate::trigger::after_a_kill(&Rig::with_clock("", "orders", "system"));
}

#[test]
#[ignore = "in real time; part of `make test-slow`"]
fn at_once_after_an_exception_in_real_time() {
    crate::trigger::after_an_exception(&Rig::with_clock("", "orders", "system"));
}
