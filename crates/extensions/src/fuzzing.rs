//! Entry points of the fuzz targets in `fuzz/`.

/// Parses the front matter of a skill.
pub fn parse_front_matter(text: &str) {
    let _ = crate::skills::yaml::parse(text);
}
