//! Builds libquell.so, which quell carries inside and hands to the programs that it starts.
//!
//! By the compiler itself and not by cargo: it is one crate without dependencies, for the machine that
//! the build runs on, with its own flags. A panic aborts there, and it needs no library.

use std::env::var_os;
use std::path::PathBuf;
use std::process::Command;

fn main() {
    if let Err(error) = build() {
        println!("cargo::error=building libquell.so: {error}");
    }
}

fn build() -> Result<(), String> {
    let shim = PathBuf::from(var_os("CARGO_MANIFEST_DIR").ok_or("no manifest")?)
        .join("..")
        .join("shim")
        .join("src");
    println!("cargo::rerun-if-changed={}", shim.display());
    println!("cargo::rerun-if-changed=build.rs");
    let out = PathBuf::from(var_os("OUT_DIR").ok_or("no folder for what is built")?);
    let compiler = var_os("RUSTC").ok_or("no compiler")?;
    let output = Command::new(compiler)
        .args([
            "--edition",
            "2024",
            "--crate-name",
            "quell",
            "--crate-type",
            "cdylib",
        ])
        .args([
            "--cfg",
            "quell_preload",
            "-C",
            "panic=abort",
            "-C",
            "opt-level=3",
        ])
        .args([
            "-C",
            "lto=fat",
            "-C",
            "codegen-units=1",
            "-C",
            "strip=symbols",
        ])
        // No library: whichever C library the program has provides memcpy and errno. All is looked up at
        // the start, so that no call of the program has to run the loader.
        .args([
            "-C",
            "link-args=-nostdlib -Wl,-z,now -Wl,-soname,libquell.so",
        ])
        .arg("-o")
        .arg(out.join("libquell.so"))
        .arg(shim.join("lib.rs"))
        .output()
        .map_err(|error| format!("starting the compiler: {error}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    Ok(())
}
