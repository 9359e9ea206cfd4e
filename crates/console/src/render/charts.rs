//! Bar and line charts as inline SVG.
//!
//! A chart is an image with a name and a description; a table with the same numbers follows it for everyone who cannot see
//! it. Colours are classes of the stylesheet, so that charts follow the dark and the light scheme.

use maud::{Markup, html};

/// The points of a chart. Values that are not finite count as zero, and negative ones are cut at zero.
#[derive(Clone, Debug, PartialEq)]
pub struct ChartSeries {
    /// What the numbers are, such as `Tokens by day`. The accessible name of the chart.
    pub title: String,
    /// The unit after a number, such as `tokens`. May be empty.
    pub unit: String,
    /// Labels and values, from left to right.
    pub points: Vec<(String, f64)>,
}

/// The shape of a chart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChartKind {
    Bars,
    Line,
}

const WIDTH: f64 = 360.0;
const HEIGHT: f64 = 140.0;
const LEFT: f64 = 40.0;
const TOP: f64 = 10.0;
const BOTTOM: f64 = 24.0;

/// The most points that are drawn; the last ones are kept.
const MAX_POINTS: usize = 400;

/// Labels below the axis; more would overlap.
const MAX_LABELS: usize = 5;

/// Returns a chart with its table of numbers.
pub fn chart(series: &ChartSeries, kind: ChartKind) -> Markup {
    let skipped = series.points.len().saturating_sub(MAX_POINTS);
    let points: Vec<ChartPoint<'_>> = series
        .points
        .iter()
        .skip(skipped)
        .map(|(label, value)| ChartPoint {
            label,
            value: if value.is_finite() { value.max(0.0) } else { 0.0 },
        })
        .collect();
    let scale = ChartScale::new(&points);
    let description = describe(series, &points);
    html! {
        figure.chart {
            figcaption { (series.title) }
            @if points.is_empty() {
                p { "No data yet." }
            } @else {
                svg viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } role="img" aria-label={ (series.title) ": " (description) } {
                    (axis(&scale))
                    @match kind {
                        ChartKind::Bars => (bars(&points, &scale)),
                        ChartKind::Line => (line(&points, &scale)),
                    }
                    (labels(&points, &scale))
                }
                (table(series, &points))
            }
        }
    }
}

struct ChartPoint<'a> {
    label: &'a str,
    value: f64,
}

/// The mapping from values to coordinates.
struct ChartScale {
    maximum: f64,
    step: f64,
}

impl ChartScale {
    fn new(points: &[ChartPoint<'_>]) -> Self {
        let largest = points.iter().map(|point| point.value).fold(0.0, f64::max);
        Self { maximum: round_up(largest), step: (WIDTH - LEFT) / points.len().max(1) as f64 }
    }

    fn y(&self, value: f64) -> f64 {
        let height = HEIGHT - TOP - BOTTOM;
        round_coordinate(TOP + height - height * value / self.maximum)
    }

    /// The middle of the point with this number.
    fn x(&self, number: usize) -> f64 {
        round_coordinate(LEFT + self.step * (number as f64 + 0.5))
    }
}

/// Returns the next number above `value` that begins with 1, 2 or 5.
fn round_up(value: f64) -> f64 {
    if value <= 0.0 {
        return 1.0;
    }
    let power = 10f64.powf(value.log10().floor());
    [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|factor| factor * power)
        .find(|&limit| limit >= value)
        .unwrap_or(value)
}

/// A tenth of a unit is enough, and shorter coordinates keep pages small.
fn round_coordinate(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

fn axis(scale: &ChartScale) -> Markup {
    html! {
        g.axis aria-hidden="true" {
            @for part in [0.0, 0.5, 1.0] {
                @let value = scale.maximum * part;
                line x1=(LEFT) x2=(WIDTH) y1=(scale.y(value)) y2=(scale.y(value)) {}
                text x=(LEFT - 6.0) y=(scale.y(value) + 4.0) text-anchor="end" { (short_number(value)) }
            }
        }
    }
}

fn bars(points: &[ChartPoint<'_>], scale: &ChartScale) -> Markup {
    let width = round_coordinate((scale.step * 0.7).clamp(1.0, 48.0));
    html! {
        g.bars aria-hidden="true" {
            @for (number, point) in points.iter().enumerate() {
                @let top = scale.y(point.value);
                rect x=(round_coordinate(scale.x(number) - width / 2.0)) y=(top) width=(width)
                    height=(round_coordinate(HEIGHT - BOTTOM - top)) {
                    title { (point.label) ": " (full_number(point.value)) }
                }
            }
        }
    }
}

fn line(points: &[ChartPoint<'_>], scale: &ChartScale) -> Markup {
    let path: Vec<String> = points
        .iter()
        .enumerate()
        .map(|(number, point)| format!("{},{}", scale.x(number), scale.y(point.value)))
        .collect();
    html! {
        g.line aria-hidden="true" {
            polyline points=(path.join(" ")) fill="none" {}
            @for (number, point) in points.iter().enumerate() {
                circle cx=(scale.x(number)) cy=(scale.y(point.value)) r="2.5" {
                    title { (point.label) ": " (full_number(point.value)) }
                }
            }
        }
    }
}

fn labels(points: &[ChartPoint<'_>], scale: &ChartScale) -> Markup {
    let every = points.len().div_ceil(MAX_LABELS).max(1);
    html! {
        g.axis aria-hidden="true" {
            @for (number, point) in points.iter().enumerate().step_by(every) {
                text x=(scale.x(number)) y=(HEIGHT - 7.0) text-anchor="middle" { (point.label) }
            }
        }
    }
}

fn table(series: &ChartSeries, points: &[ChartPoint<'_>]) -> Markup {
    html! {
        details {
            summary { "Numbers" }
            table aria-label=(series.title) {
                tbody {
                    @for point in points {
                        tr { th scope="row" { (point.label) } td.right { (full_number(point.value)) " " (series.unit) } }
                    }
                }
            }
        }
    }
}

/// Returns a sentence about the numbers, for those who hear the chart.
fn describe(series: &ChartSeries, points: &[ChartPoint<'_>]) -> String {
    let Some(largest) = points.iter().max_by(|a, b| a.value.total_cmp(&b.value)) else {
        return String::new();
    };
    let total: f64 = points.iter().map(|point| point.value).sum();
    let unit = if series.unit.is_empty() { String::new() } else { format!(" {}", series.unit) };
    let total = full_number(total);
    let most = full_number(largest.value);
    format!("{total}{unit} in all, the most on {}: {most}", largest.label)
}

/// Returns a number with spaces between thousands, without decimals unless it is small.
pub fn full_number(value: f64) -> String {
    if value.fract() != 0.0 && value < 100.0 {
        return format!("{value:.1}");
    }
    let digits = format!("{value:.0}");
    let mut grouped = String::with_capacity(digits.len() + digits.len() / 3);
    for (number, digit) in digits.chars().enumerate() {
        if number > 0 && (digits.len() - number).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// Returns a number in three digits at most, such as `1.5M`.
pub fn short_number(value: f64) -> String {
    let (value, suffix) = match value {
        value if value >= 1e9 => (value / 1e9, "G"),
        value if value >= 1e6 => (value / 1e6, "M"),
        value if value >= 1e3 => (value / 1e3, "k"),
        value => (value, ""),
    };
    let digits =
        if value >= 10.0 || value.fract() == 0.0 { format!("{value:.0}") } else { format!("{value:.1}") };
    format!("{digits}{suffix}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(values: &[f64]) -> ChartSeries {
        let points = values.iter().enumerate().map(|(day, value)| (format!("day {day}"), *value)).collect();
        ChartSeries { title: "Tokens <by> day".into(), unit: "tokens".into(), points }
    }

    #[test]
    fn numbers_are_readable() {
        for (value, full, short) in [
            (0.0, "0", "0"),
            (0.5, "0.5", "0.5"),
            (999.0, "999", "999"),
            (1_500.0, "1,500", "1.5k"),
            (23_456_789.0, "23,456,789", "23M"),
            (5e9, "5,000,000,000", "5G"),
        ] {
            assert_eq!(full_number(value), full);
            assert_eq!(short_number(value), short);
        }
        for (value, limit) in [(0.0, 1.0), (1.0, 1.0), (1.1, 2.0), (3.0, 5.0), (700.0, 1000.0)] {
            assert!((round_up(value) - limit).abs() < 1e-9, "{value}");
        }
    }

    #[test]
    fn a_chart_has_a_name_and_its_numbers() {
        for kind in [ChartKind::Bars, ChartKind::Line] {
            let html = chart(&series(&[1.0, 2000.0, f64::NAN]), kind).into_string();
            assert!(
                html.contains(
                    "aria-label=\"Tokens &lt;by&gt; day: 2,001 tokens in all, the most on day 1: 2,000\""
                ),
                "{html}"
            );
            assert!(html.contains("<td class=\"right\">2,000 tokens</td>"), "{html}");
            assert!(!html.contains("NaN") && !html.contains("style="), "{html}");
        }
        assert!(chart(&series(&[]), ChartKind::Bars).into_string().contains("No data yet."));
    }

    #[test]
    fn a_chart_is_bounded() {
        let html = chart(&series(&vec![1.0; 100_000]), ChartKind::Line).into_string();
        assert_eq!(html.matches("<circle").count(), MAX_POINTS);
        assert!(html.contains("day 99999"));
    }
}
