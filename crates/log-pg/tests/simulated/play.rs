//! One history: the lives of nodes that own the shard one after the other, on a database that fails.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use kew_core::{Command, Timestamp};
use kew_log_pg::PgError;
use kew_log_pg::simulated::{Power, Rates, World};
use kew_log_pg::{PgDisk, planted};
use kew_store::Store;
use kew_store::contract::model::Random;

use crate::history::History;
use crate::node::Node;
use crate::reference::Reference;

/// How often the opening of a store may fail.
const OPENINGS_MAX: u32 = 200;
/// How long a node may wait for the shard.
const TAKE_OVER_MAX: Duration = Duration::from_secs(60);
/// Within this time of a healthy database every answer comes.
const ANSWERS_WITHIN: Duration = Duration::from_secs(30);
/// From how many bytes on a row is sent beside another: every one, some, and none of a history.
const LARGE_ROWS: [u64; 4] = [0, 0, 300, 256 << 10];
/// Within this time of a healthy database a node has its spare segments.
const HAS_SPARE_WITHIN: Duration = Duration::from_secs(3);
const MILLI: Duration = Duration::from_millis(1);
/// For this long an event loop may take a turn each millisecond; later less often.
const TURNS_FOR: Duration = Duration::from_millis(30);

/// What a history is made of.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub seed: u64,
    pub commands: u64,
    pub rates: Rates,
    /// Commands of one node, at most.
    pub life_max: u64,
    /// Bytes of a row that is sent beside another.
    pub large_row: u64,
    /// A pooler in transaction mode stands before the database.
    pub is_pooled: bool,
}

impl Plan {
    /// Faults of all kinds, as the seed says.
    pub fn random(seed: u64, commands: u64) -> Self {
        let mut random = Random::new(seed ^ 0x706c_616e);
        let rates = Rates {
            per_mille: [0, 5, 20, 60][random.below(4) as usize],
            latency_ms: random.below(4),
            server_fails: random.chance(60),
            is_slow: random.chance(50),
            drift: 20,
            ..Rates::default()
        };
        let life_max = 20 + random.below(200);
        let large_row = LARGE_ROWS[random.below(LARGE_ROWS.len() as u64) as usize];
        Self { seed, commands, rates, life_max, large_row, is_pooled: seed % 8 == 3 }
    }
}

/// What histories came to.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Lived {
    pub lives: u64,
    pub commands: u64,
    pub successes: u64,
    pub refusals: u64,
    pub appends: u64,
    pub faults: u64,
    pub overtaken: u64,
    pub zombies: u64,
    /// Looks of event loops at which a batch was let fill.
    pub let_fill: u64,
    /// Differs, in all likelihood, when anything went another way.
    pub trace: u64,
}

impl Lived {
    pub fn add(&mut self, other: Self) {
        self.lives += other.lives;
        self.commands += other.commands;
        self.successes += other.successes;
        self.refusals += other.refusals;
        self.appends += other.appends;
        self.faults += other.faults;
        self.overtaken += other.overtaken;
        self.zombies += other.zombies;
        self.let_fill += other.let_fill;
        self.trace = self.trace.rotate_left(7) ^ other.trace;
    }
}

/// Plays a history. A panic is a complaint like any other.
pub fn play(plan: Plan) -> Result<Lived, String> {
    let played = catch_unwind(AssertUnwindSafe(|| {
        planted::set_wall_clock_back(0);
        let world = World::new(plan.seed, Rates::default()).with_large_rows_from(plan.large_row);
        let _inside = world.enter();
        if plan.is_pooled {
            world.database().pool_connections();
        }
        let mut play = Play::new(&world, plan)?;
        let played = play.run();
        let (appends, faults) = world.database().counts();
        (play.lived.appends, play.lived.faults) = (appends, faults);
        played.map(|()| play.lived)
    }));
    let complaint = played.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        Err(text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string)).unwrap_or_default())
    });
    complaint.map_err(|complaint| format!("seed {}: {complaint}", plan.seed))
}

struct Play<'a> {
    world: &'a World,
    plan: Plan,
    random: Random,
    reference: Reference,
    history: History,
    /// Old owners that were stopped.
    stopped: Vec<Node>,
    lived: Lived,
    now: Timestamp,
}

/// How the life of a node ends.
enum End {
    Closed,
    Killed,
    Stopped,
    /// Another node has taken the shard from it.
    Overtaken(PgDisk, Power),
}

impl<'a> Play<'a> {
    fn new(world: &'a World, plan: Plan) -> Result<Self, String> {
        Ok(Self {
            world,
            plan,
            random: Random::new(plan.seed),
            reference: Reference::new()?,
            history: History::new(plan.seed, Timestamp(1_000_000)),
            stopped: Vec::new(),
            lived: Lived::default(),
            now: Timestamp(1_000_000),
        })
    }

    fn run(&mut self) -> Result<(), String> {
        let mut taken = None;
        let mut before: Option<Node> = None;
        while self.lived.commands < self.plan.commands {
            let mut node = self.open(taken.take(), before.as_ref())?;
            self.judge(&mut node, before.as_ref())?;
            self.stopped.extend(before.take().filter(|before| before.goes_on));
            self.wake_old_ones()?;
            let life = self.lived.lives;
            self.lived.lives += 1;
            if self.random.below(2) == 0 {
                node.begin_event_loop();
            }
            let end = self.live(&mut node).map_err(|what| format!("life {life}: {what}"))?;
            self.look_at(&node)?;
            let answered = node.answered.lock();
            self.lived.successes += answered.successes;
            self.lived.refusals += answered.refusals;
            self.lived.trace = self.lived.trace.rotate_left(9) ^ (answered.promised << 20) ^ answered.said;
            drop(answered);
            self.lived.let_fill += node.let_fill;
            taken = self.end(&mut before, node, end);
        }
        Ok(())
    }

    /// Ends the life of a node. What it promised and what it was asked stays known.
    fn end(&mut self, before: &mut Option<Node>, mut node: Node, end: End) -> Option<(PgDisk, Power)> {
        match end {
            End::Closed => {
                self.world.database().set_rates(Rates::default());
                // It may have lost its shard a moment ago.
                let _closed = node.store.log().close();
                self.world.settle();
                node.disk.give_up();
                node.power.stop();
                *before = Some(node);
                None
            }
            // Its tasks are never continued: to the database it is as if it had died.
            End::Killed => {
                node.power.stop();
                *before = Some(node);
                None
            }
            End::Stopped => {
                self.world.settle();
                node.power.stop();
                node.goes_on = true;
                *before = Some(node);
                None
            }
            End::Overtaken(disk, power) => {
                self.lived.overtaken += 1;
                *before = Some(node);
                Some((disk, power))
            }
        }
    }

    fn open(&mut self, mut taken: Option<(PgDisk, Power)>, before: Option<&Node>) -> Result<Node, String> {
        let life = self.lived.lives;
        self.world.database().set_rates(if life == 0 { Rates::default() } else { self.plan.rates });
        let mut last = String::new();
        for number in 0..OPENINGS_MAX {
            let owned = match taken.take() {
                Some(owned) => owned,
                None => self.take(&format!("{life}.{number}"))?,
            };
            if let Some(before) = before {
                self.look_at(before)?;
            }
            match Node::open(self.world, life, owned) {
                Ok(node) => return Ok(node),
                Err(error) => last = error.to_string(),
            }
            if number > 3 {
                // Openings that fail again and again show nothing new.
                self.world.database().set_rates(Rates::default());
            }
        }
        Err(format!("the store does not open: {last}"))
    }

    fn take(&mut self, name: &str) -> Result<(PgDisk, Power), String> {
        let mut waited = Duration::ZERO;
        let mut last = String::new();
        while waited < TAKE_OVER_MAX {
            match self.world.own(name) {
                Ok(owned) => return Ok(owned),
                Err(error @ (PgError::Owned { .. } | PgError::Unreachable(_) | PgError::NoSpace(_))) => {
                    last = error.to_string();
                }
                Err(PgError::Fenced { .. }) => return self.take(&format!("{name}'")),
                Err(error) => return Err(format!("taking the shard: {error}")),
            }
            let pause = MILLI * (1 + self.random.below(40) as u32);
            self.world.pass(pause);
            waited += pause;
        }
        Err(format!("the shard was not taken within {TAKE_OVER_MAX:?}: {last}"))
    }

    /// Nothing acknowledged is lost, nothing else is there than what was asked.
    fn judge(&mut self, node: &mut Node, before: Option<&Node>) -> Result<(), String> {
        self.world.database().set_rates(Rates::default());
        let (life, found) = (self.lived.lives, node.store.log().stats().written_through.0);
        if let Some(before) = before {
            let answered = before.answered.lock();
            let least = if self.plan.rates.server_fails || self.plan.rates.at_appends.is_some() {
                answered.promised
            } else {
                answered.promised.max(answered.said)
            };
            // The mark of a clean stop is a batch without steps, and so is the lifting of a hold.
            let most = before.newest_batch() + 2;
            if found < least {
                return Err(format!("{found} batches were found, of {least} that were acknowledged"));
            }
            if !before.steps.is_empty() && found > most {
                return Err(format!("{found} batches were found, of {most} that were asked for"));
            }
            self.reference.keep(&before.steps, found, life)?;
        }
        // Statements that hang may have cost it its tenure for a while.
        for _ in 0..ANSWERS_WITHIN.as_secs() {
            if node.tenure.is_held() {
                break;
            }
            self.world.pass(Duration::from_secs(1));
        }
        // A node without a spare segment makes one in its next commit. That waits for the database, and this thread
        // with it, which may be for ever where one statement in a few fails.
        for _ in 0..HAS_SPARE_WITHIN.as_millis() {
            if !node.store.log().segments().wants_spare() {
                break;
            }
            self.world.pass(MILLI);
        }
        let compared = self.compare(node);
        let now =
            compared.map_err(|what| format!("life {life}: batch {found} is not what it was:\n{what}"))?;
        self.now = self.now.max(now);
        Ok(())
    }

    /// What the store holds, beside the reference. A read whose connection was cut before is refused, and tried again.
    fn compare(&mut self, node: &mut Node) -> Result<Timestamp, String> {
        let mut compared = Ok(self.now);
        for _ in 0..ANSWERS_WITHIN.as_secs() {
            let unread = node.disk.failed_reads();
            compared = self.reference.compare(node, self.lived.lives);
            if compared.is_ok() || node.disk.failed_reads() == unread {
                break;
            }
            self.world.pass(Duration::from_secs(1));
        }
        compared
    }

    /// Old owners that were stopped go on while a new one is there: they answer nothing.
    fn wake_old_ones(&mut self) -> Result<(), String> {
        for mut old in std::mem::take(&mut self.stopped) {
            self.lived.zombies += 1;
            old.power.go_on();
            self.try_out(&mut old)?;
        }
        Ok(())
    }

    /// Asks an old owner for all sorts of things.
    fn try_out(&mut self, old: &mut Node) -> Result<(), String> {
        for _ in 0..3 {
            let mut history = History::new(self.random.bits(), self.history.now);
            for command in [Command::Queues].into_iter().chain((0..4).map(|_| Command::Queues)) {
                old.step(self.world, &mut history, command);
                let next = history.next();
                old.step(self.world, &mut history, next);
            }
            old.store.commit();
            self.look_at(old)?;
            let some = self.random.below(400) as u32;
            self.pass(old, MILLI * some);
            self.look_at(old)?;
        }
        Ok(())
    }

    fn look_at(&self, node: &Node) -> Result<(), String> {
        node.answered.lock().wrongly.clone().map_or(Ok(()), Err)
    }

    fn live(&mut self, node: &mut Node) -> Result<End, String> {
        self.world.database().set_rates(self.plan.rates);
        let seed = self.random.bits();
        let unique = std::mem::replace(&mut self.history, History::new(seed, self.now));
        self.history.now = self.history.now.max(unique.now);
        for command in self.history.beginning(true) {
            let mut history = std::mem::replace(&mut self.history, History::new(0, Timestamp(0)));
            node.step(self.world, &mut history, command);
            self.history = history;
        }
        let commands = 1 + self.random.below(self.plan.life_max);
        for _ in 0..commands {
            let command = self.history.next();
            node.step(self.world, &mut self.history, command);
            self.lived.commands += 1;
            if node.is_unclear {
                return Ok(End::Killed);
            }
            if self.random.below(3) == 0 {
                self.end_pass(node)?;
            }
            if node.store.health().is_err() && node.tenure.over().is_some() {
                return Ok(End::Killed);
            }
        }
        self.how_it_ends(node)
    }

    fn end_pass(&mut self, node: &mut Node) -> Result<(), String> {
        match self.random.below(8) {
            0 => {}
            1 | 2 => node.store.write(),
            _ if node.has_event_loop() => node.turn(&mut self.random),
            _ => drop(node.store.commit()),
        }
        let passes = match self.random.below(60) {
            0 => 3_000,
            1 => 700,
            2..40 => self.random.below(12),
            _ => 0,
        };
        self.pass(node, MILLI * passes as u32);
        if self.random.below(12) == 0 {
            // What fails is seen in what the store does next.
            let _kept = node.store.log().keep_up();
        }
        self.look_at(node)
    }

    /// Time passes, in which the node's event loop takes its turns.
    fn pass(&mut self, node: &mut Node, time: Duration) {
        let mut left = time;
        while node.has_event_loop() && left > MILLI {
            let some = if time - left < TURNS_FOR {
                MILLI
            } else {
                MILLI.max(MILLI * (left.as_millis() as u32 / 8))
            };
            self.world.pass(some);
            left -= some;
            node.turn(&mut self.random);
        }
        self.world.pass(left);
        node.turn(&mut self.random);
    }

    fn how_it_ends(&mut self, node: &mut Node) -> Result<End, String> {
        if !node.has_event_loop() {
            node.store.commit();
        }
        if self.random.below(4) == 0 {
            self.answers_all(node)?;
        }
        match self.random.below(10) {
            0 | 1 => Ok(End::Closed),
            2..5 => Ok(End::Killed),
            5..7 => Ok(End::Stopped),
            _ => self.rival(node),
        }
    }

    /// On a database that is well again nothing waits for ever.
    fn answers_all(&mut self, node: &mut Node) -> Result<(), String> {
        self.world.database().set_rates(Rates::default());
        let mut is_handed_over = false;
        if self.random.below(4) == 0 {
            node.end_event_loop();
        }
        for _ in 0..ANSWERS_WITHIN.as_secs() {
            // A batch that waits for a new segment is committed here. One that waits for an append is sent when that
            // has ended, though the store is not asked again. An event loop does both in its turns.
            if !node.has_event_loop() && !is_handed_over {
                is_handed_over = node.store.commit_at_once(false);
                if !is_handed_over {
                    node.store.commit();
                }
            }
            self.pass(node, Duration::from_secs(1));
        }
        let waiting = node.answered.lock().waiting;
        self.world.database().set_rates(self.plan.rates);
        if waiting == 0 {
            return Ok(());
        }
        Err(format!("{waiting} answers still wait after {ANSWERS_WITHIN:?}"))
    }

    /// The connection of the owner is bad while another node tries again and again to take the shard.
    fn rival(&mut self, node: &mut Node) -> Result<End, String> {
        let storm = Rates { per_mille: 250, is_slow: true, ..self.plan.rates };
        let name = format!("{}.rival", self.lived.lives);
        for _ in 0..100 {
            self.world.database().set_rates(storm);
            let some = self.random.below(120) as u32;
            self.pass(node, MILLI * some);
            planted::set_wall_clock_back(10_000);
            let next = self.history.next();
            node.step(self.world, &mut self.history, next);
            if node.is_unclear {
                return Ok(End::Killed);
            }
            if node.has_event_loop() {
                node.turn(&mut self.random);
            } else {
                node.store.commit();
            }
            self.world.database().set_rates(Rates { latency_ms: 8, ..Rates::default() });
            if let Ok((disk, power)) = self.world.own(&name) {
                self.look_at(node)?;
                self.try_out(node)?;
                return Ok(End::Overtaken(disk, power));
            }
            self.look_at(node)?;
        }
        Ok(End::Killed)
    }
}
