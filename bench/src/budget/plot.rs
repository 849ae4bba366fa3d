//! Curves as SVG: drawn with nothing but text, readable on light and on dark pages.

/// One line of a plot.
pub struct Series {
    pub name: String,
    pub points: Vec<(f64, f64)>,
}

/// A plot: what lies across, what lies up, and the lines. Across is logarithmic, up as well when the figures span so
/// much.
pub struct Plot {
    pub title: String,
    pub across: &'static str,
    pub up: &'static str,
    pub series: Vec<Series>,
}

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 400.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 50.0;
const BOTTOM: f64 = 60.0;
/// Up is logarithmic when the largest figure is this many times the smallest.
const WIDE: f64 = 30.0;
const COLOURS: [&str; 3] = ["a", "b", "c"];

const STYLE: &str = "<style>\
    .page{fill:#ffffff}.ink{fill:#1f2328}.soft{fill:#59636e}.grid{stroke:#d1d9e0}.axis{stroke:#59636e}\
    .a{stroke:#0969da;fill:#0969da}.b{stroke:#bc4c00;fill:#bc4c00}.c{stroke:#1a7f37;fill:#1a7f37}\
    polyline{fill:none!important;stroke-width:2}text{font-family:system-ui,sans-serif;font-size:12px}\
    @media(prefers-color-scheme:dark){.page{fill:#0d1117}.ink{fill:#f0f6fc}.soft{fill:#9198a1}.grid{stroke:#3d444d}.axis{stroke:#9198a1}\
    .a{stroke:#4493f8;fill:#4493f8}.b{stroke:#f0883e;fill:#f0883e}.c{stroke:#3fb950;fill:#3fb950}}</style>";

/// Where figures lie along one side of the plot.
struct Scale {
    from: f64,
    to: f64,
    logarithmic: bool,
    /// Where the two ends are drawn.
    ends: (f64, f64),
}

impl Scale {
    fn place(&self, figure: f64) -> f64 {
        let way = if self.logarithmic {
            (figure / self.from).log10() / (self.to / self.from).log10()
        } else {
            (figure - self.from) / (self.to - self.from)
        };
        self.ends.0 + way * (self.ends.1 - self.ends.0)
    }

    /// Figures that get a line and a label.
    fn marks(&self) -> Vec<f64> {
        if !self.logarithmic {
            return (0..=5).map(|fifth| self.from + (self.to - self.from) * f64::from(fifth) / 5.0).collect();
        }
        let powers = (self.from.log10().round() as i32)..=(self.to.log10().round() as i32);
        powers.map(|power| 10_f64.powi(power)).collect()
    }
}

/// A logarithmic scale from power of ten to power of ten.
fn logarithmic(figures: &[f64], ends: (f64, f64)) -> Scale {
    let least = figures.iter().copied().fold(f64::INFINITY, f64::min).max(f64::MIN_POSITIVE);
    let most = figures.iter().copied().fold(least, f64::max);
    let from = 10_f64.powf(least.log10().floor());
    let to = 10_f64.powf(most.log10().ceil()).max(from * 10.0);
    Scale { from, to, logarithmic: true, ends }
}

/// A scale from zero to a round figure above the largest.
fn from_zero(figures: &[f64], ends: (f64, f64)) -> Scale {
    let most = figures.iter().copied().fold(0.0, f64::max).max(1e-9);
    let step = 10_f64.powf(most.log10().floor());
    let rounds = [1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.5, 10.0];
    let to = rounds.iter().map(|times| times * step).find(|to| *to >= most * 1.1).unwrap_or(step * 15.0);
    Scale { from: 0.0, to, logarithmic: false, ends }
}

/// A figure in few letters.
fn short(figure: f64) -> String {
    for (unit, letter) in [(1e6, " M"), (1e3, " k")] {
        if figure >= unit {
            return format!("{}{letter}", (figure / unit * 100.0).round() / 100.0);
        }
    }
    format!("{}", (figure * 100.0).round() / 100.0)
}

impl Plot {
    /// The picture.
    pub fn svg(&self) -> String {
        let all = |side: fn(&(f64, f64)) -> f64| -> Vec<f64> {
            self.series.iter().flat_map(|series| series.points.iter().map(side)).collect()
        };
        let (xs, ys) = (all(|point| point.0), all(|point| point.1));
        let across = logarithmic(&xs, (LEFT, WIDTH - RIGHT));
        let ends = (HEIGHT - BOTTOM, TOP);
        let least = ys.iter().copied().fold(f64::INFINITY, f64::min);
        let most = ys.iter().copied().fold(0.0, f64::max);
        let up = if most > least * WIDE { logarithmic(&ys, ends) } else { from_zero(&ys, ends) };
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{0}\">\n{STYLE}\n\
             <rect class=\"page\" width=\"100%\" height=\"100%\"/>\n<text class=\"ink\" x=\"{LEFT}\" y=\"22\" style=\"font-size:15px\">{0}</text>\n",
            escaped(&self.title)
        );
        svg += &self.axes(&across, &up);
        for (place, series) in self.series.iter().enumerate() {
            svg += &line(series, COLOURS[place % COLOURS.len()], place, &across, &up);
        }
        svg + "</svg>\n"
    }

    fn axes(&self, across: &Scale, up: &Scale) -> String {
        let (bottom, right) = (HEIGHT - BOTTOM, WIDTH - RIGHT);
        let mut svg = String::new();
        for mark in across.marks() {
            let x = across.place(mark);
            svg += &format!(
                "<line class=\"grid\" x1=\"{x:.1}\" y1=\"{TOP}\" x2=\"{x:.1}\" y2=\"{bottom}\"/>\
                 <text class=\"soft\" x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>\n",
                bottom + 18.0,
                short(mark)
            );
        }
        for mark in up.marks() {
            let y = up.place(mark);
            svg += &format!(
                "<line class=\"grid\" x1=\"{LEFT}\" y1=\"{y:.1}\" x2=\"{right}\" y2=\"{y:.1}\"/>\
                 <text class=\"soft\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>\n",
                LEFT - 8.0,
                y + 4.0,
                short(mark)
            );
        }
        let middle = (TOP + bottom) / 2.0;
        svg += &format!(
            "<line class=\"axis\" x1=\"{LEFT}\" y1=\"{bottom}\" x2=\"{right}\" y2=\"{bottom}\"/>\
             <line class=\"axis\" x1=\"{LEFT}\" y1=\"{TOP}\" x2=\"{LEFT}\" y2=\"{bottom}\"/>\n\
             <text class=\"ink\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{} (logarithmic)</text>\n\
             <text class=\"ink\" x=\"18\" y=\"{middle:.1}\" text-anchor=\"middle\" transform=\"rotate(-90 18 {middle:.1})\">{}{}</text>\n",
            (LEFT + right) / 2.0,
            HEIGHT - 16.0,
            escaped(self.across),
            escaped(self.up),
            if up.logarithmic { " (logarithmic)" } else { "" }
        );
        svg
    }
}

/// A line, its points and its name in the legend.
fn line(series: &Series, colour: &str, place: usize, across: &Scale, up: &Scale) -> String {
    let at = |point: &(f64, f64)| (across.place(point.0), up.place(point.1));
    let joined: Vec<String> = series.points.iter().map(at).map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
    let mut svg = format!("<polyline class=\"{colour}\" points=\"{}\"/>\n", joined.join(" "));
    for point in &series.points {
        let (x, y) = at(point);
        svg += &format!(
            "<circle class=\"{colour}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\"><title>{}: {:.1}</title></circle>\n",
            short(point.0),
            point.1
        );
    }
    let x = LEFT + 220.0 * place as f64;
    svg + &format!(
        "<circle class=\"{colour}\" cx=\"{:.1}\" cy=\"36\" r=\"4\"/><text class=\"ink\" x=\"{:.1}\" y=\"40\">{}</text>\n",
        x + 5.0,
        x + 15.0,
        escaped(&series.name)
    )
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plot(points: Vec<(f64, f64)>) -> String {
        let series = vec![Series { name: "CPU & <all>".into(), points }];
        Plot { title: "backlog".into(), across: "messages", up: "us", series }.svg()
    }

    #[test]
    fn a_flat_line_is_drawn_flat_from_zero_up() {
        let svg = plot(vec![(1_000.0, 40.0), (1_000_000.0, 40.0)]);
        let points = svg.split("points=\"").nth(1).and_then(|rest| rest.split('"').next()).expect("a line");
        let heights: Vec<&str> = points.split([' ', ',']).skip(1).step_by(2).collect();
        assert_eq!(heights[0], heights[1], "{points}");
        assert!(points.starts_with("70.0,") && points.contains(" 700.0,"), "{points}");
        assert!(svg.contains(">1 k<") && svg.contains(">1 M<") && svg.contains(">0<"), "{svg}");
        assert!(svg.contains("CPU &amp; &lt;all>"), "{svg}");
    }

    #[test]
    fn figures_of_many_sizes_get_a_logarithmic_scale() {
        assert!(plot(vec![(64.0, 40.0), (1_048_576.0, 4_000.0)]).contains("us (logarithmic)"));
        assert!(!plot(vec![(64.0, 40.0), (1_048_576.0, 400.0)]).contains("us (logarithmic)"));
    }

    #[test]
    fn it_is_readable_on_dark_pages_too() {
        assert!(plot(vec![(1.0, 1.0)]).contains("prefers-color-scheme:dark"));
    }
}
