//! What a row rests on, and which rows count as the last.

use std::sync::Arc;

use super::*;
use crate::tables::Purpose;

fn row(table: &Arc<Table>, pos: u64, syncs: bool) -> Row {
    Row { table: Some(Arc::clone(table)), pos, batch: pos + 1, syncs, ..Row::barrier() }
}

/// Sends a row. Answers its index, and the positions of those that it rests on.
fn send(rows: &mut Rows, row: Row) -> (u64, Vec<u64>) {
    rows.push(row);
    let (index, _, rests_on) = rows.take_next().expect("a row waits");
    (index, rests_on.iter().map(|placed| placed.key.0).collect())
}

#[test]
fn row_rests_on_what_ended_since_the_newest_was_sent() {
    let table = Arc::new(Table::new(1, Purpose::Journal));
    let mut rows = Rows::default();
    for (pos, syncs, on) in [
        (0, false, vec![]),
        (1, false, vec![0]),
        // The one before it rests on the others.
        (2, false, vec![1]),
        (3, true, vec![2]),
        // All before it are durable.
        (4, true, vec![3]),
        (5, false, vec![4]),
        (6, false, vec![5]),
    ] {
        let (index, rests_on) = send(&mut rows, row(&table, pos, syncs));
        assert_eq!(rests_on, on, "{pos}");
        rows.ended(index);
    }
    // By when they ended, and not by their order.
    let (seventh, _) = send(&mut rows, row(&table, 7, false));
    let (eighth, _) = send(&mut rows, row(&table, 8, true));
    rows.ended(eighth);
    let (ninth, rests_on) = send(&mut rows, row(&table, 9, false));
    assert_eq!(rests_on, [8], "also where a row before it is under way");
    rows.ended(seventh);
    rows.ended(ninth);
    let (tenth, rests_on) = send(&mut rows, row(&table, 10, false));
    assert_eq!(rests_on, [9, 7], "neither asked for the other");
    rows.ended(tenth);
    assert_eq!(send(&mut rows, row(&table, 11, false)).1, [10]);
}

#[test]
fn row_rests_on_one_that_was_under_way_beside_many() {
    let table = Arc::new(Table::new(1, Purpose::Journal));
    let mut rows = Rows::default();
    let (slow, _) = send(&mut rows, row(&table, 0, false));
    for pos in 1..20 {
        let (index, rests_on) = send(&mut rows, row(&table, pos, false));
        assert_eq!(rests_on, (1..pos).last().into_iter().collect::<Vec<_>>());
        rows.ended(index);
    }
    rows.ended(slow);
    let (next, rests_on) = send(&mut rows, row(&table, 20, false));
    assert_eq!(rests_on, [0, 19], "the slow one asked for nothing");
    rows.ended(next);
    assert_eq!(send(&mut rows, row(&table, 21, false)).1, [20]);
}

#[test]
fn last_durable_rows_are_those_that_ended_last_and_not_the_last_ones() {
    let table = Arc::new(Table::new(1, Purpose::Journal));
    let mut rows = Rows::default();
    let [first, second] = [0, 1].map(|pos| send(&mut rows, row(&table, pos, true)).0);
    rows.ended(second);
    assert!(rows.last_durable().is_empty(), "the one before it is under way");
    rows.ended(first);
    let durable = |rows: &Rows| rows.last_durable().iter().map(|row| row.key.0).collect::<Vec<_>>();
    assert_eq!(durable(&rows), [0, 1]);
    // Of those that were mended, the ones that were not there came last.
    for pos in 2..5 {
        rows.push(row(&table, pos, true));
    }
    rows.mended(3, |row| row.key.0 == 4);
    assert_eq!(durable(&rows), [3, 2]);
    assert_eq!(send(&mut rows, row(&table, 5, true)).1, [3, 2]);
}

#[test]
fn row_rests_on_those_that_are_left_where_a_table_is_forgotten() {
    let (kept, gone) = (Table::new(1, Purpose::Slices), Table::new(2, Purpose::Slices));
    let (kept, gone) = (Arc::new(kept), Arc::new(gone));
    let mut rows = Rows::default();
    for (table, pos) in [(&kept, 0), (&gone, 1), (&gone, 2)] {
        let (index, _) = send(&mut rows, row(table, pos, false));
        rows.ended(index);
    }
    assert!(rows.forget(gone.id, 0));
    rows.push(Row::barrier());
    let (_, _, rests_on) = rows.take_next().expect("a row waits");
    assert_eq!(rests_on.iter().map(|placed| placed.key.0).collect::<Vec<_>>(), [0]);
}

#[test]
fn row_that_was_mended_hides_no_other_from_those_behind_it() {
    let table = Arc::new(Table::new(1, Purpose::Journal));
    let mut rows = Rows::default();
    let [synced, written] =
        [(0, true), (1, false)].map(|(pos, syncs)| send(&mut rows, row(&table, pos, syncs)).0);
    rows.ended(synced);
    rows.ended(written);
    rows.mended(1, |_| true);
    assert_eq!(send(&mut rows, row(&table, 2, false)).1, [1, 0], "either may have been committed last");
}

#[test]
fn row_whose_end_is_not_known_counts_as_the_last_of_those_that_were_there() {
    let table = Arc::new(Table::new(1, Purpose::Journal));
    let mut rows = Rows::default();
    let _slow = send(&mut rows, row(&table, 0, false));
    for pos in 1..4 {
        let (index, _) = send(&mut rows, row(&table, pos, false));
        rows.ended(index);
    }
    rows.failed();
    rows.mended(4, |_| true);
    let last: Vec<u64> = rows.last_durable().iter().map(|row| row.key.0).collect();
    assert_eq!(last, [0, 3]);
    // Those that the database lacked were inserted last, in their order, whenever they had ended.
    for pos in 4..7 {
        let (index, _) = send(&mut rows, row(&table, pos, false));
        rows.ended(index);
    }
    rows.lack(|row| row.key.0 != 5);
    rows.mended(3, |row| row.key.0 != 4);
    assert_eq!(send(&mut rows, row(&table, 7, false)).1, [4, 5]);
}

#[test]
fn row_rests_on_one_that_ended_before_very_many_of_a_table_that_is_forgotten() {
    let (kept, gone) = (Table::new(1, Purpose::Slices), Table::new(2, Purpose::Slices));
    let (kept, gone) = (Arc::new(kept), Arc::new(gone));
    let mut rows = Rows::default();
    for pos in 0..20 {
        let (index, _) = send(&mut rows, row(if pos == 0 { &kept } else { &gone }, pos, false));
        rows.ended(index);
    }
    assert!(rows.forget(gone.id, 0));
    assert_eq!(send(&mut rows, row(&kept, 20, false)).1, [0], "it is not durable");
}

#[test]
fn table_is_not_forgotten_while_a_statement_is_under_way_that_rests_on_it() {
    let (old, new) = (Table::new(1, Purpose::Journal), Table::new(2, Purpose::Journal));
    let (old, new) = (Arc::new(old), Arc::new(new));
    let mut rows = Rows::default();
    rows.push(row(&old, 0, false));
    let (first, _, _) = rows.take_next().expect("a row waits");
    assert!(!rows.forget(old.id, 0), "its own row is under way");
    assert!(rows.forget(old.id, 1), "it is before those that go");
    rows.ended(first);
    rows.push(row(&new, 1, true));
    let (second, _, rests_on) = rows.take_next().expect("a row waits");
    assert_eq!(rests_on.len(), 1);
    assert!(!rows.forget(old.id, 0));
    rows.ended(second);
    assert!(rows.forget(old.id, 0));
}
