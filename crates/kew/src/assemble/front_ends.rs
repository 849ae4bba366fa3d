//! What the three dialects are set to, and who may reach each listener.

use std::net::TcpListener;
use std::sync::Arc;

use kew_azure::Verifier;
use kew_http::{Guard, Limits, Tls, TlsFiles};

use super::Parts;
use crate::config::{Auth, Bearer, BearerSettings, Settings, UrlStyle};
use crate::listen::{Certificates, Dialect, Entrance, FrontEndSettings, Serves};
use crate::start_error::StartError;
use crate::{credentials, machine};

impl Parts<'_> {
    pub(super) fn front_ends(&self) -> Result<FrontEndSettings, StartError> {
        let sqs = &self.settings.sqs;
        let sqs = kew_sqs::Settings {
            auth: credentials::sqs(self.settings)?,
            region: sqs.region.as_str().into(),
            external_url: sqs.external_url.as_deref().map(Into::into),
            url_style: self.url_style(),
            cors_origins: sqs.cors_origins.as_slice().into(),
            name_hold: sqs.name_hold,
            purge_interval: sqs.purge_interval,
            standard_in_flight_limit: sqs.standard_in_flight_limit,
            fifo_in_flight_limit: sqs.fifo_in_flight_limit,
            failures: Arc::new(self.failures()),
            ..kew_sqs::Settings::default()
        };
        Ok(FrontEndSettings {
            admin: self.admin_place,
            sqs,
            azure: self.azure(),
            cloudflare: self.cloudflare(),
            durations: Arc::clone(&self.durations),
        })
    }

    /// What becomes of a failure that is ours. It may name files, which are the store's: so it tells which store.
    fn failures(&self) -> impl Fn(kew_http::RequestId, &str) + Send + Sync + use<> {
        let failures = Arc::clone(&self.failures);
        move |id, cause| failures.note(id, cause)
    }

    fn cloudflare(&self) -> kew_cloudflare::Settings {
        kew_cloudflare::Settings {
            accounts: credentials::cloudflare(self.settings),
            trust: match self.settings.server.auth {
                Auth::Open => kew_cloudflare::Trust::Open,
                Auth::Strict => kew_cloudflare::Trust::Strict,
            },
            in_flight_max: self.settings.limits.in_flight_max,
            inner_token: Some(Arc::clone(&self.inner_token)),
            scripts: kew_cloudflare::Scripts {
                workers: Arc::clone(&self.workers),
                wanted: self.settings.workers.run,
                exposed: self.settings.workers.exposed,
            },
            failures: Arc::new(self.failures()),
            ..kew_cloudflare::Settings::open(self.settings.sqs.region.as_str().into())
        }
    }

    fn url_style(&self) -> kew_sqs::UrlStyle {
        match self.settings.sqs.url_style {
            UrlStyle::Path => kew_sqs::UrlStyle::Path,
            UrlStyle::Standard => kew_sqs::UrlStyle::Standard,
        }
    }

    fn azure(&self) -> kew_azure::Settings {
        let azure = &self.settings.azure;
        let accounts = credentials::azure(self.settings);
        let region = self.settings.sqs.region.as_str().into();
        kew_azure::Settings {
            trust: match self.settings.server.auth {
                Auth::Open => kew_azure::Trust::Open,
                Auth::Strict => kew_azure::Trust::Strict,
            },
            bearer: self.bearer(),
            host_style: azure.host_style,
            host_parents: azure.host_parents.as_slice().into(),
            skew: azure.skew,
            in_flight_max: self.settings.limits.in_flight_max,
            queue_deletion_delay: azure.queue_deletion_delay,
            failures: Arc::new(self.failures()),
            ..kew_azure::Settings::open(
                accounts,
                region,
                Arc::new(machine::SystemClock),
                Arc::clone(&self.entropy),
            )
        }
    }

    fn bearer(&self) -> kew_azure::Bearer {
        match &self.settings.azure.bearer {
            Bearer::Off => kew_azure::Bearer::Off,
            Bearer::Basic => kew_azure::Bearer::Basic,
            Bearer::Strict(BearerSettings { issuers, audiences, skew, .. }) => {
                let keys = Arc::clone(&self.token_keys);
                let verifier = Verifier::new(issuers.clone(), audiences.clone(), *skew, keys);
                kew_azure::Bearer::Verified(Arc::new(verifier))
            }
        }
    }

    /// The listeners of the dialects, each with its certificate.
    pub(super) fn entrances(
        &self,
        sockets: Vec<(Serves, TcpListener)>,
        certificates: &mut Certificates,
    ) -> Result<Vec<Entrance>, StartError> {
        let mut entrances = Vec::new();
        for (serves, socket) in sockets {
            let tls = certificates.load(tls_files(self.settings, serves))?;
            entrances.push(self.entrance(serves, socket, tls));
        }
        Ok(entrances)
    }

    fn entrance(&self, serves: Serves, socket: TcpListener, tls: Option<Tls>) -> Entrance {
        let guard = match serves {
            Serves::Only(Dialect::Azure) => self.azure().guard(self.guard()),
            Serves::Only(Dialect::Sqs) => {
                let origins = self.settings.sqs.cors_origins.as_slice().into();
                self.url_style().guard(self.guard()).with_origins(&origins)
            }
            Serves::All => self.azure().hosts(self.url_style().guard(self.guard())),
            Serves::Only(Dialect::Cloudflare) if self.settings.workers.run => {
                self.guard().with_hosts_like(kew_cloudflare::is_workers_host)
            }
            Serves::Only(Dialect::Cloudflare) => self.guard(),
        };
        // Handlers of Workers that finish at the end still send through it.
        let is_last = self.settings.workers.run && serves == Serves::Only(Dialect::Cloudflare);
        let drain = if is_last { self.others_ended.clone() } else { self.drain.clone() };
        let name = match serves {
            Serves::Only(dialect) => dialect.name(),
            Serves::All => "also",
        };
        let connections = self.connections.of(name, self.connections_max);
        Entrance { serves, socket, guard, tls, drain, connections }
    }

    /// Who may reach a listener.
    pub(super) fn guard(&self) -> Guard {
        let server = &self.settings.server;
        match server.auth {
            Auth::Strict => Guard::strict(),
            Auth::Open if server.insecure => Guard::open().with_any_host(),
            Auth::Open => {
                let external = self.settings.sqs.external_url.as_deref().and_then(host_of);
                Guard::open().with_hosts(server.hosts.iter().cloned().chain(external))
            }
        }
    }

    pub(super) fn limits(&self, connections_max: usize) -> Limits {
        Limits { connections_max, ..self.settings.limits.http }
    }
}

/// The host that a base URL names, without its port.
fn host_of(url: &str) -> Option<String> {
    let (_, rest) = url.split_once("://")?;
    let authority = rest.split('/').next()?;
    let host = authority.rsplit_once(':').map_or(authority, |(host, _)| host);
    Some(host.to_ascii_lowercase())
}

/// The certificate of a listener.
fn tls_files(settings: &Settings, serves: Serves) -> Option<&TlsFiles> {
    match serves {
        Serves::Only(Dialect::Sqs) => settings.tls.sqs.as_ref(),
        Serves::Only(Dialect::Azure) => settings.tls.azure.as_ref(),
        Serves::Only(Dialect::Cloudflare) => settings.tls.cloudflare.as_ref(),
        Serves::All => settings.tls.also.as_ref(),
    }
}
