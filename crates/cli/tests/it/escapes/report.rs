//! What came of all attempts, told at once.

use std::fmt;

use codicil_testkit::skipped;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// An attempt got out.
    Open,
    /// An attempt got out where the documentation says so.
    Documented,
    /// Legitimate work was stopped.
    Broken,
    /// As it should be.
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

    /// Notes whether an attempt was stopped.
    pub fn attempt(&mut self, name: &str, way: &str, got_out: bool, detail: impl Into<String>) {
        self.add(if got_out { Verdict::Open } else { Verdict::Held }, name, way, detail);
    }

    /// Notes whether legitimate work went on.
    pub fn control(&mut self, name: &str, way: &str, worked: bool, detail: impl Into<String>) {
        self.add(if worked { Verdict::Held } else { Verdict::Broken }, name, way, detail);
    }

    /// Says that this machine cannot make an attempt.
    pub fn skip(&self, name: &str, why: &str) {
        skipped(format!("{name} in {}: {}", self.mode, why.trim()));
    }

    fn count(&self, verdict: Verdict) -> usize {
        self.findings.iter().filter(|finding| finding.verdict == verdict).count()
    }

    /// Prints everything that is not as it should be, and panics if something got out or was broken.
    pub fn finish(self) {
        println!("{self}");
        let wrong = self.count(Verdict::Open) + self.count(Verdict::Broken);
        assert!(wrong == 0, "{wrong} of {} are not as they should be in {}", self.findings.len(), self.mode);
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
