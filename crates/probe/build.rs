//! Compiles the eBPF programs with clang, against the headers of the libbpf that is linked.

use std::env;
use std::path::PathBuf;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=src/bpf");
    println!("cargo:rerun-if-env-changed=CLANG");
    let clang = env::var_os("CLANG").unwrap_or_else(|| "clang".into());
    // set by libbpf-sys, which has `links = "bpf"`
    let headers = env::var_os("DEP_BPF_INCLUDE").unwrap_or_default();
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default()).join("shootdown.bpf.o");
    let status = Command::new(&clang)
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
        .args(["-c", "src/bpf/shootdown.bpf.c", "-o"])
        .arg(out)
        .status();
    let problem = match status {
        Ok(status) if status.success() => return,
        Ok(_) => "clang can't compile the eBPF programs".to_owned(),
        Err(err) => format!(
            "can't run {}: {err}; 'make setup' installs it",
            clang.display()
        ),
    };
    println!("cargo:error={problem}");
    std::process::exit(1);
}
