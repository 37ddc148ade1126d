//! Compiles the eBPF programs with clang, against the headers of the libbpf that is linked.

use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=src/bpf");
    println!("cargo:rerun-if-env-changed=CLANG");
    let clang = env::var_os("CLANG").unwrap_or_else(|| "clang".into());
    // set by libbpf-sys, which has `links = "bpf"`
    let headers = env::var_os("DEP_BPF_INCLUDE").unwrap_or_default();
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    for name in [
        "shootdown",
        "fentry",
        "ipi",
        "interruptions",
        "account",
        "watch",
    ] {
        if let Err(problem) = compile(&clang, &headers, name, &out) {
            println!("cargo:error={problem}");
            std::process::exit(1);
        }
    }
}

fn compile(clang: &OsStr, headers: &OsStr, name: &str, out: &Path) -> Result<(), String> {
    let status = Command::new(clang)
        // v3: the atomics that return the old value; Linux 5.12
        .args([
            "-g",
            "-O2",
            "-target",
            "bpf",
            "-mcpu=v3",
            "-D__TARGET_ARCH_x86",
        ])
        .args(["-Wall", "-Werror", "-I"])
        .arg(headers)
        .args(["-c", &format!("src/bpf/{name}.bpf.c"), "-o"])
        .arg(out.join(format!("{name}.bpf.o")))
        .status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(_) => Err(format!("clang can't compile src/bpf/{name}.bpf.c")),
        Err(err) => Err(format!(
            "can't run {}: {err}; 'make setup' installs it",
            clang.display()
        )),
    }
}
