//! A store on PostgreSQL equals the model over random histories, with tiny segments, eager checkpoints and copying
//! forward, clean stops and owners that vanish.

mod kept;

use kept::OnPostgres;
use kew_store::contract::model::{StoreSubject, Subject, history, seeds};
use kew_store::ledger::Bounds;
use kew_store_log::LogOptions;
use kew_testing::small_log;

/// A history takes a database of its own and half a second. Of forty that `KEW_MODEL_HISTORIES` asks for one
/// is played; all of them with `KEW_LONG=1`.
const ONE_OF: usize = 40;

#[test]
fn store_on_postgres_equals_the_model() {
    let bounds = Bounds { deduplication_ids: 2, ..Bounds::default() };
    let factory = OnPostgres::new(LogOptions { bounds, ..small_log() }, 3);
    let make = |_| Box::new(StoreSubject::new(&factory)) as Box<dyn Subject>;
    let is_long = std::env::var("KEW_LONG").is_ok_and(|value| value == "1");
    for seed in seeds().step_by(if is_long { 1 } else { ONE_OF }) {
        if let Err(differs) = history(seed, &make) {
            panic!("{differs}");
        }
    }
}
