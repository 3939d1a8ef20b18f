//! Facts about the build, for `evertally --version --verbose`.

use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=EVERTALLY_COMMIT");
    let variable = |name: &str| std::env::var(name).ok();
    let compiler = variable("RUSTC").and_then(|rustc| Command::new(rustc).arg("--version").output().ok());
    let compiler = compiler.and_then(|output| String::from_utf8(output.stdout).ok()).unwrap_or_default();
    println!("cargo:rustc-env=EVERTALLY_COMPILER={}", compiler.trim());
    println!("cargo:rustc-env=EVERTALLY_TARGET={}", variable("TARGET").unwrap_or_default());
    println!("cargo:rustc-env=EVERTALLY_PROFILE=opt-level {}", variable("OPT_LEVEL").unwrap_or_default());
    println!("cargo:rustc-env=EVERTALLY_COMMIT={}", variable("EVERTALLY_COMMIT").unwrap_or_default());
}
