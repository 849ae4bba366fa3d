//! Which call about Workers a verb and a path mean.

use kew_http::Method;

use crate::error::{Code, WireError};
use crate::route::{BASE, Need, nowhere};

/// Whether a path is about Workers.
pub fn is_meant(path: &str) -> bool {
    let mut parts = path.strip_prefix(BASE).unwrap_or_default().split('/');
    (parts.next(), parts.next()) == (Some(""), Some("accounts"))
        && matches!(parts.nth(1), Some("workers" | "storage"))
}

/// A call and the names in its path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Call<'a> {
    Subdomain,
    /// Of kinds of storage that are not here.
    Namespaces,
    List,
    Service {
        name: &'a str,
    },
    Worker {
        name: &'a str,
    },
    Settings {
        name: &'a str,
    },
    ChangeSettings {
        name: &'a str,
    },
    Schedules {
        name: &'a str,
    },
    PutSchedules {
        name: &'a str,
    },
    ScriptSubdomain {
        name: &'a str,
    },
    SetScriptSubdomain {
        name: &'a str,
    },
    Upload {
        name: &'a str,
    },
    Delete {
        name: &'a str,
    },
    Versions {
        name: &'a str,
    },
    Version {
        name: &'a str,
        version: &'a str,
    },
    AddVersion {
        name: &'a str,
    },
    Deployments {
        name: &'a str,
    },
    Deploy {
        name: &'a str,
    },
    Log {
        name: &'a str,
    },
    Secrets {
        name: &'a str,
    },
    PutSecret {
        name: &'a str,
    },
    ChangeSecrets {
        name: &'a str,
    },
    DeleteSecret {
        name: &'a str,
        secret: &'a str,
    },
}

impl<'a> Call<'a> {
    /// The account a path names, and the call.
    pub(super) fn of(verb: &Method, path: &'a str) -> Result<(&'a str, Self), WireError> {
        let rest = path.strip_prefix(BASE).unwrap_or_default();
        let parts: Vec<&str> = rest.trim_end_matches('/').split('/').skip(2).collect();
        let (account, rest) = match parts.as_slice() {
            ["", ..] => return Err(nowhere(path)),
            [account, "workers", rest @ ..] => (*account, rest),
            // Asked for before a Worker is deleted, in case something of it lies there.
            [account, "storage", "kv", "namespaces"] if verb == Method::GET => {
                return Ok((*account, Self::Namespaces));
            }
            _ => return Err(nowhere(path)),
        };
        let call = match (verb.as_str(), rest) {
            ("GET", ["subdomain"]) => Self::Subdomain,
            ("GET", ["durable_objects", "namespaces"]) => Self::Namespaces,
            ("GET", ["scripts"]) => Self::List,
            ("GET", ["services", name]) => Self::Service { name },
            ("GET", ["workers", name]) => Self::Worker { name },
            ("PUT", ["scripts", name]) => Self::Upload { name },
            ("DELETE", ["scripts" | "services", name]) => Self::Delete { name },
            ("GET", ["scripts", name, "settings" | "script-settings"]) => Self::Settings { name },
            // Of what is not run here (tags, logs) nothing is kept: the present settings are the answer.
            ("PATCH", ["scripts", name, "script-settings"]) => Self::Settings { name },
            ("PATCH", ["scripts", name, "settings"]) => Self::ChangeSettings { name },
            ("GET", ["services", name, "environments", _, "settings"]) => Self::Settings { name },
            ("GET", ["scripts", name, "subdomain"]) => Self::ScriptSubdomain { name },
            ("POST", ["scripts", name, "subdomain"]) => Self::SetScriptSubdomain { name },
            ("GET", ["scripts", name, "schedules"]) => Self::Schedules { name },
            ("PUT", ["scripts", name, "schedules"]) => Self::PutSchedules { name },
            ("GET", ["scripts", name, "versions"]) => Self::Versions { name },
            ("GET", ["scripts", name, "versions", version]) => Self::Version { name, version },
            ("POST", ["scripts", name, "versions"]) => Self::AddVersion { name },
            ("GET", ["scripts", name, "deployments"]) => Self::Deployments { name },
            ("POST", ["scripts", name, "deployments"]) => Self::Deploy { name },
            // Ours: the vendor's tool has no call for what is kept here.
            ("GET", ["scripts", name, "kew-log"]) => Self::Log { name },
            (_, ["scripts", name, "tails", ..]) => return Err(no_tail(name)),
            ("GET", ["scripts", name, "secrets"]) => Self::Secrets { name },
            ("PUT", ["scripts", name, "secrets"]) => Self::PutSecret { name },
            ("PATCH", ["scripts", name, "secrets-bulk"]) => Self::ChangeSecrets { name },
            ("DELETE", ["scripts", name, "secrets", secret]) => Self::DeleteSecret { name, secret },
            _ => return Err(nowhere(path)),
        };
        Ok((account, call))
    }

    /// Its name, for metrics.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Subdomain | Self::ScriptSubdomain { .. } | Self::SetScriptSubdomain { .. } => {
                "WorkersSubdomain"
            }
            Self::List | Self::Namespaces => "WorkersList",
            Self::Service { .. } | Self::Worker { .. } | Self::Settings { .. } => "WorkersShow",
            Self::Schedules { .. } | Self::PutSchedules { .. } => "WorkersSchedules",
            Self::ChangeSettings { .. } => "WorkersChangeSettings",
            Self::Upload { .. } => "WorkersUpload",
            Self::Delete { .. } => "WorkersDelete",
            Self::Versions { .. } | Self::Version { .. } => "WorkersVersions",
            Self::AddVersion { .. } => "WorkersAddVersion",
            Self::Deployments { .. } => "WorkersDeployments",
            Self::Deploy { .. } => "WorkersDeploy",
            Self::Log { .. } => "WorkersLog",
            Self::Secrets { .. } => "WorkersSecrets",
            Self::PutSecret { .. } => "WorkersPutSecret",
            Self::ChangeSecrets { .. } => "WorkersChangeSecrets",
            Self::DeleteSecret { .. } => "WorkersDeleteSecret",
        }
    }

    /// What a token must allow.
    pub(super) fn need(&self) -> Need {
        match self {
            Self::Subdomain
            | Self::List
            | Self::Namespaces
            | Self::Service { .. }
            | Self::Worker { .. }
            | Self::Settings { .. }
            | Self::ScriptSubdomain { .. }
            | Self::Versions { .. }
            | Self::Version { .. }
            | Self::Deployments { .. }
            | Self::Log { .. }
            | Self::Schedules { .. }
            | Self::Secrets { .. } => Need::Read,
            Self::SetScriptSubdomain { .. }
            | Self::ChangeSettings { .. }
            | Self::PutSchedules { .. }
            | Self::Upload { .. }
            | Self::Delete { .. }
            | Self::AddVersion { .. }
            | Self::Deploy { .. }
            | Self::PutSecret { .. }
            | Self::ChangeSecrets { .. }
            | Self::DeleteSecret { .. } => Need::Write,
        }
    }
}

/// The answer to `wrangler tail`, which would be streamed a Worker's log over a WebSocket.
fn no_tail(name: &str) -> WireError {
    let text = format!(
        "The log of a Worker is not streamed by this server: GET .../workers/scripts/{name}/kew-log?after=0&wait=20 \
         answers its lines"
    );
    WireError::new(Code::NoRoute).saying(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_about_workers_are_distinguished() {
        for path in ["/client/v4/accounts/a/workers/subdomain", "/client/v4/accounts/a/workers"] {
            assert!(is_meant(path), "{path}");
        }
        for path in
            ["/client/v4/accounts/a/queues", "/client/v4/accounts/workers", "/client/v4/workers", "/x"]
        {
            assert!(!is_meant(path), "{path}");
        }
        let call = |verb: &str, rest: &'static str| {
            let verb = verb.parse().expect("the method of a call is valid");
            Call::of(&verb, rest).map(|(_, call)| call).map_err(|error| error.code())
        };
        for (verb, path, expected) in [
            ("PUT", "/client/v4/accounts/a/workers/scripts/w", Call::Upload { name: "w" }),
            ("DELETE", "/client/v4/accounts/a/workers/scripts/w", Call::Delete { name: "w" }),
            ("PUT", "/client/v4/accounts/a/workers/scripts/w/secrets", Call::PutSecret { name: "w" }),
            ("POST", "/client/v4/accounts/a/workers/scripts/w/versions", Call::AddVersion { name: "w" }),
            ("GET", "/client/v4/accounts/a/workers/services/w", Call::Service { name: "w" }),
            ("GET", "/client/v4/accounts/a/workers/scripts/w/kew-log", Call::Log { name: "w" }),
        ] {
            assert_eq!(call(verb, path), Ok(expected), "{verb} {path}");
        }
        assert!(call("POST", "/client/v4/accounts/a/workers/scripts/w").is_err());
        assert!(call("GET", "/client/v4/accounts//workers/scripts").is_err());
        assert!(call("GET", "/client/v4/accounts/a/workers/scripts/w/content").is_err());
    }
}
