//! A chart of lines as SVG, with logarithmic axes.

use std::fmt;

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 360.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 110.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 50.0;
const COLOURS: [&str; 4] = ["#8a8a8a", "#1f6feb", "#bf5700", "#2da44e"];

pub struct Chart {
    pub title: &'static str,
    pub x_label: &'static str,
    pub y_label: &'static str,
    pub lines: Vec<ChartLine>,
}

/// The points of one server, by size.
pub struct ChartLine {
    name: String,
    pub points: Vec<(f64, f64)>,
}

impl ChartLine {
    pub fn new(name: &str) -> Self {
        Self { name: name.to_owned(), points: Vec::new() }
    }
}

/// A logarithmic axis over whole powers of ten, along a part of the picture.
struct Axis {
    first: i32,
    last: i32,
    from: f64,
    to: f64,
}

impl Axis {
    fn over(values: impl Iterator<Item = f64>, from: f64, to: f64) -> Self {
        let powers: Vec<f64> = values.filter(|value| *value > 0.0).map(f64::log10).collect();
        let least = powers.iter().copied().fold(f64::INFINITY, f64::min);
        let most = powers.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let (first, last) =
            if powers.is_empty() { (0, 1) } else { (least.floor() as i32, most.ceil() as i32) };
        Self { first, last: last.max(first + 1), from, to }
    }

    /// Returns the place of a value in the picture.
    fn place(&self, value: f64) -> f64 {
        let part = (value.max(f64::MIN_POSITIVE).log10() - f64::from(self.first))
            / f64::from(self.last - self.first);
        self.from + part.max(0.0) * (self.to - self.from)
    }

    fn powers(&self) -> impl Iterator<Item = f64> {
        (self.first..=self.last).map(|power| 10_f64.powi(power))
    }
}

impl fmt::Display for Chart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let points = || self.lines.iter().flat_map(|line| &line.points);
        let x = Axis::over(points().map(|point| point.0), LEFT, WIDTH - RIGHT);
        let y = Axis::over(points().map(|point| point.1), HEIGHT - BOTTOM, TOP);
        writeln!(
            f,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
             font-family=\"sans-serif\" font-size=\"12\">\n\
             <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n\
             <text x=\"{LEFT}\" y=\"22\" font-size=\"15\">{}</text>",
            escaped(self.title)
        )?;
        self.draw_axes(f, &x, &y)?;
        for (number, line) in self.lines.iter().enumerate() {
            let colour = COLOURS.get(number % COLOURS.len()).copied().unwrap_or("black");
            line.draw(f, colour, &x, &y)?;
        }
        writeln!(f, "</svg>")
    }
}

impl Chart {
    fn draw_axes(&self, f: &mut fmt::Formatter<'_>, x: &Axis, y: &Axis) -> fmt::Result {
        let bottom = HEIGHT - BOTTOM;
        let right = WIDTH - RIGHT;
        for power in x.powers() {
            let at = x.place(power);
            writeln!(f, "<path d=\"M{at:.1} {TOP}V{bottom}\" stroke=\"#dddddd\"/>")?;
            writeln!(f, "<text x=\"{at:.1}\" y=\"{}\" text-anchor=\"middle\">{power}</text>", bottom + 16.0)?;
        }
        for power in y.powers() {
            let at = y.place(power);
            writeln!(f, "<path d=\"M{LEFT} {at:.1}H{right}\" stroke=\"#dddddd\"/>")?;
            writeln!(
                f,
                "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{power}</text>",
                LEFT - 6.0,
                at + 4.0
            )?;
        }
        let middle = f64::midpoint(LEFT, right);
        let label = escaped(self.x_label);
        writeln!(f, "<text x=\"{middle}\" y=\"{}\" text-anchor=\"middle\">{label}</text>", HEIGHT - 12.0)?;
        let middle = f64::midpoint(TOP, bottom);
        let label = escaped(self.y_label);
        writeln!(
            f,
            "<text transform=\"translate(16 {middle}) rotate(-90)\" text-anchor=\"middle\">{label}</text>"
        )
    }
}

impl ChartLine {
    fn draw(&self, f: &mut fmt::Formatter<'_>, colour: &str, x: &Axis, y: &Axis) -> fmt::Result {
        let places: Vec<(f64, f64)> =
            self.points.iter().map(|(size, value)| (x.place(*size), y.place(*value))).collect();
        let list: Vec<String> = places.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let list = list.join(" ");
        writeln!(f, "<polyline points=\"{list}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>")?;
        for (x, y) in &places {
            writeln!(f, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{colour}\"/>")?;
        }
        let Some((x, y)) = places.last() else { return Ok(()) };
        let name = escaped(&self.name);
        writeln!(f, "<text x=\"{:.1}\" y=\"{:.1}\" fill=\"{colour}\">{name}</text>", x + 8.0, y + 4.0)
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_of_ten_are_at_even_distances() {
        let axis = Axis::over([3.0, 200.0].into_iter(), 0.0, 300.0);
        let places: Vec<_> = axis.powers().map(|power| axis.place(power).round()).collect();
        assert_eq!(places, [0.0, 100.0, 200.0, 300.0]);
    }

    #[test]
    fn a_chart_has_every_point_and_escapes_names() {
        let line = ChartLine { name: "a<b".into(), points: vec![(1.0, 5.0), (10.0, 50.0)] };
        let chart = Chart { title: "T", x_label: "x", y_label: "y", lines: vec![line] };
        let text = chart.to_string();
        assert_eq!(text.matches("<circle").count(), 2);
        assert!(text.contains("a&lt;b") && text.ends_with("</svg>\n"));
    }
}
