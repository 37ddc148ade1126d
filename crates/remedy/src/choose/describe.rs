//! Descriptions of shootdowns in words and shares.

use quell_event::Cause;

use crate::FoundSoftware;
use crate::share::{Share, ShootdownSplit};
use crate::words::{count_noun, percent_text};

impl Share {
    /// `: munmap 3, brk 1`, most first.
    pub(super) fn cause_list(&self) -> String {
        let mut causes: Vec<(&'static str, u64)> =
            self.causes.iter().map(|(c, n)| (c.name(), *n)).collect();
        causes.sort_by_key(|(name, count)| (std::cmp::Reverse(*count), *name));
        let causes: Vec<String> = causes.iter().map(|(c, n)| format!("{c} {n}")).collect();
        if causes.is_empty() {
            return String::new();
        }
        format!(": {}", causes.join(", "))
    }

    pub(super) fn describe_share(&self, found: &FoundSoftware, total: u64) -> String {
        let mut text = format!(
            "{} of {} ({} %) {} from {}",
            self.shootdowns,
            count_noun(total, "shootdown"),
            percent_text(self.shootdowns, total),
            if self.shootdowns == 1 { "is" } else { "are" },
            found.kind.name()
        );
        if let Some(version) = found.version {
            text.push_str(&format!(" {version}"));
        }
        text.push_str(&format!(" in {}{}", found.file_name(), self.cause_list()));
        text + &self.guess_remark()
    }

    /// A remark about shootdowns that no stack proves, if there are any.
    pub(super) fn guess_remark(&self) -> String {
        match self.guessed {
            0 => String::new(),
            some => format!("; {some} of them counted to it without a stack that says so"),
        }
    }
}

impl ShootdownSplit {
    fn share_of_causes(&self, causes: &[Cause]) -> f64 {
        let of = |c| self.others.get(c).copied().unwrap_or(0);
        causes.iter().map(of).sum::<u64>() as f64 / self.total.max(1) as f64
    }

    /// The share of all shootdowns by forks and the copies after them. 0 without a fork: copy-on-write is then the replacing of
    /// zero pages.
    pub(super) fn copies_share(&self) -> f64 {
        if self.share_of_causes(&[Cause::Fork]) > 0.0 {
            self.share_of_causes(&[Cause::Fork, Cause::Cow])
        } else {
            0.0
        }
    }

    /// By the making and splitting of huge pages.
    pub(super) fn huge_pages_share(&self) -> f64 {
        self.share_of_causes(&[Cause::ThpCollapse, Cause::ThpSplit])
    }
}
