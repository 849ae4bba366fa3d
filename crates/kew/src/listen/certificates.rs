//! The certificates of all listeners, read again when their files change, on a thread that may wait for a disk.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::thread::JoinHandle;

use kew_http::{Drain, Tls, TlsError, TlsFiles, TlsNotice};
use tokio::task::JoinSet;

use crate::log::{Level, Log};

/// The certificates in use, each loaded once.
#[derive(Default)]
pub struct Certificates {
    loaded: BTreeMap<(PathBuf, PathBuf), Tls>,
}

/// A thread that looks after their files.
pub struct CertificateWatch {
    drain: Drain,
    thread: JoinHandle<io::Result<()>>,
}

impl Certificates {
    /// What is in these files.
    pub fn load(&mut self, files: Option<&TlsFiles>) -> Result<Option<Tls>, TlsError> {
        let Some(files) = files else { return Ok(None) };
        let place = (files.cert.clone(), files.key.clone());
        if let Some(tls) = self.loaded.get(&place) {
            return Ok(Some(tls.clone()));
        }
        let tls = Tls::load(files.clone())?;
        self.loaded.insert(place, tls.clone());
        Ok(Some(tls))
    }

    /// Looks after the files from now on, if there are any.
    pub fn watch(self, log: Log) -> io::Result<Option<CertificateWatch>> {
        if self.loaded.is_empty() {
            return Ok(None);
        }
        let drain = Drain::default();
        let ends = drain.closing();
        let run = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(async {
                let mut following: JoinSet<()> = self
                    .loaded
                    .into_values()
                    .map(|tls| tls.follow(move |notice| tell(log, &notice)))
                    .collect();
                ends.await;
                following.abort_all();
                Ok(())
            })
        };
        let thread = std::thread::Builder::new().name("kew-tls".into()).spawn(run)?;
        Ok(Some(CertificateWatch { drain, thread }))
    }
}

impl CertificateWatch {
    /// Ends the thread.
    pub fn stop(self) -> io::Result<()> {
        self.drain.close();
        self.thread.join().unwrap_or_else(|_| Err(io::Error::other("the thread of certificates panicked")))
    }
}

fn tell(log: Log, notice: &TlsNotice<'_>) {
    match notice {
        TlsNotice::Reloaded(files) => {
            let cert = files.cert.display().to_string();
            log.tell(Level::Info, "a certificate changed and was loaded again", &[("cert", &cert)]);
        }
        TlsNotice::Kept(files, error) => {
            let fields = [("cert", files.cert.display().to_string()), ("cause", error.to_string())];
            let fields = fields.each_ref().map(|(name, value)| (*name, value.as_str()));
            log.tell(Level::Error, "a certificate changed and cannot be used; the old one stays", &fields);
        }
    }
}
