//! `kew store export`: the shards of a store, one after another, as one set of lines.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use kew_core::{ShardCount, ShardId};
use kew_store_log::{Export, ExportHead, ExportReport, LogError, Unreadable, export_readable};

use super::place::{Looked, Place};
use super::{ToolError, doing, tell};
use crate::private;

pub(super) fn run(place: &Place, to: Option<&Path>, leaves_out: bool) -> Result<(), ToolError> {
    let looked = place.look()?;
    let report = match to {
        None => write_lines(looked, &mut io::stdout().lock(), leaves_out)?,
        Some(path) => {
            let report = write_file(looked, path, leaves_out)?;
            let (queues, messages) = (report.queues, report.messages);
            tell(&format!("{queues} queues and {messages} messages, in {} lines\n", report.lines))?;
            report
        }
    };
    if report.left_out == 0 { Ok(()) } else { Err(ToolError::LeftOut(report.left_out)) }
}

fn write_file(looked: Looked<'_>, path: &Path, leaves_out: bool) -> Result<ExportReport, ToolError> {
    let file: File = private::make_file(path).map_err(doing(format!("making {}", path.display())))?;
    let mut buffer = BufWriter::new(file);
    let written = write_lines(looked, &mut buffer, leaves_out).and_then(|report| {
        let file = buffer.into_inner().map_err(io::IntoInnerError::into_error);
        let synced = file.and_then(|file| file.sync_all());
        synced.map(|()| report).map_err(doing(format!("writing {}", path.display())))
    });
    if written.is_err() {
        // Nothing imports a part of an export, and the next attempt wants the name.
        let _removed = std::fs::remove_file(path);
    }
    written
}

/// Writes the lines; stops at a message that cannot be read, or tells it and goes on.
fn write_lines(looked: Looked<'_>, to: &mut dyn Write, leaves_out: bool) -> Result<ExportReport, ToolError> {
    let mut stopped_at = None;
    let mut leave_out = |message: Unreadable| {
        if leaves_out {
            // With a closed output the work goes on.
            let _told = writeln!(io::stderr().lock(), "left out {message}");
            return Ok(());
        }
        let cause = message.cause.clone();
        stopped_at = Some(message);
        Err(cause)
    };
    let exported = if looked.shards() == ShardCount::ONE {
        let store = looked.store(ShardId(0), true)?;
        export_readable(&store, to, &mut leave_out).map_err(ToolError::Log)
    } else {
        write_shards(looked, to, &mut leave_out)
    };
    exported.map_err(|error| stopped_at.map_or(error, ToolError::Unreadable))
}

/// Each shard is opened twice, so that one at a time is in memory: the first line is about all of them.
fn write_shards(
    looked: Looked<'_>,
    to: &mut dyn Write,
    leave_out: &mut dyn FnMut(Unreadable) -> Result<(), LogError>,
) -> Result<ExportReport, ToolError> {
    let mut head: Option<ExportHead> = None;
    let opened = looked.opened()?;
    for shard in &opened {
        let next = ExportHead::of(&looked.store(*shard, false)?)?;
        head = Some(match head {
            None => next,
            Some(head) => head.with(&next)?,
        });
    }
    let head = head.ok_or_else(|| looked.is_empty())?;
    let mut export = Export::begin(&head, to, leave_out)?;
    for shard in opened {
        export.add(&looked.store(shard, true)?)?;
    }
    looked.end()?;
    Ok(export.end()?)
}
