//! An experiment's figures beside those of the document that it comes from: for the text, the page, and whatever comes.

use quell_lab::mechanism;
use quell_lab::summary::ExperimentSummary;
use quell_page::lab::{Beside, Figure};

/// The figures of the document beside those of this machine; none of an experiment that is quell's own.
pub(super) fn document_figures(summary: &ExperimentSummary) -> Option<Beside> {
    let seed = mechanism::mechanism_by_name(&summary.experiment)?.seed?;
    let figures = seed.figures.iter().map(|figure| Figure {
        what: figure.quantity,
        document: figure.published,
        here: (figure.measured_words)(summary).unwrap_or_else(|| "?".to_owned()),
    });
    Some(Beside {
        document: seed.document,
        figures: figures.collect(),
        differs: seed.differs,
    })
}

/// Results as a page takes them.
///
/// # Errors
///
/// If one can't be written as JSON.
pub(crate) fn page_results(
    all: &[ExperimentSummary],
) -> serde_json::Result<Vec<quell_page::lab::Shown>> {
    all.iter()
        .map(|summary| {
            Ok(quell_page::lab::Shown {
                result: serde_json::to_value(summary)?,
                beside: document_figures(summary),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::{experiment_text, fixture};

    /// Check that text and page have the same words of a document, every figure and why they differ, and that an
    /// experiment of quell's own has none.
    #[test]
    fn text_and_page_say_the_same() {
        let mut seed = fixture::munmap_result();
        seed.experiment = "seed-munmap".to_owned();
        let all = [seed, fixture::dontneed_result()];
        let shown = page_results(&all).unwrap();
        let of_page = shown[0].beside.as_ref().unwrap();
        let told = experiment_text(&all[0]);
        assert!(told.contains(of_page.document) && told.contains(of_page.differs));
        assert_eq!(of_page.figures.len(), 3);
        for Figure {
            what,
            document,
            here,
        } in &of_page.figures
        {
            let is_of_all = |line: &str| [*what, document, here].iter().all(|s| line.contains(s));
            assert!(told.lines().any(is_of_all), "{what}: {told}");
        }
        assert!(shown[1].beside.is_none() && !experiment_text(&all[1]).contains("document"));
    }
}
