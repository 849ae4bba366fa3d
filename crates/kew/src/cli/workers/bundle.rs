//! One module of all a project's sources, made by esbuild where the project has it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// As the vendor's own tool bundles, so that packages pick the parts meant for Workers.
const ARGUMENTS: [&str; 8] = [
    "--bundle",
    "--format=esm",
    "--platform=neutral",
    "--target=es2024",
    "--conditions=workerd,worker,browser",
    "--main-fields=browser,module,main",
    "--external:node:*",
    "--external:cloudflare:*",
];

/// The module that is uploaded.
pub(super) fn bundle(main: &Path) -> Result<Vec<u8>, String> {
    let Some(esbuild) = find(main) else { return as_it_is(main) };
    let output = Command::new(&esbuild)
        .arg(main)
        .args(ARGUMENTS)
        .arg("--log-level=warning")
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("cannot run {}: {error}", esbuild.display()))?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    Err(String::from_utf8_lossy(&output.stderr).trim().to_owned())
}

/// A main module that is JavaScript already.
fn as_it_is(main: &Path) -> Result<Vec<u8>, String> {
    let is_script =
        main.extension().is_some_and(|extension| ["js", "mjs"].iter().any(|known| extension == *known));
    if !is_script {
        return Err(format!(
            "{} needs esbuild, which is neither in node_modules nor on the path: npm install --save-dev esbuild",
            main.display()
        ));
    }
    std::fs::read(main).map_err(|error| format!("{}: {error}", main.display()))
}

/// The project's own esbuild, or the one on the path.
fn find(main: &Path) -> Option<PathBuf> {
    let main = std::path::absolute(main).ok()?;
    let own = main.ancestors().skip(1).map(|folder| folder.join("node_modules/.bin/esbuild"));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let installed: Vec<PathBuf> = std::env::split_paths(&path).map(|folder| folder.join("esbuild")).collect();
    own.chain(installed).find(|program| program.is_file())
}
