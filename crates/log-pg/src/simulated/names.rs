//! What the simulated database does with names of queues.

use kew_core::QueueKey;

use super::tables::{Did, Tables};
use crate::PgError;
use crate::database::{Claimant, Naming, Own};

type Named = Result<(Option<i32>, Vec<Did>), PgError>;

/// What is done with a queue's name, and the shard that has it afterwards.
pub(super) fn named(tables: &Tables, claimant: Claimant, naming: Naming) -> Named {
    if tables.has_epoch(claimant.own) { named_afar(tables, claimant, naming) } else { Err(claimant.fenced()) }
}

/// The same for a shard whose row is in another database: the number of the name's claim decides alone.
pub(super) fn named_afar(tables: &Tables, claimant: Claimant, naming: Naming) -> Named {
    let (own, number) = (claimant.own, claimant.number);
    let claim = |key: QueueKey| match tables.named(&key) {
        Some((shard, claim)) if claimant.is_over(shard, claim) => Err(claimant.fenced()),
        Some((shard, _)) if shard != own.shard => Ok((shard, Did::Nothing)),
        Some((shard, claim)) => Ok((shard, Did::Named(key, shard, claim.max(number)))),
        None => Ok((own.shard, Did::Named(key, own.shard, number))),
    };
    let release = |key: QueueKey| match tables.named(&key) {
        Some((shard, claim)) if claimant.is_over(shard, claim) => Err(claimant.fenced()),
        Some((shard, claim)) if shard == own.shard && claim <= number => Ok((None, Did::Released(key))),
        other => Ok((other.map(|(shard, _)| shard), Did::Nothing)),
    };
    done(own, naming, claim, release)
}

fn done(
    own: Own,
    naming: Naming,
    claim: impl Fn(QueueKey) -> Result<(i32, Did), PgError>,
    release: impl Fn(QueueKey) -> Result<(Option<i32>, Did), PgError>,
) -> Named {
    Ok(match naming {
        Naming::Claim(key) => {
            let (shard, did) = claim(key)?;
            (Some(shard), vec![did])
        }
        Naming::Release(key) => {
            let (shard, did) = release(key)?;
            (shard, vec![did])
        }
        Naming::Rename { from, to } => {
            let is_other = from != to;
            let (shard, did) = claim(to)?;
            let mut all = vec![did];
            if shard == own.shard && is_other {
                all.push(release(from)?.1);
            }
            (Some(shard), all)
        }
        Naming::ClaimAll(keys) => {
            let claimed = keys.iter().cloned().map(claim).collect::<Result<Vec<_>, _>>()?;
            let (shards, did): (Vec<i32>, _) = claimed.into_iter().unzip();
            (shards.into_iter().find(|shard| *shard != own.shard), did)
        }
    })
}
