//! A PostgreSQL for scripts: prints the URL of a new database for each line that it reads, and is gone with its input.

use std::io;

use kew_log_pg::server::PgServer;

#[allow(clippy::print_stdout, reason = "it is what a script asked for")]
fn main() -> io::Result<()> {
    let server = PgServer::start(&["fsync=off"])?;
    for line in io::stdin().lines() {
        line?;
        println!("{}", server.database()?);
    }
    Ok(())
}
