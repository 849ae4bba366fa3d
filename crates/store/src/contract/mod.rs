//! The behaviour every store must show.
//!
//! A back-end gives a [`Factory`] and adds one line, [`crate::contract_tests!`]: each contract then runs as a test of
//! its own name. [`model`] compares a store with the reference model over random histories; [`mutants`] are planted
//! bugs that show the histories would notice.

pub mod model;
pub mod mutants;
mod stage;

use std::sync::Arc;

use crate::Store;

/// How a store is ended before it is opened again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ending {
    /// It is closed in order.
    Close,
    /// Its process dies: what was written stays, nothing is tidied.
    Kill,
}

/// Makes stores for the tests.
pub trait Factory {
    /// A new, empty store.
    fn open(&self) -> Arc<dyn Store>;

    /// Whether a store finds again what it held when it is reopened.
    fn remembers(&self) -> bool {
        false
    }

    /// Ends a store and opens it again. A store that forgets is handed back as it is.
    fn reopen(&self, store: Arc<dyn Store>, _ending: Ending) -> Arc<dyn Store> {
        store
    }
}

/// Declares the topics.
macro_rules! topics {
    ($($topic:ident),+ $(,)?) => {
        $(
            #[allow(missing_docs, reason = "a contract's name is its sentence")]
            pub mod $topic;
        )+

        /// The source of every topic.
        #[cfg(test)]
        const SOURCES: &[(&str, &str)] = &[$((stringify!($topic), include_str!(concat!(stringify!($topic), ".rs")))),+];
    };
}

topics!(
    queues,
    documents,
    sends,
    leases,
    receipts,
    extension,
    release,
    order,
    fifo,
    rotation,
    dedup,
    attempts,
    delay,
    retention,
    expiry_hold,
    dead_letters,
    retry,
    purge,
    move_tasks,
    owners,
    withdrawal,
    fair_dispatch,
    counts,
    tallies,
    peek,
    browse,
    operator,
    batches,
    due,
    history,
    restart,
);

/// Makes a test of every contract, for the stores of one factory: `contract_tests!(MyFactory::new());`
#[macro_export]
macro_rules! contract_tests {
    ($factory:expr) => {
        $crate::contract_tests! { @topic $factory, queues:
            new_queue_has_version_one_and_the_instant_it_was_made,
            queues_are_listed_in_the_order_they_were_made,
            second_queue_of_a_name_is_refused_with_the_first_one,
            same_name_elsewhere_is_another_queue,
            update_raises_the_version_and_notes_the_instant,
            change_on_a_condition_that_fails_changes_nothing,
            kind_is_for_life_but_the_scope_of_ids_is_not,
            renamed_queue_keeps_its_messages_and_frees_its_name,
            rules_follow_a_renamed_queue,
            rule_that_names_its_own_queue_follows_it_in_the_same_version,
            rename_to_a_taken_name_is_refused_and_to_its_own_is_not,
            deleted_queue_takes_all_its_messages_and_its_name_along,
            number_of_a_deleted_queue_is_never_given_again,
            nothing_can_be_done_in_a_queue_that_does_not_exist,
            snapshot_handed_out_does_not_change_afterwards,
        }
        $crate::contract_tests! { @topic $factory, documents:
            queue_is_made_with_its_documents_in_one_step,
            documents_are_written_and_removed_with_the_settings,
            document_above_its_bound_refuses_the_whole_step,
            document_at_its_bound_is_kept_byte_for_byte,
            account_keeps_documents_for_each_owner_apart,
            account_document_is_replaced_and_removed,
            account_documents_are_written_only_over_what_the_caller_knows,
        }
        $crate::contract_tests! { @topic $factory, sends:
            message_is_leased_as_it_was_sent,
            empty_body_and_one_of_a_mebibyte_are_kept,
            sequences_rise_in_the_order_of_sends,
            sequence_is_not_given_again_when_its_message_is_gone,
            one_message_that_may_not_be_sent_holds_all_of_them_back,
            answer_tells_when_the_message_shows_and_dies,
            every_send_has_a_receipt_of_its_own,
            nothing_sent_is_nothing_stored,
            stored_message_shows_that_it_is_ready,
        }
        $crate::contract_tests! { @topic $factory, leases:
            hides_until_its_end,
            offers_again_from_the_very_instant_it_ends,
            never_two_live_leases_of_one_message,
            attempts_rise_by_one_and_the_first_lease_is_remembered,
            zero_seconds_count_and_offer_the_message_again_at_once,
            one_step_returns_a_message_at_most_once_whatever_its_length,
            takes_at_most_as_many_as_asked_for,
            without_a_length_the_queues_own_one_holds,
            every_lease_has_a_receipt_of_its_own,
            limit_of_leases_refuses_or_finds_nothing_as_the_caller_says,
            different_lengths_end_each_at_its_own_instant,
            time_that_was_slept_through_ends_all_that_ended_in_it,
        }
        $crate::contract_tests! { @topic $factory, receipts:
            acked_message_never_comes_back,
            any_receipt_counts_for_who_asks_no_more,
            receipts_of_a_send_are_told_only_to_who_asks_and_count_either_way,
            current_receipt_outlives_its_lease_until_the_next_one,
            unexpired_receipt_counts_through_the_last_millisecond,
            new_lease_in_the_last_millisecond_voids_the_old_receipt,
            zero_second_lease_can_be_acked_in_its_own_millisecond,
            send_receipt_of_a_fifo_message_never_counts_before_a_lease,
            altered_receipt_is_forged_in_whatever_part,
            receipt_of_another_queue_is_told_apart,
            entries_succeed_and_fail_each_for_itself,
            look_gives_a_receipt_that_any_accepts,
            token_survives_its_wire_form,
        }
        $crate::contract_tests! { @topic $factory, extension:
            counts_from_the_call_and_not_from_the_lease,
            zero_ends_the_lease_at_once,
            twelve_hours_count_from_the_arrival_of_the_request,
            refused_extension_leaves_the_lease_as_it_was,
            lease_without_a_cap_may_be_stretched_for_ever,
            receipt_and_attempts_stay_and_one_lease_leaves_the_others_alone,
            renewed_receipt_voids_all_older_ones,
            body_is_replaced_under_the_same_name_and_place,
            body_without_annotations_leaves_those_of_the_old_one,
            free_message_is_left_alone_for_who_wants_nothing_done,
            free_message_is_hidden_for_who_wants_it_hidden,
            hidden_and_renewed_message_returns_behind,
            ended_lease_is_refused_where_only_running_ones_count,
            same_lease_can_be_extended_again_and_again,
        }
        $crate::contract_tests! { @topic $factory, release:
            shows_the_message_at_once,
            hides_the_message_for_the_delay_asked_for,
            needs_a_running_lease,
            receipt_still_deletes_until_the_next_lease,
            message_returns_to_its_place_or_behind_by_the_terms_of_its_lease,
        }
        $crate::contract_tests! { @topic $factory, order:
            earlier_sends_are_offered_first,
            message_that_returns_is_offered_before_younger_ones,
            message_put_back_behind_waits_for_those_visible_before_it,
            delayed_message_takes_its_old_place_or_one_behind,
            lapse_delay_puts_a_message_behind_by_when_it_shows,
            many_messages_come_out_in_the_order_they_went_in,
        }
        $crate::contract_tests! { @topic $factory, fifo:
            group_is_leased_in_the_order_of_sends,
            batch_is_filled_from_one_group_first,
            locked_group_never_blocks_another,
            unleased_messages_of_a_locked_group_count_as_visible,
            head_made_visible_is_returned_alone_while_the_second_is_leased,
            extended_second_holds_back_what_is_behind_it,
            extended_head_holds_back_the_whole_group,
            group_unlocks_when_all_its_leased_messages_are_deleted,
            group_stays_locked_when_a_later_message_is_deleted_first,
            redelivery_keeps_the_order,
            head_released_with_a_delay_blocks_its_own_group_only,
            delayed_message_does_not_block_earlier_visible_ones,
            second_receive_of_a_batch_never_overtakes_the_first,
            in_flight_limit_cuts_a_group_in_its_order,
        }
        $crate::contract_tests! { @topic $factory, rotation:
            served_groups_go_to_the_back,
            groups_that_were_not_touched_keep_their_turn,
            group_that_becomes_available_stands_at_the_back,
            groups_return_in_the_order_their_leases_end,
            group_whose_first_message_does_not_fit_keeps_its_turn,
            withdrawn_groups_stand_in_front_again_in_their_order,
            thousand_groups_are_all_served_in_turn,
        }
        $crate::contract_tests! { @topic $factory, dedup:
            repeat_adds_nothing_and_answers_like_the_first,
            window_closes_five_minutes_after_the_first_send,
            id_is_remembered_after_its_message_was_deleted,
            repeat_within_one_batch_is_found_too,
            scope_decides_whether_two_groups_share_an_id,
            ids_used_before_a_change_of_scope_keep_what_they_counted_for,
            after_a_change_back_an_id_repeats_in_its_own_group,
            own_id_wins_over_the_hash_of_the_body,
            id_that_counted_is_shown_with_the_message,
            fifo_demands_an_id_and_standard_refuses_one,
            purge_forgets_the_ids_of_its_queue_only,
            same_id_in_two_queues_is_two_sends,
            many_ids_are_told_apart,
        }
        $crate::contract_tests! { @topic $factory, attempts:
            same_id_gives_the_same_messages_and_a_fresh_end,
            another_id_is_another_receive,
            start_of_the_twelve_hours_does_not_move,
            receive_can_be_repeated_for_five_minutes,
            id_acts_afresh_once_one_of_its_leases_changed,
            id_that_acted_afresh_can_be_repeated_itself,
            standard_queue_pays_no_heed_to_ids,
            repeat_asks_for_no_room_among_the_leases,
            receive_that_found_nothing_is_not_remembered,
        }
        $crate::contract_tests! { @topic $factory, delay:
            delayed_message_shows_at_the_very_instant,
            own_delay_wins_over_the_queues_also_when_it_is_zero,
            changed_delay_holds_for_later_sends_of_a_standard_queue,
            delays_that_end_together_are_counted_at_once_and_offered_to_the_last,
            changed_delay_moves_what_is_in_a_fifo_queue_both_ways,
            lowered_delay_brings_groups_in_by_the_order_of_their_sends,
            changed_delay_leaves_messages_alone_that_were_leased,
            fifo_takes_no_delay_for_one_message_but_zero,
            delayed_group_keeps_its_order,
            far_and_near_delays_end_each_in_its_turn,
        }
        $crate::contract_tests! { @topic $factory, retention:
            message_is_gone_from_the_very_instant,
            death_waits_for_no_lease_and_no_delay,
            own_time_to_live_beats_the_queue_both_ways,
            retention_is_the_queues_present_one,
            longer_retention_revives_nothing,
            lowered_retention_ends_a_backlog_at_once_and_for_good,
            lowered_retention_leaves_groups_in_their_order_and_turns,
            message_that_departs_before_its_time_is_over_departs_also_in_a_leap,
            dead_head_of_a_group_frees_the_next_one,
            shortest_lives_end_where_they_begin,
            many_mixed_lives_end_each_at_its_instant,
        }
        $crate::contract_tests! { @topic $factory, expiry_hold:
            held_messages_show_and_can_be_leased_however_late_it_is,
            messages_die_that_were_over_by_the_hold,
            hold_that_is_moved_lets_die_what_is_over_by_then,
            everything_that_is_over_dies_when_the_hold_is_lifted,
            nothing_is_due_for_what_is_held,
            hold_survives_restarts,
            hold_is_no_document_of_anybody,
        }
        $crate::contract_tests! { @topic $factory, dead_letters:
            last_allowed_lease_is_followed_by_the_move,
            ack_in_the_last_millisecond_precedes_the_move,
            exhausted_message_is_not_offered_at_the_instant_its_lease_ends,
            release_of_the_last_lease_moves_at_once_whatever_the_delay,
            retry_delay_does_not_hold_the_move_back,
            history_is_carried_on,
            nothing_is_carried_on_where_the_rule_says_so,
            moved_message_arrives_without_a_lease_and_under_the_targets_timeout,
            retention_goes_on_under_the_target,
            missing_target_leaves_the_message_where_it_is,
            target_of_the_other_kind_and_the_queue_itself_count_as_missing,
            dropped_message_is_gone,
            zero_second_leases_lead_to_the_move_too,
            cycle_of_two_queues_passes_a_message_on_only_after_leases,
            departed_head_frees_the_next_of_its_group,
            exhausted_head_departs_and_the_same_receive_takes_the_next,
            no_window_of_the_target_swallows_a_dead_letter,
            raised_limit_lets_a_message_be_tried_again,
            lowered_limit_counts_from_the_next_decision,
            thousand_exhausted_messages_at_most_depart_in_one_lease,
            new_lease_stops_a_move_that_was_coming,
        }
        $crate::contract_tests! { @topic $factory, retry:
            message_stays_hidden_for_the_lapse_delay,
            lapse_delay_counts_from_the_end_of_the_lease_and_not_from_its_notice,
            lapse_delay_is_kept_by_its_lease_alone,
            extended_lease_keeps_its_lapse_delay,
            release_knows_its_own_delay_only,
        }
        $crate::contract_tests! { @topic $factory, purge:
            everything_goes_whatever_it_is_doing,
            sequences_go_on_after_it,
            other_queues_keep_theirs,
            locked_groups_are_unlocked_by_it,
            empty_queue_is_purged_of_nothing,
        }
        $crate::contract_tests! { @topic $factory, move_tasks:
            task_moves_at_most_a_mebibyte_in_a_step_and_one_larger_message_by_itself,
            task_moves_what_was_visible_step_by_step,
            moved_message_is_a_new_one,
            every_message_finds_its_own_way_back,
            message_that_came_from_nowhere_stops_the_way_back,
            message_that_a_task_brought_stops_the_way_back,
            task_fails_with_the_reason_it_could_not_go_on,
            start_needs_both_queues_and_no_running_task,
            only_so_many_tasks_of_an_account_run_at_once,
            task_ends_when_its_time_is_over,
            nothing_to_move_is_done_at_once,
            cancelled_task_keeps_what_it_moved_and_goes_no_further,
            task_is_over_when_others_took_what_it_was_to_move,
            task_moves_no_more_than_it_found_at_its_start,
            fifo_messages_keep_their_groups_and_order,
            finished_tasks_are_listed_newest_first_up_to_a_hundred,
            chosen_messages_are_moved_each_for_itself,
            chosen_messages_go_where_a_person_says,
            chosen_message_that_was_leased_since_the_look_stays,
            chosen_message_that_was_rewritten_since_the_look_stays,
            chosen_message_is_moved_once_however_often_it_is_asked_for,
            chosen_messages_are_in_one_queue_after_a_restart,
            moved_message_keeps_its_own_time_to_live,
        }
        $crate::contract_tests! { @topic $factory, owners:
            owned_lease_never_ends_by_itself,
            leases_of_other_owners_fail_when_one_begins_anew,
            failure_of_an_owner_counts_for_dead_letters,
            extended_lease_ends_by_itself_from_then_on,
        }
        $crate::contract_tests! { @topic $factory, withdrawal:
            withdrawn_lease_was_never_taken,
            earlier_leases_stay_counted,
            changed_or_ended_lease_is_not_undone,
            same_lease_is_undone_once,
            part_of_a_group_is_undone_from_its_end,
            repeated_receive_does_not_undo_the_first_one,
            withdrawn_receive_cannot_be_repeated,
            receipts_of_other_queues_undo_nothing,
        }
        $crate::contract_tests! { @topic $factory, fair_dispatch:
            noisy_group_stands_back_for_a_quiet_one,
            group_turns_noisy_in_the_middle_of_a_receive,
            below_thirty_leases_and_messages_the_order_of_sends_holds,
            noisy_backlog_stands_back_though_nothing_is_in_flight,
            noisy_backlog_is_worked_off_however_much_others_send,
            quiet_message_behind_a_deep_noisy_backlog_comes_when_it_is_near,
            message_without_a_group_is_quiet,
            noisy_group_uses_what_nobody_else_wants,
            group_is_quiet_again_when_its_leases_have_ended,
            tenth_of_the_leases_is_not_too_much,
        }
        $crate::contract_tests! { @topic $factory, counts:
            three_states_add_up_to_all_messages,
            figures_change_with_time_alone,
            oldest_message_tells_the_age_whatever_it_is_doing,
            figures_survive_a_long_mixed_life,
            fifo_figures_are_exact_too,
        }
        $crate::contract_tests! { @topic $factory, tallies:
            each_queue_counts_what_happened_in_it,
            a_purge_takes_nothing_from_what_was_counted,
            a_lease_that_is_given_back_is_counted_as_released,
            a_message_that_comes_from_another_queue_was_sent_there,
            a_departure_is_told_once,
            counts_begin_with_the_store,
        }
        $crate::contract_tests! { @topic $factory, peek:
            look_changes_nothing,
            any_receipt_tells_its_message,
            ready_messages_are_seen_in_the_order_of_leases,
            locked_messages_of_a_group_are_not_seen_as_ready,
            delayed_messages_are_seen_by_when_they_show,
            fifo_messages_in_the_queues_delay_are_seen_too,
            leased_messages_are_seen_by_when_their_leases_end,
            look_can_be_taken_page_by_page,
            look_holds_as_many_bytes_as_asked_for_and_at_least_one_message,
        }
        $crate::contract_tests! { @topic $factory, browse:
            every_message_is_seen_once_in_the_order_of_sends_whatever_it_is_doing,
            pages_of_one_state_add_up_to_the_figures,
            messages_are_shown_as_a_look_shows_them_and_nothing_changes,
            only_what_is_wanted_is_seen,
            page_holds_as_many_bytes_as_asked_for_and_at_least_one_message,
            page_without_a_message_says_where_the_next_one_begins,
            receipt_of_a_page_deletes_its_message,
        }
        $crate::contract_tests! { @topic $factory, operator:
            promoted_message_shows_at_once_whichever_way_it_was_delayed,
            promoted_message_of_a_group_waits_for_those_before_it_only,
            only_a_delayed_message_is_promoted,
            promotion_survives_a_restart,
            operator_deletes_a_message_of_a_group_out_of_its_turn,
            paused_queue_delivers_nothing_and_takes_everything,
            resumed_queue_is_freed_for_those_who_wait,
            groups_are_shown_with_what_waits_and_what_locks_them,
            deduplication_id_is_looked_up_while_its_window_is_open,
            trail_of_a_message_leads_through_its_moves,
            what_went_with_its_queue_is_told_once_for_all,
        }
        $crate::contract_tests! { @topic $factory, batches:
            reply_holds_no_more_bytes_than_asked_for,
            first_message_always_fits,
            first_message_stays_when_asked_to_fit,
            eight_mebibytes_of_bodies_fill_a_reply,
            steps_of_one_commit_see_each_other_in_order,
            refused_step_harms_no_other_of_its_commit,
            commit_without_steps_has_nothing_to_do,
        }
        $crate::contract_tests! { @topic $factory, due:
            next_instant_is_known_for_leases_delays_and_lives,
            due_work_catches_up_until_nothing_is_left_of_it,
            send_frees_its_queue,
            ends_of_leases_and_delays_free_their_queues_whoever_asks,
            release_and_extension_to_zero_free_their_queue,
            ack_that_unlocks_a_group_frees_its_queue,
            dead_letters_free_their_target,
            lease_that_ends_with_its_message_frees_a_queue_at_its_limit,
            slices_of_due_work_are_not_put_off_by_the_steps_that_come_meanwhile,
            receive_that_only_sent_dead_letters_off_is_followed_by_a_look_soon,
            look_that_was_to_follow_a_receive_is_forgotten_with_its_queue,
            withdrawal_frees_its_queue,
            newest_instant_follows_the_steps,
        }
        $crate::contract_tests! { @topic $factory, history:
            life_of_a_message_is_told_in_order,
            lease_that_is_given_back_is_told_as_released_once,
            message_that_is_hidden_for_no_time_was_not_leased,
            death_by_age_is_told,
            move_to_the_dead_letters_is_told_on_both_sides,
            nothing_is_told_of_what_never_was,
        }
        $crate::contract_tests! { @topic $factory, restart:
            messages_are_there_again_as_they_were,
            groups_of_dead_letters_that_are_over_on_arrival_keep_their_turns,
            dead_letters_that_were_still_to_leave_leave_afterwards,
            exhausted_message_that_stayed_waits_for_its_next_lease,
            long_groups_keep_their_order_whatever_left_them,
            acked_message_stays_gone,
            lease_goes_on_with_its_receipt_terms_and_attempts,
            ids_are_remembered,
            receive_can_be_repeated_afterwards,
            turns_of_groups_are_kept,
            settings_documents_and_names_are_kept,
            move_task_goes_on_where_it_stood,
            dead_letter_is_in_one_queue_only,
            what_became_due_meanwhile_is_done_at_once,
            newest_instant_does_not_fall_back,
            purge_and_rewritten_bodies_hold,
        }
    };
    (@topic $factory:expr, $topic:ident: $($contract:ident,)+) => {
        mod $topic {
            use super::*;

            $(
                #[test]
                fn $contract() {
                    $crate::contract::$topic::$contract(&$factory);
                }
            )+
        }
    };
}

#[cfg(test)]
mod tests {
    use super::SOURCES;

    #[test]
    fn every_contract_is_in_the_list_of_tests() {
        let list = include_str!("mod.rs");
        for (topic, source) in SOURCES {
            let heading = format!("@topic $factory, {topic}:");
            let listed = list.split_once(&heading).and_then(|(_, rest)| rest.split_once('}'));
            let (listed, _) = listed.unwrap_or_else(|| panic!("the topic {topic} is not in the list"));
            let listed: Vec<&str> =
                listed.split(',').map(str::trim).filter(|name| !name.is_empty()).collect();
            let written = source.lines().filter_map(|line| line.strip_prefix("pub fn ")?.split('(').next());
            assert_eq!(listed, written.collect::<Vec<_>>(), "contracts of {topic}");
        }
    }
}
