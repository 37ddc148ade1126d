//! Prints the software recognised in the files or, with `--`, in the command given: for looking by hand.
#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::ffi::OsString;
use std::path::Path;

use quell_remedy::{recognise_command, recognise_file, recognise_process};

fn main() -> anyhow::Result<()> {
    let args: Vec<OsString> = std::env::args_os().skip(1).collect();
    if args.first().is_some_and(|a| a == "--") {
        println!(
            "{:#?}",
            recognise_command(&args[1..], &|n: &str| std::env::var_os(n))?
        );
        return Ok(());
    }
    for arg in &args {
        let start = std::time::Instant::now();
        if let Some(pid) = arg.to_str().and_then(|a| a.parse::<u32>().ok()) {
            println!("{:#?}", recognise_process(Path::new("/"), pid)?);
        } else {
            match recognise_file(Path::new(arg)) {
                Ok(found) => {
                    println!("{} ({} ms)", arg.display(), start.elapsed().as_millis());
                    for f in found {
                        println!(
                            "    {f}; env {:?} prefix {:?} replaces {} built-in {:?}; {}",
                            f.conf_env, f.prefix, f.replaces_malloc, f.built_in, f.how
                        );
                    }
                }
                Err(error) => eprintln!("{error:#}"),
            }
        }
    }
    Ok(())
}
