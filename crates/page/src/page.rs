//! A trace's page, and how it is made to fit.

use std::io;

use crate::about::{About, NameSource};
use crate::bins::{Binner, LONGEST_LOG2};
use crate::data::{PackedAmounts, PackedNames, page_data};
use crate::document::PageDocument;
use crate::names::cut_name;

const PAGE_BODY: &str = include_str!("web/page.html");
const PAGE_STYLE: &str = include_str!("web/page.css");
/// In the order in which they use each other.
const PAGE_SCRIPTS: &[&str] = &[
    include_str!("web/units.js"),
    include_str!("web/reader.js"),
    include_str!("web/data.js"),
    include_str!("web/dom.js"),
    include_str!("web/colours.js"),
    include_str!("web/scales.js"),
    include_str!("web/sums.js"),
    include_str!("web/words.js"),
    include_str!("web/timeline.js"),
    include_str!("web/brush.js"),
    include_str!("web/matrix.js"),
    include_str!("web/flame.js"),
    include_str!("web/stacks.js"),
    include_str!("web/percentiles.js"),
    include_str!("web/tables.js"),
    include_str!("web/account.js"),
    include_str!("web/spent.js"),
    include_str!("web/main.js"),
];

impl Binner {
    /// Writes the page.
    ///
    /// # Errors
    ///
    /// Those of `out`.
    pub fn write(
        mut self,
        about: &About<'_>,
        names: &dyn NameSource,
        out: &mut dyn io::Write,
    ) -> io::Result<()> {
        let (packed, named) = self.fit_limits(names);
        let data = page_data(&self, about, names, &packed, named);
        let json = serde_json::to_string(&data)?;
        let document = PageDocument {
            body: PAGE_BODY,
            styles: &[PAGE_STYLE],
            scripts: PAGE_SCRIPTS,
            title: &cut_name(about.title),
        };
        document.write(&json, out)
    }

    /// Makes it fit. First sites and pairs are folded until they are few enough, and then sites until their names fit. For the
    /// size of all amounts steps become longer, down to a number that a brush can still use; then there are fewer sites and
    /// pairs, by a quarter each time; and then longer steps again.
    ///
    /// Each turn makes it smaller, so it ends: at the latest with one step and the coarsest keys, even if that is still too
    /// large.
    pub(crate) fn fit_limits(&mut self, names: &dyn NameSource) -> (PackedAmounts, PackedNames) {
        let limits = self.limits;
        self.sites.fold_smallest(limits.entries, limits.cells);
        self.pairs.fold_smallest(limits.entries, limits.cells);
        let mut named = PackedNames::new(self, names);
        while named.len() > limits.name_bytes
            && self
                .sites
                .fold_smallest(self.sites.live_count() * 3 / 4, limits.cells)
        {
            named = PackedNames::new(self, names);
        }
        let mut packed = PackedAmounts::new(self);
        while packed.len() > limits.cell_bytes {
            if self.step_count() <= limits.steps {
                let sites = self
                    .sites
                    .fold_smallest(self.sites.live_count() * 3 / 4, limits.cells);
                let pairs = self
                    .pairs
                    .fold_smallest(self.pairs.live_count() * 3 / 4, limits.cells);
                if sites || pairs {
                    packed = PackedAmounts::new(self);
                    named = PackedNames::new(self, names);
                    continue;
                }
            }
            if self.step_count() <= 1 || self.step_log2 >= LONGEST_LOG2 {
                break;
            }
            self.lengthen_steps();
            packed = PackedAmounts::new(self);
        }
        (packed, named)
    }
}
