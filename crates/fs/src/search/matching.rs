//! Whether a path matches a query, how well, and which matches are the best.

use std::{cmp::Ordering, collections::BinaryHeap};

use codicil_protocol::FuzzyFileSearchResult;
use nucleo_matcher::{
    Config, Matcher, Utf32Str,
    chars::graphemes,
    pattern::{CaseMatching, Normalization, Pattern},
};

use super::{MAX_RESULTS, roots::SearchRoots, walk::PathKind};

/// The longest query. Paths are seldom longer than some hundred bytes.
pub const MAX_QUERY_BYTES: usize = 1024;

/// The most words of a query. Each is looked for in every path.
pub const MAX_QUERY_WORDS: usize = 32;

/// A query that would take too long to match against many paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("query is too long: limit is {MAX_QUERY_BYTES} bytes and {MAX_QUERY_WORDS} words")]
pub struct QueryTooLong;

/// Checks that a query is within the limits. A search for one that is not finds nothing.
pub fn check_query(text: &str) -> Result<(), QueryTooLong> {
    let is_short = text.len() <= MAX_QUERY_BYTES && text.split_whitespace().nth(MAX_QUERY_WORDS).is_none();
    is_short.then_some(()).ok_or(QueryTooLong)
}

/// A query, understood. Words match in any order; `^`, `$`, `'` and `!` mean what they mean to fzf. Capitals
/// and accents count once the query has some.
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

    /// Whether it matches nothing, having nothing to look for.
    pub fn is_empty(&self) -> bool {
        self.pattern.atoms.is_empty()
    }

    /// Whether whatever matches this one matched `earlier` too: letters were added to plain letters.
    pub fn narrows(&self, earlier: &Self) -> bool {
        let is_plain = |text: &str| !text.contains(|c: char| "!^$'\\".contains(c) || c.is_whitespace());
        !earlier.is_empty() && self.text.starts_with(&earlier.text) && is_plain(&self.text)
    }

    /// Letters without which a path cannot match, see [`letters`].
    pub fn letters(&self) -> u64 {
        // Negated and escaped queries are left to the matcher.
        if self.text.contains(['!', '\\']) {
            return 0;
        }
        let wanted = self.text.chars().filter(|c| c.is_ascii_alphanumeric());
        wanted.map(|c| letter(c as u8)).fold(0, |all, bit| all | bit)
    }
}

/// Which letters and digits a path contains, as a set of bits; capitals count as small. A path with other
/// than ASCII characters contains everything: some of them match plain letters.
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

/// What matching needs beside the query. Some 100 KB, so it is kept.
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
    /// How well a path matches; `None` if it does not.
    pub fn score(&mut self, query: &SearchQuery, path: &str) -> Option<u32> {
        query.pattern.score(characters(path, &mut self.characters), &mut self.matcher)
    }

    /// Which characters of a path match.
    fn indices(&mut self, query: &SearchQuery, path: &str) -> Vec<u32> {
        let mut indices = Vec::new();
        query.pattern.indices(characters(path, &mut self.characters), &mut self.matcher, &mut indices);
        indices.sort_unstable();
        indices.dedup();
        indices
    }
}

/// Characters as a person sees them. The library's own conversion takes a path of plain letters with
/// combining accents for plain bytes, and then counts wrong.
fn characters<'p>(path: &'p str, buffer: &'p mut Vec<char>) -> Utf32Str<'p> {
    if path.is_ascii() {
        return Utf32Str::Ascii(path.as_bytes());
    }
    buffer.clear();
    buffer.extend(graphemes(path));
    Utf32Str::Unicode(buffer)
}

/// A path that matches. The order is from best to worst: by score, then by path.
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

/// The best matches so far, and no more than are wanted.
#[derive(Clone, Debug, Default)]
pub(super) struct BestMatches(BinaryHeap<PathMatch>);

impl BestMatches {
    /// Takes a match if it is among the best. The path is copied only then.
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

    /// Best first, as clients see them.
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
