//! `quell lab report`: results as text, as a page, and in the forms of other tools.

use std::io::{self, IsTerminal as _, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use quell_export::lab::{Timeline, Turns};
use quell_lab::curve::CurveSummary;

use crate::cli::LabReportArgs;
use crate::lab::{self, LabFile, Results};
use crate::show::{self, Replace, emit};
use crate::usage::usage;

/// Writes the files that are asked for. Text is printed where none is, and JSON wherever it is asked for.
pub(crate) fn report(args: &LabReportArgs) -> anyhow::Result<ExitCode> {
    let outputs = [&args.html, &args.hlog, &args.influx, &args.perfetto];
    let outputs: Vec<&Path> = outputs
        .into_iter()
        .flatten()
        .map(PathBuf::as_path)
        .collect();
    check(args, &outputs)?;
    let results = match lab::read_lab_file(&args.file)? {
        LabFile::Curves(curves) => {
            return report_curves(args, &curves, outputs.is_empty() && args.hgrm.is_none());
        }
        LabFile::Results(results) => results,
    };
    let from = args.file.display();
    let turns = lab::turn_histograms(&results);
    if turns.is_empty() && (args.hlog.is_some() || args.hgrm.is_some()) {
        return Err(usage(format!(
            "{from} holds no distributions: it was printed with --json; 'quell lab run -o FILE' keeps them"
        )));
    }
    let timelines = lab::block_timelines(&results);
    if timelines.is_empty() && args.perfetto.is_some() {
        return Err(usage(format!(
            "{from} holds no timelines: it was printed with --json; 'quell lab run -o FILE' keeps them"
        )));
    }
    write_files(args, &results, &turns, &timelines)?;
    if args.json {
        let mut text = String::new();
        for summary in &results.all {
            text += &serde_json::to_string(&summary.clone().without_pictures())?;
            text.push('\n');
        }
        emit(&mut anstream::stdout(), &text)?;
    } else if outputs.is_empty() && args.hgrm.is_none() {
        let texts: Vec<String> = results.all.iter().map(lab::experiment_text).collect();
        emit(&mut anstream::stdout(), &texts.join("\n"))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints curves. `plain` says that no other form was asked for: curves have none.
fn report_curves(
    args: &LabReportArgs,
    curves: &[CurveSummary],
    plain: bool,
) -> anyhow::Result<ExitCode> {
    if !plain {
        return Err(usage("curves are reported as text and --json only"));
    }
    let mut texts = Vec::new();
    for curve in curves {
        texts.push(if args.json {
            serde_json::to_string(curve)? + "\n"
        } else {
            lab::curve_text(curve)
        });
    }
    let between = if args.json { "" } else { "\n" };
    emit(&mut anstream::stdout(), &texts.join(between))?;
    Ok(ExitCode::SUCCESS)
}

/// Refuses arguments that can't be meant before anything is read or written.
fn check(args: &LabReportArgs, outputs: &[&Path]) -> anyhow::Result<()> {
    let is_stdout = |path: &&&Path| path.as_os_str() == "-";
    let to_stdout = outputs.iter().filter(is_stdout).count() + usize::from(args.json);
    if to_stdout > 1 {
        return Err(usage("only one result can go to stdout: name files"));
    }
    if args.hgrm.as_deref().is_some_and(|p| p.as_os_str() == "-") {
        return Err(usage(
            "--hgrm writes a file for each arm: name one, and the arms are added",
        ));
    }
    let binary = args.perfetto.as_deref().filter(|p| p.as_os_str() == "-");
    if binary.is_some() && io::stdout().is_terminal() {
        return Err(usage(
            "--perfetto is binary, and not for a terminal: name a file, or redirect the output",
        ));
    }
    let read = args.file.canonicalize();
    for output in outputs.iter().filter(|p| p.as_os_str() != "-") {
        if let (Ok(read), Ok(there)) = (&read, output.canonicalize())
            && *read == there
        {
            return Err(usage(format!(
                "{} is the file to report: write elsewhere",
                output.display()
            )));
        }
    }
    Ok(())
}

fn write_files(
    args: &LabReportArgs,
    results: &Results,
    turns: &[Turns<'_>],
    timelines: &[Timeline<'_>],
) -> anyhow::Result<()> {
    let wall_ns = results.wall_ns;
    if let Some(path) = &args.html {
        let shown = lab::page_results(&results.all)?;
        let version = env!("CARGO_PKG_VERSION");
        write(path, |out| Ok(quell_page::lab::write(shown, version, out)?))?;
    }
    if let Some(path) = &args.hlog {
        write(path, |out| {
            quell_export::lab::hist::write_log(turns, wall_ns, out)
        })?;
    }
    if let Some(path) = &args.hgrm {
        let mut named: Vec<PathBuf> = Vec::new();
        for one in turns {
            let file = beside(path, one, &named);
            write(&file, |out| {
                quell_export::lab::hist::write_distribution(one, out)
            })?;
            named.push(file);
        }
        if let (Some(first), Some(last)) = (named.first(), named.last()) {
            let (first, last) = (first.display(), last.display());
            say!("quell: {} files, {first} to {last}", named.len());
        }
    }
    if let Some(path) = &args.influx {
        let text = lab::influx_lines(results);
        write(path, |out| Ok(out.write_all(text.as_bytes())?))?;
    }
    if let Some(path) = &args.perfetto {
        write(path, |out| {
            quell_export::lab::perfetto::write(timelines, wall_ns, out)
        })?;
    }
    Ok(())
}

fn write(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let written = Replace::new(Some(path))?.write(write);
    show::unless_gone(written).with_context(|| format!("can't write {}", path.display()))
}

/// `lat.hgrm` becomes `lat.munmap.real.hgrm`; with a number where a file holds one experiment several times, so that it is none
/// of `named`. A file of results may hold any name, and none leads to another folder.
fn beside(path: &Path, one: &Turns<'_>, named: &[PathBuf]) -> PathBuf {
    let clean = |name: &str| -> String {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
        name.chars()
            .map(|c| if plain(c) { c } else { '_' })
            .collect()
    };
    let stem = match path.extension() {
        Some(end) if end == "hgrm" => path.with_extension(""),
        _ => path.to_owned(),
    };
    let (experiment, arm) = (clean(one.experiment), clean(one.arm));
    (1..)
        .map(|n: usize| {
            let mut name = stem.clone().into_os_string();
            name.push(format!(".{experiment}"));
            if n > 1 {
                name.push(format!("-{n}"));
            }
            name.push(format!(".{arm}.hgrm"));
            PathBuf::from(name)
        })
        .find(|file| !named.contains(file))
        .unwrap_or(stem)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that every arm gets a name of its own beside the one that was given, whatever a result is called.
    #[test]
    fn names_of_distributions() {
        let turns = |experiment, arm| Turns {
            experiment,
            arm,
            ran_ns: 0,
            turns: &[],
        };
        let name = |path: &str, experiment, named: &[PathBuf]| {
            let file = beside(Path::new(path), &turns(experiment, "real"), named);
            file.display().to_string()
        };
        assert_eq!(name("x/lat.hgrm", "munmap", &[]), "x/lat.munmap.real.hgrm");
        assert_eq!(name("x/lat.v1", "munmap", &[]), "x/lat.v1.munmap.real.hgrm");
        assert_eq!(name("lat", "../../etc/x", &[]), "lat.______etc_x.real.hgrm");
        let first = PathBuf::from("lat.munmap.real.hgrm");
        assert_eq!(name("lat", "munmap", &[first]), "lat.munmap-2.real.hgrm");
    }

    fn args(dir: &Path, file: &str) -> LabReportArgs {
        LabReportArgs {
            file: dir.join(file),
            json: false,
            html: None,
            hlog: None,
            hgrm: None,
            influx: None,
            perfetto: None,
        }
    }

    fn refused(args: &LabReportArgs) -> String {
        let err = report(args).expect_err("it is refused");
        assert!(err.is::<crate::usage::Usage>(), "{err:#}");
        format!("{err:#}")
    }

    /// Check that every form is written from one file, as a whole, and begins as that form does.
    #[test]
    fn all_forms_are_written() {
        let dir = tempfile::tempdir().expect("a folder");
        let two = [
            lab::fixture::dontneed_result(),
            lab::fixture::munmap_result(),
        ];
        std::fs::write(dir.path().join("lab"), lab::fixture::result_lines(&two)).expect("written");
        let to = |name: &str| Some(dir.path().join(name));
        let all = LabReportArgs {
            html: to("page"),
            hlog: to("hlog"),
            hgrm: to("lat.hgrm"),
            influx: to("influx"),
            perfetto: to("perfetto"),
            ..args(dir.path(), "lab")
        };
        report(&all).expect("written");
        let read = |name: &str| std::fs::read(dir.path().join(name)).expect("a file");
        let text = |name: &str| String::from_utf8(read(name)).expect("text");
        assert!(text("page").starts_with("<!doctype html>"));
        assert!(text("hlog").starts_with("#[Histogram log format version 1.3]"));
        assert_eq!(text("hlog").matches("Tag=munmap.").count(), 4);
        assert!(text("influx").starts_with("quell_lab,experiment=dontneed,arm=idle,class=all "));
        // field 1 of a trace, with its length
        assert_eq!(read("perfetto").first(), Some(&0x0a));
        for arm in ["idle", "sham", "real", "untraced"] {
            assert!(
                text(&format!("lat.dontneed.{arm}.hgrm")).contains(&format!("of dontneed.{arm}]"))
            );
        }
        // the file, four outputs and a distribution for each of four arms of two experiments
        let files = std::fs::read_dir(dir.path()).expect("a folder").count();
        assert_eq!(files, 1 + 4 + 8);
    }

    /// Check that what can't be meant is refused in one line as bad usage, and nothing is written.
    #[test]
    fn what_is_refused() {
        let dir = tempfile::tempdir().expect("a folder");
        let put =
            |name: &str, text: &str| std::fs::write(dir.path().join(name), text).expect("written");
        let bare = lab::fixture::dontneed_result().without_pictures();
        put(
            "lab",
            &lab::fixture::result_lines(&[lab::fixture::dontneed_result()]),
        );
        put("bare", &lab::fixture::result_lines(&[bare]));
        put("empty", "");
        let to = |name: &str| Some(dir.path().join(name));
        let stdout = || Some(PathBuf::from("-"));
        assert!(refused(&args(dir.path(), "none")).contains("No such file"));
        assert!(refused(&args(dir.path(), ".")).contains("directory"));
        assert!(
            refused(&args(dir.path(), "empty")).ends_with("empty is empty: it holds no result")
        );
        let lab = || args(dir.path(), "lab");
        let bare = || args(dir.path(), "bare");
        for (args, said) in [
            (
                LabReportArgs {
                    html: to("lab"),
                    ..lab()
                },
                "write elsewhere",
            ),
            (
                LabReportArgs {
                    html: to("x/page"),
                    ..lab()
                },
                "can't write to",
            ),
            (
                LabReportArgs {
                    hgrm: stdout(),
                    ..lab()
                },
                "a file for each arm",
            ),
            (
                LabReportArgs {
                    json: true,
                    influx: stdout(),
                    ..lab()
                },
                "only one result",
            ),
            (
                LabReportArgs {
                    html: stdout(),
                    influx: stdout(),
                    ..lab()
                },
                "only one result",
            ),
            (
                LabReportArgs {
                    hlog: to("h"),
                    ..bare()
                },
                "holds no distributions",
            ),
            (
                LabReportArgs {
                    hgrm: to("h"),
                    ..bare()
                },
                "holds no distributions",
            ),
            (
                LabReportArgs {
                    perfetto: to("h"),
                    ..bare()
                },
                "holds no timelines",
            ),
        ] {
            let why = refused(&args);
            assert!(why.contains(said) && why.lines().count() == 1, "{why}");
        }
        assert_eq!(std::fs::read_dir(dir.path()).expect("a folder").count(), 3);
    }
}
