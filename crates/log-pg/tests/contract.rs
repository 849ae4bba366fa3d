//! A store on PostgreSQL keeps every contract.

mod kept;

use kept::OnPostgres;
use kew_testing::small_log;

kew_store::contract_tests!(OnPostgres::new(small_log(), 7));
