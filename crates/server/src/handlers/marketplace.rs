//! `marketplace/*`.

use codicil_extensions::Extensions;
use codicil_protocol::{
    MarketplaceAddParams, MarketplaceAddResponse, MarketplaceRemoveParams, MarketplaceRemoveResponse,
    MarketplaceUpgradeParams, MarketplaceUpgradeResponse,
};

use crate::{cx::Cx, error::RpcError};

pub async fn add(cx: Cx, params: MarketplaceAddParams) -> Result<MarketplaceAddResponse, RpcError> {
    Ok(extensions(&cx).marketplaces.add(params, cx.cwd()).await?)
}

pub async fn remove(cx: Cx, params: MarketplaceRemoveParams) -> Result<MarketplaceRemoveResponse, RpcError> {
    Ok(extensions(&cx).marketplaces.remove(params.marketplace_name).await?)
}

pub async fn upgrade(
    cx: Cx,
    params: MarketplaceUpgradeParams,
) -> Result<MarketplaceUpgradeResponse, RpcError> {
    Ok(extensions(&cx).marketplaces.upgrade(params.marketplace_name).await?)
}

fn extensions(cx: &Cx) -> &Extensions {
    &cx.threads().engine().extensions
}
