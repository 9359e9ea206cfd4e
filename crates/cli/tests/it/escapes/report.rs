//! The results of all attempts, printed together.

use std::fmt;

use codicil_testkit::skipped;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// An attempt escaped.
    Open,
    /// An attempt escaped through a documented gap.
    Documented,
    /// Legitimate work failed.
    Broken,
    /// The result is as expected.
    Held,
}

struct Finding {
    verdict: Verdict,
    name: String,
    way: String,
    detail: String,
}

/// The findings of one mode.
pub struct Report {
    mode: String,
    findings: Vec<Finding>,
}

impl Report {
    pub fn new(mode: String) -> Self {
        Self { mode, findings: Vec::new() }
    }

    pub fn add(&mut self, verdict: Verdict, name: &str, way: &str, detail: impl Into<String>) {
        let detail = detail.into().chars().take(160).collect();
        self.findings.push(Finding { verdict, name: name.to_owned(), way: way.to_owned(), detail });
    }

    /// Adds the result of an attempt.
    pub fn attempt(&mut self, name: &str, way: &str, escaped: bool, detail: impl Into<String>) {
        self.add(if escaped { Verdict::Open } else { Verdict::Held }, name, way, detail);
    }

    /// Adds the result of legitimate work.
    pub fn control(&mut self, name: &str, way: &str, worked: bool, detail: impl Into<String>) {
        self.add(if worked { Verdict::Held } else { Verdict::Broken }, name, way, detail);
    }

    /// Reports an attempt that is not possible on this machine.
    pub fn skip(&self, name: &str, why: &str) {
        skipped(format!("{name} in {}: {}", self.mode, why.trim()));
    }

    fn count(&self, verdict: Verdict) -> usize {
        self.findings.iter().filter(|finding| finding.verdict == verdict).count()
    }

    /// Prints every wrong result, and panics if something escaped or was broken.
    pub fn finish(self) {
        println!("{self}");
        let wrong = self.count(Verdict::Open) + self.count(Verdict::Broken);
        assert!(wrong == 0, "{wrong} of {} results are wrong in {}", self.findings.len(), self.mode);
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (verdict, word) in
            [(Verdict::Documented, "documented"), (Verdict::Broken, "broken"), (Verdict::Open, "open")]
        {
            for found in self.findings.iter().filter(|found| found.verdict == verdict) {
                let Finding { name, way, detail, .. } = found;
                let detail = if detail.is_empty() { String::new() } else { format!(" ({})", detail.trim()) };
                writeln!(f, "{word}: {name} via {way} in {}{detail}", self.mode)?;
            }
        }
        let [open, documented, broken, held] =
            [Verdict::Open, Verdict::Documented, Verdict::Broken, Verdict::Held].map(|v| self.count(v));
        write!(f, "{}: {held} held, {open} open, {documented} documented, {broken} broken", self.mode)
    }
}
