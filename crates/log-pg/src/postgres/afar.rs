//! Statements about names of queues whose shard lies in another database. The shard's row is not here, so nothing here
//! tells whether its owner is still the newest one: that the number of a name's last claim does.
//!
//! What an old owner can do late is claim a name that no shard has. It makes no queue of it any more, and the next
//! owner of its shard lets the name go. It frees no name that a newer owner has claimed since.

use kew_core::QueueKey;
use tokio_postgres::types::ToSql;

use super::names::{Columns, LOOKS, RAISES, SHARD_OF, parts};
use super::{Connection, SYNCED};
use crate::PgError;
use crate::database::{Claimant, Naming};
use crate::isolation::read_committed;
use crate::tables::SYNCED_MODE;

/// Has the statement commit so that it survives.
fn commits() -> String {
    format!("commits AS MATERIALIZED (SELECT set_config('synchronous_commit', {SYNCED_MODE}, true))")
}

const RELEASE: &str = "DELETE FROM kew_name
    WHERE account = $3 AND region = $4 AND name = $5 AND shard = $1 AND claim <= $2";

const ROW_OF: &str = "SELECT shard, claim FROM kew_name WHERE account = $1 AND region = $2 AND name = $3";

impl Connection {
    pub(super) async fn name_queue_afar(
        &mut self,
        claimant: Claimant,
        naming: &Naming,
    ) -> Result<Option<i32>, PgError> {
        match naming {
            Naming::Claim(key) => self.claim_afar(claimant, key).await.map(Some),
            Naming::Release(key) => self.release_afar(claimant, key).await,
            Naming::Rename { from, to } => self.rename_afar(claimant, from, to).await.map(Some),
            Naming::ClaimAll(keys) => self.claim_all_afar(claimant, keys).await,
        }
    }

    async fn claim_afar(&mut self, claimant: Claimant, key: &QueueKey) -> Result<i32, PgError> {
        let text = format!(
            "WITH {}, claimed AS (INSERT INTO kew_name (account, region, name, shard, claim)
                SELECT $3, $4, $5, $1, $2 FROM commits {RAISES} RETURNING claim)
            SELECT (SELECT claim FROM claimed),
                (SELECT shard FROM kew_name WHERE account = $3 AND region = $4 AND name = $5)",
            commits()
        );
        let (account, region, name) = parts(key);
        for _ in 0..LOOKS {
            let values: [&(dyn ToSql + Sync); 5] =
                [&claimant.own.shard, &claimant.number, &account, &region, &name];
            let row = self.client.query_one(&text, &values).await?;
            match (row.get::<_, Option<i64>>(0), row.get::<_, Option<i32>>(1)) {
                (Some(claim), _) if claimant.is_over(claimant.own.shard, claim) => {
                    return Err(claimant.fenced());
                }
                (Some(_), _) => return Ok(claimant.own.shard),
                (None, Some(other)) if other != claimant.own.shard => return Ok(other),
                // It was claimed or released while the statement began.
                (None, _) => {}
            }
        }
        Err(PgError::Unreachable(format!("{key} is claimed and released again and again")))
    }

    async fn release_afar(&mut self, claimant: Claimant, key: &QueueKey) -> Result<Option<i32>, PgError> {
        let text = format!(
            "WITH {}, released AS ({} AND EXISTS (SELECT FROM commits) RETURNING shard)
            SELECT EXISTS (SELECT FROM released)",
            commits(),
            RELEASE
        );
        let (account, region, name) = parts(key);
        let values: [&(dyn ToSql + Sync); 5] =
            [&claimant.own.shard, &claimant.number, &account, &region, &name];
        if self.client.query_one(&text, &values).await?.get(0) {
            return Ok(None);
        }
        let row = self.client.query_opt(ROW_OF, &[&account, &region, &name]).await?;
        match row.map(|row| (row.get::<_, i32>(0), row.get::<_, i64>(1))) {
            Some((shard, claim)) if claimant.is_over(shard, claim) => Err(claimant.fenced()),
            other => Ok(other.map(|(shard, _)| shard)),
        }
    }

    async fn rename_afar(
        &mut self,
        claimant: Claimant,
        from: &QueueKey,
        to: &QueueKey,
    ) -> Result<i32, PgError> {
        let transaction = read_committed(&mut self.client).await?;
        transaction.query_one(SYNCED, &[]).await?;
        let (account, region, name) = parts(to);
        let values: [&(dyn ToSql + Sync); 5] =
            [&claimant.own.shard, &claimant.number, &account, &region, &name];
        let claim = format!(
            "INSERT INTO kew_name (account, region, name, shard, claim) VALUES ($3, $4, $5, $1, $2) {RAISES}
            RETURNING claim"
        );
        let claimed = transaction.query_opt(&claim, &values).await?;
        let Some(claim) = claimed.map(|row| row.get::<_, i64>(0)) else {
            let has = transaction.query_opt(SHARD_OF, &[&account, &region, &name]).await?;
            let released = || PgError::Unreachable(format!("{to} was released while it was claimed"));
            return has.map(|row| row.get(0)).ok_or_else(released);
        };
        if claimant.is_over(claimant.own.shard, claim) {
            return Err(claimant.fenced());
        }
        if from != to {
            let (account, region, name) = parts(from);
            let values: [&(dyn ToSql + Sync); 5] =
                [&claimant.own.shard, &claimant.number, &account, &region, &name];
            if transaction.execute(RELEASE, &values).await? == 0 {
                let row = transaction.query_opt(ROW_OF, &[&account, &region, &name]).await?;
                if row.is_some_and(|row| claimant.is_over(row.get(0), row.get(1))) {
                    return Err(claimant.fenced());
                }
            }
        }
        transaction.commit().await?;
        Ok(claimant.own.shard)
    }

    async fn claim_all_afar(
        &mut self,
        claimant: Claimant,
        keys: &[QueueKey],
    ) -> Result<Option<i32>, PgError> {
        let keys_of = "unnest($3::bigint[], $4::text[], $5::text[]) AS keys (account, region, name)";
        let claim = format!(
            "WITH {}, claimed AS (INSERT INTO kew_name (account, region, name, shard, claim)
                SELECT account, region, name, $1, $2 FROM commits, {keys_of}
                ORDER BY account, region, name {RAISES} RETURNING claim)
            SELECT coalesce(max(claim), 0) FROM claimed",
            commits()
        );
        let Columns { accounts, regions, names } = Columns::of(keys);
        let values: [&(dyn ToSql + Sync); 5] =
            [&claimant.own.shard, &claimant.number, &accounts, &regions, &names];
        let newest = self.client.query_one(&claim, &values).await?.get(0);
        if claimant.is_over(claimant.own.shard, newest) {
            return Err(claimant.fenced());
        }
        Ok(self.shard_of_any(claimant.own.shard, keys).await?)
    }
}
