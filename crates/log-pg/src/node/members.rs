//! Renews a node twice a second, with the shards that it holds, and reads the map of the store.
//!
//! One statement does both. A shard counts as renewed when its row was locked for this node while the node's row was
//! renewed: no other node can have begun to take it over before. What a node does not hold, though the database says
//! that it is its own, it gives up.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::time::Instant;

use super::Home;
use super::files::Shared;
use crate::PgError;
use crate::database::{NO_ANSWER, Own, Renewed, Session, within};
use crate::map::{Map, ShardRow};
use crate::planted::Planted;
use crate::tenure::{RENEWAL, TENURE};

/// How long a connection for a renewal may take to be made: the renewal has to fit into the tenure too.
const CONNECT_MAX: Duration = Duration::from_millis(1_500);
/// How often rows of nodes that are long past are looked for.
const FORGETS: Duration = Duration::from_secs(600);

const MAKES_NO_FILES: &str = "there is no room: the database does not let a table be made for it";
const LOCKED: &str = "the row of its shard is locked in the database";

/// The session of renewals, and what it needs to know of the ones before.
#[derive(Default)]
struct Renewals {
    session: Option<Box<dyn Session>>,
    /// The last one failed: the database may have been failed over.
    was_cut: bool,
    /// When rows of nodes that are long past were last looked for.
    forgot: Option<Instant>,
}

/// The first renewal of a node that has no shard yet.
pub(crate) async fn begin(home: &Arc<Home>) -> Result<(), PgError> {
    Renewals::default().renew(home, &[]).await
}

/// Renews for as long as the node lives, and tells each store when it may not answer.
pub(crate) async fn renew(home: Weak<Home>) {
    let mut renewals = Renewals::default();
    loop {
        wait(&home).await;
        let Some(home) = home.upgrade() else { return };
        let renewing = home.renewing.lock().await;
        let holds = home.holds();
        if home.has_left() || (holds.is_empty() && !home.is_member) {
            return;
        }
        let renewed = tokio::time::timeout(TENURE, renewals.renew(&home, &holds)).await;
        drop(renewing);
        let why = match renewed {
            Ok(Ok(())) => continue,
            Ok(Err(error)) => error.of(home.place).to_string(),
            Err(_timed_out) => PgError::Unreachable(NO_ANSWER.to_owned()).of(home.place).to_string(),
        };
        (renewals.session, renewals.was_cut) = (None, true);
        // Without it the database may have no room for the next session, on which all shards of the node depend.
        home.pool.close_idle();
        home.membership.send_modify(|membership| membership.failing = Some(why.clone()));
        holds.iter().for_each(|held| held.not_renewed(&why));
    }
}

/// Waits until the next renewal is due.
async fn wait(home: &Weak<Home>) {
    // Without holding the home meanwhile.
    let soon = home.upgrade().map(|home| Arc::clone(&home.renews_soon));
    if let Some(soon) = soon {
        let _due = tokio::time::timeout(RENEWAL, soon.notified()).await;
    }
}

impl Renewals {
    async fn renew(&mut self, home: &Arc<Home>, holds: &[Arc<Shared>]) -> Result<(), PgError> {
        let mut session = match self.session.take() {
            Some(session) => session,
            None => within(CONNECT_MAX, home.pool.database().connect()).await?,
        };
        let (sent, read_at) = (home.driver.steady().now(), Instant::now());
        let renewed = session.renew(&home.node, home.tenure_length).await?;
        let took = read_at.elapsed();
        let was_cut = std::mem::replace(&mut self.was_cut, false);
        for held in holds {
            held.renewed(&home.node.id, sent, &renewed);
            if was_cut {
                held.look_again();
            }
        }
        let Renewed { shards, away, mut others, lives_too_long, clock, .. } = renewed;
        others.push(home.node.clone());
        others.sort_by(|one, other| one.id.cmp(&other.id));
        let map = Arc::new(Map { shards, away, nodes: others, clock_ms: clock, read_at, took });
        home.membership.send_modify(|membership| {
            membership.map = Some(Arc::clone(&map));
            membership.failing = None;
        });
        look_closer(home, holds, &mut *session).await?;
        give_up_what_is_not_held(home, &map, &mut *session).await?;
        if lives_too_long {
            session.shorten_lives(home.tenure_length).await?;
        }
        if self.forgot.is_none_or(|forgot| forgot.elapsed() >= FORGETS) {
            session.forget_past_nodes().await?;
            self.forgot = Some(Instant::now());
        }
        self.session = Some(session);
        Ok(())
    }
}

/// Looks at the database's clock once more, if no answer has been quick enough for some shard so far. One look does
/// for all of them: over a slow network none ever is.
async fn look_closer(home: &Home, holds: &[Arc<Shared>], session: &mut dyn Session) -> Result<(), PgError> {
    let wanted: Vec<&Arc<Shared>> = holds.iter().filter(|held| held.tenure.wants_a_closer_look()).collect();
    if !wanted.is_empty() {
        let asked = home.driver.steady().now();
        let clock = session.clock().await?;
        wanted.iter().for_each(|held| held.tenure.set_clock(asked, clock));
    }
    Ok(())
}

/// Gives up shards of this node that it does not hold: for as long as it lives no other node could take them. A row
/// that is locked is left for the next renewal: nothing is left behind that waits.
async fn give_up_what_is_not_held(home: &Home, map: &Map, session: &mut dyn Session) -> Result<(), PgError> {
    let is_own = |row: &&ShardRow| row.node.as_ref() == Some(&home.node.id);
    for row in map.shards.iter().filter(is_own) {
        let own = Own { shard: row.shard.0.into(), epoch: row.epoch };
        // A shard that is taken from now on has another epoch.
        if home.has_let_go(own.shard) {
            session.let_go(own, &home.node).await?;
        }
    }
    Ok(())
}

impl Shared {
    /// The node's row was renewed, by a statement that was sent at this instant.
    fn renewed(&self, node: &str, sent: Duration, renewed: &Renewed) {
        let (tenure, journal) = (&self.tenure, &self.journal);
        if tenure.check().is_err() {
            // It was given up meanwhile.
            return;
        }
        let own = tenure.own();
        let row = renewed.shards.iter().find(|row| i32::from(row.shard.0) == own.shard);
        // Also the owner is compared: a fail-over that lost a take-over may have given its epoch away again.
        if row.is_none_or(|row| row.epoch != own.epoch || row.node.as_deref() != Some(node)) {
            return journal.lose(&tenure.fenced().to_string());
        }
        tenure.set_clock(sent, renewed.clock);
        if !renewed.held.contains(&(own.shard, own.epoch)) {
            return self.not_renewed(LOCKED);
        }
        tenure.extend(sent);
        tenure.note_renewal(None);
        self.refuse_what_cannot_be_done();
    }

    /// A connection was cut: what the database has is looked at.
    fn look_again(&self) {
        self.journal.look_again();
        if !Planted::SlicesNotLookedAt.is_there() {
            self.bulk.look_again();
        }
    }

    /// Other connections are answered: what takes too long nevertheless is given up, or refused.
    fn refuse_what_cannot_be_done(&self) {
        let (tenure, journal) = (&self.tenure, &self.journal);
        journal.stop_if_it_hangs();
        self.bulk.stop_if_it_hangs();
        let is_slow = self.holder.longest_on_files() > tenure.length;
        journal.suspend_room(is_slow.then_some(MAKES_NO_FILES));
        let stuck = (journal.oldest_waits() > tenure.length).then(|| journal.why_stuck());
        tenure.refuse(stuck.as_deref());
        if let Some(why) = &stuck {
            journal.suspend(why);
        } else if tenure.is_held() {
            journal.go_on();
        }
    }

    /// Refuses answers and steps that wait: nothing of this hold is reported any more.
    pub(crate) fn refuse_all(&self, why: &str) {
        self.journal.suspend(why);
        self.journal.suspend_room(Some(why));
    }

    /// The hold of this shard was not renewed.
    fn not_renewed(&self, why: &str) {
        let tenure = &self.tenure;
        tenure.note_renewal(Some(why));
        if !tenure.is_held() {
            let why = format!("this node may not answer for its shard: {why}");
            self.refuse_all(&why);
        }
    }
}
