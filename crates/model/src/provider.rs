//! The provider trait, and how a configured provider comes to life.

use std::{fmt, sync::Arc};

use crate::{
    AccountAuth, EventStream, ModelCatalogue, ModelError, ModelRequest, ProviderConfig, ProviderLimits,
    WireApi, anthropic::AnthropicDialect, chat::ChatDialect, http::HttpProvider, responses::ResponsesDialect,
    scripted::ScriptedProvider,
};

/// Something that answers requests with streams of events.
pub trait ModelProvider: Send + Sync {
    /// The provider's id in the config.
    fn id(&self) -> &str;

    fn wire_api(&self) -> WireApi;

    /// Deadlines and retries; the caller needs those of the stream.
    fn limits(&self) -> &ProviderLimits;

    /// The answer to `request`. Nothing happens before the stream is first asked for events; dropping it
    /// cancels the request and closes its connection.
    fn stream(&self, request: ModelRequest) -> EventStream;
}

/// What providers need from the process they live in.
#[derive(Clone, Default)]
pub struct ProviderContext {
    /// The account that is signed in.
    pub auth: Option<Arc<dyn AccountAuth>>,
    pub environment: EnvironmentSource,
    pub catalogue: Arc<ModelCatalogue>,
}

/// Where variables are looked up. A test gives its own, since a process has only one environment.
#[derive(Clone)]
pub struct EnvironmentSource(Arc<LookUp>);

type LookUp = dyn Fn(&str) -> Option<String> + Send + Sync;

impl EnvironmentSource {
    pub fn new(look_up: impl Fn(&str) -> Option<String> + Send + Sync + 'static) -> Self {
        Self(Arc::new(look_up))
    }

    /// The variable's value, unless it is unset or blank.
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
        f.write_str("Environment")
    }
}

/// Makes the provider that `config` describes. Connects to nobody yet; fails for a config that no request
/// could succeed with. A missing key is found by the first request, because it may be set by then.
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
