//! What Kew is compared with: a queue in one table, written as well as one can.
//!
//! A claim takes the oldest visible rows and skips those that others hold, by an index that gives them in order;
//! statements are prepared; each connection sends its delete, insert and claim together, in one round trip; claims are
//! committed without waiting for the disk, as Kew's leases are; batches of ten take one statement each.

use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::task::LocalSet;
use tokio_postgres::{Client, NoTls, Statement};

use crate::budget::Fault;

/// Bytes of a body.
const BODY: usize = 256;
const TABLE: &str = "
    CREATE TABLE by_hand (
        id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        visible_at timestamptz NOT NULL DEFAULT now(),
        attempts int NOT NULL DEFAULT 0,
        body bytea NOT NULL
    ) WITH (autovacuum_vacuum_scale_factor = 0.02);
    CREATE INDEX by_hand_visible ON by_hand (visible_at, id);";
/// Plans are made once, and never read a whole table.
const SESSION: &str = "
    SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off; SET enable_bitmapscan = off; SET jit = off;";
const SEND: &str = "INSERT INTO by_hand (body) SELECT unnest($1::bytea[])";
const CLAIM: &str = "
    UPDATE by_hand SET visible_at = now() + interval '12 hours', attempts = attempts + 1
    WHERE id = ANY (ARRAY(
        SELECT id FROM by_hand WHERE visible_at <= now() ORDER BY visible_at, id LIMIT $1 FOR UPDATE SKIP LOCKED))
    AND (SELECT set_config('synchronous_commit', 'off', true)) IS NOT NULL
    RETURNING id, attempts, body";
const ACK: &str = "DELETE FROM by_hand WHERE id = ANY ($1::bigint[])";

/// What a round came to.
pub struct Round {
    pub messages: u64,
    pub elapsed: Duration,
}

/// Makes the table.
pub fn make(url: &str) -> Result<(), Fault> {
    in_a_loop(async {
        let client = connect(url).await?;
        Ok(client.batch_execute(TABLE).await?)
    })
}

/// Sends, claims and deletes on this number of connections, `batch` messages at a time.
pub fn round(url: &str, connections: usize, batch: usize, length: Duration) -> Result<Round, Fault> {
    in_a_loop(async {
        let mut workers = Vec::new();
        for _ in 0..connections {
            workers.push(Worker::open(url, batch).await?);
        }
        let (begun, messages) = (Instant::now(), Rc::new(Cell::new(0)));
        let tasks: Vec<_> = workers
            .into_iter()
            .map(|worker| tokio::task::spawn_local(worker.work(begun + length, Rc::clone(&messages))))
            .collect();
        for task in tasks {
            task.await??;
        }
        Ok(Round { messages: messages.get(), elapsed: begun.elapsed() })
    })
}

fn in_a_loop<T>(work: impl Future<Output = Result<T, Fault>>) -> Result<T, Fault> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    LocalSet::new().block_on(&runtime, work)
}

async fn connect(url: &str) -> Result<Client, Fault> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    // Its failure shows in the statement that is under way.
    tokio::task::spawn_local(async move { drop(connection.await) });
    Ok(client)
}

/// One connection.
struct Worker {
    client: Client,
    send: Statement,
    claim: Statement,
    ack: Statement,
    batch: usize,
}

impl Worker {
    async fn open(url: &str, batch: usize) -> Result<Self, Fault> {
        let client = connect(url).await?;
        client.batch_execute(SESSION).await?;
        let (send, claim) = (client.prepare(SEND).await?, client.prepare(CLAIM).await?);
        let ack = client.prepare(ACK).await?;
        Ok(Self { client, send, claim, ack, batch })
    }

    async fn work(self, until: Instant, messages: Rc<Cell<u64>>) -> Result<(), Fault> {
        let mut claimed = Vec::new();
        while Instant::now() < until {
            let (deleted, (), found) = tokio::try_join!(self.delete(&claimed), self.insert(), self.take())?;
            messages.set(messages.get() + deleted);
            claimed = found;
        }
        messages.set(messages.get() + self.delete(&claimed).await?);
        Ok(())
    }

    async fn insert(&self) -> Result<(), Fault> {
        let bodies = vec![vec![b'x'; BODY]; self.batch];
        let sent = self.client.execute(&self.send, &[&bodies]).await?;
        if sent == self.batch as u64 { Ok(()) } else { Err(format!("{sent} messages were sent").into()) }
    }

    async fn take(&self) -> Result<Vec<i64>, Fault> {
        let rows = self.client.query(&self.claim, &[&(self.batch as i64)]).await?;
        for row in &rows {
            let (attempts, body): (i32, &[u8]) = (row.get(1), row.get(2));
            if attempts != 1 || body.len() != BODY {
                return Err(format!("a message of {} bytes was claimed {attempts} times", body.len()).into());
            }
        }
        Ok(rows.iter().map(|row| row.get(0)).collect())
    }

    async fn delete(&self, ids: &[i64]) -> Result<u64, Fault> {
        if ids.is_empty() {
            return Ok(0);
        }
        let deleted = self.client.execute(&self.ack, &[&ids]).await?;
        if deleted == ids.len() as u64 { Ok(deleted) } else { Err("a claimed message was gone".into()) }
    }
}
