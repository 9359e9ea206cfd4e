//! From a configuration to a server that has shaken hands.

use std::{sync::Arc, time::Duration};

use codicil_client::{Client, ClientError, ClientLimits, ClientTimeouts, Endpoint, ServerLaunch};

use super::{
    answers::PolicyResponder,
    bridge::ToolBridge,
    error::{EvaluationCause, FailedEvaluation, STDERR_TAIL},
    run::EvaluationRun,
};

/// From a request to its answer, unless the deadline is earlier.
const REQUEST: Duration = Duration::from_secs(30);

impl EvaluationRun<'_> {
    /// Starts the server, or finds it, and shakes hands. When this fails, what was started has ended.
    pub(super) async fn connect(&self, bridge: &Arc<ToolBridge>) -> Result<Client, FailedEvaluation> {
        let config = &self.setup.client;
        let timeouts = ClientTimeouts {
            connect: config.startup_timeout,
            request: REQUEST,
            turn: None,
            turn_silence: None,
            close: config.stop_timeout,
        };
        let builder = Client::builder()
            .name(&config.client_name, &config.client_version)
            .title("WINK Agent")
            .handler(PolicyResponder { policy: config.approval_policy, auth: config.auth_mode.clone() })
            .tools(bridge.client_tools())
            .timeouts(timeouts)
            .limits(ClientLimits { stderr_tail: STDERR_TAIL, ..ClientLimits::default() });
        let opening = async { builder.open(self.endpoint().await?).await };
        let client = match self.by_startup(opening).await {
            Ok(client) => client,
            Err(cause) => return Err(FailedEvaluation::new(self.explain(cause).await)),
        };
        match self.by_startup(client.initialize()).await {
            Ok(()) => Ok(client),
            Err(cause) => {
                let stderr_tail = client.close().await.stderr_tail.clone();
                Err(FailedEvaluation { stderr_tail, ..FailedEvaluation::new(cause) })
            }
        }
    }

    async fn endpoint(&self) -> Result<Endpoint, ClientError> {
        if let Some(connect) = &self.setup.connect {
            let failed = |error: std::io::Error| ClientError::Connect {
                to: "the server".into(),
                reason: error.to_string(),
            };
            return connect().await.map_err(failed);
        }
        let config = &self.setup.client;
        let launch = config.args.iter().fold(ServerLaunch::new(&config.codex_bin), ServerLaunch::arg);
        let launch = config.env.iter().fold(launch, |launch, (name, value)| launch.env(name, value));
        let launch = if config.suppress_stderr { launch } else { launch.forward_stderr() };
        Ok(launch.cwd(&self.cwd).into())
    }

    /// A program or a directory that is not there is worth a plain word.
    async fn explain(&self, cause: EvaluationCause) -> EvaluationCause {
        if !matches!(cause, EvaluationCause::Client(ClientError::Connect { .. }))
            || self.setup.connect.is_some()
        {
            return cause;
        }
        let (config, cwd) = (self.setup.client.clone(), self.cwd.clone());
        let looking = tokio::task::spawn_blocking(move || {
            if !config.finds_program() {
                return Some(EvaluationCause::ProgramNotFound {
                    program: config.codex_bin.display().to_string(),
                });
            }
            std::fs::read_dir(&cwd).err().map(EvaluationCause::Cwd)
        });
        looking.await.ok().flatten().unwrap_or(cause)
    }

    /// The same within the time for starting.
    async fn by_startup<T>(
        &self,
        work: impl Future<Output = Result<T, ClientError>>,
    ) -> Result<T, EvaluationCause> {
        let within = self.setup.client.startup_timeout;
        let late = || ClientError::ResponseTimeout { method: "initialize".to_owned(), within };
        let bounded = async { tokio::time::timeout(within, work).await.unwrap_or_else(|_| Err(late())) };
        self.in_time(bounded).await
    }
}
