//! How costs grow: each curve measures one number at several sizes, for every server.

use std::{fs, path::Path};

use anyhow::{Context, Result};

use crate::{
    cases::{
        Measuring,
        clients::clients_at_once,
        history::stored_threads,
        start::loaded_threads,
        turns::{late_turn_ms, turns_at_once},
    },
    chart::{Chart, ChartLine},
    server::{Bench, ServerSpec},
};

/// A number by size.
struct Curve {
    /// The name of its file.
    name: &'static str,
    title: &'static str,
    /// What the sizes count.
    x_label: &'static str,
    /// What is measured, with its unit.
    y_label: &'static str,
    sizes: &'static [usize],
    measure: for<'a> fn(&'a Bench, &'a ServerSpec, usize) -> Measuring<'a, f64>,
}

const CURVES: &[Curve] = &[
    Curve {
        name: "history",
        title: "A turn on a thread that grows",
        x_label: "turns before it",
        y_label: "CPU, ms",
        sizes: &[10, 100, 300, 1_000],
        measure: |bench, spec, size| Box::pin(late_turn_ms(bench, spec, size)),
    },
    Curve {
        name: "loaded-threads",
        title: "Memory of a loaded thread",
        x_label: "loaded threads",
        y_label: "RSS of each, KB",
        sizes: &[100, 1_000, 10_000],
        measure: |bench, spec, size| {
            Box::pin(async move { Ok(loaded_threads(bench, spec, size).await?.kib_each) })
        },
    },
    Curve {
        name: "stored-threads",
        title: "A page of the list of threads",
        x_label: "stored threads",
        y_label: "time, ms",
        sizes: &[100, 1_000, 10_000, 100_000],
        measure: |bench, spec, size| {
            Box::pin(async move { Ok(stored_threads(bench, spec, size).await?.page_ms) })
        },
    },
    Curve {
        name: "turns-at-once",
        title: "A turn beside others",
        x_label: "turns at once",
        y_label: "CPU of each, ms",
        sizes: &[20, 100, 300, 1_000],
        measure: |bench, spec, size| {
            Box::pin(async move { Ok(turns_at_once(bench, spec, size).await?.cpu_ms_each) })
        },
    },
    Curve {
        name: "clients",
        title: "A websocket client beside others, with one turn",
        x_label: "clients",
        y_label: "CPU of each, ms",
        sizes: &[20, 100, 300, 1_000],
        measure: |bench, spec, size| {
            Box::pin(async move { Ok(clients_at_once(bench, spec, size).await?.cpu_ms_each) })
        },
    },
];

/// Measures the curves and writes each as `NAME.svg`. Prints the numbers. A size that a server fails at is left out.
pub async fn draw_curves(bench: &Bench, servers: &[ServerSpec], directory: &Path) -> Result<()> {
    fs::create_dir_all(directory).with_context(|| format!("cannot create {}", directory.display()))?;
    for curve in CURVES {
        let mut lines: Vec<ChartLine> = servers.iter().map(|spec| ChartLine::new(&spec.name)).collect();
        for size in curve.sizes.iter().map(|size| bench.size(*size)) {
            for (spec, line) in servers.iter().zip(&mut lines) {
                match (curve.measure)(bench, spec, size).await {
                    Ok(value) => {
                        println!("{}, {size} {}, {}: {value:.3}", spec.name, curve.x_label, curve.y_label);
                        line.points.push((size as f64, value));
                    }
                    Err(error) => eprintln!("{} at {size} of {} failed: {error:#}", curve.name, spec.name),
                }
            }
        }
        let chart = Chart { title: curve.title, x_label: curve.x_label, y_label: curve.y_label, lines };
        fs::write(directory.join(format!("{}.svg", curve.name)), chart.to_string())?;
    }
    Ok(())
}
