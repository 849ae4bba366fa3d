//! Bytes of files, shared copy-on-write so that a snapshot costs little.

use std::sync::Arc;

const PAGE: u64 = 4096;

/// Bytes in shared pages; a missing page is zeros.
#[derive(Clone, Default)]
pub(super) struct Pages {
    pub(super) len: u64,
    pages: Vec<Option<Arc<[u8; PAGE as usize]>>>,
}

impl Pages {
    pub(super) fn grow(&mut self, len: u64) {
        self.len = self.len.max(len);
        self.pages.resize(self.len.div_ceil(PAGE) as usize, None);
    }

    pub(super) fn truncate(&mut self, len: u64) {
        if len < self.len {
            let zeros = vec![0; (self.len - len).min(PAGE - len % PAGE) as usize];
            self.write(len, &zeros);
            self.len = len;
            self.pages.truncate(len.div_ceil(PAGE) as usize);
        }
    }

    /// Writes, unless there is nothing to write: that must not make the file longer.
    pub(super) fn write_if_any(&mut self, offset: u64, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.write(offset, bytes);
        }
    }

    pub(super) fn write(&mut self, mut offset: u64, mut bytes: &[u8]) {
        self.grow(offset + bytes.len() as u64);
        while !bytes.is_empty() {
            let within = (offset % PAGE) as usize;
            let (part, rest) = bytes.split_at(bytes.len().min(PAGE as usize - within));
            let page =
                self.pages[(offset / PAGE) as usize].get_or_insert_with(|| Arc::new([0; PAGE as usize]));
            Arc::make_mut(page)[within..within + part.len()].copy_from_slice(part);
            offset += part.len() as u64;
            bytes = rest;
        }
    }

    pub(super) fn read(&self, offset: u64, buffer: &mut [u8]) -> usize {
        let wanted = (self.len.saturating_sub(offset)).min(buffer.len() as u64) as usize;
        let mut done = 0;
        while done < wanted {
            let at = offset + done as u64;
            let within = (at % PAGE) as usize;
            let step = (PAGE as usize - within).min(wanted - done);
            let target = &mut buffer[done..done + step];
            match &self.pages[(at / PAGE) as usize] {
                Some(page) => target.copy_from_slice(&page[within..within + step]),
                None => target.fill(0),
            }
            done += step;
        }
        wanted
    }
}
