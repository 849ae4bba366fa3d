//! What the tools print of a store.

use std::path::Path;

use kew_core::ShardCount;
use kew_store_log::{BackupReport, CheckReport, StoreStats, TailReport};

use crate::cli::remote::harmless;

/// Characters of one line about what was found.
const FOUND_MAX: usize = 1_000;

/// A text that may quote bytes of a damaged file: short, and without what moves a terminal.
pub(super) fn readable(text: &str) -> String {
    let shown: String = text.chars().take(FOUND_MAX).collect();
    let cut = if shown.len() < text.len() { "…" } else { "" };
    format!("{}{cut}", harmless(&shown))
}

pub(super) fn check_lines(report: &CheckReport) -> String {
    let mut lines = String::new();
    for problem in &report.problems {
        lines.push_str(&format!("DAMAGE  {}\n", readable(&problem.to_string())));
    }
    if let Some(tail) = &report.tail {
        lines.push_str(&format!("tail    {}\n", tail_line(tail)));
    }
    lines.push_str(&format!(
        "{}: {} segments, {} batches after the checkpoint, {} records before it, {} slices, {} queues, {} messages\n",
        if report.is_sound() { "sound" } else { "damaged" },
        report.segments,
        report.batches,
        report.records,
        report.slices,
        report.queues,
        report.messages
    ));
    lines
}

pub(super) fn tail_line(tail: &TailReport) -> String {
    format!(
        "{} at offset {}: {} bytes of an incomplete batch, which the next start cuts off ({})",
        tail.file, tail.offset, tail.bytes_dropped, tail.why
    )
}

pub(super) fn stats_lines(stats: &StoreStats, shards: ShardCount) -> String {
    let messages = &stats.messages;
    let mut lines = format!(
        "queues               {}\nmessages             {}\n  visible            {}\n  in flight          {}\n  delayed            {}\n  bytes of bodies    {}\nsegments             {} of the journal, {} of survivors, {} spare\n  bytes              {} and {} spare\n  live               {}\n  dead               {}\nmemory, about        {}\n",
        stats.queues,
        messages.stored(),
        messages.visible,
        messages.in_flight,
        messages.delayed,
        messages.body_bytes,
        stats.journal_segments,
        stats.survivor_segments,
        stats.spares,
        stats.segment_bytes,
        stats.spare_bytes,
        stats.log.live_bytes,
        stats.log.dead_bytes,
        stats.log.heap_bytes
    );
    if shards != ShardCount::ONE {
        lines.push_str(&format!("shards               {}\n", shards.get()));
    }
    lines
}

/// The same for programs. Names go on meaning what they mean; there may be more of them.
pub(super) fn stats_json(stats: &StoreStats, shards: ShardCount) -> serde_json::Value {
    let messages = &stats.messages;
    serde_json::json!({
        "queues": stats.queues,
        "messages": {
            "stored": messages.stored(),
            "visible": messages.visible,
            "in_flight": messages.in_flight,
            "delayed": messages.delayed,
            "body_bytes": messages.body_bytes,
        },
        "segments": {
            "journal": stats.journal_segments,
            "survivors": stats.survivor_segments,
            "spare": stats.spares,
            "bytes": stats.segment_bytes,
            "spare_bytes": stats.spare_bytes,
            "live_bytes": stats.log.live_bytes,
            "dead_bytes": stats.log.dead_bytes,
        },
        "memory_bytes": stats.log.heap_bytes,
        "shards": shards.get(),
    })
}

pub(super) fn backup_lines(target: &Path, report: &BackupReport) -> String {
    let bytes: u64 = report.files.iter().map(|file| file.bytes).sum();
    format!(
        "{} files, {bytes} bytes, up to batch {}, in {}; {}\n",
        report.files.len(),
        report.batch,
        target.display(),
        match report.linked {
            0 => "all of them are copies".to_owned(),
            linked => format!("{linked} of them are the store's own files under a second name"),
        }
    )
}
