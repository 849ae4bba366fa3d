//! A store on PostgreSQL keeps every contract.

mod kept;

use kept::OnPostgres;

kew_store::contract_tests!(OnPostgres::new(kept::small(), 7));
