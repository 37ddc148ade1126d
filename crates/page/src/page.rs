//! A trace's page, and how it is made to fit.

use std::io;

use crate::about::{About, Names};
use crate::bins::{Binner, LONGEST_LOG2};
use crate::data::{Named, Packed, data};
use crate::document::Document;
use crate::names::cut;

const PAGE: &str = include_str!("web/page.html");
const STYLE: &str = include_str!("web/page.css");
/// In the order in which they use each other.
const SCRIPTS: &[&str] = &[
    include_str!("web/units.js"),
    include_str!("web/reader.js"),
    include_str!("web/data.js"),
    include_str!("web/dom.js"),
    include_str!("web/colours.js"),
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
        names: &dyn Names,
        out: &mut dyn io::Write,
    ) -> io::Result<()> {
        let (packed, named) = self.fit(names);
        let data = data(&self, about, names, &packed, named);
        let json = serde_json::to_string(&data)?;
        let document = Document {
            body: PAGE,
            styles: &[STYLE],
            scripts: SCRIPTS,
            title: &cut(about.title),
        };
        document.write(&json, out)
    }

    /// Makes it fit: first longer steps, down to a number that a brush can still use, then fewer
    /// things told apart, and then steps again.
    pub(crate) fn fit(&mut self, names: &dyn Names) -> (Packed, Named) {
        let limits = self.limits;
        self.sites.fold(limits.told, limits.cells);
        self.pairs.fold(limits.told, limits.cells);
        let mut named = Named::new(self, names);
        while named.len() > limits.name_bytes
            && self.sites.fold(self.sites.count() * 3 / 4, limits.cells)
        {
            named = Named::new(self, names);
        }
        let mut packed = Packed::new(self);
        while packed.len() > limits.cell_bytes {
            if self.steps() <= limits.steps {
                let sites = self.sites.fold(self.sites.count() * 3 / 4, limits.cells);
                let pairs = self.pairs.fold(self.pairs.count() * 3 / 4, limits.cells);
                if sites || pairs {
                    packed = Packed::new(self);
                    named = Named::new(self, names);
                    continue;
                }
            }
            if self.steps() <= 1 || self.step_log2 >= LONGEST_LOG2 {
                break;
            }
            self.lengthen_steps();
            packed = Packed::new(self);
        }
        (packed, named)
    }
}
