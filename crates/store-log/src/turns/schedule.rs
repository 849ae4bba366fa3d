//! Threads that take turns by seed, for tests.
//!
//! Each actor is a real thread, and one of them has the baton: only that one runs. It offers the baton back before each
//! lock ([`Lock`]) and wherever the test calls [`turn`], which is before each call of a simulated disk. Who goes on is
//! chosen by seed, so that a seed replays its interleaving exactly.

use std::cell::RefCell;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::thread::ScopedJoinHandle;

use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::disk::Chance;
use crate::planted::{self, Planted};

/// Actors that have offered the baton so often, without any that did something, wait for each other.
const IDLE_MAX: u64 = 100_000;

thread_local! {
    static ACTOR: RefCell<Option<(Arc<Shared>, usize)>> = const { RefCell::new(None) };
}

/// A thread that takes part.
pub struct Actor<'a> {
    /// Its thread's name.
    pub name: &'static str,
    /// What it does.
    pub run: Box<dyn FnOnce() + Send + 'a>,
}

impl<'a> Actor<'a> {
    /// A thread of this name that does this.
    pub fn new(name: &'static str, run: impl FnOnce() + Send + 'a) -> Self {
        Self { name, run: Box::new(run) }
    }
}

/// What a schedule came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ran {
    /// How often the baton was offered.
    pub turns: u64,
    /// A number that differs, in all likelihood, when any turn went to another actor.
    pub trace: u64,
}

struct Shared {
    /// Guards who runs.
    baton: Mutex<Baton>,
    /// One for each actor, rung when it has the baton.
    bells: Vec<Condvar>,
}

struct Baton {
    running: usize,
    /// How likely each actor is chosen; 0 once it has ended.
    weights: Vec<u64>,
    /// The actor that has the baton gives it up in one turn of this many.
    one_in: u64,
    chance: Chance,
    idle: u64,
    ran: Ran,
}

impl Baton {
    fn new(seed: u64, actors: usize) -> Self {
        let mut chance = Chance(seed);
        let weights = (0..actors).map(|_| 1 + chance.below(6)).collect();
        let one_in = [1, 2, 4, 8, 16][chance.below(5) as usize];
        Self { running: 0, weights, one_in, chance, idle: 0, ran: Ran { turns: 0, trace: 0 } }
    }

    /// Chooses who goes on, leaving one out if there is any other.
    fn choose(&mut self, without: Option<usize>) {
        let weight = |(actor, weight): (usize, &u64)| if Some(actor) == without { 0 } else { *weight };
        let total: u64 = self.weights.iter().enumerate().map(weight).sum();
        if total == 0 {
            return;
        }
        let mut drawn = self.chance.below(total);
        for (actor, each) in self.weights.iter().enumerate() {
            let weight = weight((actor, each));
            if drawn < weight {
                self.running = actor;
                return;
            }
            drawn -= weight;
        }
    }

    fn note(&mut self) {
        self.ran.turns += 1;
        let mixed = self.ran.trace.rotate_left(5) ^ self.running as u64;
        self.ran.trace = mixed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }
}

/// Runs actors to their ends, taking turns by seed. A panic of one is passed on when all have ended.
pub fn run(seed: u64, actors: Vec<Actor<'_>>) -> Ran {
    let shared = Arc::new(Shared {
        baton: Mutex::new(Baton::new(seed, actors.len())),
        bells: actors.iter().map(|_| Condvar::new()).collect(),
    });
    let planted = planted::planted();
    std::thread::scope(|scope| {
        let mut threads = Vec::new();
        for (index, actor) in actors.into_iter().enumerate() {
            let shared = Arc::clone(&shared);
            let thread = std::thread::Builder::new().name(actor.name.to_owned());
            let started = thread.spawn_scoped(scope, move || act(shared, index, planted, actor.run));
            threads.push(started.expect("the machine starts a thread"));
        }
        let ended: Vec<_> = threads.into_iter().map(ScopedJoinHandle::join).collect();
        if let Some(panic) = ended.into_iter().find_map(Result::err) {
            resume_unwind(panic);
        }
    });
    let baton = shared.baton.lock();
    baton.ran
}

fn act(shared: Arc<Shared>, index: usize, planted: Option<Planted>, run: Box<dyn FnOnce() + Send + '_>) {
    let _planted = planted.map(Planted::plant);
    ACTOR.set(Some((Arc::clone(&shared), index)));
    let _leaves = Leaves { shared: &shared, index };
    shared.wait_for_baton(&mut shared.baton.lock(), index);
    run();
}

/// Hands the baton on when its actor ends, also by a panic.
struct Leaves<'a> {
    shared: &'a Shared,
    index: usize,
}

impl Drop for Leaves<'_> {
    fn drop(&mut self) {
        ACTOR.set(None);
        let mut baton = self.shared.baton.lock();
        baton.weights[self.index] = 0;
        baton.idle = 0;
        baton.choose(None);
        self.shared.bells[baton.running].notify_one();
    }
}

impl Shared {
    fn wait_for_baton(&self, baton: &mut MutexGuard<'_, Baton>, index: usize) {
        while baton.running != index {
            self.bells[index].wait(baton);
        }
    }

    fn pass(&self, index: usize, waits: bool) {
        let mut baton = self.baton.lock();
        if waits {
            baton.idle += 1;
            assert!(baton.idle < IDLE_MAX, "all actors wait for each other");
            baton.choose(Some(index));
        } else {
            baton.idle = 0;
            let one_in = baton.one_in;
            if baton.chance.below(one_in) == 0 {
                baton.choose(None);
            }
        }
        baton.note();
        if baton.running != index {
            self.bells[baton.running].notify_one();
            self.wait_for_baton(&mut baton, index);
        }
    }
}

fn with_actor<T>(ask: impl FnOnce(&Shared, usize) -> T) -> Option<T> {
    ACTOR.with_borrow(|actor| actor.as_ref().map(|(shared, index)| ask(shared, *index)))
}

/// Offers the baton. A thread without a schedule goes on at once.
pub fn turn() {
    let _offered = with_actor(|shared, index| shared.pass(index, false));
}

/// Hands the baton to another actor, because this one waits for something. False for a thread without a schedule.
pub fn wait_turn() -> bool {
    with_actor(|shared, index| shared.pass(index, true)).is_some()
}

/// Waits, turn by turn, until something holds.
pub fn wait_until(holds: impl Fn() -> bool) {
    while !holds() {
        assert!(wait_turn(), "only an actor of a schedule waits by turns");
    }
}

/// A number below a limit, from the schedule's seed; `None` for a thread without one.
pub fn chance(below: u64) -> Option<u64> {
    with_actor(|shared, _| shared.baton.lock().chance.below(below))
}

/// Whether this thread is an actor of a schedule.
pub(crate) fn is_running() -> bool {
    with_actor(|_, _| ()).is_some()
}

/// A mutex whose taking is a turn.
pub(crate) struct Lock<T>(Mutex<T>);

impl<T> Lock<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        turn();
        loop {
            match self.0.try_lock() {
                Some(guard) => return guard,
                None if wait_turn() => {}
                None => return self.0.lock(),
            }
        }
    }

    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        turn();
        self.0.try_lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(seed: u64) -> (Vec<usize>, Ran) {
        let seen = Mutex::new(Vec::new());
        let actor = |number: usize| {
            let seen = &seen;
            Actor::new("counts", move || {
                for _ in 0..5 {
                    turn();
                    seen.lock().push(number);
                }
            })
        };
        let ran = run(seed, vec![actor(0), actor(1), actor(2)]);
        (seen.into_inner(), ran)
    }

    #[test]
    fn one_seed_is_one_interleaving_and_others_differ() {
        let orders: std::collections::BTreeSet<_> = (0..50).map(|seed| order(seed).0).collect();
        assert!(orders.len() > 30, "{} orders of 50 seeds", orders.len());
        for seed in 0..50 {
            assert_eq!(order(seed), order(seed));
        }
    }

    #[test]
    fn a_lock_that_is_held_over_a_turn_is_waited_for() {
        for seed in 0..50 {
            let lock = Lock::new(0);
            let actor = || {
                Actor::new("adds", || {
                    for _ in 0..5 {
                        let mut number = lock.lock();
                        let before = *number;
                        turn();
                        *number = before + 1;
                    }
                })
            };
            run(seed, vec![actor(), actor(), actor()]);
            assert_eq!(*lock.lock(), 15, "seed {seed}");
        }
    }

    #[test]
    fn a_panic_of_one_actor_ends_no_other_and_is_passed_on() {
        let ended = Mutex::new(0);
        let panics = Actor::new("panics", || panic!("as planned"));
        let counts = Actor::new("counts", || {
            turn();
            *ended.lock() += 1;
        });
        let ran = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run(1, vec![panics, counts])));
        assert!(ran.is_err() && *ended.lock() == 1);
    }
}
