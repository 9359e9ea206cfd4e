//! `hooks/*`.

use std::path::PathBuf;

use codicil_config::{ConfigError, ConfigQuery};
use codicil_engine::{IncludeTurns, declared_hooks};
use codicil_protocol::{HooksListParams, HooksListResponse};

use crate::{background::blocking, cx::Cx, error::RpcError, limits::MAX_DIRECTORIES};

/// A request that names too many directories.
#[derive(Debug, thiserror::Error)]
#[error("more than {MAX_DIRECTORIES} directories")]
pub struct TooManyDirectories;

/// Lists the hooks of the thread's directory, or else of the named directories, or else of the server's own.
pub async fn list(cx: Cx, params: HooksListParams) -> Result<HooksListResponse, RpcError> {
    if params.cwds.len() > MAX_DIRECTORIES {
        return Err(TooManyDirectories.into());
    }
    let mut cwds: Vec<PathBuf> = params.cwds.iter().map(|cwd| cx.cwd().join(cwd)).collect();
    if let Some(thread) = &params.thread_id {
        let read = cx.threads().read(thread, IncludeTurns::LeftOut).await?;
        cwds = vec![PathBuf::from(read.thread.cwd)];
    } else if cwds.is_empty() {
        cwds.push(cx.cwd().to_owned());
    }
    let engine = cx.threads().engine().clone();
    blocking(move || {
        let hooks_of = |cwd: PathBuf| {
            let config = engine.config.load(&ConfigQuery::at(&cwd))?;
            Ok(declared_hooks(engine.config.home(), &config, &cwd))
        };
        let data = cwds.into_iter().map(hooks_of).collect::<Result<_, ConfigError>>()?;
        Ok::<_, ConfigError>(HooksListResponse { data })
    })
    .await
}
