//! function.json: what starts a function, and where its results go.

use std::path::Path;
use std::sync::Arc;

use serde_json::Value;

use super::app_settings::AppSettings;
use super::connection::{Account, Connections};
use super::encoding::Encoding;
use super::error;
use super::lenient::{Object, member};
use super::queue_name;
use super::template::Template;

/// A function that can run.
#[derive(Debug)]
pub(crate) struct Function {
    pub(crate) name: String,
    pub(crate) trigger: Trigger,
    pub(crate) outputs: Vec<Output>,
}

/// The queue whose messages start a function.
#[derive(Debug)]
pub(crate) struct Trigger {
    /// What the handler knows the message as.
    pub(crate) name: String,
    pub(crate) queue: String,
    /// Where messages go that failed too often.
    pub(crate) poison: Option<String>,
    pub(crate) account: Arc<Account>,
    pub(crate) data_type: DataType,
    /// How its texts are stored; the host's way where it says nothing.
    pub(crate) encoding: Option<Encoding>,
}

/// A queue that results are written to.
#[derive(Debug)]
pub(crate) struct Output {
    /// Its name in the handler's reply.
    pub(crate) name: String,
    pub(crate) queue: Template,
    pub(crate) account: Arc<Account>,
    pub(crate) data_type: DataType,
    /// How its texts are stored; the host's way where it says nothing.
    pub(crate) encoding: Option<Encoding>,
}

/// What a binding's values are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum DataType {
    Text,
    Binary,
}

/// What a function's folder holds.
#[derive(Debug)]
pub(crate) enum Loaded {
    Runs(Function),
    SwitchedOff,
}

/// Reads the function in `folder`; else what is wrong with it.
pub(crate) fn load(
    folder: &Path,
    name: &str,
    settings: &AppSettings,
    connections: &mut Connections<'_>,
) -> Result<Loaded, String> {
    let file = error::read(&folder.join("function.json")).map_err(|error| error.to_string())?;
    check_name(name)?;
    if is_off(&file, name, settings) {
        return Ok(Loaded::SwitchedOff);
    }
    let mut reader = Reader { settings, connections, trigger: None, outputs: Vec::new(), names: Vec::new() };
    let bindings = match member(&file, "bindings") {
        Some(Value::Array(bindings)) if !bindings.is_empty() => bindings,
        _ => return Err("At least one binding must be declared.".to_owned()),
    };
    for binding in bindings {
        let binding = binding.as_object().ok_or("A binding must be an object: { … }.")?;
        reader.binding(binding)?;
    }
    let trigger = reader.trigger.ok_or(
        "No trigger binding specified. A function must have a trigger input binding (here: \"type\": \"queueTrigger\").",
    )?;
    Ok(Loaded::Runs(Function { name: name.to_owned(), trigger, outputs: reader.outputs }))
}

fn check_name(name: &str) -> Result<(), String> {
    let is_legal = name.len() <= 128
        && name.starts_with(|char: char| char.is_ascii_alphabetic())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
    if is_legal {
        Ok(())
    } else {
        Err(format!(
            "'{name}' is not a valid function name: it begins with a letter and has only letters, digits, '-' and '_'."
        ))
    }
}

fn is_off(file: &Object, name: &str, settings: &AppSettings) -> bool {
    let by_file = match member(file, "disabled") {
        Some(Value::Bool(is_off)) => *is_off,
        // The name of a setting that says so.
        Some(Value::String(text)) => {
            text.eq_ignore_ascii_case("true") || settings.is_true(text.trim_matches('%'))
        }
        _ => false,
    };
    // Variables of some shells have no dots.
    by_file
        || settings.is_true(&format!("AzureWebJobs.{name}.Disabled"))
        || settings.is_true(&format!("AzureWebJobs_{name}_Disabled"))
}

struct Reader<'a, 'b> {
    settings: &'a AppSettings,
    connections: &'a mut Connections<'b>,
    trigger: Option<Trigger>,
    outputs: Vec<Output>,
    names: Vec<String>,
}

impl Reader<'_, '_> {
    fn binding(&mut self, binding: &Object) -> Result<(), String> {
        let kind = text(binding, "type")?.ok_or("A binding has no \"type\".")?;
        let is_trigger = kind.eq_ignore_ascii_case("queueTrigger");
        if !is_trigger && !kind.eq_ignore_ascii_case("queue") {
            return Err(format!(
                "The binding type(s) '{kind}' are not registered. Please ensure the type is correct and the binding extension is installed. (Here there are queueTrigger and queue.)"
            ));
        }
        let name =
            text(binding, "name")?.ok_or_else(|| format!("A binding of type '{kind}' has no \"name\"."))?;
        if self.names.iter().any(|known| known.eq_ignore_ascii_case(&name)) {
            return Err(format!(
                "Multiple bindings with name '{name}' discovered. Binding names must be unique."
            ));
        }
        self.names.push(name.clone());
        let wanted = if is_trigger { "in" } else { "out" };
        let direction = text(binding, "direction")?.unwrap_or_else(|| "in".to_owned());
        if !direction.eq_ignore_ascii_case(wanted) {
            return Err(format!(
                "The binding '{name}' of type '{kind}' must have \"direction\": \"{wanted}\"."
            ));
        }
        let queue = text(binding, "queueName")?
            .ok_or_else(|| format!("The binding '{name}' has no \"queueName\"."))?;
        let queue = self.settings.expand(&queue);
        let queue = queue.map_err(|missing| format!("'%{missing}%' does not resolve to a value."))?;
        let account = self.connections.find(text(binding, "connection")?.as_deref())?;
        let data_type = data_type(binding, &name)?;
        let encoding = encoding(binding, &name)?;
        if !is_trigger {
            let queue = Template::read(&queue)?;
            if let Some(fixed) = queue.fixed() {
                queue_name::read(fixed)?;
            }
            self.outputs.push(Output { name, queue, account, data_type, encoding });
            return Ok(());
        }
        if self.trigger.is_some() {
            return Err(
                "Multiple trigger bindings defined. A function can only have a single trigger binding."
                    .to_owned(),
            );
        }
        let queue = queue_name::read(&queue)?;
        let poison = queue_name::poison(&queue);
        self.trigger = Some(Trigger { name, queue, poison, account, data_type, encoding });
        Ok(())
    }
}

fn text(binding: &Object, name: &str) -> Result<Option<String>, String> {
    match member(binding, name) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.trim().to_owned()).filter(|text| !text.is_empty())),
        Some(other) => Err(format!("\"{name}\" of a binding must be a string, not {other}.")),
    }
}

fn data_type(binding: &Object, name: &str) -> Result<DataType, String> {
    match text(binding, "dataType")? {
        None => Ok(DataType::Text),
        Some(word) if word.eq_ignore_ascii_case("string") => Ok(DataType::Text),
        Some(word) if word.eq_ignore_ascii_case("binary") => Ok(DataType::Binary),
        Some(word) => {
            Err(format!("\"dataType\": \"{word}\" of the binding '{name}' must be string or binary."))
        }
    }
}

/// Kew's own: the vendor's host has one encoding for all bindings.
fn encoding(binding: &Object, name: &str) -> Result<Option<Encoding>, String> {
    let Some(word) = text(binding, "messageEncoding")? else { return Ok(None) };
    Encoding::read(&word).map(Some).ok_or_else(|| {
        format!("\"messageEncoding\": \"{word}\" of the binding '{name}' must be base64 or none.")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRIGGER: &str = r#"{"type":"queueTrigger","direction":"in","name":"item","queueName":"Orders"}"#;

    fn load_with(function: &str, settings: &[(&str, &str)]) -> Result<Loaded, String> {
        let folder = tempfile::tempdir().expect("the machine has a temporary directory");
        std::fs::write(folder.path().join("function.json"), function).expect("the folder is ours");
        let mut known = AppSettings::default();
        known.insert("AzureWebJobsStorage", "UseDevelopmentStorage=true");
        for (name, value) in settings {
            known.insert(name, value);
        }
        load(folder.path(), "fn", &known, &mut Connections::new(&known))
    }

    fn bindings(list: &str) -> Result<Function, String> {
        match load_with(&format!(r#"{{"bindings":[{list}]}}"#), &[("QUEUE", "from-setting")])? {
            Loaded::Runs(function) => Ok(function),
            Loaded::SwitchedOff => Err("it is switched off".to_owned()),
        }
    }

    #[test]
    fn a_trigger_and_outputs_are_read_in_any_case() {
        let output = r#"{"Type":"Queue","Direction":"Out","Name":"$return","QueueName":"done-{Id}","dataType":"binary"}"#;
        let function = bindings(&format!("{TRIGGER},{output}")).expect("the bindings are valid");
        assert_eq!((function.trigger.name.as_str(), function.trigger.queue.as_str()), ("item", "orders"));
        assert_eq!(function.trigger.poison.as_deref(), Some("orders-poison"));
        let [output] = function.outputs.as_slice() else { panic!("{function:?}") };
        assert_eq!((output.name.as_str(), output.data_type), ("$return", DataType::Binary));
        assert!(Arc::ptr_eq(&output.account, &function.trigger.account), "one account is one");
    }

    #[test]
    fn a_binding_may_say_how_its_texts_are_stored() {
        let said = |word: &str| TRIGGER.replace("}", &format!(r#","MessageEncoding":"{word}"}}"#));
        let output = r#"{"type":"queue","direction":"out","name":"o","queueName":"done"#;
        let output = format!(r#"{output}","messageEncoding":"base64"}}"#);
        let function = bindings(&format!("{},{output}", said("None"))).expect("the bindings are valid");
        assert_eq!(function.trigger.encoding, Some(Encoding::None));
        assert_eq!(function.outputs[0].encoding, Some(Encoding::Base64));
        assert_eq!(bindings(TRIGGER).expect("the bindings are valid").trigger.encoding, None);
        let error = bindings(&said("utf-8")).expect_err("it is none");
        assert_eq!(error, "\"messageEncoding\": \"utf-8\" of the binding 'item' must be base64 or none.");
    }

    #[test]
    fn names_of_queues_may_stand_in_settings() {
        let trigger = TRIGGER.replace("Orders", "%queue%-x");
        assert_eq!(bindings(&trigger).expect("the bindings are valid").trigger.queue, "from-setting-x");
        let error = bindings(&TRIGGER.replace("Orders", "%NOWHERE%")).expect_err("there is none");
        assert_eq!(error, "'%NOWHERE%' does not resolve to a value.");
    }

    #[test]
    fn a_function_has_exactly_one_trigger_and_only_bindings_that_are_known() {
        let output = r#"{"type":"queue","direction":"out","name":"o","queueName":"done"}"#;
        for (list, told) in [
            ("", "At least one binding must be declared."),
            (output, "No trigger binding specified."),
            (
                &format!("{TRIGGER},{}", TRIGGER.replace("item", "other")),
                "Multiple trigger bindings defined.",
            ),
            (&format!("{TRIGGER},{TRIGGER}"), "Multiple bindings with name 'item' discovered."),
            (
                r#"{"type":"blobTrigger","direction":"in","name":"b"}"#,
                "The binding type(s) 'blobTrigger' are not registered.",
            ),
            (&TRIGGER.replace("\"in\"", "\"out\""), "must have \"direction\": \"in\""),
            (&TRIGGER.replace("Orders", "x"), "'x' is not a valid queue name"),
            (&TRIGGER.replace("Orders", ""), "has no \"queueName\""),
            (&format!("{TRIGGER},{}", output.replace("done", "a{b")), "'{' is not closed"),
            (&format!("{TRIGGER},{}", output.replace("done", "a_b")), "'a_b' is not a valid queue name"),
            ("7", "A binding must be an object"),
        ] {
            let error = bindings(list).expect_err(list);
            assert!(error.contains(told), "{list}: {error}");
        }
    }

    #[test]
    fn functions_are_switched_off_by_file_or_setting() {
        let is_off = |disabled: &str, settings: &[(&str, &str)]| {
            let function = format!(r#"{{"bindings":[{TRIGGER}],"disabled":{disabled}}}"#);
            matches!(load_with(&function, settings), Ok(Loaded::SwitchedOff))
        };
        assert!(is_off("true", &[]));
        assert!(!is_off("false", &[]));
        assert!(is_off("false", &[("AzureWebJobs.fn.Disabled", "True")]));
        assert!(is_off("false", &[("AzureWebJobs_fn_Disabled", "1")]));
        assert!(!is_off(
            "false",
            &[("AzureWebJobs.fn.Disabled", "false"), ("AzureWebJobs.other.Disabled", "true")]
        ));
        assert!(is_off("\"MY_SWITCH\"", &[("MY_SWITCH", "true")]));
        assert!(!is_off("\"MY_SWITCH\"", &[]));
    }
}
