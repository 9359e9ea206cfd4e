//! Matches paths against a query, and keeps the best matches.

use std::{cmp::Ordering, collections::BinaryHeap};

use codicil_protocol::FuzzyFileSearchResult;
use nucleo_matcher::{
    Config, Matcher, Utf32Str,
    chars::graphemes,
    pattern::{CaseMatching, Normalization, Pattern},
};

use super::{MAX_RESULTS, roots::SearchRoots, walk::PathKind};

/// The length of the longest query. Paths are rarely longer than a few hundred bytes.
pub const MAX_QUERY_BYTES: usize = 1024;

/// How many words a query may have. Each is searched for in every path.
pub const MAX_QUERY_WORDS: usize = 32;

/// A query that would take too long to match against many paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("query is too long: limit is {MAX_QUERY_BYTES} bytes and {MAX_QUERY_WORDS} words")]
pub struct QueryTooLong;

/// Checks the limits of a query. A search beyond them finds nothing.
pub fn check_query(text: &str) -> Result<(), QueryTooLong> {
    let is_short = text.len() <= MAX_QUERY_BYTES && text.split_whitespace().nth(MAX_QUERY_WORDS).is_none();
    is_short.then_some(()).ok_or(QueryTooLong)
}

/// A parsed query. Words match in any order; `^`, `$`, `'` and `!` have the meaning of fzf. Case and accents are
/// significant if the query has capitals or accents.
#[derive(Clone, Debug)]
pub(super) struct SearchQuery {
    text: String,
    pattern: Pattern,
}

impl SearchQuery {
    pub fn new(text: String) -> Self {
        let wanted = if check_query(&text).is_ok() { text.as_str() } else { "" };
        let pattern = Pattern::parse(wanted, CaseMatching::Smart, Normalization::Smart);
        Self { text, pattern }
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns whether the query is empty, so that it matches nothing.
    pub fn is_empty(&self) -> bool {
        self.pattern.atoms.is_empty()
    }

    /// Returns whether every match of this query also matches `earlier`, because it only adds letters to plain letters.
    pub fn narrows(&self, earlier: &Self) -> bool {
        let is_plain = |text: &str| !text.contains(|c: char| "!^$'\\".contains(c) || c.is_whitespace());
        !earlier.is_empty() && self.text.starts_with(&earlier.text) && is_plain(&self.text)
    }

    /// Returns the letters that a path must contain to match, see [`letters`].
    pub fn letters(&self) -> u64 {
        // For negated and escaped queries, only the matcher decides.
        if self.text.contains(['!', '\\']) {
            return 0;
        }
        let wanted = self.text.chars().filter(|c| c.is_ascii_alphanumeric());
        wanted.map(|c| letter(c as u8)).fold(0, |all, bit| all | bit)
    }
}

/// Returns the letters and digits of a path as a set of bits, without regard to case. A path with characters outside ASCII
/// has all bits, because some of them match plain letters.
pub(super) fn letters(path: &str) -> u64 {
    if !path.is_ascii() {
        return u64::MAX;
    }
    path.bytes().map(letter).fold(0, |all, bit| all | bit)
}

fn letter(byte: u8) -> u64 {
    match byte.to_ascii_lowercase() {
        byte @ b'a'..=b'z' => 1 << (byte - b'a'),
        byte @ b'0'..=b'9' => 1 << (26 + byte - b'0'),
        _ => 0,
    }
}

/// The buffers of a matcher, which are reused because they take about 100 KB.
#[derive(Debug)]
pub(super) struct MatchScorer {
    matcher: Matcher,
    characters: Vec<char>,
}

impl Default for MatchScorer {
    fn default() -> Self {
        Self { matcher: Matcher::new(Config::DEFAULT.match_paths()), characters: Vec::new() }
    }
}

impl MatchScorer {
    /// Returns the score of a path, or `None` if it does not match.
    pub fn score(&mut self, query: &SearchQuery, path: &str) -> Option<u32> {
        query.pattern.score(characters(path, &mut self.characters), &mut self.matcher)
    }

    /// Returns the positions of the matching characters of a path.
    fn indices(&mut self, query: &SearchQuery, path: &str) -> Vec<u32> {
        let mut indices = Vec::new();
        query.pattern.indices(characters(path, &mut self.characters), &mut self.matcher, &mut indices);
        indices.sort_unstable();
        indices.dedup();
        indices
    }
}

/// Returns a path by its visible characters. The library's own conversion takes a path of ASCII letters with combining
/// accents for ASCII, and then counts wrongly.
fn characters<'p>(path: &'p str, buffer: &'p mut Vec<char>) -> Utf32Str<'p> {
    if path.is_ascii() {
        return Utf32Str::Ascii(path.as_bytes());
    }
    buffer.clear();
    buffer.extend(graphemes(path));
    Utf32Str::Unicode(buffer)
}

/// A matching path, ordered from best to worst: by score, then by path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PathMatch {
    pub score: u32,
    pub path: Box<str>,
    pub root: u32,
    pub kind: PathKind,
}

impl PathMatch {
    fn key(&self) -> (std::cmp::Reverse<u32>, &str, u32) {
        (std::cmp::Reverse(self.score), &self.path, self.root)
    }
}

impl Ord for PathMatch {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

impl PartialOrd for PathMatch {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The best matches so far, up to [`MAX_RESULTS`](super::MAX_RESULTS).
#[derive(Clone, Debug, Default)]
pub(super) struct BestMatches(BinaryHeap<PathMatch>);

impl BestMatches {
    /// Adds a match if it is among the best. Copies the path only then.
    pub fn offer(&mut self, score: u32, path: &str, root: u32, kind: PathKind) {
        if self.0.len() >= MAX_RESULTS {
            let offered = (std::cmp::Reverse(score), path, root);
            match self.0.peek() {
                Some(worst) if offered < worst.key() => drop(self.0.pop()),
                _ => return,
            }
        }
        self.0.push(PathMatch { score, path: path.into(), root, kind });
    }

    pub fn merge(&mut self, other: Self) {
        for found in other.0 {
            self.offer(found.score, &found.path, found.root, found.kind);
        }
    }

    /// Returns the matches for clients, best first.
    pub fn results(
        &self,
        query: &SearchQuery,
        roots: &SearchRoots,
        scorer: &mut MatchScorer,
    ) -> Vec<FuzzyFileSearchResult> {
        let mut found: Vec<_> = self.0.iter().collect();
        found.sort_unstable();
        let result = |found: &PathMatch| FuzzyFileSearchResult {
            root: roots.shown(found.root).to_owned(),
            path: found.path.to_string(),
            match_type: found.kind.into(),
            file_name: found.path.rsplit('/').next().unwrap_or_default().to_owned(),
            score: found.score,
            indices: Some(scorer.indices(query, &found.path)),
        };
        found.into_iter().map(result).collect()
    }
}

#[cfg(test)]
mod tests;
