//! Where forms are sent to. Forms are dispatched by this table, and tests try all of it.

use super::message::MessageAct;

/// What a form does.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum FormOp {
    SignIn,
    SignOut,
    Theme,
    NewQueue,
    Send,
    Settings,
    Backup,
    HandOver,
    MoveShard,
    Pause,
    Resume,
    Purge,
    DeleteQueue,
    Redrive,
    CancelRedrive,
    Undo,
    BeginNow,
    Act(MessageAct),
}

/// All forms; a part in braces stands for one part of a path.
const FORMS: &[(&str, FormOp)] = &[
    ("/sign-in", FormOp::SignIn),
    ("/sign-out", FormOp::SignOut),
    ("/theme", FormOp::Theme),
    ("/new-queue", FormOp::NewQueue),
    ("/store/backup", FormOp::Backup),
    ("/shards/{shard}/hand-over", FormOp::HandOver),
    ("/shards/{shard}/move", FormOp::MoveShard),
    ("/redrives/{task}/cancel", FormOp::CancelRedrive),
    ("/later/{id}/undo", FormOp::Undo),
    ("/later/{id}/begin", FormOp::BeginNow),
    ("/queues/{q}/send", FormOp::Send),
    ("/queues/{q}/settings", FormOp::Settings),
    ("/queues/{q}/pause", FormOp::Pause),
    ("/queues/{q}/resume", FormOp::Resume),
    ("/queues/{q}/purge", FormOp::Purge),
    ("/queues/{q}/delete", FormOp::DeleteQueue),
    ("/queues/{q}/redrive", FormOp::Redrive),
    ("/queues/{q}/messages/{id}/delete", FormOp::Act(MessageAct::Delete)),
    ("/queues/{q}/messages/{id}/release", FormOp::Act(MessageAct::Release)),
    ("/queues/{q}/messages/{id}/extend", FormOp::Act(MessageAct::Extend)),
    ("/queues/{q}/messages/{id}/promote", FormOp::Act(MessageAct::Promote)),
];

/// The paths of all forms, for tests that must try every one of them.
pub fn form_paths() -> impl Iterator<Item = &'static str> {
    FORMS.iter().map(|(path, _)| *path)
}

/// The form at a path, with what stands for the parts in braces.
pub(super) fn form_at<'p>(parts: &[&'p str]) -> Option<(FormOp, Vec<&'p str>)> {
    FORMS.iter().find_map(|(template, op)| Some((*op, places(template, parts)?)))
}

fn places<'p>(template: &str, parts: &[&'p str]) -> Option<Vec<&'p str>> {
    let templates: Vec<&str> = template.split('/').skip(1).collect();
    if templates.len() != parts.len() {
        return None;
    }
    let mut found = Vec::new();
    for (template, part) in templates.iter().zip(parts) {
        match template.starts_with('{') {
            true if !part.is_empty() => found.push(*part),
            false if template == part => {}
            _ => return None,
        }
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_leads_to_its_form_and_no_other_path_does() {
        for (number, (path, op)) in FORMS.iter().enumerate() {
            let parts: Vec<&str> = path.split('/').skip(1).collect();
            let found = form_at(&parts).map(|(op, _)| op);
            assert!(found == Some(*op), "form {number} is hidden by one before it");
        }
        let queue = |parts: &[&'static str]| form_at(parts).map(|(_, places)| places);
        assert_eq!(queue(&["queues", "a/b", "messages", "7", "delete"]), Some(vec!["a/b", "7"]));
        for parts in [&[""][..], &["queues", "", "send"], &["queues", "a"], &["queues", "a", "send", ""]] {
            assert_eq!(queue(parts), None, "{parts:?}");
        }
    }
}
