//! Marketplaces of plugins: `marketplace/*`.

use crate::{AbsolutePathBuf, wire};

/// Adds a marketplace.
#[wire(sparse)]
pub struct MarketplaceAddParams {
    /// A path or a git URL.
    pub source: String,
    /// The branch, tag or commit of a git URL.
    pub ref_name: Option<String>,
    /// The parts of the repository that are needed. Absent: all.
    pub sparse_paths: Option<Vec<String>>,
}

/// The marketplace and its directory.
#[wire]
pub struct MarketplaceAddResponse {
    pub already_added: bool,
    pub installed_root: AbsolutePathBuf,
    pub marketplace_name: String,
}

/// Removes a marketplace.
#[wire]
pub struct MarketplaceRemoveParams {
    pub marketplace_name: String,
}

/// The removed marketplace.
#[wire]
pub struct MarketplaceRemoveResponse {
    pub marketplace_name: String,
    /// Its deleted copy; null if there was none.
    pub installed_root: Option<AbsolutePathBuf>,
}

/// Fetches the current state of marketplaces.
#[wire(sparse)]
#[derive(Default)]
pub struct MarketplaceUpgradeParams {
    /// Absent: all.
    pub marketplace_name: Option<String>,
}

/// The marketplaces that were tried, the directories that changed and the errors.
#[wire]
pub struct MarketplaceUpgradeResponse {
    pub errors: Vec<MarketplaceUpgradeErrorInfo>,
    pub selected_marketplaces: Vec<String>,
    pub upgraded_roots: Vec<AbsolutePathBuf>,
}

/// Why a marketplace was not fetched.
#[wire]
pub struct MarketplaceUpgradeErrorInfo {
    pub marketplace_name: String,
    pub message: String,
}
