//! What an operator should know of a database before Kew relies on it.

use tokio_postgres::Client;

use crate::PgError;
use crate::error::POOLER_KEEPS_STATEMENTS;
use crate::postgres::Target;

/// The oldest PostgreSQL that is tested.
const OLDEST: i32 = 150_000;

/// What is wrong with the database's settings.
pub(crate) async fn of_settings(client: &Client) -> Result<Vec<String>, PgError> {
    let mut warnings = Vec::new();
    let text = "SELECT current_setting('server_version_num')::int, current_setting('server_version'),
        current_setting('fsync'), current_setting('full_page_writes'),
        current_setting('synchronous_standby_names')";
    let row = client.query_one(text, &[]).await?;
    let (number, version): (i32, String) = (row.get(0), row.get(1));
    if number < OLDEST {
        warnings.push(format!("PostgreSQL {version} is older than 15, the oldest that Kew is tested with"));
    }
    for (at, setting) in [(2, "fsync"), (3, "full_page_writes")] {
        if row.get::<_, String>(at) == "off" {
            warnings.push(format!(
                "{setting} is off in PostgreSQL: a crash of its machine may lose or damage what was acknowledged"
            ));
        }
    }
    if row.get::<_, String>(4).is_empty() {
        warnings.push(
            "synchronous_standby_names is empty in PostgreSQL: a fail-over to a standby may lose what was acknowledged"
                .to_owned(),
        );
    }
    Ok(warnings)
}

/// Whether a pooler gives one session of the server to several connections, transaction by transaction: what one
/// connection sets for its session is then seen by another one. Statements that are prepared on such a session must be
/// kept by the pooler.
pub(crate) async fn of_pooler(client: &Client, target: &Target) -> Result<Option<String>, PgError> {
    const MARK: &str = "SELECT set_config('kew.mark', $1, false)";
    let other = target.open().await?;
    client.query_one(MARK, &[&"marked"]).await?;
    let seen = other.client.query_one("SELECT coalesce(current_setting('kew.mark', true), '')", &[]).await?;
    client.query_one(MARK, &[&""]).await?;
    let is_shared = seen.get::<_, String>(0) == "marked";
    Ok(is_shared.then(|| format!("a pooler stands before PostgreSQL: {POOLER_KEEPS_STATEMENTS}")))
}
