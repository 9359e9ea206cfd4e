//! `codicil doctor`: checks the installation, and explains what does not work.

mod checks;
mod database;
mod timed_checks;

use std::{fmt::Write as _, io::Write as _, process::ExitCode};

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
    /// Do not contact the model's provider.
    #[arg(long)]
    offline: bool,
}

/// The result of one check. Texts contain names and paths, never secrets.
struct DoctorFinding {
    name: &'static str,
    status: FindingStatus,
    summary: String,
    details: Vec<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum FindingStatus {
    Ok,
    /// Something works with restrictions.
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

    /// Returns the name, padded to the longest one.
    fn padded(self, palette: Palette) -> String {
        let word = format!("{:<7}", self.name());
        match self {
            Self::Ok => palette.green(&word),
            Self::Warning => palette.yellow(&word),
            Self::Error => palette.red(&word),
        }
    }
}

/// Runs all checks. Exits with 1 if something does not work.
pub fn run(overrides: &OverrideArgs, args: &DoctorArgs) -> anyhow::Result<ExitCode> {
    logging::init();
    let findings = checks::all(overrides, args.offline)?;
    let text = if args.json {
        as_json(&findings)?
    } else {
        as_text(&findings, Palette::of_stdout(ColorChoice::Auto))
    };
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(if worst(&findings) == FindingStatus::Error { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn worst(findings: &[DoctorFinding]) -> FindingStatus {
    findings.iter().map(|finding| finding.status).max().unwrap_or(FindingStatus::Ok)
}

fn as_json(findings: &[DoctorFinding]) -> anyhow::Result<String> {
    let check = |finding: &DoctorFinding| {
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
        "checks": findings.iter().map(check).collect::<Vec<_>>(),
    });
    Ok(serde_json::to_string_pretty(&report)? + "\n")
}

/// Formats a line per finding, in columns, with its details below in the last column.
fn as_text(findings: &[DoctorFinding], palette: Palette) -> String {
    let width = findings.iter().map(|finding| finding.name.len()).max().unwrap_or_default();
    let margin = " ".repeat("warning".len() + width + 4);
    let mut text = format!("{}\n\n", version::LINE.as_str());
    for DoctorFinding { name, status, summary, details } in findings {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{}  {name:<width$}  {summary}", status.padded(palette));
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
    fn columns_are_aligned() {
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
    fn findings_as_json() {
        let findings = [DoctorFinding::new("a", FindingStatus::Error, "broken").with(["why".to_owned()])];
        let report: serde_json::Value = serde_json::from_str(&as_json(&findings).unwrap()).unwrap();
        assert_eq!(report["ok"], false);
        let expected = json!([{ "name": "a", "status": "error", "summary": "broken", "details": ["why"] }]);
        assert_eq!(report["checks"], expected);
    }
}
