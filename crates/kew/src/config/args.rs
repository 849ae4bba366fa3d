//! The flags of `kew serve`, made from the table of settings.

use std::path::PathBuf;

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};

use super::table::{Kind, SETTINGS, Setting};
use super::values::{Said, Written, urls};

/// The arguments of `kew serve`.
#[derive(Clone, Debug, Default)]
pub struct ServeArgs {
    /// The settings that have a flag.
    pub said: Said,
    /// The configuration file.
    pub file: Option<PathBuf>,
    /// What to show instead of serving.
    pub print: Option<Printed>,
}

/// What `--print-config` shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Printed {
    /// Every setting, its value, and where that came from.
    Settings,
    /// A new configuration of strict mode, with new secrets.
    Strict,
}

impl Printed {
    /// As it stands behind the flag.
    const WORDS: [&str; 2] = ["settings", "strict"];

    fn of(word: &str) -> Self {
        if word == Self::WORDS[1] { Self::Strict } else { Self::Settings }
    }
}

const CONFIG: &str = "config";
const PRINT: &str = "print-config";

impl Args for ServeArgs {
    fn augment_args(command: Command) -> Command {
        let flags = SETTINGS.iter().filter(|setting| setting.flag.is_some()).map(argument);
        command
            .args(flags)
            .arg(
                Arg::new(CONFIG)
                    .long(CONFIG)
                    .env("KEW_CONFIG")
                    .value_name("kew.toml")
                    .value_parser(clap::value_parser!(PathBuf))
                    .help("Read settings from this file; flags and KEW_* variables win over it"),
            )
            .arg(
                Arg::new(PRINT)
                    .long(PRINT)
                    .num_args(0..=1)
                    .require_equals(true)
                    .value_name("settings|strict")
                    .value_parser(Printed::WORDS)
                    .default_missing_value(Printed::WORDS[0])
                    .help(
                        "Show every setting with its value and where that came from, and end; `strict` shows a whole \
                         configuration of strict mode with new secrets instead",
                    ),
            )
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for ServeArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut args = Self::default();
        args.update_from_arg_matches(matches)?;
        Ok(args)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        self.file = matches.get_one::<PathBuf>(CONFIG).cloned().filter(|path| !path.as_os_str().is_empty());
        self.print = matches.get_one::<String>(PRINT).map(|word| Printed::of(word));
        for setting in SETTINGS.iter().filter(|setting| setting.flag.is_some()) {
            if let Some(written) = written(setting, matches) {
                self.said.insert((setting.section, setting.key), written);
            }
        }
        Ok(())
    }
}

fn argument(setting: &Setting) -> Arg {
    let name = setting.flag_name();
    let (value, help) = setting.flag.map_or(("", ""), |flag| (flag.value, flag.help));
    let variables = setting.variables();
    let variable = variables.first().map_or("", String::as_str);
    let default = setting.default.filter(|_| setting.kind != Kind::Switch);
    let default = default.map(|default| format!(" [default: {default}]")).unwrap_or_default();
    let argument = Arg::new(name).long(name).help(format!("{help} [env: {variable}]{default}"));
    match setting.kind {
        Kind::Switch => argument.action(ArgAction::SetTrue),
        Kind::List | Kind::Addresses => argument.value_name(value).action(ArgAction::Append),
        Kind::Urls => argument.value_name(value).action(ArgAction::Append).num_args(1..),
        Kind::Text | Kind::Address | Kind::Whole | Kind::Bytes => {
            argument.value_name(value).action(ArgAction::Set)
        }
    }
}

fn written(setting: &Setting, matches: &ArgMatches) -> Option<Written> {
    let name = setting.flag_name();
    match setting.kind {
        Kind::Switch => matches.get_flag(name).then(|| Written::One("true".to_owned())),
        Kind::List | Kind::Addresses => {
            matches.get_many::<String>(name).map(|texts| Written::Many(texts.cloned().collect()))
        }
        Kind::Urls => matches
            .get_many::<String>(name)
            .map(|texts| Written::Many(texts.flat_map(|text| urls(text)).collect())),
        Kind::Text | Kind::Address | Kind::Whole | Kind::Bytes => {
            matches.get_one::<String>(name).cloned().map(Written::One)
        }
    }
}
