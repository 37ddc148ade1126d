//! `quell lab compare`: results, or curves, of two sides.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::cli::LabCompareArgs;
use crate::lab::{
    self, CURVE_AMONG_RESULTS, Comparison, CurveComparison, LabFile, NamedCurves, NamedResults,
};
use crate::show::emit_result;
use crate::show::table::plain;
use crate::usage::usage;

/// The files as curves or as results, as the first is; the others are none.
fn read_files(files: &[PathBuf]) -> anyhow::Result<(Vec<NamedCurves>, Vec<NamedResults>)> {
    let (mut curves, mut results) = (Vec::new(), Vec::new());
    for path in files {
        let name = path.display().to_string();
        let refuse = |why| Err(usage(format!("{} {why}", plain(&name))));
        match lab::read_lab_file(path)? {
            LabFile::Curves(_) if !results.is_empty() => return refuse(CURVE_AMONG_RESULTS),
            LabFile::Results(_) if !curves.is_empty() => {
                return refuse("holds no curves, and the file before does: compare like with like");
            }
            LabFile::Curves(all) => curves.push((name, all)),
            LabFile::Results(all) => results.push((name, all)),
        }
    }
    Ok((curves, results))
}

/// The files of a side: its first is the first or the second of all.
fn files_of_side<T>(all: &[T], first: usize) -> Vec<&T> {
    all.iter().skip(first).step_by(2).collect()
}

pub(crate) fn compare(args: &LabCompareArgs) -> anyhow::Result<ExitCode> {
    if !args.files.len().is_multiple_of(2) {
        return Err(usage(
            "compare takes as many files of B as of A, in turns: A B A B",
        ));
    }
    let (curves, results) = read_files(&args.files)?;
    if !curves.is_empty() {
        let compared = CurveComparison::new(&files_of_side(&curves, 0), &files_of_side(&curves, 1));
        if compared.is_empty() {
            return Err(usage("no curve is in both"));
        }
        emit_result(args.json, || &compared, || compared.to_text())?;
        return Ok(ExitCode::SUCCESS);
    }
    let compared = Comparison::new(&files_of_side(&results, 0), &files_of_side(&results, 1));
    if compared.is_empty() {
        let (only_a, only_b) = compared.names_of_one_side();
        let name = |path: &Path| plain(&path.display().to_string());
        return Err(usage(format!(
            "no experiment is in both: {} has {only_a}, {} has {only_b}",
            name(&args.files[0]),
            name(&args.files[1])
        )));
    }
    emit_result(
        args.json,
        || lab::comparison_object(&compared),
        || lab::comparison_text(&compared),
    )?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use quell_lab::summary::ExperimentSummary;
    use serde_json::json;

    use super::*;

    /// Check that two files without an experiment in common are refused, by what each has.
    #[test]
    fn nothing_to_compare() {
        let dir = tempfile::tempdir().expect("a folder");
        let put = |name: &str, one: ExperimentSummary| {
            let file = dir.path().join(name);
            std::fs::write(&file, lab::fixture::result_lines(&[one])).expect("written");
            file
        };
        let a = put("a", lab::fixture::dontneed_result());
        let b = put("b", lab::fixture::munmap_result());
        let both = |a: &Path, b: &Path| LabCompareArgs {
            files: vec![a.to_owned(), b.to_owned()],
            json: false,
        };
        let err = compare(&both(&a, &b)).expect_err("nothing in both");
        assert!(err.is::<crate::usage::Usage>());
        let said = format!("{err:#}");
        assert!(
            said.starts_with("no experiment is in both")
                && said.contains("has dontneed")
                && said.contains("has munmap")
        );
        compare(&both(&a, &a)).expect("compared");
        let three = LabCompareArgs {
            files: vec![a.clone(), a.clone(), a],
            json: false,
        };
        let err = compare(&three).expect_err("one is missing");
        assert!(err.is::<crate::usage::Usage>());
    }

    /// Check that curves are compared with curves, point by point, claimed with two runs of each side only, and with
    /// nothing else.
    #[test]
    fn curves_are_compared() {
        let dir = tempfile::tempdir().expect("a folder");
        let put = |name: &str, ns: f64| {
            let curve = json!({
                "schema": "quell/lab-curve/1", "experiment": "targets", "about": "a call", "unit": "ns", "x": "CPUs",
                "rounds": 9, "interrupted": false,
                "machine": {"kernel": "6.18", "cpu": "A CPU", "cpus": 2, "virtual_machine": true, "victim_cpu": 1, "culprit_cpu": 0},
                "series": [{"name": "spinning", "per": "call", "points": [
                    {"x": 0, "p50": 900.0, "ci95": [890.0, 910.0], "n": 900},
                    {"x": 1, "p50": ns, "ci95": [ns - 9.0, ns + 9.0], "n": 900},
                ]}],
                "notes": [],
            });
            let file = dir.path().join(name);
            std::fs::write(&file, curve.to_string() + "\n").expect("written");
            file
        };
        let files = [
            put("a1", 2000.0),
            put("b1", 4000.0),
            put("a2", 2010.0),
            put("b2", 4020.0),
        ];
        let told = |files: &[PathBuf]| {
            let (all, _) = read_files(files).expect("read");
            CurveComparison::new(&files_of_side(&all, 0), &files_of_side(&all, 1)).to_text()
        };
        let claimed = told(&files);
        let line = |told: &str, x: &str| {
            let found = told.lines().find(|l| l.contains(&format!("  {x}  ")));
            found.expect("a line").to_owned()
        };
        assert!(line(&claimed, "1").ends_with("2.00  more"), "{claimed}");
        assert!(line(&claimed, "0").ends_with("1.00"), "{claimed}");
        let two = told(&files[..2]);
        assert!(line(&two, "1").ends_with("2.00"), "{two}");
        assert!(two.contains("No change is claimed"), "{two}");
        let result = dir.path().join("result");
        std::fs::write(
            &result,
            lab::fixture::result_lines(&[lab::fixture::dontneed_result()]),
        )
        .expect("written");
        for files in [
            [files[0].clone(), result.clone()],
            [result, files[0].clone()],
        ] {
            let args = LabCompareArgs {
                files: files.to_vec(),
                json: false,
            };
            let err = compare(&args).expect_err("not alike");
            assert!(err.is::<crate::usage::Usage>(), "{err:#}");
        }
    }
}
