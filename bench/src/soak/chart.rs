//! The picture of a soak: one panel for each resource.

use std::fmt::Write;

use super::samples::{ResourceCurve, ResourceSample};

const WIDTH: f64 = 760.0;
const PANEL_HEIGHT: f64 = 110.0;
const LEFT: f64 = 20.0;
const TOP: f64 = 50.0;
/// The height of a curve within its panel.
const CURVE_HEIGHT: f64 = 66.0;

/// The colours are those of the reader's light or dark page.
const STYLE: &str = "<style>text{font:12px system-ui,sans-serif;fill:#4a5560}.title{font-size:15px;font-weight:600;fill:#1c2630}\
    .base{stroke:#c9d1d9}polyline{fill:none;stroke:#2f6feb;stroke-width:1.8;stroke-linejoin:round}\
    @media(prefers-color-scheme:dark){text{fill:#9aa7b4}.title{fill:#e6edf3}.base{stroke:#39424d}polyline{stroke:#6ea8fe}}</style>";

struct ChartPanel {
    label: &'static str,
    unit: &'static str,
    value: fn(&ResourceSample) -> f64,
}

const PANELS: [ChartPanel; 5] = [
    ChartPanel { label: "memory", unit: " MB", value: |sample| sample.memory_mb },
    ChartPanel { label: "descriptors", unit: "", value: |sample| sample.descriptors },
    ChartPanel { label: "threads of the process", unit: "", value: |sample| sample.threads },
    ChartPanel { label: "processes below it", unit: "", value: |sample| sample.processes },
    ChartPanel { label: "disk, which keeps every thread", unit: " MB", value: |sample| sample.disk_mb },
];

pub fn svg(curve: &ResourceCurve) -> String {
    let height = TOP + PANELS.len() as f64 * PANEL_HEIGHT + 10.0;
    let last = curve.samples.last();
    let minutes = last.map_or(0.0, |sample| sample.minute);
    let turns = last.map_or(0, |sample| sample.turns);
    let title = format!("One server for {minutes:.0} minutes: {} clients, {turns} turns", curve.clients);
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{title}\">\n\
         {STYLE}\n<text class=\"title\" x=\"{LEFT}\" y=\"28\">{title}</text>\n"
    );
    for (number, panel) in PANELS.iter().enumerate() {
        panel.draw(&mut text, TOP + number as f64 * PANEL_HEIGHT, &curve.samples);
    }
    text + "</svg>\n"
}

impl ChartPanel {
    /// Draws the curve from zero to its largest value.
    fn draw(&self, text: &mut String, top: f64, samples: &[ResourceSample]) {
        let values = || samples.iter().map(self.value);
        let largest = values().fold(0.0, f64::max);
        let lowest = values().fold(f64::MAX, f64::min);
        let end = samples.last().map_or(1.0, |sample| sample.minute);
        let base = top + 24.0 + CURVE_HEIGHT;
        let right = WIDTH - LEFT;
        let points: Vec<_> = samples
            .iter()
            .map(|sample| {
                let x = LEFT + sample.minute / end * (right - LEFT);
                let y = base - (self.value)(sample) / largest.max(1.0) * CURVE_HEIGHT;
                format!("{x:.1},{y:.1}")
            })
            .collect();
        let Self { label, unit, .. } = self;
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "<text x=\"{LEFT}\" y=\"{}\">{label}: {lowest:.0} to {largest:.0}{unit}</text>\n\
             <line class=\"base\" x1=\"{LEFT}\" y1=\"{base}\" x2=\"{right}\" y2=\"{base}\"/>\n<polyline points=\"{}\"/>",
            top + 14.0,
            points.join(" ")
        );
    }
}
