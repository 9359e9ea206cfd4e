//! The provider trait, and the construction of a provider from its configuration.

use std::{fmt, sync::Arc};

use crate::{
    AccountAuth, EventStream, ModelCatalogue, ModelError, ModelRequest, ProviderConfig, ProviderLimits,
    WireApi, anthropic::AnthropicDialect, chat::ChatDialect, http::HttpProvider, responses::ResponsesDialect,
    scripted::ScriptedProvider,
};

/// A source of model responses.
pub trait ModelProvider: Send + Sync {
    /// Returns the provider's id in the configuration.
    fn id(&self) -> &str;

    fn wire_api(&self) -> WireApi;

    /// Returns deadlines and retries. The stream retries are for the caller.
    fn limits(&self) -> &ProviderLimits;

    /// Returns the response to `request`. Nothing is sent before the stream is first polled. Dropping the stream
    /// cancels the request and closes its connection.
    fn stream(&self, request: ModelRequest) -> EventStream;
}

/// What providers need from their process.
#[derive(Clone, Default)]
pub struct ProviderContext {
    /// The signed-in account.
    pub auth: Option<Arc<dyn AccountAuth>>,
    pub environment: EnvironmentSource,
    pub catalogue: Arc<ModelCatalogue>,
}

/// A lookup of environment variables. Tests supply their own, since a process has only one environment.
#[derive(Clone)]
pub struct EnvironmentSource(Arc<LookUp>);

type LookUp = dyn Fn(&str) -> Option<String> + Send + Sync;

impl EnvironmentSource {
    pub fn new(look_up: impl Fn(&str) -> Option<String> + Send + Sync + 'static) -> Self {
        Self(Arc::new(look_up))
    }

    /// Returns the variable's value; `None` if it is unset or blank.
    pub fn get(&self, name: &str) -> Option<String> {
        (self.0)(name).filter(|value| !value.trim().is_empty())
    }
}

impl Default for EnvironmentSource {
    fn default() -> Self {
        Self::new(|name| std::env::var(name).ok())
    }
}

impl fmt::Debug for EnvironmentSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EnvironmentSource")
    }
}

/// Builds the provider that `config` describes, without connecting. Fails for a configuration with which no
/// request could succeed. A missing key is reported by the first request, because it may be set by then.
pub fn connect(
    id: &str,
    config: &ProviderConfig,
    context: &ProviderContext,
) -> Result<Arc<dyn ModelProvider>, ModelError> {
    let catalogue = context.catalogue.clone();
    Ok(match config.wire_api {
        WireApi::Responses => Arc::new(HttpProvider::new(id, config, context, ResponsesDialect)?),
        WireApi::Chat => Arc::new(HttpProvider::new(id, config, context, ChatDialect)?),
        WireApi::Anthropic => {
            Arc::new(HttpProvider::new(id, config, context, AnthropicDialect::new(catalogue))?)
        }
        WireApi::Scripted => Arc::new(ScriptedProvider::new(id, config)),
    })
}
