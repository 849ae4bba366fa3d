//! What a statement sees of others: what was committed before it began, also where the one before it in its transaction
//! has waited for a lock. The database's settings may ask for more: then who waited for a renewal would not see it.

use tokio_postgres::{Client, IsolationLevel, Transaction};

use crate::PgError;

/// Sets it for a session.
pub(crate) const READ_COMMITTED: &str = "SET default_transaction_isolation = 'read committed'";

/// Begins a transaction of this kind.
pub(crate) async fn read_committed(client: &mut Client) -> Result<Transaction<'_>, PgError> {
    // Said by the transaction itself: behind a pooler it may run in a session that has not our settings.
    Ok(client.build_transaction().isolation_level(IsolationLevel::ReadCommitted).start().await?)
}
