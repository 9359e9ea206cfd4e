//! Counters, gauges and histograms made of atomics. Those of `prometheus-client` lock for histograms and families, and
//! cannot be constants.

use std::{
    fmt,
    marker::PhantomData,
    sync::atomic::{AtomicI64, AtomicU64, Ordering},
    time::Duration,
};

use prometheus_client::{
    encoding::{EncodeMetric, MetricEncoder, NoLabelSet},
    metrics::MetricType,
};

/// A number that only grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    pub const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    pub fn inc(&self) {
        self.add(1);
    }

    pub fn add(&self, amount: u64) {
        self.0.fetch_add(amount, Ordering::Relaxed);
    }

    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A number that is set.
#[derive(Debug, Default)]
pub struct Gauge(AtomicI64);

impl Gauge {
    pub const fn new() -> Self {
        Self(AtomicI64::new(0))
    }

    /// Sets the number. One beyond the range of the gauge becomes its largest.
    pub fn set(&self, value: usize) {
        self.0.store(i64::try_from(value).unwrap_or(i64::MAX), Ordering::Relaxed);
    }

    pub fn get(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The labels of a [`CounterSet`]: an enum whose variants have consecutive numbers from zero.
pub trait LabelSet: Copy + fmt::Debug + Send + Sync + 'static {
    /// Every value, in the order of its number.
    const ALL: &'static [Self];

    fn number(self) -> usize;

    /// Returns the names of the labels with their values.
    fn labels(self) -> &'static [(&'static str, &'static str)];
}

/// A counter for each value of a label set. `N` is the number of values.
#[derive(Debug)]
pub struct CounterSet<L, const N: usize> {
    counters: [Counter; N],
    labels: PhantomData<fn(L)>,
}

impl<L: LabelSet, const N: usize> CounterSet<L, N> {
    pub const fn new() -> Self {
        Self { counters: [const { Counter::new() }; N], labels: PhantomData }
    }

    pub fn inc(&self, labels: L) {
        self.add(labels, 1);
    }

    pub fn add(&self, labels: L, amount: u64) {
        if let Some(counter) = self.counters.get(labels.number()) {
            counter.add(amount);
        }
    }

    pub fn get(&self, labels: L) -> u64 {
        self.counters.get(labels.number()).map_or(0, Counter::get)
    }
}

impl<L: LabelSet, const N: usize> Default for CounterSet<L, N> {
    fn default() -> Self {
        Self::new()
    }
}

/// The most buckets that a histogram has, without the last one for everything above.
const MAX_BUCKETS: usize = 16;

/// How often times fell into ranges, and their sum.
#[derive(Debug)]
pub struct TimeHistogram {
    /// The upper bounds of the buckets in seconds, in order.
    bounds: &'static [f64],
    buckets: [AtomicU64; MAX_BUCKETS + 1],
    sum_nanos: AtomicU64,
}

impl TimeHistogram {
    /// Creates a histogram with these upper bounds in seconds, in order.
    pub const fn new(bounds: &'static [f64]) -> Self {
        assert!(bounds.len() <= MAX_BUCKETS);
        let buckets = [const { AtomicU64::new(0) }; MAX_BUCKETS + 1];
        Self { bounds, buckets, sum_nanos: AtomicU64::new(0) }
    }

    pub fn observe(&self, time: Duration) {
        let seconds = time.as_secs_f64();
        let at = self.bounds.partition_point(|bound| *bound < seconds);
        if let Some(bucket) = self.buckets.get(at) {
            bucket.fetch_add(1, Ordering::Relaxed);
        }
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.sum_nanos.fetch_add(nanos, Ordering::Relaxed);
    }

    /// Returns how many times were observed.
    pub fn count(&self) -> u64 {
        self.buckets.iter().map(|bucket| bucket.load(Ordering::Relaxed)).sum()
    }
}

impl EncodeMetric for &'static Counter {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        encoder.encode_counter::<NoLabelSet, _, u64>(&self.get(), None)
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Counter
    }
}

impl EncodeMetric for &'static Gauge {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        encoder.encode_gauge(&self.get())
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Gauge
    }
}

impl<L: LabelSet, const N: usize> EncodeMetric for &'static CounterSet<L, N> {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        for value in L::ALL {
            let labels = value.labels();
            let mut encoder = encoder.encode_family(&labels)?;
            encoder.encode_counter::<NoLabelSet, _, u64>(&self.get(*value), None)?;
        }
        Ok(())
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Counter
    }
}

impl EncodeMetric for &'static TimeHistogram {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        let bounds = self.bounds.iter().copied().chain([f64::INFINITY]);
        let counts = self.buckets.iter().map(|bucket| bucket.load(Ordering::Relaxed));
        let buckets: Vec<(f64, u64)> = bounds.zip(counts).collect();
        let count = buckets.iter().map(|(_, count)| count).sum();
        let sum = Duration::from_nanos(self.sum_nanos.load(Ordering::Relaxed)).as_secs_f64();
        encoder.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Histogram
    }
}
