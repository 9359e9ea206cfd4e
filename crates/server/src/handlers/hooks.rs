//! `hooks/*`.

use std::path::PathBuf;

use codicil_config::ConfigQuery;
use codicil_protocol::{HooksListParams, HooksListResponse};

use super::config::blocking;
use crate::{cx::Cx, error::RpcError, limits::MAX_DIRECTORIES};

/// Where a thread works, else in the directories that are named, else where the server works.
pub async fn list(cx: Cx, params: HooksListParams) -> Result<HooksListResponse, RpcError> {
    if params.cwds.len() > MAX_DIRECTORIES {
        return Err(RpcError::invalid_request(format_args!("more than {MAX_DIRECTORIES} directories")));
    }
    let mut cwds: Vec<PathBuf> = params.cwds.iter().map(|cwd| cx.cwd().join(cwd)).collect();
    if let Some(thread) = &params.thread_id {
        let read = cx.threads().read(thread, codicil_engine::IncludeTurns::LeftOut).await?;
        cwds = vec![PathBuf::from(read.thread.cwd)];
    } else if cwds.is_empty() {
        cwds.push(cx.cwd().to_owned());
    }
    let world = cx.threads().engine().clone();
    blocking(move || {
        let entry = |cwd: PathBuf| {
            let config = world.config.load(&ConfigQuery::at(&cwd)).map_err(RpcError::from)?;
            Ok(codicil_engine::declared_hooks(world.config.home(), &config, &cwd))
        };
        Ok(HooksListResponse { data: cwds.into_iter().map(entry).collect::<Result<_, RpcError>>()? })
    })
    .await
}
