//! Starts or reaches the server of an evaluation and completes the handshake.

use std::{sync::Arc, time::Duration};

use codicil_client::{Client, ClientError, ClientLimits, ClientTimeouts, Endpoint, ServerLaunch};

use super::{
    approvals::PolicyResponder,
    bridge::ToolBridge,
    error::{EvaluationCause, FailedEvaluation, STDERR_TAIL},
    run::EvaluationRun,
};
use crate::mcp_servers::McpServer;

/// Timeout of a request, unless the deadline is earlier.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

impl EvaluationRun<'_> {
    /// Starts or reaches the server and completes the handshake. On failure, a started server has ended.
    pub(super) async fn connect(&self, bridge: &Arc<ToolBridge>) -> Result<Client, FailedEvaluation> {
        let config = &self.setup.client;
        let timeouts = ClientTimeouts {
            connect: config.startup_timeout,
            request: REQUEST_TIMEOUT,
            turn: None,
            turn_silence: None,
            close: config.stop_timeout,
        };
        let mut builder = Client::builder()
            .name(&config.client_name, &config.client_version)
            .handler(PolicyResponder { on_approval: config.on_approval, login: config.login.clone() })
            .tools(bridge.client_tools())
            .timeouts(timeouts)
            .limits(ClientLimits { stderr_tail: STDERR_TAIL, ..ClientLimits::default() });
        if let Some(title) = &config.title {
            builder = builder.title(title);
        }
        let opening = async { builder.open(self.endpoint().await?).await };
        let client = match self.within_startup(opening).await {
            Ok(client) => client,
            Err(cause) => return Err(FailedEvaluation::new(self.explain(cause).await)),
        };
        match self.within_startup(client.initialize()).await {
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
        let launch = config.args.iter().fold(ServerLaunch::new(&config.program), ServerLaunch::arg);
        let launch = config.env.iter().fold(launch, |launch, (name, value)| launch.env(name, value));
        let tokens = config.mcp_servers.values().filter_map(McpServer::token);
        let launch = tokens.fold(launch, |launch, token| match token.value() {
            Some(value) => launch.env(token.variable(), value),
            None => launch,
        });
        let launch = if config.suppress_stderr { launch } else { launch.forward_stderr() };
        Ok(launch.cwd(&self.cwd).into())
    }

    /// Replaces a connection error with a clearer one if the program or the working directory does not exist.
    async fn explain(&self, cause: EvaluationCause) -> EvaluationCause {
        if !matches!(cause, EvaluationCause::Client(ClientError::Connect { .. }))
            || self.setup.connect.is_some()
        {
            return cause;
        }
        let config = self.setup.client.clone();
        let cwd = self.cwd.clone();
        let checking = tokio::task::spawn_blocking(move || {
            if !config.finds_program() {
                return Some(EvaluationCause::ProgramNotFound {
                    program: config.program.display().to_string(),
                });
            }
            std::fs::read_dir(&cwd).err().map(EvaluationCause::Cwd)
        });
        checking.await.ok().flatten().unwrap_or(cause)
    }

    /// Awaits a step of the startup, within the startup timeout and the deadline.
    async fn within_startup<T>(
        &self,
        work: impl Future<Output = Result<T, ClientError>>,
    ) -> Result<T, EvaluationCause> {
        let within = self.setup.client.startup_timeout;
        let timed_out = || ClientError::ResponseTimeout { method: "initialize".to_owned(), within };
        let bounded = async { tokio::time::timeout(within, work).await.unwrap_or_else(|_| Err(timed_out())) };
        self.before_deadline(bounded).await
    }
}
