//! The files a child process is started from: the Worker's modules, ours around them, and the runtime's configuration.
//!
//! Module files are numbered, so that no name of a user ever becomes a path. Every text of a user goes through
//! [`quoted`].

use std::fmt::Write as _;
use std::io;
use std::net::SocketAddr;
use std::path::Path;

use super::script::{Binding, BindingValue, Module, ModuleKind, Script};

/// What our own modules' names begin with; no module of a user may be named so.
pub(super) const OURS: &str = "kew:";

const SHIM: &str = include_str!("js/shim.js");
const NOTES: &str = include_str!("js/notes.js");
/// The variable of what the shim asks for.
pub(super) const DISPATCH_TOKEN: &str = "KEW_DISPATCH_TOKEN";
/// The file name of the configuration.
pub(super) const CONFIGURATION: &str = "worker.capnp";

/// Which addresses `fetch` in a Worker may reach.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Outbound {
    /// What everyone on the Internet can reach.
    #[default]
    Public,
    /// This machine and its networks too.
    Everything,
}

/// What is not of the Worker itself.
#[derive(Clone, Debug)]
pub(super) struct Surroundings<'a> {
    /// Where sends of the Worker go.
    pub(super) producers: SocketAddr,
    /// What they are let in with.
    pub(super) producer_token: &'a str,
    /// The name of the account they send for.
    pub(super) account: &'a str,
    /// What batches are let in with.
    pub(super) dispatch_token: &'a str,
    /// What notes in the output begin with.
    pub(super) note_token: &'a str,
    /// What `fetch` may reach.
    pub(super) outbound: Outbound,
}

/// The name of the variable that holds the secret of this number: secrets are in no file.
pub(super) fn secret_variable(number: usize) -> String {
    format!("KEW_SECRET_{number}")
}

/// Writes everything into a directory.
pub(super) fn write(
    directory: &Path,
    script: &Script,
    secrets: &[&str],
    surroundings: &Surroundings<'_>,
) -> io::Result<()> {
    std::fs::write(directory.join("shim.js"), SHIM)?;
    std::fs::write(directory.join("notes.js"), NOTES.replace("KEW_NOTE_TOKEN", surroundings.note_token))?;
    std::fs::write(directory.join("entry.js"), entry(script.main()))?;
    for (number, module) in run(script) {
        std::fs::write(directory.join(format!("{number}.module")), &module.content)?;
    }
    std::fs::write(directory.join(CONFIGURATION), configuration(script, secrets, surroundings))
}

/// The module the runtime starts with: the user's, its queue handler watched.
fn entry(main: &str) -> String {
    let main = serde_json::Value::from(format!("./{main}")).to_string();
    format!(
        "import {{ watched }} from \"./{OURS}notes.js\";\nimport * as user from {main};\nexport * from {main};\nexport default watched(user.default);\n"
    )
}

fn configuration(script: &Script, secrets: &[&str], surroundings: &Surroundings<'_>) -> String {
    let mut text = String::with_capacity(4 << 10);
    text.push_str("using Workerd = import \"/workerd/workerd.capnp\";\nconst config :Workerd.Config = (\n  services = [\n");
    text.push_str(
        "    ( name = \"shim\", worker = (\n        modules = [ ( name = \"shim.js\", esModule = embed \"shim.js\" ) ],\n        bindings = [ ( name = \"TARGET\", service = \"user\" ), ( name = \"TOKEN\", fromEnvironment = \"KEW_DISPATCH_TOKEN\" ) ],\n        compatibilityDate = \"2026-04-01\",\n        compatibilityFlags = [\"service_binding_extra_handlers\"] ) ),\n",
    );
    push_worker(&mut text, script, secrets);
    push_queues(&mut text, &script.bindings, surroundings);
    let allowed = match surroundings.outbound {
        Outbound::Public => "\"public\"",
        Outbound::Everything => "\"public\", \"private\", \"local\"",
    };
    push(
        &mut text,
        format_args!(
            "    ( name = \"internet\", network = ( allow = [{allowed}], tlsOptions = ( trustBrowserCas = true ) ) ),\n"
        ),
    );
    text.push_str("  ],\n  sockets = [ ( name = \"dispatch\", http = (), service = \"shim\" ) ],\n  logging = ( structuredLogging = true ),\n);\n");
    text
}

fn push_worker(text: &mut String, script: &Script, secrets: &[&str]) {
    text.push_str("    ( name = \"user\", worker = (\n        modules = [\n");
    for ours in ["entry", "notes"] {
        push(
            text,
            format_args!("          ( name = \"{OURS}{ours}.js\", esModule = embed \"{ours}.js\" ),\n"),
        );
    }
    for (number, module) in run(script) {
        let Some(kind) = kind(module.kind) else { continue };
        let name = quoted(&module.name);
        push(text, format_args!("          ( name = {name}, {kind} = embed \"{number}.module\" ),\n"));
    }
    text.push_str("        ],\n        bindings = [\n");
    for binding in &script.bindings {
        let name = quoted(&binding.name);
        let value = match &binding.value {
            BindingValue::Text(value) => format!("text = {}", quoted(value)),
            BindingValue::Json(value) => format!("json = {}", quoted(value)),
            BindingValue::Queue(_) => format!("queue = {}", quoted(&queue_service(&binding.name))),
        };
        push(text, format_args!("          ( name = {name}, {value} ),\n"));
    }
    for (number, name) in secrets.iter().enumerate() {
        let (name, variable) = (quoted(name), secret_variable(number));
        push(text, format_args!("          ( name = {name}, fromEnvironment = \"{variable}\" ),\n"));
    }
    let flags: Vec<String> = script.compatibility_flags.iter().map(|flag| quoted(flag)).collect();
    push(
        text,
        format_args!(
            "        ],\n        compatibilityDate = {},\n        compatibilityFlags = [{}] ) ),\n",
            quoted(&script.compatibility_date),
            flags.join(", ")
        ),
    );
}

/// One way out for each queue binding: a request does not say which queue it is for.
fn push_queues(text: &mut String, bindings: &[Binding], surroundings: &Surroundings<'_>) {
    for binding in bindings {
        let BindingValue::Queue(queue) = &binding.value else { continue };
        let (service, queue) = (quoted(&queue_service(&binding.name)), quoted(queue));
        let (address, token) = (surroundings.producers, quoted(surroundings.producer_token));
        let account = quoted(surroundings.account);
        push(
            text,
            format_args!(
                "    ( name = {service}, external = ( address = \"{address}\",\n        http = ( injectRequestHeaders = [ ( name = \"X-Kew-Queue\", value = {queue} ), ( name = \"X-Kew-Token\", value = {token} ), ( name = \"X-Kew-Account\", value = {account} ) ] ) ) ),\n"
            ),
        );
    }
}

fn queue_service(binding: &str) -> String {
    format!("queue:{binding}")
}

/// The modules that the runtime gets, with their numbers.
fn run(script: &Script) -> impl Iterator<Item = (usize, &Module)> {
    script.modules.iter().enumerate().filter(|(_, module)| kind(module.kind).is_some())
}

/// What the runtime calls a kind of module, if it gets such ones.
fn kind(kind: ModuleKind) -> Option<&'static str> {
    match kind {
        ModuleKind::Es => Some("esModule"),
        ModuleKind::CommonJs => Some("commonJsModule"),
        ModuleKind::Text => Some("text"),
        ModuleKind::Data => Some("data"),
        ModuleKind::Wasm => Some("wasm"),
        ModuleKind::Json => Some("json"),
        ModuleKind::SourceMap => None,
    }
}

fn push(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    // Writing into a string does not fail.
    let _written = text.write_fmt(arguments);
}

/// A string literal of the configuration's language.
fn quoted(text: &str) -> String {
    let mut literal = String::with_capacity(text.len() + 2);
    literal.push('"');
    for letter in text.chars() {
        match letter {
            '"' => literal.push_str("\\\""),
            '\\' => literal.push_str("\\\\"),
            '\n' => literal.push_str("\\n"),
            '\r' => literal.push_str("\\r"),
            '\t' => literal.push_str("\\t"),
            letter if letter.is_ascii_control() => {
                push(&mut literal, format_args!("\\x{:02x}", u32::from(letter)));
            }
            letter => literal.push(letter),
        }
    }
    literal.push('"');
    literal
}

#[cfg(test)]
mod tests {
    use super::super::script::tests::{module, script};
    use super::*;

    fn surroundings() -> Surroundings<'static> {
        Surroundings {
            producers: SocketAddr::from(([127, 0, 0, 1], 9326)),
            producer_token: "inner",
            account: "0a",
            dispatch_token: "dispatch",
            note_token: "notes",
            outbound: Outbound::Public,
        }
    }

    #[test]
    fn texts_of_users_stay_within_their_quotes() {
        for (text, literal) in [
            ("plain", r#""plain""#),
            (r#"a"b\c"#, r#""a\"b\\c""#),
            ("a\nb\r\t\u{1}\u{7f}", r#""a\nb\r\t\x01\x7f""#),
            ("é 水 {}", "\"é 水 {}\""),
        ] {
            assert_eq!(quoted(text), literal);
        }
    }

    #[test]
    fn each_part_of_a_worker_has_its_place() {
        let mut worker = script(vec![
            module("index.js", ""),
            Module { kind: ModuleKind::SourceMap, ..module("index.js.map", "") },
            Module { kind: ModuleKind::Wasm, ..module("lib/\"a\".wasm", "") },
        ]);
        worker.compatibility_flags.push("nodejs_compat".to_owned());
        worker.bindings = vec![
            Binding { name: "GREETING".to_owned(), value: BindingValue::Text("say \"hi\"".to_owned()) },
            Binding { name: "CFG".to_owned(), value: BindingValue::Json("{\"a\":1}".to_owned()) },
            Binding { name: "OUT".to_owned(), value: BindingValue::Queue("my-queue".to_owned()) },
        ];
        let text = configuration(&worker, &["TOKEN"], &surroundings());
        for line in [
            r#"( name = "lib/\"a\".wasm", wasm = embed "2.module" ),"#,
            r#"( name = "GREETING", text = "say \"hi\"" ),"#,
            r#"( name = "CFG", json = "{\"a\":1}" ),"#,
            r#"( name = "OUT", queue = "queue:OUT" ),"#,
            r#"( name = "TOKEN", fromEnvironment = "KEW_SECRET_0" ),"#,
            r#"compatibilityFlags = ["nodejs_compat"] ) ),"#,
            r#"( name = "queue:OUT", external = ( address = "127.0.0.1:9326","#,
            r#"( name = "X-Kew-Queue", value = "my-queue" ), ( name = "X-Kew-Token", value = "inner" ), ( name = "X-Kew-Account", value = "0a" )"#,
            r#"allow = ["public"]"#,
        ] {
            assert!(text.contains(line), "{line}\n{text}");
        }
        assert!(!text.contains("index.js.map"), "the runtime has no use for it\n{text}");
    }

    #[test]
    fn the_first_module_hands_on_what_the_user_exports() {
        let text = entry("src/it's \"mine\".js");
        assert!(text.contains(r#"export * from "./src/it's \"mine\".js";"#), "{text}");
    }
}
