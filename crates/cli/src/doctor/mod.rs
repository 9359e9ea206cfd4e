//! `codicil doctor`: what works here, what does not, and why.

mod checks;
mod reach;

use std::{fmt::Write as _, io::Write as _};

use clap::Args;
use serde_json::json;

use crate::{
    args::OverrideArgs,
    logging,
    style::{ColorChoice, Palette},
    version,
};

#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// Print the findings as JSON.
    #[arg(long)]
    json: bool,
    /// Do not ask the model's provider whether it answers.
    #[arg(long)]
    offline: bool,
}

/// What was found about one thing. Texts hold names and places, never secrets.
struct DoctorFinding {
    name: &'static str,
    status: FindingStatus,
    summary: String,
    details: Vec<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum FindingStatus {
    Ok,
    /// Something works less well than it could.
    Warning,
    /// Something does not work.
    Error,
}

impl DoctorFinding {
    fn new(name: &'static str, status: FindingStatus, summary: impl Into<String>) -> Self {
        Self { name, status, summary: summary.into(), details: Vec::new() }
    }

    fn with(mut self, details: impl IntoIterator<Item = String>) -> Self {
        self.details.extend(details);
        self
    }
}

impl FindingStatus {
    fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }

    /// Its name, as wide as the longest.
    fn shown(self, palette: Palette) -> String {
        let word = format!("{:<7}", self.name());
        match self {
            Self::Ok => palette.green(&word),
            Self::Warning => palette.yellow(&word),
            Self::Error => palette.red(&word),
        }
    }
}

/// Ends the process: with 1 when something does not work, else with 0.
pub fn run(overrides: &OverrideArgs, args: &DoctorArgs) -> anyhow::Result<()> {
    logging::init();
    let findings = checks::all(overrides, args.offline)?;
    let text = match args.json {
        true => as_json(&findings)?,
        false => as_text(&findings, Palette::of_stdout(ColorChoice::Auto)),
    };
    std::io::stdout().write_all(text.as_bytes())?;
    std::process::exit(i32::from(worst(&findings) == FindingStatus::Error))
}

fn worst(findings: &[DoctorFinding]) -> FindingStatus {
    findings.iter().map(|finding| finding.status).max().unwrap_or(FindingStatus::Ok)
}

fn as_json(findings: &[DoctorFinding]) -> anyhow::Result<String> {
    let one = |finding: &DoctorFinding| {
        json!({
            "name": finding.name,
            "status": finding.status.name(),
            "summary": finding.summary,
            "details": finding.details,
        })
    };
    let report = json!({
        "ok": worst(findings) != FindingStatus::Error,
        "version": version::LINE.as_str(),
        "checks": findings.iter().map(one).collect::<Vec<_>>(),
    });
    Ok(serde_json::to_string_pretty(&report)? + "\n")
}

/// One line for each finding, in columns; its details below it, in the last one.
fn as_text(findings: &[DoctorFinding], palette: Palette) -> String {
    let width = findings.iter().map(|finding| finding.name.len()).max().unwrap_or_default();
    let margin = " ".repeat("warning".len() + width + 4);
    let mut text = format!("{}\n\n", version::LINE.as_str());
    for DoctorFinding { name, status, summary, details } in findings {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{}  {name:<width$}  {summary}", status.shown(palette));
        for line in details.iter().flat_map(|detail| detail.lines()) {
            let _ = writeln!(text, "{margin}{line}");
        }
    }
    let verdict = match worst(findings) {
        FindingStatus::Ok => "Everything works.",
        FindingStatus::Warning => "It works, with the warnings above.",
        FindingStatus::Error => "Something does not work: see the errors above.",
    };
    text + "\n" + verdict + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_whatever_is_in_them() {
        let findings = [
            DoctorFinding::new("a", FindingStatus::Ok, "fine"),
            DoctorFinding::new("longer", FindingStatus::Warning, "not quite")
                .with(["first\nsecond".to_owned()]),
        ];
        let text = as_text(&findings, Palette::new(ColorChoice::Never));
        let body: Vec<_> = text.lines().skip(2).collect();
        assert_eq!(
            body,
            [
                "ok       a       fine",
                "warning  longer  not quite",
                "                 first",
                "                 second",
                "",
                "It works, with the warnings above.",
            ]
        );
        let coloured = as_text(&findings, Palette::new(ColorChoice::Always));
        assert!(coloured.contains("\x1b[33mwarning\x1b[0m"));
    }

    #[test]
    fn json_says_the_same() {
        let findings = [DoctorFinding::new("a", FindingStatus::Error, "broken").with(["why".to_owned()])];
        let report: serde_json::Value = serde_json::from_str(&as_json(&findings).unwrap()).unwrap();
        assert_eq!(report["ok"], false);
        let expected = json!([{ "name": "a", "status": "error", "summary": "broken", "details": ["why"] }]);
        assert_eq!(report["checks"], expected);
    }
}
