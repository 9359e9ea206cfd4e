//! Pages of short lists. A cursor is the number of entries before the page.

use codicil_store::StoreError;

use crate::error::ThreadError;

const DEFAULT_PAGE: usize = 25;
const MAX_PAGE: usize = 100;

/// Returns a page of a list and the cursor of the next one.
pub(super) fn page<T>(
    entries: Vec<T>,
    cursor: Option<&str>,
    limit: Option<u32>,
) -> Result<(Vec<T>, Option<String>), ThreadError> {
    let invalid = |cursor: &str| StoreError::InvalidCursor(cursor.to_owned());
    let start = match cursor {
        Some(cursor) => cursor.parse::<usize>().map_err(|_| invalid(cursor))?,
        None => 0,
    };
    let limit = limit.map_or(DEFAULT_PAGE, |limit| (limit as usize).clamp(1, MAX_PAGE));
    let total = entries.len();
    let data: Vec<_> = entries.into_iter().skip(start).take(limit).collect();
    let end = start.saturating_add(data.len());
    Ok((data, (end < total).then(|| end.to_string())))
}
