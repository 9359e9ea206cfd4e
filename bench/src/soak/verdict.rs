//! Decides whether a curve is flat.
//!
//! The first quarter is for caches and pools to fill. The medians of the second and of the last quarter are compared, so that
//! single samples have no influence. The disk keeps the threads, so what is compared there is its growth per turn.

use super::samples::ResourceSample;
use crate::meter::median;

/// A resource that must not grow.
struct FlatRule {
    name: &'static str,
    unit: &'static str,
    /// Growth that is allowed as a fraction of the earlier value …
    fraction: f64,
    /// … and beside it.
    fixed: f64,
    /// The value of a quarter.
    value: fn(&[ResourceSample]) -> f64,
}

const RULES: [FlatRule; 5] = [
    FlatRule {
        name: "memory",
        unit: "MB",
        fraction: 0.1,
        fixed: 1.0,
        value: |samples| median_of(samples, |sample| sample.memory_mb),
    },
    FlatRule {
        name: "descriptors",
        unit: "",
        fraction: 0.1,
        fixed: 3.0,
        value: |samples| median_of(samples, |sample| sample.descriptors),
    },
    FlatRule {
        name: "threads",
        unit: "",
        fraction: 0.1,
        fixed: 3.0,
        value: |samples| median_of(samples, |sample| sample.threads),
    },
    FlatRule {
        name: "processes",
        unit: "",
        fraction: 0.1,
        fixed: 3.0,
        value: |samples| median_of(samples, |sample| sample.processes),
    },
    FlatRule { name: "disk per turn", unit: "KB", fraction: 0.25, fixed: 1.0, value: disk_per_turn },
];

/// Prints a line for each resource. Returns the names of those that grew.
pub fn print(samples: &[ResourceSample]) -> Vec<String> {
    let mut grown = Vec::new();
    for rule in &RULES {
        let (early, late) = rule.quarters(samples);
        let is_flat = late <= early * (1.0 + rule.fraction) + rule.fixed;
        let sign = if is_flat { "ok" } else { "NO" };
        println!("{sign}  {}: {early:.1} → {late:.1} {}", rule.name, rule.unit);
        if !is_flat {
            grown.push(rule.name.to_owned());
        }
    }
    grown
}

impl FlatRule {
    /// Returns the values of the second and of the last quarter.
    fn quarters(&self, samples: &[ResourceSample]) -> (f64, f64) {
        let quarter = samples.len() / 4;
        let value_of = |from: usize, to: usize| (self.value)(samples.get(from..to).unwrap_or_default());
        (value_of(quarter, 2 * quarter), value_of(samples.len() - quarter, samples.len()))
    }
}

fn median_of(samples: &[ResourceSample], value: fn(&ResourceSample) -> f64) -> f64 {
    median(&mut samples.iter().map(value).collect::<Vec<_>>())
}

/// Returns the growth of the disk within these samples, in KB for each turn.
fn disk_per_turn(samples: &[ResourceSample]) -> f64 {
    match samples {
        [first, .., last] if last.turns > first.turns => {
            (last.disk_mb - first.disk_mb) * 1024.0 / (last.turns - first.turns) as f64
        }
        _ => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(memory: impl Fn(usize) -> f64, disk: impl Fn(usize) -> f64) -> Vec<ResourceSample> {
        let sample = |number: usize| ResourceSample {
            minute: number as f64,
            memory_mb: memory(number),
            descriptors: 40.0,
            threads: 10.0,
            processes: 5.0,
            disk_mb: disk(number),
            turns: 50 * number as u64,
        };
        (0..60).map(sample).collect()
    }

    #[test]
    fn a_warm_up_and_single_peaks_are_flat() {
        let memory = |number| match number {
            0..10 => 12.0 + number as f64,
            50 => 90.0,
            _ => 22.0,
        };
        assert!(print(&curve(memory, |number| number as f64)).is_empty());
    }

    #[test]
    fn a_leak_is_found() {
        assert_eq!(print(&curve(|number| 20.0 + number as f64 * 0.2, |_| 1.0)), ["memory"]);
        assert_eq!(print(&curve(|_| 20.0, |number| (number * number) as f64)), ["disk per turn"]);
    }
}
