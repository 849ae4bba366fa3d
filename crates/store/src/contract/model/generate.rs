//! Invents the next step of a history, looking at the model so that things meet: tokens that count and tokens that just
//! do not, instants at which something ends and the ones beside them, few names and few groups.

use std::time::Duration;

use bytes::Bytes;
use kew_core::command::{
    Ack, ContinueMove, CreateQueue, DeleteQueue, Documents, Extend, Extension, FirstReceipts, History,
    Identify, Lease, ListMoves, MoveChosen, OverLimit, Peek, Purge, PutDocuments, Release, ReleaseOwners,
    Send, StartMove, UpdateQueue, View, Withdraw,
};
use kew_core::event::Tag;
use kew_core::queue::DOCUMENT_BYTES_MAX;
use kew_core::rules::dedup::Identity;
use kew_core::{
    AccountId, Carries, Command, Content, ContentType, DeadLetterAction, DeadLetterRule, DeduplicationId,
    DeduplicationScope, DocumentKey, Expiry, GroupId, LeaseTerms, LeaseToken, MessageId, NewMessage, OwnerId,
    Policy, QueueId, QueueKey, QueueKind, ReceiptRule, Return, Sequence, State, TaskId, TaskState, Text,
    Timestamp, WhenFree,
};

use super::random::Random;
use super::run::Run;
use super::trace::{Action, Step, forged};
use crate::contract::Ending;

/// Names of queues. The last one is only ever a name in somebody's rule.
const NAMES: [&str; 7] = ["s0", "s1", "s2", "f0", "f1", "f2", "missing"];
const ACCOUNT: AccountId = AccountId(0);
const HOURS_12: Duration = Duration::from_secs(43_200);

/// Makes up one history.
pub(super) struct Generator {
    random: Random,
    number: u32,
    now: Timestamp,
    /// Steps until the next commit.
    in_batch: u64,
    batch_max: u64,
    checks_always: bool,
    /// One group that sends and leases much, so that it becomes noisy.
    crowded: bool,
    unique: u64,
    /// The receive that may be asked again.
    last_attempt: Option<(QueueId, Text)>,
}

/// The kinds of step, each with how often it comes.
type Invent = fn(&mut Generator, &Run<'_>) -> Option<Command>;

const KINDS: [(u64, Invent); 24] = [
    (26, Generator::send),
    (26, Generator::lease),
    (10, Generator::ack),
    (10, Generator::extend),
    (9, Generator::release),
    (3, Generator::withdraw),
    (6, Generator::peek),
    (2, Generator::identify),
    (2, Generator::counts),
    (2, Generator::due),
    (4, Generator::update_queue),
    (3, Generator::create_queue),
    (1, Generator::delete_queue),
    (1, Generator::purge),
    (2, Generator::start_move),
    (4, Generator::continue_move),
    (1, Generator::cancel_move),
    (1, Generator::list_moves),
    (2, Generator::move_chosen),
    (1, Generator::queues),
    (1, Generator::put_documents),
    (1, Generator::documents),
    (2, Generator::history),
    (1, Generator::release_owners),
];

impl Generator {
    pub fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let batch_max = if random.chance(30) { 8 } else { 1 };
        Self {
            number: 0,
            now: Timestamp(1_000_000 + random.below(1_000)),
            in_batch: 1,
            batch_max,
            checks_always: random.chance(75),
            crowded: random.chance(10),
            unique: 0,
            last_attempt: None,
            random,
        }
    }

    /// How many steps the history has.
    pub fn length(&mut self) -> u64 {
        200 + self.random.below(201)
    }

    pub fn next(&mut self, run: &Run<'_>) -> Step {
        self.number += 1;
        if self.number > 4 {
            self.pass_time(run);
        }
        let action = self.action(run);
        self.in_batch -= 1;
        let commits = self.in_batch == 0 || matches!(action, Action::Restart(_));
        if commits {
            self.in_batch = 1 + self.random.below(self.batch_max);
        }
        let checks = self.checks_always || self.random.chance(12);
        Step { number: self.number, now: self.now, action, commits, checks }
    }

    fn action(&mut self, run: &Run<'_>) -> Action {
        if self.number <= 4 {
            return Action::Do(Box::new(self.first_queue(self.number as usize)));
        }
        if self.random.below(150) == 0 {
            let ending = if self.random.chance(50) { Ending::Close } else { Ending::Kill };
            return Action::Restart(ending);
        }
        let weights = KINDS.map(|(weight, _)| weight);
        loop {
            let (_, invent) = KINDS[self.random.weighted(&weights)];
            if let Some(command) = invent(self, run) {
                return Action::Do(Box::new(command));
            }
        }
    }

    /// Mostly none; else to just before, at, or just after something that ends; sometimes far.
    fn pass_time(&mut self, run: &Run<'_>) {
        let later = match self.random.below(100) {
            0..50 => self.now,
            50..60 => self.now.plus(self.random.millis(&[1, 2, 10, 500])),
            60..93 => {
                let windows = self.random.chance(8);
                let ids = || run.model.remembered().into_iter().map(|(.., end)| end).collect();
                let mut ahead: Vec<_> = if windows { ids() } else { run.model.instants() };
                ahead.retain(|at| *at > self.now);
                ahead.sort();
                ahead.dedup();
                let near = if self.random.chance(75) { ahead.len().min(4) } else { ahead.len() };
                let at = self.random.pick(&ahead[..near]).copied().unwrap_or(self.now);
                let beside = Duration::from_millis(1);
                match self.random.below(4) {
                    0 => at.minus(beside),
                    1 => at.plus(beside),
                    _ => at,
                }
            }
            93..98 => self.now.plus(Duration::from_millis(self.random.below(20_000))),
            _ => self.now.plus(Duration::from_secs(self.random.below(400))),
        };
        // A message's four days are not for every history: whatever lies that far ahead stays there mostly.
        let far = later.since(self.now) > Duration::from_secs(3_600);
        if later > self.now && (!far || self.random.chance(3)) {
            self.now = later;
        }
    }

    // --- Names, policies and what messages are made of -------------------------------------------

    fn key(name: &str) -> QueueKey {
        QueueKey::new(ACCOUNT, "here", name)
    }

    fn any_key(&mut self) -> QueueKey {
        Self::key(self.random.pick(&NAMES).expect("there are names"))
    }

    fn key_of_kind(&mut self, fifo: bool) -> QueueKey {
        let names = if fifo { &NAMES[3..6] } else { &NAMES[..3] };
        Self::key(self.random.pick(names).expect("there are names"))
    }

    fn is_fifo_name(key: &QueueKey) -> bool {
        key.name.starts_with('f')
    }

    /// A queue that exists, mostly; sometimes one that never did.
    fn queue(&mut self, run: &Run<'_>) -> Option<QueueId> {
        if self.random.below(200) == 0 {
            return Some(QueueId(999));
        }
        let queues: Vec<_> = run.model.queues().map(|queue| queue.id).collect();
        self.random.pick(&queues).copied()
    }

    /// A queue that holds such a message, if one is found in three tries.
    fn queue_with(&mut self, run: &Run<'_>, wanted: fn(State) -> bool) -> Option<QueueId> {
        let holds = |queue: QueueId| run.model.messages(queue).iter().any(|(.., state)| wanted(*state));
        let mut queue = self.queue(run)?;
        for _ in 0..2 {
            if !holds(queue) {
                queue = self.queue(run)?;
            }
        }
        Some(queue)
    }

    fn is_fifo(run: &Run<'_>, queue: QueueId) -> bool {
        run.model.queues().any(|each| each.id == queue && each.policy.kind.is_fifo())
    }

    fn first_queue(&mut self, place: usize) -> Command {
        let key = Self::key(["s0", "f0", "s1", "f1"][place - 1]);
        let policy = self.policy(Self::is_fifo_name(&key));
        Command::CreateQueue(CreateQueue { key, policy, documents: Vec::new() })
    }

    fn policy(&mut self, fifo: bool) -> Policy {
        let scope =
            if self.random.chance(60) { DeduplicationScope::Queue } else { DeduplicationScope::Group };
        let kind = match fifo {
            true => QueueKind::Fifo { scope, by_content: self.random.chance(50) },
            false => QueueKind::Standard,
        };
        let delay =
            if self.random.chance(65) { Duration::ZERO } else { self.random.millis(&[1_000, 10_000, 1]) };
        let retention = match self.random.below(100) {
            0..60 => Duration::from_secs(345_600),
            60..80 => Duration::from_secs(60),
            80..92 => Duration::from_secs(600),
            _ => self.random.millis(&[10_000, 3_000, 0]),
        };
        Policy {
            kind,
            lease_length: self.random.millis(&[30_000, 5_000, 0]),
            delay,
            retention,
            dead_letters: self.random.chance(60).then(|| self.dead_letters(fifo).into()),
            ..Policy::standard()
        }
    }

    fn dead_letters(&mut self, fifo: bool) -> DeadLetterRule {
        let then = match self.random.below(100) {
            0..18 => DeadLetterAction::Drop,
            18..88 => DeadLetterAction::MoveTo(self.key_of_kind(fifo)),
            _ => DeadLetterAction::MoveTo(self.any_key()),
        };
        DeadLetterRule {
            attempts_max: 1 + self.random.below(3) as u32,
            then,
            carries: if self.random.chance(60) { Carries::History } else { Carries::Nothing },
            written_by: "history".into(),
        }
    }

    fn body(&mut self) -> Content {
        let length = self.random.below(20) as usize;
        let content_type =
            *self.random.pick(&[ContentType::Text, ContentType::Bytes]).expect("there are two");
        let body = Bytes::from(vec![b'a' + self.random.below(26) as u8; length]);
        let annotations = if self.random.chance(10) { Bytes::from_static(b"note") } else { Bytes::new() };
        Content { content_type, body, annotations }
    }

    fn text(&mut self, prefix: &str, of: u64) -> Text {
        Text::from(format!("{prefix}{}", self.random.below(of)))
    }

    fn message(&mut self, fifo: bool) -> NewMessage {
        self.unique += 1;
        let id =
            MessageId::from_chance((u128::from(self.random.bits()) << 64) | u128::from(self.random.bits()));
        let grouped = self.random.chance(if fifo { 99 } else { 40 });
        let group = match (grouped, self.crowded && !fifo) {
            (true, true) => Some(GroupId(Text::from(if self.random.chance(85) { "crowd" } else { "quiet" }))),
            (true, false) => Some(GroupId(self.text("g", 4))),
            (false, _) => None,
        };
        let repeats = self.random.chance(45);
        let own = if repeats { self.text("d", 4) } else { Text::from(format!("u{}", self.unique)) };
        let deduplication = self.random.chance(if fifo { 90 } else { 1 }).then_some(DeduplicationId(own));
        let content_hash = self.random.chance(80).then(|| DeduplicationId(self.text("h", 6)));
        let delay = match (fifo, self.random.below(100)) {
            (false, 0..30) => Some(self.random.millis(&[0, 1, 1_000, 7_000, 1_000_000])),
            (true, 0..5) => Some(Duration::ZERO),
            (true, 5..7) => Some(Duration::from_secs(1)),
            _ => None,
        };
        let expiry = match self.random.below(100) {
            0..70 => Expiry::ByQueue,
            70..92 => {
                Expiry::After { seconds: *self.random.pick(&[0, 1, 5, 30, 40, 400]).expect("there are six") }
            }
            _ => Expiry::Never,
        };
        NewMessage {
            id,
            content: self.body(),
            group,
            deduplication,
            content_hash,
            delay,
            returns: self.returns(),
            expiry,
        }
    }

    fn returns(&mut self) -> Return {
        if self.random.chance(65) { Return::InPlace } else { Return::Behind }
    }

    // --- Messages --------------------------------------------------------------------------------

    fn send(&mut self, run: &Run<'_>) -> Option<Command> {
        let queue = self.queue(run)?;
        let fifo = Self::is_fifo(run, queue);
        let crowd = self.crowded && !fifo;
        // Enough to collide, not so many that every step looks at hundreds.
        let full = run.model.messages(queue).len() > if crowd { 120 } else { 40 };
        if full && self.random.chance(95) {
            return None;
        }
        let tick = Duration::from_millis(1);
        let mut closing = run.model.remembered();
        closing.retain(|(_, _, end)| (end.minus(tick)..=end.plus(tick)).contains(&self.now));
        if let Some((queue, identity, _)) = self.random.pick(&closing).filter(|_| self.random.chance(70)) {
            return Some(self.send_again(*queue, identity));
        }
        let count = 1 + self.random.below(if crowd { 25 } else { 4 });
        let messages = (0..count).map(|_| self.message(fifo)).collect();
        Some(Command::Send(Send { queue, messages, receipts: self.receipts() }))
    }

    fn receipts(&mut self) -> FirstReceipts {
        if self.random.chance(80) { FirstReceipts::Told } else { FirstReceipts::Untold }
    }

    /// The same id again, at the instant that decides whether it counts as the same.
    fn send_again(&mut self, queue: QueueId, identity: &Identity) -> Command {
        let mut message = self.message(true);
        message.deduplication = Some(identity.id.clone());
        message.group = identity.group.clone().or(message.group);
        Command::Send(Send { queue, messages: vec![message], receipts: FirstReceipts::Told })
    }

    fn lease(&mut self, run: &Run<'_>) -> Option<Command> {
        let queue = self.queue(run)?;
        let fifo = Self::is_fifo(run, queue);
        let length = match self.random.below(100) {
            0..25 => None,
            25..40 => Some(Duration::ZERO),
            _ => Some(self.random.millis(&[1, 1_000, 1_000, 5_000, 5_000, 30_000, 100_000])),
        };
        let cap = match self.random.below(100) {
            0..50 => None,
            50..80 => Some(HOURS_12),
            _ => Some(self.random.millis(&[6_000, 40_000])),
        };
        let lapse_delay =
            if self.random.chance(80) { Duration::ZERO } else { self.random.millis(&[1, 2_000]) };
        let attempt = self.random.chance(if fifo { 45 } else { 5 }).then(|| self.text("a", 3));
        let again = self.last_attempt.clone().filter(|_| self.random.chance(30));
        let (queue, attempt) = match again {
            Some((queue, attempt)) => (queue, Some(attempt)),
            None => (queue, attempt),
        };
        self.last_attempt = attempt.clone().map(|attempt| (queue, attempt)).or(self.last_attempt.take());
        let small = self.random.chance(15);
        let max =
            if self.crowded { 20 } else { *self.random.pick(&[1, 1, 2, 3, 10]).expect("there are five") };
        Some(Command::Lease(Lease {
            queue,
            max,
            body_bytes_max: if self.random.chance(80) { 8 << 20 } else { self.random.below(40) },
            terms: LeaseTerms { length, cap, lapse_delay, returns: self.returns() },
            received_at: if self.random.chance(70) {
                self.now
            } else {
                self.now.minus(Duration::from_secs(3))
            },
            attempt,
            owner: self.random.chance(7).then(|| OwnerId(1 + self.random.below(3))),
            in_flight_max: if small { self.random.below(6) as u32 } else { 120_000 },
            over_limit: if self.random.chance(50) { OverLimit::Refuse } else { OverLimit::FindNothing },
            by: Tag::new("history"),
        }))
    }

    // --- Receipts --------------------------------------------------------------------------------

    /// The newest receipt of a message that is leased, or is in some state, or of any; or an old or altered one.
    fn token(&mut self, run: &Run<'_>, queue: QueueId, wanted: fn(State) -> bool) -> Option<LeaseToken> {
        let stored = run.model.messages(queue);
        let fitting: Vec<Sequence> =
            stored.iter().filter(|(.., state)| wanted(*state)).map(|(sequence, ..)| *sequence).collect();
        let newest = |sequence: Sequence| {
            let mut known = run.known.iter().rev();
            known
                .find(|known| (known.place.queue, known.place.sequence) == (queue, sequence))
                .map(|known| known.place)
        };
        let any = |random: &mut Random| random.pick(&run.known).map(|known| known.place);
        let recent = &run.known[run.known.len().saturating_sub(12)..];
        match self.random.below(100) {
            0..74 => newest(*self.random.pick(&fitting)?),
            74..82 => newest(stored.get(self.random.below(stored.len().max(1) as u64) as usize)?.0),
            82..86 => self.random.pick(recent).map(|known| known.place),
            86..96 => {
                let of_queue: Vec<_> = run.known.iter().filter(|known| known.place.queue == queue).collect();
                self.random.pick(&of_queue).map(|known| known.place)
            }
            96..98 => any(&mut self.random),
            _ => any(&mut self.random).map(forged),
        }
    }

    fn tokens(
        &mut self,
        run: &Run<'_>,
        queue: QueueId,
        wanted: fn(State) -> bool,
    ) -> Option<Vec<LeaseToken>> {
        let count = *self.random.pick(&[1, 1, 1, 2, 3, 5]).expect("there are six");
        let tokens: Vec<_> = (0..count).filter_map(|_| self.token(run, queue, wanted)).collect();
        (!tokens.is_empty()).then_some(tokens)
    }

    fn receipt(&mut self) -> ReceiptRule {
        let rules = [ReceiptRule::Any, ReceiptRule::Current, ReceiptRule::Unexpired];
        *self.random.pick(&rules).expect("there are three")
    }

    fn ack(&mut self, run: &Run<'_>) -> Option<Command> {
        let queue = self.queue_with(run, is_leased)?;
        let tokens = self.tokens(run, queue, is_leased)?;
        Some(Command::Ack(Ack { queue, receipt: self.receipt(), tokens }))
    }

    fn extend(&mut self, run: &Run<'_>) -> Option<Command> {
        let wanted = if self.random.chance(70) { is_leased } else { is_free };
        let queue = self.queue_with(run, wanted)?;
        let tokens = self.tokens(run, queue, wanted)?;
        let mut entry = |token| Extension {
            token,
            length: self.random.millis(&[0, 0, 1, 2_000, 10_000, 50_000]),
            content: self.random.chance(20).then(|| self.body()),
        };
        let entries = tokens.into_iter().map(&mut entry).collect();
        Some(Command::Extend(Extend {
            queue,
            receipt: self.receipt(),
            when_free: if self.random.chance(50) { WhenFree::Ignore } else { WhenFree::Hide },
            renew: self.random.chance(40),
            entries,
        }))
    }

    fn release(&mut self, run: &Run<'_>) -> Option<Command> {
        let queue = self.queue_with(run, is_leased)?;
        let tokens = self.tokens(run, queue, is_leased)?;
        let delay = self.random.millis(&[0, 0, 1, 3_000]);
        let entries = tokens.into_iter().map(|token| (token, delay)).collect();
        Some(Command::Release(Release { queue, receipt: self.receipt(), entries }))
    }

    /// Only receives nobody was told of are withdrawn, and a restart ends all of those.
    fn withdraw(&mut self, run: &Run<'_>) -> Option<Command> {
        let queue = self.queue_with(run, is_leased)?;
        let mut tokens = self.tokens(run, queue, is_leased)?;
        let alive = |place: &LeaseToken| {
            run.known.iter().any(|known| known.since_restart && known.place.nonce == place.nonce)
        };
        tokens.retain(alive);
        Some(Command::Withdraw(Withdraw { queue, tokens }))
    }

    fn release_owners(&mut self, _run: &Run<'_>) -> Option<Command> {
        Some(Command::ReleaseOwners(ReleaseOwners { except: OwnerId(1 + self.random.below(3)) }))
    }

    // --- Looking ---------------------------------------------------------------------------------

    fn peek(&mut self, run: &Run<'_>) -> Option<Command> {
        let views = [View::Ready, View::Ready, View::Delayed, View::Leased];
        Some(Command::Peek(Peek {
            queue: self.queue(run)?,
            view: *self.random.pick(&views).expect("there are four"),
            skip: *self.random.pick(&[0, 0, 0, 1, 5]).expect("there are five"),
            max: *self.random.pick(&[1, 10, 32, 200]).expect("there are four"),
            body_bytes_max: if self.random.chance(80) { 8 << 20 } else { self.random.below(100) },
        }))
    }

    fn identify(&mut self, run: &Run<'_>) -> Option<Command> {
        let queue = self.queue(run)?;
        Some(Command::Identify(Identify { queue, token: self.token(run, queue, |_| true)? }))
    }

    fn counts(&mut self, run: &Run<'_>) -> Option<Command> {
        Some(Command::Counts(self.queue(run)?))
    }

    fn due(&mut self, _run: &Run<'_>) -> Option<Command> {
        Some(Command::Due)
    }

    fn queues(&mut self, _run: &Run<'_>) -> Option<Command> {
        Some(Command::Queues)
    }

    fn history(&mut self, run: &Run<'_>) -> Option<Command> {
        let place = self.random.pick(&run.known)?.place;
        Some(Command::History(History { queue: place.queue, sequence: place.sequence }))
    }

    // --- Settings --------------------------------------------------------------------------------

    fn create_queue(&mut self, run: &Run<'_>) -> Option<Command> {
        let key = Self::key(self.random.pick(&NAMES[..6]).expect("there are names"));
        let taken = run.model.queues().any(|queue| queue.key == key);
        if taken && self.random.chance(80) {
            return None;
        }
        let policy = self.policy(Self::is_fifo_name(&key));
        let documents =
            if self.random.chance(30) { vec![(self.document(), self.document_bytes())] } else { Vec::new() };
        Some(Command::CreateQueue(CreateQueue { key, policy, documents }))
    }

    fn update_queue(&mut self, run: &Run<'_>) -> Option<Command> {
        let queue = self.queue(run)?;
        let known = run.model.queues().find(|each| each.id == queue);
        let fifo = known.is_some_and(|known| known.policy.kind.is_fifo()) != self.random.chance(2);
        let mut policy = self.random.chance(85).then(|| self.policy(fifo));
        if let (Some(policy), Some(known), true) = (&mut policy, known, self.random.chance(50)) {
            // One setting at a time shows more than all at once.
            let new = policy.clone();
            *policy = known.policy.clone();
            match self.random.below(4) {
                0 => policy.delay = new.delay,
                1 => policy.retention = new.retention,
                2 => policy.dead_letters = new.dead_letters,
                _ => policy.kind = new.kind,
            }
        }
        let version = known.map_or(1, |known| known.version);
        let right = self.random.chance(85);
        let rename = self.random.chance(10).then(|| self.key_of_kind(fifo));
        let mut document = || (self.document(), self.random.chance(70).then(|| self.document_bytes()));
        let documents = vec![document(), document()];
        Some(Command::UpdateQueue(UpdateQueue {
            queue,
            if_version: self.random.chance(30).then_some(if right { version } else { version + 1 }),
            policy,
            documents: if self.random.chance(25) { documents } else { Vec::new() },
            rename,
        }))
    }

    fn delete_queue(&mut self, run: &Run<'_>) -> Option<Command> {
        let queue = self.queue(run)?;
        let if_version = self.random.chance(20).then_some(1);
        Some(Command::DeleteQueue(DeleteQueue { queue, if_version }))
    }

    fn purge(&mut self, run: &Run<'_>) -> Option<Command> {
        Some(Command::Purge(Purge { queue: self.queue(run)? }))
    }

    fn document(&mut self) -> DocumentKey {
        let owners = ["sqs", "azure"];
        let keys = ["tags", "policy", "acl"];
        DocumentKey::new(
            self.random.pick(&owners).expect("there are two"),
            self.random.pick(&keys).expect("there are three"),
        )
    }

    fn document_bytes(&mut self) -> Bytes {
        let length = match self.random.below(100) {
            0 => DOCUMENT_BYTES_MAX + 1,
            1 => DOCUMENT_BYTES_MAX,
            _ => self.random.below(30) as usize,
        };
        Bytes::from(vec![b'd'; length])
    }

    fn put_documents(&mut self, _run: &Run<'_>) -> Option<Command> {
        let account = AccountId(self.random.below(2));
        let mut document = || (self.document(), self.random.chance(70).then(|| self.document_bytes()));
        let documents = vec![document(), document()];
        Some(Command::PutDocuments(PutDocuments { account, documents }))
    }

    fn documents(&mut self, _run: &Run<'_>) -> Option<Command> {
        let owner = if self.random.chance(50) { "sqs" } else { "azure" };
        Some(Command::Documents(Documents { account: AccountId(self.random.below(2)), owner: owner.into() }))
    }

    // --- Moves -----------------------------------------------------------------------------------

    fn start_move(&mut self, run: &Run<'_>) -> Option<Command> {
        let source = self.queue_with(run, is_ready)?;
        let fifo = Self::is_fifo(run, source);
        let destination = match self.random.below(100) {
            0..30 => None,
            30..92 => Some(self.key_of_kind(fifo)),
            _ => Some(self.any_key()),
        };
        let (rate_max, running_max) = match self.random.below(100) {
            0..30 => (Some(5), 100),
            30..50 => (None, 1),
            _ => (None, 100),
        };
        Some(Command::StartMove(StartMove { source, destination, rate_max, running_max }))
    }

    fn some_task(&mut self, run: &Run<'_>) -> Option<TaskId> {
        let newest = run.model.tasks().last()?.id.0;
        let running = run.model.tasks().iter().filter(|task| task.state == TaskState::Running);
        let running: Vec<_> = running.map(|task| task.id).collect();
        let any = TaskId(1 + self.random.below(newest + 1));
        if self.random.chance(90) { self.random.pick(&running).copied() } else { Some(any) }
    }

    fn continue_move(&mut self, run: &Run<'_>) -> Option<Command> {
        let max = *self.random.pick(&[1, 2, 3, 100, 0]).expect("there are five");
        Some(Command::ContinueMove(ContinueMove { task: self.some_task(run)?, max }))
    }

    fn cancel_move(&mut self, run: &Run<'_>) -> Option<Command> {
        Some(Command::CancelMove(self.some_task(run)?))
    }

    fn list_moves(&mut self, run: &Run<'_>) -> Option<Command> {
        let queue = self.queue(run)?;
        Some(Command::ListMoves(ListMoves { source: self.random.chance(50).then_some(queue) }))
    }

    fn move_chosen(&mut self, run: &Run<'_>) -> Option<Command> {
        let source = self.queue_with(run, is_ready)?;
        let fifo = Self::is_fifo(run, source);
        let destination = match self.random.below(100) {
            0..30 => None,
            30..92 => Some(self.key_of_kind(fifo)),
            _ => Some(self.any_key()),
        };
        let tokens = self.tokens(run, source, is_ready)?;
        Some(Command::MoveChosen(MoveChosen { source, destination, tokens }))
    }
}

fn is_leased(state: State) -> bool {
    matches!(state, State::Leased { .. })
}

fn is_ready(state: State) -> bool {
    state == State::Ready
}

fn is_free(state: State) -> bool {
    !is_leased(state)
}
