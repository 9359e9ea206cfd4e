//! The result: one row per number, one column per server.

use std::fmt;

use crate::{cases::Case, meter::median};

/// The target of a number.
#[derive(Clone, Copy, Debug)]
pub enum Target {
    /// At most this fraction of the best other server.
    Fraction(f64),
    /// At least this many times the best other server.
    Times(f64),
    /// At most this value.
    AtMost(f64),
    /// No target.
    None,
}

/// A number that a case measures.
pub struct Number {
    pub name: &'static str,
    pub unit: &'static str,
    pub target: Target,
    pub value: f64,
}

impl Number {
    pub fn new(name: &'static str, unit: &'static str, target: Target, value: f64) -> Self {
        Self { name, unit, target, value }
    }
}

pub struct Table {
    servers: Vec<String>,
    rows: Vec<Row>,
}

struct Row {
    case: &'static str,
    name: &'static str,
    unit: &'static str,
    target: Target,
    /// The values of the runs of each server.
    values: Vec<Vec<f64>>,
}

impl Table {
    pub fn new(servers: Vec<String>) -> Self {
        Self { servers, rows: Vec::new() }
    }

    pub fn add(&mut self, server: usize, case: &Case, numbers: &[Number]) {
        for number in numbers {
            let known = self.rows.iter_mut().find(|row| (row.case, row.name) == (case.name, number.name));
            let values = match known {
                Some(row) => &mut row.values,
                None => {
                    let Number { name, unit, target, .. } = *number;
                    let values = vec![Vec::new(); self.servers.len()];
                    self.rows.push(Row { case: case.name, name, unit, target, values });
                    &mut self.rows.last_mut().expect("it was just added").values
                }
            };
            if let Some(runs) = values.get_mut(server) {
                runs.push(number.value);
            }
        }
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "| case | number | {} | ratio | target |", self.servers.join(" | "))?;
        writeln!(f, "|---|---|{}---:|---|", "---:|".repeat(self.servers.len()))?;
        for row in &self.rows {
            let medians: Vec<f64> = row.values.iter().map(|runs| median(&mut runs.clone())).collect();
            let cells: Vec<String> = medians.iter().map(|&value| shown(value)).collect();
            let name =
                if row.unit.is_empty() { row.name.to_owned() } else { format!("{}, {}", row.name, row.unit) };
            write!(f, "| {} | {name} | {} ", row.case, cells.join(" | "))?;
            writeln!(f, "| {} | {} |", row.ratio(&medians), row.verdict(&medians))?;
        }
        Ok(())
    }
}

impl Row {
    /// Returns the best of the others, and ours.
    fn compared(&self, medians: &[f64]) -> Option<(f64, f64)> {
        let (ours, others) = medians.split_last()?;
        let others = others.iter().copied().filter(|value| !value.is_nan());
        let best = match self.target {
            Target::Times(_) => others.reduce(f64::max)?,
            _ => others.reduce(f64::min)?,
        };
        Some((best, *ours))
    }

    fn ratio(&self, medians: &[f64]) -> String {
        match self.compared(medians) {
            Some((best, ours)) if best != 0.0 => format!("×{}", shown(ours / best)),
            _ => "–".to_owned(),
        }
    }

    fn verdict(&self, medians: &[f64]) -> String {
        let ours = medians.last().copied().unwrap_or(f64::NAN);
        let best = self.compared(medians).map(|(best, _)| best);
        let (words, met) = match self.target {
            Target::Fraction(part) => {
                (format!("≤ 1/{:.0}", 1.0 / part), best.map(|best| ours <= best * part))
            }
            Target::Times(times) => (format!("≥ {times}×"), best.map(|best| ours >= best * times)),
            Target::AtMost(most) => (format!("≤ {most}"), Some(ours <= most)),
            Target::None => return "–".to_owned(),
        };
        match met {
            Some(true) => format!("{words}: met"),
            Some(false) => format!("{words}: **missed**"),
            None => words,
        }
    }
}

/// Formats a value with three significant digits.
fn shown(value: f64) -> String {
    match value.abs() {
        _ if value.is_nan() => "–".to_owned(),
        0.0 => "0".to_owned(),
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 1.0 => format!("{value:.2}"),
        size if size >= 0.1 => format!("{value:.3}"),
        _ => format!("{value:.4}"),
    }
}
