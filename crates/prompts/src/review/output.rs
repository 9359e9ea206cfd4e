//! The reviewer's response: the requested JSON, or plain text.
//!
//! Parsing is lenient (text around the JSON, missing members), because a review that took minutes should not be lost for a
//! formal error. A response without valid JSON is used as it is.

use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::message::json_object_text;

/// The text of a review without a response. Clients match on it.
pub const NO_REVIEW: &str = "Reviewer failed to output a response.";
/// The text of a review that was interrupted or failed.
pub const REVIEW_CUT_SHORT: &str =
    "Review was interrupted. Please re-run /review and wait for it to complete.";

/// The result of a review.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct ReviewOutput {
    #[serde(deserialize_with = "readable")]
    pub findings: Vec<ReviewFinding>,
    #[serde(deserialize_with = "or_default")]
    pub overall_correctness: String,
    #[serde(deserialize_with = "or_default")]
    pub overall_explanation: String,
    #[serde(deserialize_with = "or_default")]
    pub overall_confidence_score: f64,
}

/// A finding of a review.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct ReviewFinding {
    #[serde(deserialize_with = "or_default")]
    pub title: String,
    #[serde(deserialize_with = "or_default")]
    pub body: String,
    #[serde(alias = "confidence_score", deserialize_with = "or_default")]
    pub confidence: f64,
    /// From 0 (most severe) to 3.
    #[serde(deserialize_with = "or_default")]
    pub priority: Option<i64>,
    #[serde(deserialize_with = "or_default")]
    pub code_location: Option<CodeLocation>,
}

/// The location of a finding.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct CodeLocation {
    pub absolute_file_path: String,
    pub line_range: LineRange,
}

/// A range of lines, with an inclusive end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct LineRange {
    pub start: u64,
    pub end: u64,
}

impl ReviewOutput {
    /// Parses a response. Text that is not a review in JSON becomes the explanation.
    pub fn parse(answer: &str) -> Self {
        let answer = answer.trim();
        Self::from_json(answer)
            .or_else(|| Self::from_json(json_object_text(answer)?))
            .unwrap_or_else(|| Self { overall_explanation: answer.to_owned(), ..Self::default() })
    }

    /// Returns `None` unless the text is an object with a member of a review.
    fn from_json(text: &str) -> Option<Self> {
        let value: Value = serde_json::from_str(text).ok()?;
        let is_review = value.get("findings").is_some_and(Value::is_array)
            || value.get("overall_explanation").is_some_and(Value::is_string);
        if is_review { serde_json::from_value(value).ok() } else { None }
    }

    /// Returns the text of the review for clients and the thread's model.
    pub fn text(&self) -> String {
        let explanation = self.overall_explanation.trim();
        let parts: Vec<_> =
            [explanation.to_owned(), self.comments()].into_iter().filter(|part| !part.is_empty()).collect();
        if parts.is_empty() { NO_REVIEW.to_owned() } else { parts.join("\n\n") }
    }

    fn comments(&self) -> String {
        let heading = match self.findings.len() {
            0 => return String::new(),
            1 => "Review comment:",
            _ => "Full review comments:",
        };
        let comments = self.findings.iter().map(ReviewFinding::text);
        [heading.to_owned()].into_iter().chain(comments).collect::<Vec<_>>().join("\n\n")
    }
}

impl ReviewFinding {
    fn text(&self) -> String {
        let location = self.code_location.as_ref().map(CodeLocation::text).unwrap_or_default();
        let title = format!("- {}{location}", self.title.trim());
        let body = self.body.lines().map(|line| format!("  {line}"));
        [title].into_iter().chain(body).collect::<Vec<_>>().join("\n")
    }

    fn has_text(&self) -> bool {
        !self.title.trim().is_empty() || !self.body.trim().is_empty()
    }
}

impl CodeLocation {
    fn text(&self) -> String {
        let LineRange { start, end } = self.line_range;
        format!(" — {}:{start}-{end}", self.absolute_file_path)
    }
}

/// Reads a value of the wrong type as missing.
fn or_default<'de, D: Deserializer<'de>, T: Default + for<'t> Deserialize<'t>>(
    from: D,
) -> Result<T, D::Error> {
    Ok(serde_json::from_value(Value::deserialize(from)?).unwrap_or_default())
}

/// Reads the findings that have a text.
fn readable<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<ReviewFinding>, D::Error> {
    let values: Vec<Value> = or_default(from)?;
    let findings = values.into_iter().filter_map(|value| serde_json::from_value(value).ok());
    Ok(findings.filter(ReviewFinding::has_text).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn finding(title: &str, body: &str) -> Value {
        let location = json!({"absolute_file_path": "/p/a.txt", "line_range": {"start": 10, "end": 20}});
        json!({"title": title, "body": body, "confidence_score": 0.9, "priority": 1,
            "code_location": location})
    }

    #[test]
    fn a_review_becomes_text() {
        let check = |findings: &[Value], explanation: &str, expected: &str| {
            let answer = json!({"findings": findings, "overall_explanation": explanation});
            assert_eq!(ReviewOutput::parse(&answer.to_string()).text(), expected);
        };
        check(&[], "Fine.", "Fine.");
        check(&[], " ", NO_REVIEW);
        check(
            &[finding("Prefer X", "Because Y.")],
            "Looks solid overall.",
            "Looks solid overall.\n\nReview comment:\n\n- Prefer X — /p/a.txt:10-20\n  Because Y.",
        );
        check(
            &[finding("One", "a\nb"), finding("Two", "c")],
            "",
            "Full review comments:\n\n- One — /p/a.txt:10-20\n  a\n  b\n\n- Two — /p/a.txt:10-20\n  c",
        );
        check(
            &[json!({"title": "No place"}), json!({"priority": 1}), json!(3)],
            "E",
            "E\n\nReview comment:\n\n- No place",
        );
    }

    #[test]
    fn an_answer_may_be_wrapped_or_plain() {
        let check = |answer: &str, expected: &str| {
            assert_eq!(ReviewOutput::parse(answer).text(), expected, "{answer}")
        };
        check("Just some words, no JSON.", "Just some words, no JSON.");
        check("  padded \n", "padded");
        check("", NO_REVIEW);
        check("```json\n{\"findings\": [], \"overall_explanation\": \"ok\"}\n```", "ok");
        check("Here you are: {\"overall_explanation\": \"ok\"} Done.", "ok");
        check("{\"a\": 1}", "{\"a\": 1}");
        check("[1, 2]", "[1, 2]");
        check("} odd {", "} odd {");
        check("{\"findings\": [", "{\"findings\": [");
        check(
            "{\"findings\": [], \"overall_explanation\": null, \"overall_confidence_score\": \"high\"}",
            NO_REVIEW,
        );
    }

    #[test]
    fn all_members_are_read() {
        let mut answer = json!({"findings": [finding("T", "B")], "overall_correctness": "patch is correct",
            "overall_explanation": "E", "overall_confidence_score": 0.5});
        let read = ReviewOutput::parse(&answer.to_string());
        assert_eq!(read.findings[0].confidence, 0.9);
        assert_eq!(read.findings[0].priority, Some(1));
        assert_eq!(read.overall_correctness, "patch is correct");
        assert_eq!(read.overall_confidence_score, 0.5);
        answer["findings"][0]["confidence"] = answer["findings"][0]["confidence_score"].take();
        answer["findings"][0].as_object_mut().unwrap().remove("confidence_score");
        assert_eq!(ReviewOutput::parse(&answer.to_string()), read);
    }
}
