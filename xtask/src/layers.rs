//! Imports between crates: a table of those that are allowed, compared with the manifests.
//!
//! Cargo refuses circles by itself; this refuses every edge the table does not name. The table is the one
//! ARCHITECTURE.md explains. A new crate has no row and fails until someone decides where it stands.

use serde_json::Value;
use std::collections::BTreeSet;

/// One crate of the workspace and what it may know.
struct CrateRow {
    name: &'static str,
    /// Crates of the workspace it may import.
    imports: Imports,
    /// Further crates of the workspace that only its tests may use.
    tests_also: &'static [&'static str],
    outside: Outside,
}

#[derive(Clone, Copy)]
enum Imports {
    Anything,
    Only(&'static [&'static str]),
}

/// Which crates from outside the workspace a crate may build on. Tests are free in this.
#[derive(Clone, Copy)]
enum Outside {
    Anything,
    Only(&'static [&'static str]),
    NoHttp,
}

const HTTP: &[&str] =
    &["axum", "http", "http-body", "http-body-util", "hyper", "hyper-util", "reqwest", "tower-http"];

const ROWS: &[CrateRow] = &[
    row("kew-timed", &[]),
    row("kew-core", &[]).outside(Outside::Only(&["bytes", "thiserror"])),
    row("kew-store", &["kew-core"]).outside(Outside::NoHttp),
    row("kew-store-log", &["kew-store", "kew-core", "kew-timed"])
        .tests_also(&["kew-testing"])
        .outside(Outside::NoHttp),
    row("kew-log-pg", &["kew-store-log", "kew-store", "kew-core", "kew-timed"])
        .tests_also(&["kew-testing"])
        .outside(Outside::NoHttp),
    row("kew-engine", &["kew-store", "kew-core", "kew-timed"])
        .tests_also(&["kew-testing"])
        .outside(Outside::NoHttp),
    row("kew-peer", &["kew-store", "kew-core"]).outside(Outside::NoHttp),
    row("kew-http", &["kew-core", "kew-timed"]).tests_also(&["kew-testing"]),
    // Its wire tests run over the store in memory and the one in a directory, which `kew-testing` opens: answers
    // recorded from the service must hold on both.
    row("kew-sqs", &["kew-http", "kew-engine", "kew-core"]).tests_also(&["kew-store", "kew-testing"]),
    row("kew-azure", &["kew-http", "kew-engine", "kew-core"]).tests_also(&["kew-testing"]),
    row("kew-cloudflare", &["kew-http", "kew-engine", "kew-core", "kew-push"])
        .tests_also(&["kew-store", "kew-testing"]),
    row("kew-push", &["kew-http", "kew-engine", "kew-core"]).tests_also(&["kew-testing"]),
    row("kew-functions", &["kew-azure", "kew-http", "kew-core"]).tests_also(&["kew-testing"]),
    row("kew-fleet", &["kew-peer", "kew-engine", "kew-store", "kew-core"])
        .tests_also(&["kew-testing"])
        .outside(Outside::NoHttp),
    row("kew-console", &["kew-http", "kew-engine", "kew-core"]).tests_also(&["kew-store", "kew-testing"]),
    // Only dev-dependencies of others name it.
    row("kew-testing", &["kew-http", "kew-engine", "kew-store", "kew-store-log", "kew-core"]),
    // The program puts everything together, the benches drive it from outside, scripts import no crate.
    open_row("kew"),
    open_row("kew-bench"),
    row("xtask", &[]),
];

const fn row(name: &'static str, imports: &'static [&'static str]) -> CrateRow {
    CrateRow { name, imports: Imports::Only(imports), tests_also: &[], outside: Outside::Anything }
}

const fn open_row(name: &'static str) -> CrateRow {
    CrateRow { name, imports: Imports::Anything, tests_also: &[], outside: Outside::Anything }
}

impl CrateRow {
    const fn tests_also(self, tests_also: &'static [&'static str]) -> Self {
        Self { tests_also, ..self }
    }

    const fn outside(self, outside: Outside) -> Self {
        Self { outside, ..self }
    }
}

/// What the comparison found: how many edges it looked at, and a sentence for each one the table forbids.
pub struct Findings {
    pub edges: usize,
    pub violations: Vec<String>,
}

/// Compares `cargo metadata --no-deps` with the table.
pub fn compare(metadata: &Value) -> Result<Findings, String> {
    let packages = list(metadata, "packages")?;
    let inside: BTreeSet<&str> =
        packages.iter().map(|package| text(package, "name")).collect::<Result<_, _>>()?;
    let mut findings = Findings { edges: 0, violations: Vec::new() };
    for package in packages {
        let name = text(package, "name")?;
        let Some(row) = ROWS.iter().find(|row| row.name == name) else {
            findings.violations.push(format!(
                "{name} has no row in the table of xtask/src/layers.rs: a new crate needs a decision record, then a row"
            ));
            continue;
        };
        for dependency in list(package, "dependencies")? {
            let edge = Edge::read(dependency, &inside)?;
            findings.edges += 1;
            findings.violations.extend(row.refusal(&edge));
        }
    }
    Ok(findings)
}

/// One dependency line of a manifest.
struct Edge<'a> {
    to: &'a str,
    inside: bool,
    tests_only: bool,
}

impl<'a> Edge<'a> {
    fn read(dependency: &'a Value, inside: &BTreeSet<&str>) -> Result<Self, String> {
        let to = text(dependency, "name")?;
        let tests_only = dependency.get("kind").and_then(Value::as_str) == Some("dev");
        Ok(Self { to, inside: inside.contains(to), tests_only })
    }
}

impl CrateRow {
    fn refusal(&self, edge: &Edge<'_>) -> Option<String> {
        if edge.inside { self.refusal_inside(edge) } else { self.refusal_outside(edge) }
    }

    fn refusal_inside(&self, edge: &Edge<'_>) -> Option<String> {
        let Imports::Only(allowed) = self.imports else {
            return None;
        };
        let to = edge.to;
        // A crate's tests may name the crate itself, with other features.
        if allowed.contains(&to) || edge.tests_only && (self.tests_also.contains(&to) || to == self.name) {
            return None;
        }
        let verb = if edge.tests_only { "imports, in its tests," } else { "imports" };
        Some(format!(
            "{} {verb} {to}, but may only import {}: the item you want is probably in the wrong crate; move the item, not the boundary",
            self.name,
            sentence(allowed)
        ))
    }

    fn refusal_outside(&self, edge: &Edge<'_>) -> Option<String> {
        if edge.tests_only {
            return None;
        }
        let (name, to) = (self.name, edge.to);
        match self.outside {
            Outside::Only(allowed) if !allowed.contains(&to) => Some(format!(
                "{name} depends on {to}, but from outside it may only use {}",
                sentence(allowed)
            )),
            Outside::NoHttp if HTTP.contains(&to) => {
                Some(format!("{name} depends on {to}, but must never know HTTP"))
            }
            Outside::Only(_) | Outside::NoHttp | Outside::Anything => None,
        }
    }
}

fn sentence(names: &[&str]) -> String {
    if names.is_empty() { "nothing of Kew".to_owned() } else { names.join(", ") }
}

fn list<'a>(value: &'a Value, key: &str) -> Result<&'a Vec<Value>, String> {
    value.get(key).and_then(Value::as_array).ok_or_else(|| format!("cargo metadata has no list `{key}`"))
}

fn text<'a>(value: &'a Value, key: &str) -> Result<&'a str, String> {
    value.get(key).and_then(Value::as_str).ok_or_else(|| format!("cargo metadata has no text `{key}`"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// A workspace of `crates`, in which only the first has dependencies: (name, kind).
    fn workspace(crates: &[&str], edges: &[(&str, Option<&str>)]) -> Value {
        let dependencies: Vec<Value> =
            edges.iter().map(|(name, kind)| json!({ "name": name, "kind": kind })).collect();
        let packages: Vec<Value> = crates
            .iter()
            .enumerate()
            .map(|(at, name)| json!({ "name": name, "dependencies": if at == 0 { dependencies.clone() } else { vec![] } }))
            .collect();
        json!({ "packages": packages })
    }

    fn violations(crates: &[&str], edges: &[(&str, Option<&str>)]) -> Vec<String> {
        compare(&workspace(crates, edges)).unwrap().violations
    }

    #[test]
    fn a_forbidden_edge_is_named_with_what_would_be_allowed() {
        let found =
            violations(&["kew-engine", "kew-http", "kew-store"], &[("kew-store", None), ("kew-http", None)]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("kew-engine imports kew-http, but may only import kew-store, kew-core"));
    }

    #[test]
    fn an_edge_in_the_table_passes() {
        let found = violations(
            &["kew-store-log", "kew-store", "kew-core"],
            &[("kew-store", None), ("kew-core", None)],
        );
        assert_eq!(found, Vec::<String>::new());
    }

    #[test]
    fn a_dialect_reaches_a_store_in_its_tests_only() {
        let crates = ["kew-sqs", "kew-store", "kew-testing"];
        for part in ["kew-store", "kew-testing"] {
            assert_eq!(violations(&crates, &[(part, Some("dev"))]), Vec::<String>::new());
            assert_eq!(violations(&crates, &[(part, None)]).len(), 1);
        }
        let crates = ["kew-azure", "kew-store-log"];
        assert_eq!(violations(&crates, &[("kew-store-log", Some("dev"))]).len(), 1);
    }

    #[test]
    fn dialects_never_see_each_other() {
        assert_eq!(violations(&["kew-azure", "kew-sqs"], &[("kew-sqs", None)]).len(), 1);
        assert_eq!(violations(&["kew-azure", "kew-sqs"], &[("kew-sqs", Some("dev"))]).len(), 1);
    }

    #[test]
    fn core_builds_on_two_crates_from_outside_and_tests_with_any() {
        let found = violations(
            &["kew-core"],
            &[
                ("bytes", None),
                ("thiserror", None),
                ("serde", None),
                ("cc", Some("build")),
                ("proptest", Some("dev")),
            ],
        );
        assert_eq!(
            found,
            [
                "kew-core depends on serde, but from outside it may only use bytes, thiserror",
                "kew-core depends on cc, but from outside it may only use bytes, thiserror",
            ]
        );
    }

    #[test]
    fn nothing_below_the_dialects_knows_http() {
        assert_eq!(
            violations(&["kew-engine"], &[("hyper", None)]),
            ["kew-engine depends on hyper, but must never know HTTP"]
        );
        assert_eq!(violations(&["kew-http"], &[("hyper", None)]), Vec::<String>::new());
    }

    #[test]
    fn only_what_drives_the_program_imports_it() {
        assert_eq!(violations(&["kew-bench", "kew"], &[("kew", None)]), Vec::<String>::new());
        assert_eq!(violations(&["kew-console", "kew"], &[("kew", None)]).len(), 1);
    }

    #[test]
    fn a_crate_without_a_row_is_refused() {
        let found = violations(&["kew-utils"], &[]);
        assert!(found[0].starts_with("kew-utils has no row"), "{found:?}");
    }

    #[test]
    fn every_name_in_the_table_has_a_row() {
        let rows: BTreeSet<&str> = ROWS.iter().map(|row| row.name).collect();
        assert_eq!(rows.len(), ROWS.len(), "a crate stands twice");
        for row in ROWS {
            let Imports::Only(imports) = row.imports else {
                continue;
            };
            for name in imports.iter().chain(row.tests_also) {
                assert!(rows.contains(name), "{} names {name}", row.name);
            }
        }
    }

    #[test]
    fn every_file_that_pages_for_developers_name_is_there() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let pages = [
            ("ARCHITECTURE.md", 10),
            ("docs/glossary.md", 40),
            ("docs/adding-a-log.md", 10),
            ("docs/storage-format.md", 20),
        ];
        for (page, least) in pages {
            let text = std::fs::read_to_string(root.join(page)).unwrap();
            let code = text.split('`').skip(1).step_by(2);
            // A folder of each version is named by a letter.
            let is_one = |code: &&str| code.starts_with("crates/") && !code.contains("-N");
            let named: Vec<&str> = code.filter(is_one).collect();
            assert!(named.len() > least, "{page} names {named:?}");
            for name in named {
                assert!(root.join(name).exists(), "{page} names {name}");
            }
        }
    }

    #[test]
    fn unreadable_metadata_is_an_error_not_a_pass() {
        assert!(compare(&json!({})).is_err());
        assert!(compare(&json!({ "packages": [{ "name": "kew-core" }] })).is_err());
    }
}
